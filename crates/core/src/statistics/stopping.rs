//! When a trial has enough samples.
//!
//! Invariant: precision is looked at after a geometrically growing number of samples and at no other time, since
//! every look is one more chance to stop on an interval that is narrow by luck.

use serde::{Deserialize, Serialize};

use super::estimate_center;

/// Factor between the numbers of samples of two looks. At 1.5 a trial takes at most half more than it needs,
/// and a hundredfold trial is looked at twelve times.
const GROWTH: f64 = 1.5;
/// Factor by which the samples grow once more after a look that was precise.
const CONFIRMATION: f64 = 1.25;

/// To which precision the median of a trial is wanted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct StoppingRule {
    /// Half-width of the 95 % interval as a share of the median: 0.02 asks for ± 2 %.
    pub precision: f64,
    /// Samples before the first look. From the default of 64 on there is a p90 as well.
    pub least: usize,
    /// Samples after which it ends in any case.
    pub most: usize,
}

impl Default for StoppingRule {
    fn default() -> Self {
        Self { precision: 0.02, least: 64, most: 10_000 }
    }
}

/// What to do next in a trial.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step {
    /// Take so many samples more, then ask again.
    Take(usize),
    /// The trial is over.
    Stop(StopReason),
}

/// Why a trial is over.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum StopReason {
    /// The median was known to the precision, and a quarter more samples were taken.
    Precise {
        /// Half-width of the interval of all samples, as a share of the median.
        half_width: f64,
    },
    /// The most samples are taken, and the precision is not reached.
    SampleLimit {
        /// Half-width of the interval as a share of the median; absent where there is no interval.
        half_width: Option<f64>,
    },
}

/// The progress of one trial under a rule.
///
/// Stopping once the interval is narrow favours trials whose spread is underestimated, so coverage falls below
/// that of a fixed number of samples (Chow and Robbins, "On the Asymptotic Theory of Fixed-Width Sequential
/// Confidence Intervals", Annals of Mathematical Statistics 36, 1965). Three things keep the loss small: no look before
/// 64 samples, few looks after it, and a quarter more samples after the look that was precise, on which nothing
/// depends any more. A trial that is too short for its dependence is never precise. docs/methodology.md has the
/// simulated coverage. Stopping for another reason, such as a time budget, is unrelated to the interval and costs no
/// coverage.
#[derive(Clone, Debug)]
pub struct Stopping {
    rule: StoppingRule,
    next_look: usize,
    confirming: bool,
}

impl Stopping {
    /// Begins a trial.
    pub fn new(rule: StoppingRule) -> Self {
        Self { rule, next_look: rule.least.clamp(1, rule.most.max(1)), confirming: false }
    }

    /// What to do after `samples`, all of the trial in the order in which they were taken.
    ///
    /// Asking before the samples of the last [`Step::Take`] are there is no look and only repeats the rest of it.
    pub fn next(&mut self, samples: &[f64]) -> Step {
        let taken = samples.len();
        if taken < self.next_look {
            return Step::Take(self.next_look - taken);
        }
        let center = estimate_center(samples);
        let half_width = center.and_then(|center| {
            let half_width = center.interval?.relative_half_width(center.median);
            half_width.is_finite().then_some(half_width)
        });
        if let (true, Some(half_width)) = (self.confirming, half_width) {
            return Step::Stop(StopReason::Precise { half_width });
        }
        if taken >= self.rule.most {
            return Step::Stop(StopReason::SampleLimit { half_width });
        }
        let resolved = center.is_some_and(|center| !center.dependence.unresolved);
        self.confirming = resolved && half_width.is_some_and(|it| it <= self.rule.precision);
        let growth = if self.confirming { CONFIRMATION } else { GROWTH };
        self.next_look = ((taken as f64 * growth).ceil() as usize).max(taken + 1).min(self.rule.most);
        Step::Take(self.next_look - taken)
    }
}
