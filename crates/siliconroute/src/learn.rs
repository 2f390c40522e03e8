//! From the store to knowledge: trials are joined, hardware models fitted or taken from the store.
//!
//! Invariant: knowledge of this machine is made from trials on this hardware with the providers that
//! are installed now; older versions of a provider are other targets' history. A hardware model is fitted to
//! work that one method counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};
use siliconroute_core::form::{Fit, FitRow, fit_forms};
use siliconroute_core::knowledge::{
    Estimate, ImportedFacts, Knowledge, KnowledgeBuilder, MemoryFacts, MemoryUse, TrialFacts,
};
use siliconroute_core::statistics::{SessionSpread, join_sessions, pool_session_spreads};
use siliconroute_core::trial::Purpose;
use siliconroute_core::{Case, CaseId, Reading, TargetKey, Workload, form};
use siliconroute_onnx::METHOD_VERSION;
use siliconroute_store::{NewFit, StoredFit, StoredTrial, TargetId, TrialFilter};

use crate::error::Error;
use crate::router::{Replaced, Router, Targets};

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
        let filter =
            TrialFilter { hardware_id: Some(self.machine.hardware_id.clone()), ..TrialFilter::default() };
        let stored = self.store.trial_summaries(&filter)?;
        let present = |trial: &StoredTrial| targets.rows.get(&trial.target) == Some(&trial.target_id);
        let stored: Vec<StoredTrial> = stored.into_iter().filter(present).collect();
        // A short benchmark or an unusual preparation says as much of memory as any other trial.
        let honest = stored.iter().filter(|trial| trial.suspect.is_none());
        let mut memory: Vec<MemoryFacts> = honest.map(StoredTrial::memory).collect();
        let trials: Vec<TrialFacts> =
            stored.into_iter().filter(is_fit_to_learn_from).filter_map(StoredTrial::into_facts).collect();
        let mut cases = self.store.cases()?;
        self.models().recount(&mut cases)?;
        let cases: HashMap<CaseId, Case> = cases.into_iter().map(|case| (case.id, case)).collect();
        let lent = lend_to_tuned(targets, &trials);
        memory.extend(lend_memory(targets, &memory));
        // What is lent comes first, so that a tuned target's own trials have the last word.
        let all: Vec<TrialFacts> = lent.into_iter().chain(trials.iter().cloned()).collect();
        let imported = self.imported_facts(targets)?;
        // Without fits first: their rows are the estimates that the builder joins from the sessions.
        let unfitted = build(targets, &all, &[], &[], |_, _| None);
        let mut fits = self.fits(targets, &unfitted, &cases)?;
        let fit = |key: &TargetKey, workload| fits.fitted.remove(&(key.clone(), workload));
        let knowledge = build(targets, &all, &memory, &imported, fit);
        Ok(Learned { knowledge, cases, unfitted: fits.reasons, trials })
    }

    fn fits(
        &self,
        targets: &Targets,
        knowledge: &Knowledge,
        cases: &HashMap<CaseId, Case>,
    ) -> Result<Fits, Error> {
        let stored = self.store.latest_fits()?;
        let mut fits = Fits::default();
        for (index, entry) in knowledge.targets().iter().enumerate() {
            let key = &entry.target.key;
            let Some(&row) = targets.rows.get(key) else { continue };
            for workload in Workload::ALL {
                let rows = fit_rows(knowledge, cases, index, workload);
                match self.fit(row, workload, &rows, &stored)? {
                    Ok(fit) => {
                        fits.fitted.insert((key.clone(), workload), fit);
                    }
                    Err(reason) => {
                        fits.reasons.insert((key.clone(), workload.name()), reason);
                    }
                }
            }
        }
        Ok(fits)
    }

    /// The stored fit of these very rows, or a new one; the inner error says why there is none.
    fn fit(
        &self,
        target: TargetId,
        workload: Workload,
        rows: &[FitRow],
        stored: &[StoredFit],
    ) -> Result<Result<Fit, String>, Error> {
        let cache_bytes = self.machine.last_level_cache_bytes();
        let input_digest = digest(rows, cache_bytes);
        let known = stored.iter().find(|fit| {
            fit.target_id == target
                && fit.workload == workload
                && fit.input_digest == input_digest
                && fit.fit.method == form::METHOD_VERSION
        });
        if let Some(known) = known {
            return Ok(Ok(known.fit.clone()));
        }
        match fit_forms(rows, cache_bytes) {
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

/// Samples below which a benchmark's trial, whose sampling the user chose, teaches nothing.
const LEAST_BENCH_SAMPLES: usize = 30;

/// Whether a trial says how fast its target is in its workload.
pub(crate) fn is_fit_to_learn_from(trial: &StoredTrial) -> bool {
    if trial.suspect.is_some() || !trial.preparation.is_usual() {
        return false;
    }
    let samples = match &trial.outcome {
        Ok(measured) => measured.summary.as_ref().map_or(0, |summary| summary.samples),
        Err(_) => return true,
    };
    trial.purpose != Purpose::Bench || trial.workload != Workload::Sustained || samples >= LEAST_BENCH_SAMPLES
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

#[derive(Default)]
struct Fits {
    fitted: HashMap<(TargetKey, Workload), Fit>,
    reasons: BTreeMap<(TargetKey, &'static str), String>,
}

fn build(
    targets: &Targets,
    trials: &[TrialFacts],
    memory: &[MemoryFacts],
    imported: &[ImportedFacts],
    mut fit: impl FnMut(&TargetKey, Workload) -> Option<Fit>,
) -> Knowledge {
    let mut builder = KnowledgeBuilder::default();
    for found in targets.discovery.available() {
        let proven = match found.proven_error {
            Reading::Available(error) => Some(error),
            Reading::Unavailable(_) => None,
        };
        let fits = Workload::ALL.map(|workload| fit(&found.target.key, workload));
        let index = builder.target(found.target.clone(), fits, proven);
        for workload in Workload::ALL {
            if let Some(known) = session_spread(trials, &found.target.key, workload) {
                builder.spread(index, workload, known.spread);
            }
        }
    }
    for trial in trials {
        builder.trial(trial.clone());
    }
    for facts in memory {
        builder.memory(facts.clone());
    }
    for facts in imported {
        builder.imported(facts.clone());
    }
    builder.build()
}

/// How far sessions of `target` in `workload` differ from one another; `None` where no configuration has several.
fn session_spread(trials: &[TrialFacts], target: &TargetKey, workload: Workload) -> Option<SessionSpread> {
    let mut sessions: BTreeMap<CaseId, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|it| it.target == *target && it.workload == workload) {
        if let Ok((summary, _)) = &trial.outcome {
            sessions.entry(trial.case).or_default().push(summary.median_ns);
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

fn digest(rows: &[FitRow], cache_bytes: f64) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(cache_bytes.to_le_bytes());
    for row in rows {
        hash.update(row.model.0);
        hash.update(row.family.to_string());
        for value in [row.flops, row.weight_bytes, row.parameters, row.batch, row.nodes, row.time_ns] {
            hash.update(value.to_le_bytes());
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
