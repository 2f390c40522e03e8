//! Runs a campaign: cases on targets, every trial into the store as soon as it is done.
//!
//! Invariant: whenever the program ends, what was measured up to then is in the store.

use siliconroute_core::trial::{Purpose, Trial};
use siliconroute_core::{Case, CaseId, TargetKey};
use siliconroute_store::{CampaignId, NewCampaign};

use crate::campaign::{CaseToMeasure, Sampling, Setting, Workers, measure_case};
use crate::discovery::Found;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::inputs;
use crate::models::KnownModel;
use crate::router::{Router, Targets};

/// A case to measure on some targets.
#[derive(Debug, Clone)]
pub struct Job {
    /// The model.
    pub model: KnownModel,
    /// The case.
    pub case: Case,
    /// The targets, the preferred reference first.
    pub targets: Vec<TargetKey>,
}

/// A campaign's trials, as they were recorded.
#[derive(Debug)]
pub struct Measured {
    /// The campaign.
    pub campaign: CampaignId,
    /// The trials, in the order in which they were recorded.
    pub trials: Vec<Trial>,
}

impl Measured {
    /// The trials of one case.
    pub fn of_case(&self, case: CaseId) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.case == case)
    }
}

impl Router {
    /// Measures every job, in interleaved rounds within each.
    ///
    /// # Errors
    /// When inputs cannot be made, the store fails, or the user stops; recorded trials stay.
    pub fn measure(
        &self,
        jobs: &[Job],
        targets: &Targets,
        sampling: &Sampling,
        purpose: Purpose,
        listener: &mut dyn Listener,
    ) -> Result<Measured, Error> {
        let _turn = self.lock_measuring(listener)?;
        let host = self.record_machine()?;
        let plan: Vec<_> = jobs
            .iter()
            .map(|job| serde_json::json!({"case": job.case.label(), "targets": job.targets}))
            .collect();
        let campaign = self.store.begin_campaign(&NewCampaign {
            host: Some(host),
            purpose,
            seed: self.settings.seed,
            program_version: crate::VERSION,
            program_commit: None,
            started_unix_ms: (self.clock)(),
            plan: &serde_json::Value::Array(plan).to_string(),
        })?;
        let outcome = self.measure_jobs(jobs, targets, sampling, purpose, campaign, listener);
        self.store.finish_campaign(campaign, outcome.is_ok(), (self.clock)())?;
        Ok(Measured { campaign, trials: outcome? })
    }

    fn measure_jobs(
        &self,
        jobs: &[Job],
        targets: &Targets,
        sampling: &Sampling,
        purpose: Purpose,
        campaign: CampaignId,
        listener: &mut dyn Listener,
    ) -> Result<Vec<Trial>, Error> {
        let mut workers = Workers::new(self.launcher.as_ref());
        let mut trials = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            listener.event(Event::Step(job.case.label()));
            let found: Vec<&Found> =
                job.targets.iter().map(|key| targets.get(key.as_str())).collect::<Result<_, _>>()?;
            let values = inputs::generate(&job.case.facts.inputs, &job.model.recipes, self.settings.seed)?;
            let test = CaseToMeasure {
                case: &job.case,
                path: &job.model.path,
                inputs: &job.model.facts.inputs,
                outputs: &job.model.facts.outputs,
                values: &values,
                input_seed: self.settings.seed,
                constant_weights: job.model.constant_weights,
            };
            let setting = Setting {
                purpose,
                sampling,
                order_seed: self.settings.seed.wrapping_add(index as u64),
                clock: &|| (self.clock)(),
                conditions: &current_conditions,
                cancelled: &|| self.is_cancelled(),
            };
            let measured = measure_case(&mut workers, &test, &found, &setting);
            if self.is_cancelled() {
                return Err(Error::Interrupted);
            }
            for trial in measured {
                if let Some(&row) = targets.rows.get(&trial.target) {
                    self.store.record_trial(campaign, row, &trial)?;
                }
                trials.push(trial);
            }
            listener.event(Event::StepDone);
        }
        Ok(trials)
    }
}

fn current_conditions() -> String {
    serde_json::to_string(&siliconroute_hardware::detect_conditions())
        .expect("conditions have only text keys")
}
