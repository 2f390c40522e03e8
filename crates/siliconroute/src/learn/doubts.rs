//! Times that runs have shown to have changed since they were measured: by themselves, or with their target as a whole.
//!
//! Invariant: what was measured before a change counts until the time was measured since, and then no more; a doubt is open until
//! a campaign has measured the time again.

use std::collections::{BTreeMap, HashSet};

use siliconroute_core::learning::TOGETHER_NS;
use siliconroute_core::trial::Purpose;
use siliconroute_core::{Case, CaseId, TargetKey, Workload};
use siliconroute_store::{StoredDoubt, StoredModel, StoredTrial, TargetId, TrialFilter, TrialId};

use super::{Learned, is_fit_to_learn_from};
use crate::campaign::is_trusted;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::measure::Job;
use crate::router::{Router, Targets};
use crate::wording::{plural, utc_minute};

/// Two cases of one target that change within this time speak of the target.
const TOGETHER_MS: i64 = (TOGETHER_NS / 1_000_000).cast_signed();

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
    /// Whether runs of other cases have shown that the target has changed as a whole, and none of this one.
    pub with_target: bool,
}

/// The doubts that are open, and the trials that a later one has taken the place of.
pub(super) fn settle(trials: &[StoredTrial], stored: Vec<StoredDoubt>) -> (Vec<Doubt>, HashSet<TrialId>) {
    let (mut open, mut superseded) = (Vec::new(), HashSet::new());
    let with_targets = with_targets(trials, &stored);
    let own = stored.into_iter().map(|doubt| (doubt, false));
    for (doubt, with_target) in own.chain(with_targets.iter().map(|doubt| (doubt.clone(), true))) {
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
        let overtaken = !with_target && with_targets.iter().any(|it| is_of_same_time(it, &doubt));
        if !overtaken && since.iter().all(|trial| trial.purpose == Purpose::Served) {
            let StoredDoubt { target, case, workload, ratio, since_unix_ms, .. } = doubt;
            open.push(Doubt { target, case, workload, ratio, since_unix_ms, with_target });
        }
    }
    (open, superseded)
}

fn is_of_same_time(one: &StoredDoubt, other: &StoredDoubt) -> bool {
    (one.target_id, one.case, one.workload) == (other.target_id, other.case, other.workload)
}

/// What else is in doubt where two cases have shown that their target has changed as a whole, by the rule of
/// [`Live`](siliconroute_core::learning::Live): every time of it that was measured before, unless its own runs have told since.
fn with_targets(trials: &[StoredTrial], stored: &[StoredDoubt]) -> Vec<StoredDoubt> {
    let mut by_target: BTreeMap<TargetId, Vec<&StoredDoubt>> = BTreeMap::new();
    for doubt in stored {
        by_target.entry(doubt.target_id).or_default().push(doubt);
    }
    let mut found = Vec::new();
    for (target_id, mut shown) in by_target {
        shown.sort_by_key(|doubt| doubt.since_unix_ms);
        let Some((since_unix_ms, ratio)) = shown.windows(2).rev().find_map(together) else { continue };
        let told = |trial: &StoredTrial| {
            let is_its = |it: &&StoredDoubt| (it.case, it.workload) == (trial.case, trial.workload);
            shown.iter().filter(|it| it.since_unix_ms >= since_unix_ms).any(is_its)
        };
        let mut seen = HashSet::new();
        let moved = trials.iter().filter(|trial| {
            trial.target_id == target_id
                // What runs have shown says nothing of how long sessions take to start.
                && trial.workload != Workload::ColdStart
                && trial.started_unix_ms <= since_unix_ms
                && trial.outcome.is_ok()
                && is_fit_to_learn_from(trial)
                && !told(trial)
                && seen.insert((trial.case, trial.workload))
        });
        found.extend(moved.map(|trial| StoredDoubt {
            target_id,
            target: trial.target.clone(),
            case: trial.case,
            workload: trial.workload,
            ratio,
            since_unix_ms,
        }));
    }
    found
}

/// When and by how much a target has changed, if two doubts that follow one another speak of it rather than of their cases.
fn together(two: &[&StoredDoubt]) -> Option<(i64, f64)> {
    let [before, now] = two else { return None };
    let passed_ms = now.since_unix_ms.saturating_sub(before.since_unix_ms);
    let same_way = before.ratio.ln() * now.ratio.ln() > 0.0;
    (before.case != now.case && passed_ms < TOGETHER_MS && same_way)
        .then(|| (before.since_unix_ms, (before.ratio * now.ratio).sqrt()))
}

impl Doubt {
    /// What is in doubt, since when and why, in one sentence; `case` is the case's name.
    pub fn sentence(&self, case: &str) -> String {
        let Self { target, workload, ratio, since_unix_ms, with_target, .. } = self;
        let (since, workload) = (utc_minute(*since_unix_ms), workload.name());
        let runs = if *with_target { "runs of other cases" } else { "runs" };
        format!(
            "knowledge of {case} on {target} ({workload}) is in doubt since {since}: {runs} took {ratio:.2} times as long as before"
        )
    }
}

/// A sentence for each doubt that a case's own runs have shown, and one for each target that has changed as a whole.
pub(crate) fn told(doubts: &[Doubt], label: impl Fn(CaseId) -> String) -> Vec<String> {
    let (moved, own): (Vec<&Doubt>, Vec<&Doubt>) = doubts.iter().partition(|doubt| doubt.with_target);
    let of_target = |moved: &[&Doubt]| {
        let Doubt { target, ratio, since_unix_ms, .. } = moved[0];
        let (since, times, plural) = (utc_minute(*since_unix_ms), moved.len(), plural(moved.len()));
        format!(
            "{target} has changed as a whole since {since}: runs of several cases took {ratio:.2} times as long as before, so \
             that {times} other time{plural} on it may have changed"
        )
    };
    let same = |a: &&Doubt, b: &&Doubt| (&a.target, a.since_unix_ms) == (&b.target, b.since_unix_ms);
    let own = own.into_iter().map(|doubt| doubt.sentence(&label(doubt.case)));
    own.chain(moved.chunk_by(same).map(of_target)).collect()
}

impl Learned {
    /// The times of `case` that runs have shown to have changed and that were not measured again yet.
    pub fn doubts_of(&self, case: CaseId) -> impl Iterator<Item = &Doubt> {
        self.doubts.iter().filter(move |doubt| doubt.case == case)
    }
}

impl Router {
    /// What is in doubt on this machine, in sentences; versions of providers that are not installed any more included.
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
        Ok(told(&doubts, label))
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
