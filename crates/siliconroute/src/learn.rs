//! From the store to knowledge: trials are joined, hardware models fitted or taken from the store.
//!
//! Invariant: knowledge of this machine is made from trials on this hardware with the providers that
//! are installed now; older versions of a provider are other targets' history. A hardware model is fitted to
//! work that one method counted.

mod doubts;
mod energies;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};
use siliconroute_core::chip_figure::{ChipFigure, ChipQuantity, MemoryLevel};
use siliconroute_core::form::{ChipBounds, Fit, FitRow, fit_forms};
use siliconroute_core::knowledge::{
    EnergyFacts, Estimate, ImportedFacts, Knowledge, KnowledgeBuilder, MemoryFacts, MemoryUse, RestFacts,
    StartFacts, TrialFacts,
};
use siliconroute_core::statistics::{SessionSpread, join_sessions, pool_session_spreads};
use siliconroute_core::trial::{Preparation, Purpose};
use siliconroute_core::{Case, CaseId, ChipKind, ModelId, Reading, TargetKey, Workload, form};
use siliconroute_onnx::METHOD_VERSION;
use siliconroute_store::{NewFit, StoredFit, StoredTrial, TargetId, TrialFilter};

use crate::discovery::Found;
use crate::error::Error;
use crate::quarantine::Streaks;
use crate::router::{Replaced, Router, Targets};

pub use self::doubts::Doubt;
pub(crate) use self::doubts::told;

/// Knowledge, and what it was made from.
#[derive(Debug)]
pub struct Learned {
    /// The snapshot that decisions are made from.
    pub knowledge: Knowledge,
    /// The known cases.
    pub cases: HashMap<CaseId, Case>,
    /// Why a target has no hardware model, by target and workload.
    pub unfitted: BTreeMap<(TargetKey, &'static str), String>,
    /// The trials of the available targets, oldest first.
    pub trials: Vec<TrialFacts>,
    /// The targets whose latest trials failed.
    pub failures: Streaks,
    /// The times that runs have shown to have changed and that were not measured again yet.
    pub doubts: Vec<Doubt>,
}

impl Learned {
    /// Trials of `case` on `target` in `workload`, failed ones included.
    pub fn trials_of<'l>(
        &'l self,
        case: CaseId,
        target: &'l TargetKey,
        workload: Workload,
    ) -> impl Iterator<Item = &'l TrialFacts> {
        self.trials
            .iter()
            .filter(move |trial| trial.case == case && trial.target == *target && trial.workload == workload)
    }
}

impl Learned {
    /// The most memory that `target` was seen to take for `case`, with the case that it was seen on; for whoever must
    /// keep to a budget of memory. Suspect trials tell nothing of it.
    pub fn memory_of(&self, case: &Case, target: &TargetKey) -> MemoryUse {
        self.knowledge.memory_of(case.id, case.model, target)
    }

    /// How far sessions of `target` in `workload` differ from one another; `None` where no configuration has several.
    pub fn session_spread(&self, target: &TargetKey, workload: Workload) -> Option<SessionSpread> {
        session_spread(&self.trials, target, workload)
    }
}

impl Router {
    /// Makes knowledge from everything that the store holds of this machine's targets.
    ///
    /// # Errors
    /// When the store fails.
    pub fn learn(&self, targets: &Targets) -> Result<Learned, Error> {
        let (lessons, trials) = self.lessons(targets)?;
        let stored = self.store.latest_fits()?;
        let mut reasons = BTreeMap::new();
        let knowledge = lessons.learn(targets, |found, workload, rows| {
            let key = &found.target.key;
            let Some(&row) = targets.rows.get(key) else { return Ok(None) };
            match self.fit(row, workload, rows, lessons.bounds(found), &stored)? {
                Ok(fit) => Ok(Some(fit)),
                Err(reason) => {
                    reasons.insert((key.clone(), workload.name()), reason);
                    Ok(None)
                }
            }
        })?;
        let Lessons { cases, failures, doubts, .. } = lessons;
        Ok(Learned { knowledge, cases, unfitted: reasons, trials, failures, doubts })
    }

