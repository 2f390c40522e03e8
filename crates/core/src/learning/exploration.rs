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
use crate::statistics::Draws;
use crate::workload::Workload;

/// Standard deviations below what is believed of a target that a draw is not thought to fall: once in 30,000 draws.
const FARTHEST_DRAW: f64 = 4.0;

/// What exploring may cost a decision, and the chance that it is left to; it is part of the context, so that a stored
/// decision can be made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// What is left of the share, in nanoseconds; nothing is explored where it is not positive.
    pub left_ns: f64,
    /// The seed of all draws.
    pub seed: u64,
    /// The number of this decision, so that each draws anew.
    pub draw: u64,
    /// Targets with a living session; `None` where all have one, or none needs it. Others cost their cold start too.
    pub open: Option<SmallVec<[TargetIndex; 8]>>,
    /// How many runs a visit takes.
    pub runs: u32,
    /// The target that is being looked at.
    pub held: Option<TargetIndex>,
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

/// The candidate to look at again instead of `best`, by Thompson's rule ("On the Likelihood that One Unknown Probability
/// Exceeds Another", Biometrika 25, 1933); `None` where none is worth its cost.
///
/// A time is drawn for each candidate from what is believed of it: log-normal, as wide as its 95 % interval. The candidate
/// with the least draw is taken, among those whose expected cost fits into what is left of the allowance: the mean of its
/// believed time less that of `best`, for as many runs as a visit takes, plus what `start_ns` says that it takes to get the
/// target going (`None`: that is not known, and the target is left alone). The budget comes before the draw so that one dear
/// and doubtful target does not hide a cheap one.
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
    let runs = f64::from(allowance.runs);
    let best_deviation = deviation(&believed);
    // A draw of the best one lies hardly ever beyond this.
    let reach = (FARTHEST_DRAW * best_deviation).exp() * believed.time_ns;
    let mut draws: Option<Draws> = None;
    let mut least: Option<(f64, TargetIndex, f64)> = None;
    for candidate in candidates {
        let Ok(outlook) = candidate.outlook else { continue };
        let target = candidate.target;
        // The median lies below the mean, so that what is over by it need not be reckoned out.
        let least_cost_ns = runs * (outlook.time_ns - believed.time_ns);
        if target == best || candidate.barred.is_some() || least_cost_ns > left_ns {
            continue;
        }
        let deviation = deviation(&outlook);
        if outlook.time_ns * (-FARTHEST_DRAW * deviation).exp() > reach {
            continue;
        }
        let Some(start_ns) = start_ns(target) else { continue };
        // The mean of a log-normal time, which lies above its median.
        let expected_ns = outlook.time_ns * (0.5 * deviation * deviation).exp();
        let cost_ns = runs * (expected_ns - believed.time_ns).max(0.0) + start_ns;
        if cost_ns > left_ns {
            continue;
        }
        let draws = draws.get_or_insert_with(|| {
            // A stride that shares no factor with the numbers of draws keeps their sequences apart.
            Draws::new(allowance.seed.wrapping_add(allowance.draw.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        });
        let drawn = outlook.time_ns.ln() + deviation * draws.normal();
        if least.is_none_or(|(time, ..)| drawn < time) {
            least = Some((drawn, target, cost_ns));
        }
    }
    let (drawn, target, expected_cost_ns) = least?;
    let of_best = believed.time_ns.ln() + best_deviation * draws?.normal();
    (drawn < of_best).then_some((target, Explored { instead_of: best, expected_cost_ns, left_ns }))
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

/// Keeps the account, numbers the decisions, and sees visits through to their end.
#[derive(Debug, Clone)]
pub struct Explorer {
    /// What was spent.
    pub account: Account,
    seed: u64,
    decisions: u64,
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
    /// Explores with `share` of all time, chance being drawn from `seed`.
    pub fn new(share: f64, seed: u64) -> Self {
        Self { account: Account::new(share), seed, decisions: 0, cases: HashMap::new() }
    }

    /// What the next decision on `case` may explore with.
    pub fn allow(
        &mut self,
        case: CaseId,
        workload: Workload,
        open: Option<SmallVec<[TargetIndex; 8]>>,
    ) -> Allowance {
        self.decisions += 1;
        let runs = if workload == Workload::Sustained { RUNS_OF_A_VISIT } else { 1 };
        let of_case = self.cases.get(&case);
        let own_ns = of_case
            .map_or(0.0, |it| it.account.left_ns() + LOAN_RUNS * it.account.total_ns / it.runs.max(1) as f64);
        let left_ns = self.account.left_ns().min(own_ns);
        let held = of_case.and_then(|it| it.held).map(|(target, _)| target);
        Allowance { left_ns, seed: self.seed, draw: self.decisions, open, runs, held }
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
