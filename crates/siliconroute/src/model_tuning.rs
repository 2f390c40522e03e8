//! Finds the settings of threads that suit one model on this machine, proves them in fresh sessions and remembers them.
//!
//! Invariant: settings are remembered only where a comparison with the defaults speaks for them; "no difference" is an
//! answer, and then the defaults stay.
//!
//! Reading order: this file, `sessions` (where a search measures), `report` (what came of it), `remembered` (how
//! sessions of the model use it).

mod remembered;
mod report;
mod sessions;

use std::time::{Duration, Instant};

use siliconroute_core::statistics::{Comparison, Replication, Verdict};
use siliconroute_core::target::{CpuSettings, SessionSettings};
use siliconroute_core::trial::{Preparation, Purpose};
use siliconroute_core::tuning::{
    BATTERY_MARGIN, Found as Searched, Knobs, Processor, Space, Tried, TuningGoal, search, sweep,
};
use siliconroute_core::{Case, ChipKind, Reading, TargetKey, Workload};
use siliconroute_store::NewTuning;

use crate::compare::compare_targets;
use crate::discovery::Found;
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::home::MeasuringLock;
use crate::inputs;
use crate::measure::{Job, Order};
use crate::models::KnownModel;
use crate::named_cores::NamedCores;
use crate::router::{Router, Targets};
use sessions::Sessions;

pub use remembered::Tuned;
pub use report::{Answer, MODEL_TUNING_SCHEMA, ModelTuning, Proof, TargetTuning, TriedTarget};

/// Providers whose sessions on a CPU take a number of threads.
const TUNABLE: [&str; 3] = ["ort", "openvino", "rten"];

/// What to tune.
#[derive(Debug, Clone, Default)]
pub struct TuneModel {
    /// What the settings are to be good for.
    pub goal: TuningGoal,
    /// The targets, by their keys without settings; every one that can be tuned when none is named.
    pub targets: Vec<TargetKey>,
    /// How many sessions the comparison with the defaults takes; those of a benchmark's comparison when absent.
    pub replication: Option<Replication>,
}

/// A sweep over all combinations of settings, beside a search.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// What was measured, the defaults first.
    pub tried: Vec<Tried>,
    /// How long it took.
    pub took: Duration,
}

