//! Times that runs have shown to have changed since they were measured.
//!
//! Invariant: what was measured before a change counts until the time was measured since, and then no more; a doubt is open until
//! a campaign has measured the time again.

use std::collections::HashSet;

use siliconroute_core::trial::Purpose;
use siliconroute_core::{Case, CaseId, TargetKey, Workload};
use siliconroute_store::{StoredDoubt, StoredModel, StoredTrial, TrialFilter, TrialId};

use super::{Learned, is_fit_to_learn_from};
use crate::campaign::is_trusted;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::measure::Job;
use crate::router::{Router, Targets};
use crate::wording::utc_minute;

/// A measured time that runs have shown to have changed, and that no campaign has measured since.
#[derive(Debug, Clone, PartialEq)]
pub struct Doubt {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// The new time over the one from before.
    pub ratio: f64,
    /// When it was noticed, in milliseconds since 1970 UTC.
    pub since_unix_ms: i64,
}

/// The doubts that are open, and the trials that a later one has taken the place of.
pub(super) fn settle(trials: &[StoredTrial], stored: Vec<StoredDoubt>) -> (Vec<Doubt>, HashSet<TrialId>) {
    let (mut open, mut superseded) = (Vec::new(), HashSet::new());
    for doubt in stored {
        let of_it = |trial: &&StoredTrial| {
            trial.target_id == doubt.target_id
                && trial.case == doubt.case
                && trial.workload == doubt.workload
                && trial.outcome.is_ok()
                && is_fit_to_learn_from(trial)
        };
        let (before, since): (Vec<&StoredTrial>, Vec<&StoredTrial>) =
            trials.iter().filter(of_it).partition(|trial| trial.started_unix_ms <= doubt.since_unix_ms);
        if !since.is_empty() {
            superseded.extend(before.iter().map(|trial| trial.id));
        }
        if since.iter().all(|trial| trial.purpose == Purpose::Served) {
            let StoredDoubt { target, case, workload, ratio, since_unix_ms, .. } = doubt;
            open.push(Doubt { target, case, workload, ratio, since_unix_ms });
        }
    }
    (open, superseded)
}

impl Doubt {
    /// What is in doubt, since when and why, in one sentence; `case` is the case's name.
    pub fn sentence(&self, case: &str) -> String {
        let Self { target, workload, ratio, since_unix_ms, .. } = self;
        let (since, workload) = (utc_minute(*since_unix_ms), workload.name());
        format!(
            "knowledge of {case} on {target} ({workload}) is in doubt since {since}: runs took {ratio:.2} times as long as before"
        )
    }
}

impl Learned {
    /// The times of `case` that runs have shown to have changed and that were not measured again yet.
    pub fn doubts_of(&self, case: CaseId) -> impl Iterator<Item = &Doubt> {
        self.doubts.iter().filter(move |doubt| doubt.case == case)
    }
}

impl Router {
    /// What is in doubt on this machine, a sentence each; versions of providers that are not installed any more included.
    ///
    /// # Errors
    /// When the store fails.
    pub fn told_doubts(&self) -> Result<Vec<String>, Error> {
        let hardware_id = &self.machine.hardware_id;
        let stored = self.store.doubts(hardware_id)?;
        if stored.is_empty() {
            return Ok(Vec::new());
        }
        let filter = TrialFilter { hardware_id: Some(hardware_id.clone()), ..TrialFilter::default() };
        let (doubts, _) = settle(&self.store.trial_summaries(&filter)?, stored);
        let cases = self.store.cases()?;
        let label =
            |id: CaseId| cases.iter().find(|case| case.id == id).map_or_else(String::new, Case::label);
        Ok(doubts.iter().map(|doubt| doubt.sentence(&label(doubt.case))).collect())
    }

    /// The jobs that measure again what is in doubt, as far as the models are still the same where they were; one that is not
    /// becomes a notice.
    pub(crate) fn doubted_jobs(
        &self,
        targets: &Targets,
        learned: &Learned,
        listener: &mut dyn Listener,
    ) -> Result<Vec<Job>, Error> {
        if learned.doubts.is_empty() {
            return Ok(Vec::new());
        }
        let available: Vec<&TargetKey> =
            targets.discovery.available().map(|found| &found.target.key).collect();
        let mut jobs = Vec::new();
        let models: Vec<StoredModel> = self.store.models()?;
        for stored in models {
            let mut cases: Vec<_> =
                learned.cases.values().filter(|case| case.model == stored.facts.id).collect();
            cases.sort_by_key(|case| case.id);
            for case in cases {
                for workload in Workload::ALL {
                    let doubted: Vec<&TargetKey> = learned
                        .doubts
                        .iter()
                        .filter(|doubt| doubt.case == case.id && doubt.workload == workload)
                        .map(|doubt| &doubt.target)
                        .filter(|target| available.contains(target))
                        .collect();
                    if doubted.is_empty() {
                        continue;
                    }
                    // Outputs are compared within a campaign, so a reference is measured along.
                    let reference = available.iter().copied().find(|key| is_trusted(key));
                    let others = doubted.into_iter().filter(|key| Some(*key) != reference);
                    let targets = reference.into_iter().chain(others).cloned().collect();
                    match self.find_stored_model(&stored) {
                        Ok(model) => jobs.push(Job { model, case: case.clone(), workload, targets }),
                        Err(reason) => {
                            let notice = format!("{} is not measured again: {reason}", case.label());
                            listener.event(Event::Notice(notice));
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests;
