//! Runs a campaign: cases on targets, every trial into the store as soon as it is done.
//!
//! Invariant: whenever the program ends, what was measured up to then is in the store.

use std::cell::RefCell;

use siliconroute_core::trial::{Purpose, Trial};
use siliconroute_core::{Case, CaseId, Reading, TargetKey};
use siliconroute_store::{CampaignId, NewCampaign};

use crate::campaign::{CaseToMeasure, Sampling, Setting, Workers, measure_case};
use crate::discovery::Found;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::home::MeasuringLock;
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
        let turn = self.lock_measuring(listener)?;
        self.measure_in_turn(&turn, jobs, targets, sampling, purpose, listener)
    }

    /// [`Self::measure`] for a caller whose turn it is already, and stays until all its work is done.
    pub(crate) fn measure_in_turn(
        &self,
        _turn: &MeasuringLock,
        jobs: &[Job],
        targets: &Targets,
        sampling: &Sampling,
        purpose: Purpose,
        listener: &mut dyn Listener,
    ) -> Result<Measured, Error> {
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
        let lost = RefCell::new(Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            listener.event(Event::Step(job.case.label()));
            if job.case.model != job.model.facts.id {
                return Err(Error::Usage(format!(
                    "the file of {} is no longer that of the case",
                    job.model.name
                )));
            }
            let found: Vec<&Found> =
                job.targets.iter().map(|key| targets.get(key.as_str())).collect::<Result<_, _>>()?;
            let values = inputs::generate_for(&job.case.facts, &job.model.recipes, self.settings.seed)?;
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
                order_seed: order_seed(self.settings.seed, campaign, index),
                clock: &|| (self.clock)(),
                conditions: &current_conditions,
                cancelled: &|| self.is_cancelled(),
                lost: &|target, failure| lost.borrow_mut().push(format!("{target} is left out: {failure}")),
            };
            let groups = groups(&found, self.targets_at_once(job));
            if groups.len() > 1 {
                let text = "memory is short, so its targets are measured in groups, one after the other";
                listener.event(Event::Notice(format!("{}: {text}", job.case.label())));
            }
            for group in groups {
                let measured = measure_case(&mut workers, &test, &group, &setting);
                if self.is_cancelled() {
                    return Err(Error::Interrupted);
                }
                for trial in measured {
                    if let Some(&row) = targets.rows.get(&trial.target) {
                        self.store.record_trial(campaign, row, &trial)?;
                    }
                    trials.push(trial);
                }
            }
            for notice in lost.take() {
                listener.event(Event::Notice(notice));
            }
            listener.event(Event::StepDone);
        }
        Ok(trials)
    }
}

impl Router {
    /// How many sessions of a job's model may be alive at once without filling the memory.
    fn targets_at_once(&self, job: &Job) -> usize {
        let free = siliconroute_hardware::detect_conditions().free_memory_bytes;
        let Reading::Available(free) = free else { return usize::MAX };
        let facts = &job.case.facts;
        let session = SESSION_COPIES * (facts.weight_bytes + facts.activation_bytes as u64);
        usize::try_from(free / 2 / session.max(1)).unwrap_or(usize::MAX)
    }
}

/// Memory that a session is reckoned to take, as a multiple of weights and activations: the file's bytes,
/// the engine's own layout of the weights, and room to convert one into the other.
const SESSION_COPIES: u64 = 3;

/// Splits targets into groups of at most `most` that are measured side by side, each with the reference.
///
/// Outputs are compared within a group, so the reference, the first target, is in every one.
fn groups<'f>(targets: &[&'f Found], most: usize) -> Vec<Vec<&'f Found>> {
    match targets {
        [reference, others @ ..] if targets.len() > most.max(2) => others
            .chunks(most.max(2) - 1)
            .map(|chunk| std::iter::once(*reference).chain(chunk.iter().copied()).collect())
            .collect(),
        _ => vec![targets.to_vec()],
    }
}

/// A seed of its own for every job of every campaign, so that no target has a fixed place in the order.
fn order_seed(seed: u64, campaign: CampaignId, index: usize) -> u64 {
    let mix = |value: u64, part: u64| (value ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    mix(mix(mix(0, seed), campaign.0.cast_unsigned()), index as u64)
}

fn current_conditions() -> String {
    serde_json::to_string(&siliconroute_hardware::detect_conditions())
        .expect("conditions have only text keys")
}