impl Router {
    /// The targets whose threads can be tuned.
    pub fn tunable<'t>(&self, targets: &'t Targets) -> Vec<&'t Found> {
        let fits = |found: &&Found| {
            found.target.chip_kind == ChipKind::Cpu && TUNABLE.contains(&found.target.provider.as_str())
        };
        targets.discovery.available().filter(fits).collect()
    }

    /// Finds the settings of threads that suit `case` best, for each target in turn, and remembers them.
    ///
    /// A search measures sessions side by side; what it finds is then compared with the defaults in fresh sessions.
    ///
    /// # Errors
    /// When a target cannot be tuned, the store fails, or the user stops; targets that were finished stay tuned.
    pub fn tune_model(
        &self,
        model: &KnownModel,
        case: &Case,
        targets: &Targets,
        order: &TuneModel,
        listener: &mut dyn Listener,
    ) -> Result<ModelTuning, Error> {
        let turn = self.lock_measuring(listener)?;
        let chosen = self.to_tune(targets, order)?;
        listener.event(Event::Begin { stage: Stage::Tuning, steps: Some(chosen.len() as u64) });
        let mut tunings = Vec::new();
        let mut refused = Vec::new();
        for found in chosen {
            let key = &found.target.key;
            listener.event(Event::Step(format!("{} {key}", case.label())));
            match self.tune_target(&turn, (model, case), (targets, found), order, listener)? {
                Ok(tuning) => tunings.push(tuning),
                Err(reason) => refused.push((key.clone(), reason)),
            }
            listener.event(Event::StepDone);
        }
        listener.event(Event::End(String::new()));
        Ok(ModelTuning {
            schema: MODEL_TUNING_SCHEMA,
            model: case.model_name.clone(),
            model_id: case.model,
            case_id: case.id,
            bindings: case.bindings.clone(),
            hardware_id: self.machine.hardware_id.clone(),
            goal: order.goal,
            targets: tunings,
            refused: refused.into_iter().collect(),
        })
    }

    /// Measures every combination of settings that a search on `target` would choose from, each in so many rounds.
    ///
    /// # Errors
    /// When the target cannot be tuned or does not run the case, or the user stops.
    pub fn sweep_model(
        &self,
        model: &KnownModel,
        case: &Case,
        targets: &Targets,
        (target, rounds): (&TargetKey, u32),
        listener: &mut dyn Listener,
    ) -> Result<Sweep, Error> {
        let _turn = self.lock_measuring(listener)?;
        let order = TuneModel { targets: vec![target.clone()], ..TuneModel::default() };
        let found = self.to_tune(targets, &order)?[0];
        let values = inputs::generate_for(&case.facts, &model.recipes, self.settings.seed)?;
        let begin = Instant::now();
        let mut sessions = Sessions::new(self, targets, found, (model, case), &values);
        let tried = sweep(&mut sessions, &self.space(targets, found), rounds)?;
        Ok(Sweep { tried, took: begin.elapsed() })
    }

    fn to_tune<'t>(&self, targets: &'t Targets, order: &TuneModel) -> Result<Vec<&'t Found>, Error> {
        let tunable = self.tunable(targets);
        if order.targets.is_empty() {
            return Ok(tunable);
        }
        let find = |key: &TargetKey| {
            let found = targets.get(key.as_str())?;
            tunable.iter().find(|it| it.target.key == found.target.key).copied().ok_or_else(|| {
                let known: Vec<&str> = tunable.iter().map(|it| it.target.key.as_str()).collect();
                Error::Usage(format!("{key} has no threads to tune; {} have", known.join(", ")))
            })
        };
        order.targets.iter().map(find).collect()
    }

    /// What can be tried on a target.
    fn space(&self, targets: &Targets, found: &Found) -> Space {
        let plain = found.target.provider.as_str() == "ort";
        Space {
            processor: processor(&self.machine.host, &targets.cores),
            knobs: Knobs { spin_and_blocks: plain, cores: plain && targets.cores.obstacle().is_none() },
        }
    }

    /// Tunes one target; the inner error says why it does not even run the case.
    fn tune_target(
        &self,
        turn: &MeasuringLock,
        (model, case): (&KnownModel, &Case),
        (targets, found): (&Targets, &Found),
        order: &TuneModel,
        listener: &mut dyn Listener,
    ) -> Result<Result<TargetTuning, String>, Error> {
        let values = inputs::generate_for(&case.facts, &model.recipes, self.settings.seed)?;
        let space = self.space(targets, found);
        let begin = Instant::now();
        let mut sessions = Sessions::new(self, targets, found, (model, case), &values);
        let searched = match search(&mut sessions, &space, order.goal)? {
            Ok(searched) => searched,
            Err(reason) => return Ok(Err(reason)),
        };
        drop(sessions);
        let search_s = begin.elapsed().as_secs_f64();
        let key = |settings: &CpuSettings| {
            SessionSettings::of_cpu(settings.clone()).apply(found.target.clone()).key
        };
        let mut tuning = TargetTuning {
            target: found.target.key.clone(),
            provider_version: found.target.provider_version.clone(),
            found: key(&searched.best),
            chosen: found.target.key.clone(),
            settings: CpuSettings::default(),
            answer: Answer::NothingFound,
            comparison: None,
            campaign: None,
            proofs: Vec::new(),
            tried: searched.tried.iter().map(|it| TriedTarget::new(key(&it.settings), it)).collect(),
            combinations: space.every().len(),
            search_s,
            comparison_s: 0.0,
        };
        if !searched.best.is_default() {
            self.confirm(turn, (model, case, targets), order, &searched, &mut tuning, listener)?;
        }
        let document = serde_json::to_string(&tuning).expect("a tuning has only text keys");
        self.store.record_tuning(&NewTuning {
            hardware_id: &self.machine.hardware_id,
            case: case.id,
            target: &tuning.target,
            provider_version: &tuning.provider_version,
            settings: &tuning.settings,
            campaign: tuning.campaign.map(siliconroute_store::CampaignId),
            document: &document,
            created_unix_ms: (self.clock)(),
        })?;
        Ok(Ok(tuning))
    }

    /// Compares what a search found with the defaults in fresh sessions, and takes it where that speaks for it.
    fn confirm(
        &self,
        turn: &MeasuringLock,
        (model, case, targets): (&KnownModel, &Case, &Targets),
        order: &TuneModel,
        searched: &Searched,
        tuning: &mut TargetTuning,
        listener: &mut dyn Listener,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        let replication = order.replication.unwrap_or_else(|| sessions_for(searched));
        let job = Job {
            model: model.clone(),
            case: case.clone(),
            workload: Workload::Sustained,
            targets: vec![tuning.target.clone(), tuning.found.clone()],
        };
        let jobs = vec![job; replication.least];
        let sampling = self.sampling().for_comparison();
        let how = Order { replication: Some(replication), ..Order::new(Purpose::Bench, &sampling) };
        let mut listener = NoticesAlone(listener);
        let measured = self.measure_in_turn(turn, &jobs, targets, &how, &mut listener)?.complete()?;
        let in_state = (Workload::Sustained, Preparation::Running);
        let comparison = compare_targets(&measured.trials, case.id, in_state, &tuning.found, &tuning.target);
        tuning.comparison_s = begin.elapsed().as_secs_f64();
        tuning.campaign = Some(measured.campaign.0);
        tuning.proofs = report::proofs(searched, &tuning.found, &measured.trials);
        tuning.answer = answer(order.goal, searched, comparison.as_ref(), &tuning.proofs);
        tuning.comparison = comparison;
        if tuning.answer.takes_found() {
            tuning.chosen = tuning.found.clone();
            tuning.settings = searched.best.clone();
        }
        Ok(())
    }

    /// Forgets what tuning found for `model` on this machine, for all its cases; gives how many tunings that were.
    ///
    /// # Errors
    /// When the home is only read or the store fails.
    pub fn forget_model_tuning(&self, model: &KnownModel) -> Result<usize, Error> {
        self.require_writable("forget a tuning")?;
        Ok(self.store.forget_tunings(&self.machine.hardware_id, model.facts.id)?)
    }
}

