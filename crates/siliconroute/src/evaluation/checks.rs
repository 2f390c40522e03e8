//! What an evaluation came to: the checked decisions, and those that were not checked with the reason.
//!
//! Invariant: of what was asked, every decision is checked, not checked with a reason, or behind the user's wish to stop.

use std::time::Duration;

use serde::Serialize;
use siliconroute_core::Workload;

use super::asking::Asked;
use super::{CheckedDecision, Evaluation};
use crate::error::{Error, ErrorKind};

/// The decisions of an evaluation.
#[derive(Debug, Default)]
pub struct Checks {
    /// How many were asked.
    pub asked: usize,
    /// Those that were checked.
    pub decisions: Vec<CheckedDecision>,
    /// Those that were not, until the user stopped.
    pub not_checked: Vec<NotChecked>,
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether a decision was not checked for another reason than the budget.
    pub(super) unmeasured: bool,
}

/// A decision that was not checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotChecked {
    /// The model.
    pub model: String,
    /// The batch size.
    pub batch: u64,
    /// The workload.
    pub workload: Workload,
    /// Why.
    pub reason: String,
}

/// Why a decision is not checked.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum Unchecked {
    #[error("it takes at least about {:.1} s, and {:.1} s of the budget are left", .least.as_secs_f64(), .left.as_secs_f64())]
    NoRoom { least: Duration, left: Duration },
    #[error("the budget ended before every target had its turn")]
    CutOff,
    #[error("the budget left room for one sample of a target, which tells nothing of how far it may be off")]
    OneSample,
    #[error("nothing was measured")]
    NotMeasured,
}

impl Checks {
    pub(super) fn leave_out(&mut self, asked: &Asked, reason: Unchecked) {
        let Asked { question, workload } = asked;
        let (model, batch) = (question.model.name.clone(), question.case.facts.batch);
        self.unmeasured |= matches!(reason, Unchecked::NotMeasured);
        let reason = reason.to_string();
        self.not_checked.push(NotChecked { model, batch, workload: *workload, reason });
    }

    /// One sentence for each decision that was not checked.
    pub(super) fn notices(&self) -> Vec<String> {
        let tell = |it: &NotChecked| {
            format!("{} batch {} {}: not checked, since {}", it.model, it.batch, it.workload, it.reason)
        };
        self.not_checked.iter().map(tell).collect()
    }

    /// The failure that this is; `None` where decisions were checked and the user let it end.
    pub fn failure(&self) -> Option<Error> {
        if self.interrupted {
            return Some(Error::Interrupted);
        }
        let nothing = self.asked > 0 && self.decisions.is_empty();
        let (why, advice) = if self.unmeasured {
            (
                "nothing could be measured",
                "the notices above say why; `siliconroute doctor` shows what is wrong with a target",
            )
        } else {
            (
                "the budget has no room for any",
                "give more seconds with --budget, or smaller models with --model, or one --workload",
            )
        };
        nothing.then(|| Error::Finding {
            kind: ErrorKind::WorkFailed,
            message: format!("no decision could be checked, since {why}"),
            advice: Some(advice.to_owned()),
        })
    }

    /// The sum of it, with the time that it took and was given.
    pub fn evaluation(self, budget: Option<Duration>) -> Evaluation {
        let (not_checked, interrupted) = (self.not_checked, self.interrupted);
        let elapsed_s = Some(self.elapsed.as_secs_f64());
        let budget_s = budget.map(|budget| budget.as_secs_f64());
        Evaluation { not_checked, interrupted, elapsed_s, budget_s, ..Evaluation::of(self.decisions) }
    }
}