    /// Everything that the store holds of this machine's targets, and the trials of the available ones, oldest first.
    pub(crate) fn lessons(&self, targets: &Targets) -> Result<(Lessons, Vec<TrialFacts>), Error> {
        let filter =
            TrialFilter { hardware_id: Some(self.machine.hardware_id.clone()), ..TrialFilter::default() };
        let stored = self.store.trial_summaries(&filter)?;
        let present = |trial: &StoredTrial| targets.rows.get(&trial.target) == Some(&trial.target_id);
        let stored: Vec<StoredTrial> = stored.into_iter().filter(present).collect();
        let mut energies = self.energies(&filter, &stored)?;
        energies.extend(energies::lend_energies(targets, &energies));
        // A short benchmark or an unusual preparation says as much of memory, and of how a session starts, as any
        // other trial.
        let honest = || stored.iter().filter(|trial| trial.suspect.is_none());
        let mut memory: Vec<MemoryFacts> = honest().map(StoredTrial::memory).collect();
        let starts: Vec<StartFacts> = honest().filter_map(start_of).collect();
        let failures = Streaks::of(&stored, &self.store.latest_answers()?);
        let mut doubts = self.store.doubts(&self.machine.hardware_id)?;
        doubts.retain(|doubt| targets.rows.get(&doubt.target) == Some(&doubt.target_id));
        let (doubts, superseded) = doubts::settle(&stored, doubts);
        let rests: Vec<RestFacts> = honest().filter_map(rest_of).collect();
        let teaches = |trial: &StoredTrial| is_fit_to_learn_from(trial) && !superseded.contains(&trial.id);
        let trials: Vec<TrialFacts> =
            stored.into_iter().filter(teaches).filter_map(StoredTrial::into_facts).collect();
        let mut cases = self.store.cases()?;
        self.models().recount(&mut cases)?;
        let lent = lend_to_tuned(targets, &trials);
        memory.extend(lend_memory(targets, &memory));
        let lessons = Lessons {
            // What is lent comes first, so that a tuned target's own trials have the last word.
            trials: lent.into_iter().chain(trials.iter().cloned()).collect(),
            memory,
            energies,
            failures,
            doubts,
            starts,
            rests,
            imported: self.imported_facts(targets)?,
            cases: cases.into_iter().map(|case| (case.id, case)).collect(),
            cache_bytes: self.machine.last_level_cache_bytes(),
            cpu_figures: self.cpu_figures()?,
        };
        Ok((lessons, trials))
    }

    /// The stored fit of these very rows, or a new one; the inner error says why there is none.
    fn fit(
        &self,
        target: TargetId,
        workload: Workload,
        rows: &[FitRow],
        bounds: ChipBounds,
        stored: &[StoredFit],
    ) -> Result<Result<Fit, String>, Error> {
        let input_digest = digest(rows, &bounds);
        let known = stored.iter().find(|fit| {
            fit.target_id == target
                && fit.workload == workload
                && fit.input_digest == input_digest
                && fit.fit.method == form::METHOD_VERSION
        });
        if let Some(known) = known {
            return Ok(Ok(known.fit.clone()));
        }
        match fit_forms(rows, bounds) {
            Ok(fit) => {
                let created_unix_ms = (self.clock)();
                self.store.record_fit(&NewFit {
                    target,
                    workload,
                    fit: &fit,
                    input_digest,
                    created_unix_ms,
                })?;
                Ok(Ok(fit))
            }
            Err(error) => Ok(Err(error.to_string())),
        }
    }
}

/// A time after another rest than the usual one; `None` for any other trial.
fn rest_of(trial: &StoredTrial) -> Option<RestFacts> {
    let Preparation::Rested { gap_ns } = trial.preparation else { return None };
    let time_ns = trial.outcome.as_ref().ok()?.summary.as_ref()?.typical_ns(Workload::IdleLoaded);
    let (target, rest_ns) = (trial.target.clone(), gap_ns as f64);
    (!trial.preparation.is_usual()).then_some(RestFacts { target, case: trial.case, rest_ns, time_ns })
}

/// Samples below which a trial whose sampling the user chose, by a benchmark or by runs, teaches nothing.
const LEAST_CHOSEN_SAMPLES: usize = 30;

/// Whether a trial says how fast its target is in its workload.
pub(crate) fn is_fit_to_learn_from(trial: &StoredTrial) -> bool {
    if trial.suspect.is_some() || !trial.preparation.is_usual() {
        return false;
    }
    let samples = match &trial.outcome {
        Ok(measured) => measured.summary.as_ref().map_or(0, |summary| summary.samples),
        Err(_) => return true,
    };
    !matches!(trial.purpose, Purpose::Bench | Purpose::Served)
        || trial.workload != Workload::Sustained
        || samples >= LEAST_CHOSEN_SAMPLES
}