/// Passes notices on and nothing else: the steps of a comparison are none of the tuning's.
struct NoticesAlone<'l>(&'l mut dyn Listener);

impl Listener for NoticesAlone<'_> {
    fn event(&mut self, event: Event) {
        if let Event::Notice(_) = &event {
            self.0.event(event);
        }
    }
}

/// How many sessions are to tell what a search found from the defaults: those that half of the gain that it saw takes,
/// since the search's own sessions are none of the comparison's.
fn sessions_for(searched: &Searched) -> Replication {
    let ratio = searched.tried(&searched.best).and_then(|tried| tried.ratio).unwrap_or(1.0);
    Replication { difference: ((1.0 - ratio) / 2.0).clamp(0.025, 0.25), ..Replication::default() }
}

/// The processor of a host, as a search sees it.
fn processor(host: &siliconroute_hardware::HostFacts, cores: &NamedCores) -> Processor {
    let usable = match host.usable_cores {
        Reading::Available(cores) => cores.ceil().clamp(1.0, 1024.0) as u32,
        Reading::Unavailable(_) => host.logical_cores.max(1),
    };
    let physical = host.physical_cores.available().copied().unwrap_or(usable);
    Processor { usable, default_threads: physical.clamp(1, usable), named: cores.named() }
}

/// What to say of the settings that a search found, once they were compared with the defaults.
fn answer(
    goal: TuningGoal,
    searched: &Searched,
    comparison: Option<&Comparison>,
    proofs: &[Proof],
) -> Answer {
    let Some(comparison) = comparison else { return Answer::NotCompared };
    if proofs.iter().any(|proof| proof.shown == Reading::Available(false)) {
        return Answer::NoEffect;
    }
    let most = 1.0 + f64::from(BATTERY_MARGIN) / 100.0;
    match (comparison.verdict, goal) {
        (Verdict::Withheld, _) => Answer::NotCompared,
        (Verdict::Faster { .. }, _) => Answer::Faster,
        (_, TuningGoal::Battery) if comparison.ratio <= most && is_thriftier(searched) => Answer::Thriftier,
        (Verdict::Slower { .. } | Verdict::NotSeparable, _) => Answer::NoDifference,
    }
}

/// Whether the settings found take clearly less processor time for an inference than the defaults, with what their
/// threads burn after it.
fn is_thriftier(searched: &Searched) -> bool {
    let cost = |settings: &CpuSettings| {
        let tried = searched.tried(settings)?;
        Some(tried.cpu_ns? + tried.idle_cpu_ns?)
    };
    let (own, defaults) = (cost(&searched.best), cost(&CpuSettings::default()));
    own.zip(defaults).is_some_and(|(own, defaults)| own < defaults * 0.95)
}

#[cfg(test)]
mod tests;
