//! The end of a budget that is kept to: what is not expected to fit into the rest of it is not begun.
//!
//! Invariant: a case that the budget cut off leaves no trial, since a target that was not given its time has not failed.

use std::collections::BTreeMap;
use std::time::Duration;

use siliconroute_core::TargetKey;
use siliconroute_core::trial::{FailureKind, Trial};

use super::Setting;
use crate::discovery::Found;

/// Time that a request is left in any case, so that a worker which answers at once is never cut off.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// When a measurement is over, complete or not.
#[derive(Debug, Clone, Copy)]
pub struct Closing<'a> {
    /// When nothing new may begin, on the scale of [`Surroundings::elapsed`](super::Surroundings::elapsed).
    pub at: Duration,
    /// What each target is expected to take until it is warm.
    pub begin: &'a BTreeMap<TargetKey, Duration>,
}

/// The rest of the budget is too short for a case; nothing of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rest of the budget is too short")]
pub struct OutOfTime;

impl Setting<'_> {
    /// Goes on where `time` is expected to fit into what is left.
    pub(super) fn room_for(&self, time: Duration) -> Result<(), OutOfTime> {
        match &self.closing {
            // What is reckoned of an absurd model may be more than a duration holds.
            Some(closing) if self.surroundings.elapsed().saturating_add(time) > closing.at => Err(OutOfTime),
            _ => Ok(()),
        }
    }

    /// Goes on where the session of `found` is expected to be warm before the end.
    pub(super) fn room_to_begin(&self, found: &Found) -> Result<(), OutOfTime> {
        self.room_for(self.time_to_begin(found))
    }

    /// What `found` is expected to take until it is warm; 0 where nothing closes.
    pub(super) fn time_to_begin(&self, found: &Found) -> Duration {
        let begin = self.closing.and_then(|closing| closing.begin.get(&found.target.key).copied());
        begin.unwrap_or_default()
    }

    /// How long a worker may be silent while its session begins: no longer than what is left.
    pub(super) fn deadline(&self) -> Duration {
        let usual = self.sampling.deadline;
        let left = self.closing.map(|closing| closing.at.saturating_sub(self.surroundings.elapsed()));
        left.map_or(usual, |left| usual.min(left.max(LEAST_PATIENCE)))
    }

    /// The trials, unless the end came before each of `targets` had its own.
    pub(super) fn complete(&self, trials: Vec<Trial>, targets: &[&Found]) -> Result<Vec<Trial>, OutOfTime> {
        let was_cut =
            |trial: &Trial| matches!(&trial.outcome, Err(failure) if failure.kind == FailureKind::TimedOut);
        let lacks = |found: &&Found| !trials.iter().any(|trial| trial.target == found.target.key);
        let is_whole = !trials.iter().any(was_cut) && !targets.iter().any(lacks);
        if is_whole || self.surroundings.is_cancelled() {
            Ok(trials)
        } else {
            self.room_for(Duration::ZERO).map(|()| trials)
        }
    }
}