/// What the trials of targets without settings say of the tuned ones in their place, where those have none of their
/// own: tuning looks at one case in the sustained workload, and its settings are no slower there.
fn lend_to_tuned(targets: &Targets, trials: &[TrialFacts]) -> Vec<TrialFacts> {
    let lend = |replaced: &Replaced| {
        let of = |key: &TargetKey| {
            let key = key.clone();
            trials.iter().filter(move |trial| trial.target == key)
        };
        let own: BTreeSet<(CaseId, usize)> =
            of(&replaced.by).map(|trial| (trial.case, trial.workload.index())).collect();
        of(&replaced.plain.target.key)
            .filter(|trial| !own.contains(&(trial.case, trial.workload.index())))
            .map(|trial| TrialFacts { target: replaced.by.clone(), ..trial.clone() })
            .collect::<Vec<_>>()
    };
    targets.replaced.iter().flat_map(lend).collect()
}

/// What the memory that targets without settings took says of the tuned ones in their place.
fn lend_memory(targets: &Targets, memory: &[MemoryFacts]) -> Vec<MemoryFacts> {
    let lend = |replaced: &Replaced| {
        memory
            .iter()
            .filter(|facts| facts.target == replaced.plain.target.key)
            .map(|facts| MemoryFacts { target: replaced.by.clone(), ..facts.clone() })
            .collect::<Vec<_>>()
    };
    targets.replaced.iter().flat_map(lend).collect()
}

/// What knowledge is made from.
pub(crate) struct Lessons {
    /// Oldest first.
    trials: Vec<TrialFacts>,
    memory: Vec<MemoryFacts>,
    energies: Vec<EnergyFacts>,
    failures: Streaks,
    doubts: Vec<Doubt>,
    starts: Vec<StartFacts>,
    rests: Vec<RestFacts>,
    imported: Vec<ImportedFacts>,
    pub(crate) cases: HashMap<CaseId, Case>,
    cache_bytes: f64,
    cpu_figures: Vec<ChipFigure>,
}

impl Lessons {
    /// The same as if `model` had never been measured.
    pub(crate) fn without(&self, model: ModelId) -> Self {
        let of_model: BTreeSet<CaseId> =
            self.cases.values().filter(|case| case.model == model).map(|case| case.id).collect();
        Self {
            trials: self.trials.iter().filter(|it| it.model != model).cloned().collect(),
            memory: self.memory.iter().filter(|it| it.model != model).cloned().collect(),
            failures: self.failures.clone(),
            doubts: self.doubts.iter().filter(|it| !of_model.contains(&it.case)).cloned().collect(),
            energies: self.energies.iter().filter(|it| !of_model.contains(&it.case)).cloned().collect(),
            starts: self.starts.iter().filter(|it| !of_model.contains(&it.case)).cloned().collect(),
            rests: self.rests.iter().filter(|it| !of_model.contains(&it.case)).cloned().collect(),
            imported: self.imported.iter().filter(|it| !of_model.contains(&it.case)).cloned().collect(),
            cases: self
                .cases
                .iter()
                .filter(|it| it.1.model != model)
                .map(|(id, it)| (*id, it.clone()))
                .collect(),
            cache_bytes: self.cache_bytes,
            cpu_figures: self.cpu_figures.clone(),
        }
    }

    /// What no hardware model of a target may exceed.
    ///
    /// The figures are those of single precision on the CPU: another chip, or a target that computes in fewer bits, may
    /// do better.
    pub(crate) fn bounds(&self, found: &Found) -> ChipBounds {
        let exact = matches!(found.proven_error, Reading::Available(error) if error <= SINGLE_PRECISION);
        let mut bounds = ChipBounds::from(self.cache_bytes);
        if found.target.chip_kind != ChipKind::Cpu || !exact {
            return bounds;
        }
        let best = |quantity, level: Option<MemoryLevel>| {
            let own = self.cpu_figures.iter().filter(|figure| figure.quantity == quantity);
            let own = own.filter(|figure| level.is_none() || figure.level == level);
            own.map(|figure| figure.value / 1e9).max_by(f64::total_cmp)
        };
        bounds.flops_per_ns = best(ChipQuantity::PeakThroughput, None);
        bounds.bytes_per_ns = best(ChipQuantity::ReadBandwidth, None);
        bounds.memory_bytes_per_ns = best(ChipQuantity::ReadBandwidth, Some(MemoryLevel::Memory));
        bounds
    }

