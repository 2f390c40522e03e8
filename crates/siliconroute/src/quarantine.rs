//! Targets that failed lately and are left out for a while.
//!
//! Invariant: pure over the failures and the time that it is given. A refusal is an answer and quarantines nobody; what
//! tells of one model is counted once, since that model has its own verdict. A target shares its failures with those
//! that differ in settings alone, since they share its library and driver.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use siliconroute_core::{ModelId, TargetKey};
use siliconroute_store::{StoredTrial, TargetId};

/// When a target that fails is left out, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quarantine {
    /// Failures in a row from which on it is left out.
    pub failures: u32,
    /// How long it is left out first; each further failure doubles it.
    pub first: Duration,
    /// The longest that it is left out. Failures that lie further back are forgotten.
    pub longest: Duration,
}

impl Quarantine {
    /// The rule where nothing is set.
    pub const USUAL: Self =
        Self { failures: 2, first: Duration::from_mins(10), longest: Duration::from_hours(24) };

    /// Until when a target with such failures is left out, in milliseconds since 1970 UTC; `None` where it is not.
    pub fn until(&self, streak: Streak) -> Option<i64> {
        let further = streak.failures.checked_sub(self.failures)?;
        let doubled = self.first.checked_mul(2_u32.saturating_pow(further)).unwrap_or(self.longest);
        let pause = i64::try_from(doubled.min(self.longest).as_millis()).unwrap_or(i64::MAX);
        Some(streak.last_unix_ms.saturating_add(pause))
    }

    /// Whether a target with such failures is left out at `now`, in milliseconds since 1970 UTC.
    pub fn holds(&self, streak: Streak, now_unix_ms: i64) -> bool {
        self.until(streak).is_some_and(|until| now_unix_ms < until)
    }

    fn is_forgotten(&self, streak: Streak, now_unix_ms: i64) -> bool {
        let age = now_unix_ms.saturating_sub(streak.last_unix_ms);
        u128::try_from(age).is_ok_and(|age| age > self.longest.as_millis())
    }
}

/// Failures of a target in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streak {
    /// How many.
    pub failures: u32,
    /// When the last one was, in milliseconds since 1970 UTC.
    pub last_unix_ms: i64,
}

/// Failures of all targets that fail now, by target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Streaks(BTreeMap<String, Streak>);

impl Streaks {
    /// Counts the failures of `trials`, oldest first, since each target's last measurement and the time in `answers` at which it
    /// answered an inference last: crashes, hangs and blow-ups of memory, of each model one.
    pub fn of(trials: &[StoredTrial], answers: &[(TargetId, i64)]) -> Self {
        let answered = |trial: &StoredTrial| {
            let later = |&(target, at_ms): &(TargetId, i64)| {
                target == trial.target_id && at_ms > trial.started_unix_ms
            };
            answers.iter().any(later)
        };
        let mut failing: BTreeMap<&str, (BTreeSet<ModelId>, i64)> = BTreeMap::new();
        for trial in trials {
            match &trial.outcome {
                Ok(_) => drop(failing.remove(trial.target.base())),
                Err(failure) if failure.kind.is_transient() && !answered(trial) => {
                    let (models, last) = failing.entry(trial.target.base()).or_default();
                    models.insert(trial.model);
                    *last = trial.started_unix_ms;
                }
                Err(_) => {}
            }
        }
        let streak = |(models, last_unix_ms): (BTreeSet<ModelId>, i64)| Streak {
            failures: u32::try_from(models.len()).unwrap_or(u32::MAX),
            last_unix_ms,
        };
        Self(failing.into_iter().map(|(key, failed)| (key.to_owned(), streak(failed))).collect())
    }

    /// Counts a failure of `target`; older ones that `rule` has forgotten count no more.
    pub fn failed(&mut self, target: &TargetKey, now_unix_ms: i64, rule: &Quarantine) {
        let known = self.0.get(target.base()).filter(|streak| !rule.is_forgotten(**streak, now_unix_ms));
        let failures = known.map_or(0, |streak| streak.failures).saturating_add(1);
        self.0.insert(target.base().to_owned(), Streak { failures, last_unix_ms: now_unix_ms });
    }

    /// Forgets the failures of `target`, which has answered.
    pub fn answered(&mut self, target: &TargetKey) {
        self.0.remove(target.base());
    }

    /// The failures of `target`, where it has any.
    pub fn get(&self, target: &TargetKey) -> Option<Streak> {
        self.0.get(target.base()).copied()
    }
}

#[cfg(test)]
mod tests;
