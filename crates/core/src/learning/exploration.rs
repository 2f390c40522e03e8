//! Which target is worth a run though another one is believed to be faster.
//!
//! Invariant: no exploration begins unless what it is expected to cost, and all that exploring has cost, fits into its share
//! of the time spent.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::belief::log_deviation;
use crate::decide::{Candidate, Decision, Prediction, Source};
use crate::identity::CaseId;
use crate::knowledge::TargetIndex;
use crate::workload::Workload;

/// What a visit must be worth for each nanosecond that it is expected to cost.
///
/// What it is worth is reckoned as if the target now best were known and no other one were looked at later, both of which say too much,
/// and what one visit spends is missing for the next.
const LEAST_WORTH: f64 = 2.0;

/// Standard deviation of what the runs of a visit tell, in log time: two or three runs that scatter by a tenth.
const OF_A_VISIT: f64 = 0.07;

/// The least that a visit is reckoned to cost, in runs of the target that is best: being off by this much would not be noticed.
const LEAST_COST: f64 = 0.01;

/// Standard deviations by which a target must be better than believed, beyond which it is not thought to be.
const FARTHEST: f64 = 4.0;

/// What exploring may cost a decision, and what it may come to; it is part of the context, so that a stored decision can be made
/// again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// What is left of the share, in nanoseconds; nothing is explored where it is not positive.
    pub left_ns: f64,
    /// Targets with a living session; `None` where all have one, or none needs it. Others cost their cold start too.
    pub open: Option<SmallVec<[TargetIndex; 8]>>,
    /// How many runs a visit takes.
    pub runs: u32,
    /// The target that is being looked at.
    pub held: Option<TargetIndex>,
    /// Runs that the case is expected to get still, over which a better target pays; 0 in records from before visits were weighed.
    #[serde(default)]
    pub runs_ahead: f64,
}

/// An exploration: the target was chosen to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Explored {
    /// The target that would have been chosen.
    pub instead_of: TargetIndex,
    /// What the visit is expected to cost over that one, in nanoseconds; 0 where it began earlier.
    pub expected_cost_ns: f64,
    /// What was left of the share of time, in nanoseconds.
    pub left_ns: f64,
}