    /// Makes knowledge with the hardware models that `fit` gives for the rows of a target and workload.
    pub(crate) fn learn(
        &self,
        targets: &Targets,
        mut fit: impl FnMut(&Found, Workload, &[FitRow]) -> Result<Option<Fit>, Error>,
    ) -> Result<Knowledge, Error> {
        // Without fits and cases first: the rows are the estimates that the builder joins from the sessions.
        let mut builder = KnowledgeBuilder::default();
        for found in targets.discovery.available() {
            builder.target(found.target.clone(), [None, None, None], None);
        }
        for trial in &self.trials {
            builder.trial(trial.clone());
        }
        let measured = builder.build();
        let mut builder = KnowledgeBuilder::default();
        for (index, found) in targets.discovery.available().enumerate() {
            let proven = match found.proven_error {
                Reading::Available(error) => Some(error),
                Reading::Unavailable(_) => None,
            };
            let mut fits = [None, None, None];
            for workload in Workload::ALL {
                let rows = fit_rows(&measured, &self.cases, index, workload);
                fits[workload.index()] = fit(found, workload, &rows)?;
            }
            let target = builder.target(found.target.clone(), fits, proven);
            for workload in Workload::ALL {
                if let Some(known) = session_spread(&self.trials, &found.target.key, workload) {
                    builder.spread(target, workload, known.spread);
                }
            }
        }
        for trial in &self.trials {
            builder.trial(trial.clone());
        }
        for facts in &self.memory {
            builder.memory(facts.clone());
        }
        for facts in &self.energies {
            builder.energy(facts.clone());
        }
        for facts in &self.starts {
            builder.start(facts.clone());
        }
        for facts in &self.rests {
            builder.rest(facts.clone());
        }
        for facts in &self.imported {
            builder.imported(facts.clone());
        }
        for case in self.cases.values().filter(|case| case.facts.method_version == METHOD_VERSION) {
            builder.case(case.clone());
        }
        Ok(builder.build())
    }
}

/// The largest relative error that the precision probe shows of a target that computes in single precision.
const SINGLE_PRECISION: f64 = 1e-5;

/// What the session of a trial took to start; `None` where it gave no measurement.
fn start_of(trial: &StoredTrial) -> Option<StartFacts> {
    let measured = trial.outcome.as_ref().ok()?;
    let (create_ns, first_run_ns) = (measured.session_create_ns as f64, measured.first_run_ns as f64);
    Some(StartFacts { target: trial.target.clone(), case: trial.case, create_ns, first_run_ns })
}

/// How far sessions of `target` in `workload` differ from one another; `None` where no configuration has several.
fn session_spread(trials: &[TrialFacts], target: &TargetKey, workload: Workload) -> Option<SessionSpread> {
    let mut sessions: BTreeMap<CaseId, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|it| it.target == *target && it.workload == workload) {
        if let Ok((summary, _)) = &trial.outcome {
            sessions.entry(trial.case).or_default().push(summary.typical_ns(workload));
        }
    }
    let estimates: Vec<_> = sessions.values().filter_map(|medians| join_sessions(medians)).collect();
    pool_session_spreads(&estimates)
}

/// One row for each case measured on the target at `index`, in the order of the cases' identities.
fn fit_rows(
    knowledge: &Knowledge,
    cases: &HashMap<CaseId, Case>,
    index: usize,
    workload: Workload,
) -> Vec<FitRow> {
    let mut measured: Vec<(&Case, &Estimate)> = cases
        .values()
        .filter(|case| case.facts.method_version == METHOD_VERSION)
        .filter_map(|case| {
            let cell = knowledge.cells(case.id)?.get(index)?;
            Some((case, cell.times[workload.index()].as_ref()?))
        })
        .collect();
    measured.sort_by_key(|(case, _)| case.id);
    measured.into_iter().map(|(case, time)| FitRow::from((&case.facts, case.model, time.time_ns))).collect()
}

fn digest(rows: &[FitRow], bounds: &ChipBounds) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(bounds.cache_bytes.to_le_bytes());
    for rate in [bounds.flops_per_ns, bounds.bytes_per_ns, bounds.memory_bytes_per_ns] {
        // No rate is 0, so it can stand for one that is not known.
        hash.update(rate.unwrap_or(0.0).to_le_bytes());
    }
    for row in rows {
        hash.update(row.model.0);
        hash.update(row.family.to_string());
        let by = &row.operators;
        let facts = [row.flops, row.weight_bytes, row.parameters, row.batch, row.nodes, row.time_ns];
        let work =
            [by.matrix_flops, by.convolution_flops, by.depthwise_flops, by.recurrent_flops, by.moved_bytes];
        for value in facts.into_iter().chain(work) {
            hash.update(value.to_le_bytes());
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