/// The candidate to look at again instead of `best`, by what a visit is worth for its cost; `None` where none is worth it, or the
/// one that is worth most does not fit into what is left of the allowance, so that this is saved for.
///
/// What a visit is worth is the expected improvement (Mockus, Tiesis and Zilinskas, "The Application of Bayesian Methods for Seeking
/// the Extremum", 1978), here for each nanosecond of its cost: by how much the target is expected to be faster than `best`, if it is,
/// by what a visit can tell, for each run that the case is expected to get still. Times are log-normal, as wide as their 95 % intervals.
/// The cost is the mean of the believed time less that of `best`, for as many runs as a visit takes, plus what `start_ns` says that it
/// takes to get the target going (`None`: that is not known, and the target is left alone). Nothing is left to chance.
pub fn explore(
    candidates: &[Candidate<'_>],
    best: TargetIndex,
    allowance: &Allowance,
    start_ns: impl Fn(TargetIndex) -> Option<f64>,
) -> Option<(TargetIndex, Explored)> {
    let left_ns = allowance.left_ns;
    if left_ns.is_nan() || left_ns <= 0.0 {
        return None;
    }
    let believed = candidates.get(usize::from(best.0))?.outlook.ok()?;
    if let Some(held) = allowance.held {
        let held =
            candidates.get(usize::from(held.0)).filter(|it| it.barred.is_none() && it.outlook.is_ok())?;
        let explored = Explored { instead_of: best, expected_cost_ns: 0.0, left_ns };
        return (held.target != best).then_some((held.target, explored));
    }
    let mut most: Option<(f64, TargetIndex, f64)> = None;
    for candidate in candidates {
        let Ok(outlook) = candidate.outlook else { continue };
        let target = candidate.target;
        if target == best || candidate.barred.is_some() {
            continue;
        }
        let deviation = deviation(&outlook);
        let told = deviation * deviation / deviation.hypot(OF_A_VISIT);
        let Some(saving_ns) = expected_saving_ns(believed.time_ns, outlook.time_ns, told) else { continue };
        let Some(start_ns) = start_ns(target) else { continue };
        // The mean of a log-normal time, which lies above its median.
        let expected_ns = outlook.time_ns * (0.5 * deviation * deviation).exp();
        let cost_ns = f64::from(allowance.runs) * (expected_ns - believed.time_ns).max(0.0) + start_ns;
        let worth = allowance.runs_ahead * saving_ns / cost_ns.max(LEAST_COST * believed.time_ns);
        if worth >= LEAST_WORTH && most.is_none_or(|(most, ..)| worth > most) {
            most = Some((worth, target, cost_ns));
        }
    }
    let (_, target, expected_cost_ns) = most?;
    (expected_cost_ns <= left_ns)
        .then_some((target, Explored { instead_of: best, expected_cost_ns, left_ns }))
}

/// What a run is expected to save where the faster of two targets is taken rather than the one that takes `best_ns`; the other takes a
/// log-normal time with the median `time_ns` and a standard deviation of `told` in log time. `None` where that is as good as nothing.
///
/// It is `E[max(best_ns - T, 0)]`, the price of an option to sell (Black and Scholes, Journal of Political Economy 81, 1973).
fn expected_saving_ns(best_ns: f64, time_ns: f64, told: f64) -> Option<f64> {
    let away = (time_ns / best_ns).ln() / told;
    if away.is_nan() || away > FARTHEST {
        return None;
    }
    let mean_ns = time_ns * (0.5 * told * told).exp();
    Some((best_ns * normal_beyond(away) - mean_ns * normal_beyond(away + told)).max(0.0))
}

/// The chance that a standard normal number lies beyond `z`, to within 7.5e-8 (Abramowitz and Stegun, "Handbook of Mathematical
/// Functions", 26.2.17).
fn normal_beyond(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = sum * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// Standard deviation of the log time that is believed.
fn deviation(prediction: &Prediction) -> f64 {
    match prediction.source {
        Source::Served { .. } => (prediction.interval.high / prediction.interval.low).ln() / (2.0 * 1.96),
        _ => log_deviation(prediction.interval),
    }
}

/// What was spent, and what of it may go into exploring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The share of all time that exploring may cost.
    pub share: f64,
    /// The time of all runs, in nanoseconds.
    pub total_ns: f64,
    /// What exploring cost over the targets that were believed to be the best, in nanoseconds.
    pub explored_ns: f64,
    /// Runs that explored.
    pub explorations: u64,
}

impl Account {
    /// An account of which `share` of all time may be spent on exploring.
    pub fn new(share: f64) -> Self {
        Self { share, total_ns: 0.0, explored_ns: 0.0, explorations: 0 }
    }

    /// What is left for exploring, in nanoseconds; negative where an exploration cost more than was expected.
    pub fn left_ns(&self) -> f64 {
        self.share * self.total_ns - self.explored_ns
    }

    /// Takes over a run of `time_ns`; one that explored says what the best target was believed to take.
    ///
    /// A run that explored and was faster than that costs nothing, and earns nothing.
    pub fn spend(&mut self, time_ns: f64, instead_of_ns: Option<f64>) {
        self.total_ns += time_ns;
        if let Some(believed_ns) = instead_of_ns {
            self.explored_ns += (time_ns - believed_ns).max(0.0);
            self.explorations += 1;
        }
    }
}

/// Keeps the account, and sees visits through to their end.
#[derive(Debug, Clone)]
pub struct Explorer {
    /// What was spent.
    pub account: Account,
    cases: HashMap<CaseId, CaseAccount>,
}

/// What one case spent, so that what exploring costs is not laid on those that take the least of the time.
#[derive(Debug, Clone, Copy)]
struct CaseAccount {
    account: Account,
    runs: u64,
    /// The target of a visit under way, and the runs that are left.
    held: Option<(TargetIndex, u32)>,
}

/// Runs of a visit in the sustained workload: the first finds the target at rest and belongs to another workload.
const RUNS_OF_A_VISIT: u32 = 3;

/// What a case may spend ahead of its share, in runs of its own: a case that is new has most to gain.
const LOAN_RUNS: f64 = 1.0;

impl Explorer {
    /// Explores with `share` of all time.
    pub fn new(share: f64) -> Self {
        Self { account: Account::new(share), cases: HashMap::new() }
    }

    /// What the next decision on `case` may explore with.
    ///
    /// A case is expected to get as many runs still as it has had: so half of all do, whatever their number is (Gott, "Implications of
    /// the Copernican principle for our future prospects", Nature 363, 1993).
    pub fn allow(
        &self,
        case: CaseId,
        workload: Workload,
        open: Option<SmallVec<[TargetIndex; 8]>>,
    ) -> Allowance {
        let runs = if workload == Workload::Sustained { RUNS_OF_A_VISIT } else { 1 };
        let of_case = self.cases.get(&case);
        let own_ns = of_case
            .map_or(0.0, |it| it.account.left_ns() + LOAN_RUNS * it.account.total_ns / it.runs.max(1) as f64);
        let left_ns = self.account.left_ns().min(own_ns);
        let held = of_case.and_then(|it| it.held).map(|(target, _)| target);
        let runs_ahead = of_case.map_or(0, |it| it.runs) as f64;
        Allowance { left_ns, open, runs, held, runs_ahead }
    }

    /// Takes over a run of `case` that took `time_ns` after `decision`, whatever target answered it in the end.
    pub fn ran(&mut self, case: CaseId, workload: Workload, decision: &Decision<'_>, time_ns: f64) {
        let instead_of_ns = decision.exploration.map(|explored| {
            decision.prediction(explored.instead_of).map_or(time_ns, |prediction| prediction.time_ns)
        });
        self.spend(case, workload, decision.chosen, time_ns, instead_of_ns);
    }

    /// Takes over a run of `case` on `target`; one that explored says what the best target was believed to take.
    pub fn spend(
        &mut self,
        case: CaseId,
        workload: Workload,
        target: Option<TargetIndex>,
        time_ns: f64,
        instead_of_ns: Option<f64>,
    ) {
        let share = self.account.share;
        let new = || CaseAccount { account: Account::new(share), runs: 0, held: None };
        let of_case = self.cases.entry(case).or_insert_with(new);
        of_case.account.spend(time_ns, instead_of_ns);
        of_case.runs += 1;
        self.account.spend(time_ns, instead_of_ns);
        let left = match (of_case.held, workload) {
            (Some((_, left)), _) => left - 1,
            (None, Workload::Sustained) => RUNS_OF_A_VISIT - 1,
            (None, _) => 0,
        };
        of_case.held = target.filter(|_| instead_of_ns.is_some() && left > 0).map(|target| (target, left));
    }
}

#[cfg(test)]
mod tests;
