//! What is known over all cases: changes of a target, changes of the whole machine, strain, and how times wander.
//!
//! Invariant: what is believed of a time is moved by all that happened since it was seen, and by each of it once.

use smallvec::SmallVec;

use super::belief::{Belief, log_deviation};
use super::live::Run;
use super::wander::{self, Rates, Surprise, Wander};
use crate::decide::Prediction;
use crate::identity::CaseId;
use crate::knowledge::Knowledge;
use crate::statistics::Interval;

/// Changes of one target, or of the whole machine, that are told apart.
const MOST_UPHEAVALS: usize = 4;

/// Standard deviation, in log time, of what a change of the whole machine does to all targets, and to each beyond that; and of
/// what a change of a target does to all cases, and to each beyond that.
const COMMON: f64 = 0.5;
const OWN_SHARE: f64 = 0.1;

/// What is known of a target over all cases.
#[derive(Debug, Clone, Default)]
pub(super) struct TargetState {
    /// When something that its times rest on was changed last.
    pub(super) doubted_ns: Option<u64>,
    /// The case that changed last.
    pub(super) changed: Option<ChangedCase>,
    /// Changes that several cases have shown, oldest first.
    pub(super) upheavals: Upheavals,
    /// Under strain: the mean log ratio to the usual time, and the runs that it comes from.
    pub(super) strain: (f64, u64),
    /// Where its times have wandered to.
    pub(super) wander: Wander,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedCase {
    pub(super) case: CaseId,
    pub(super) at_ns: u64,
    /// By how much, in log time.
    pub(super) shift: f64,
}

/// A change of a target or of the whole machine, and what it did to the times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upheaval {
    pub(super) at_ns: u64,
    /// The mean of what runs since have been off by, in log time, and their number.
    pub(super) shift: f64,
    pub(super) runs: u64,
}

/// Changes, oldest first, of which only so many are told apart.
#[derive(Debug, Clone, Default)]
pub(super) struct Upheavals(SmallVec<[Upheaval; MOST_UPHEAVALS]>);

impl Upheavals {
    pub(super) fn push(&mut self, upheaval: Upheaval) {
        if self.0.len() == MOST_UPHEAVALS {
            // Times from before the two are then believed to have moved by both at the later one.
            let oldest = self.0.remove(0);
            self.0[0].shift += oldest.shift;
        }
        self.0.push(upheaval);
    }

    /// By how much times have moved since `seen_ns`, in log time, and the variance of what that may be off by.
    fn since(&self, seen_ns: u64) -> (f64, f64) {
        let later = self.0.iter().filter(|it| seen_ns < it.at_ns);
        later.fold((0.0, 0.0), |(shift, variance), it| {
            // Before any run has told it, the common part of the change is as open as a target's own.
            let own = OWN_SHARE * OWN_SHARE + COMMON * COMMON / (1 + it.runs) as f64;
            (shift + it.shift, variance + own)
        })
    }

    /// Takes over what a run after the last change says of it: it was off by `off_by` in log time from what was believed at
    /// `seen_ns`.
    fn learn(&mut self, seen_ns: u64, off_by: f64) {
        let Some((last, earlier)) = self.0.split_last_mut() else { return };
        if seen_ns == 0 || seen_ns >= last.at_ns {
            return;
        }
        let known: f64 = earlier.iter().filter(|it| seen_ns < it.at_ns).map(|it| it.shift).sum();
        last.runs += 1;
        last.shift += ((off_by - known).clamp(-2.0, 2.0) - last.shift) / last.runs as f64;
    }
}

/// What is known over all cases.
#[derive(Debug, Clone)]
pub(super) struct OverCases {
    pub(super) targets: Box<[TargetState]>,
    /// Changes of the whole machine, oldest first.
    pub(super) upheavals: Upheavals,
    /// What all targets tell of how fast times wander.
    pub(super) rates: Rates,
    /// The time of the latest run or look.
    pub(super) now_ns: u64,
}

impl OverCases {
    pub(super) fn new(targets: usize) -> Self {
        Self {
            targets: vec![TargetState::default(); targets].into(),
            upheavals: Upheavals::default(),
            rates: wander::USUAL_RATES,
            now_ns: 0,
        }
    }

    /// What is believed before the first run counts.
    pub(super) fn first_belief(&self, target: usize, knowledge: &Knowledge, run: &Run<'_>) -> Option<Belief> {
        let wander = &self.targets[target].wander;
        let measured = knowledge.estimate(run.case.id, run.target, run.workload);
        let known = match measured {
            Some(estimate) => Some((estimate.time_ns, estimate.interval)),
            None => {
                let predicted = knowledge.predicted(run.case, run.target, run.workload);
                predicted.map(|predicted| (predicted.time_ns, predicted.interval))
            }
        };
        let of_known = |(time_ns, interval): (f64, Interval)| {
            let (offset, variance) = wander.offset(run.at_ns, &self.rates);
            let half = (1.96 * log_deviation(interval).hypot(variance.sqrt())).exp();
            let moved_ns = time_ns * offset.exp();
            let moved = Interval { low: moved_ns / half, high: moved_ns * half };
            // Knowledge is of the start: whatever has happened since concerns it, too.
            let mut belief = Belief::from_prediction(moved_ns, moved, 0)?;
            belief.known_as(time_ns, interval);
            Some(belief)
        };
        known.and_then(of_known).or_else(|| {
            let mut belief = Belief::from_run(run.time_ns, run.at_ns)?;
            belief.follows(wander.level);
            Some(belief)
        })
    }

    /// What is believed at `now_ns` of what was believed when `belief` was seen last.
    pub(super) fn now(&self, target: usize, belief: &Belief, now_ns: u64) -> Belief {
        let mut now = belief.clone();
        let (shift, deviation) = self.since(target, belief.seen_ns());
        if deviation > 0.0 {
            now.moved(shift, deviation);
        }
        let wander = &self.targets[target].wander;
        now.wandered(wander.level, wander.unknown(belief.followed_ns(), now_ns, &self.rates));
        now
    }

    /// Takes over what a run at `now_ns` says of how fast the target's times wander: `before` was believed when the case ran last, and
    /// the run was off by `off_by` in log time from that.
    pub(super) fn learn_rate(&mut self, target: usize, before: &Belief, off_by: f64, now_ns: u64) {
        let unseen_ns = now_ns.saturating_sub(before.seen_ns());
        let undisturbed = self.since(target, before.seen_ns()).1 <= 0.0;
        if before.runs() == 0 || unseen_ns < wander::TELLS_AFTER_NS || !undisturbed {
            return;
        }
        let (_, own, _, scatter) = before.parts(now_ns);
        self.targets[target].wander.learn_rate(&Surprise { off_by, unseen_ns, variance: own + scatter });
        self.rates = wander::shared(&self.rates, self.targets.iter().map(|state| &state.wander));
    }

    /// By how much times of `target` have moved since `seen_ns`, in log time, beside wandering, and how far that may be off.
    fn since(&self, target: usize, seen_ns: u64) -> (f64, f64) {
        let doubted = self.targets[target].doubted_ns.is_some_and(|doubted_ns| seen_ns < doubted_ns);
        let doubt = if doubted { std::f64::consts::LN_2.powi(2) } else { 0.0 };
        let [(all, all_off), (own, own_off)] =
            [self.upheavals.since(seen_ns), self.targets[target].upheavals.since(seen_ns)];
        (all + own, (doubt + all_off + own_off).sqrt())
    }

    /// Takes over what a run after an upheaval says of it: it was off by `off_by` in log time from what was believed at `seen_ns`.
    pub(super) fn learn_upheaval(&mut self, target: usize, seen_ns: u64, off_by: f64) {
        let own = &mut self.targets[target].upheavals;
        let (all, of_target) = (self.upheavals.since(seen_ns).0, own.since(seen_ns).0);
        self.upheavals.learn(seen_ns, off_by - of_target);
        own.learn(seen_ns, off_by - all);
    }

    /// What knowledge says, moved and believed less, as things are at the latest run.
    pub(super) fn doubted(&self, target: usize, known: Prediction) -> Prediction {
        let Some(state) = self.targets.get(target) else { return known };
        let (offset, variance) = state.wander.offset(self.now_ns, &self.rates);
        let (shift, deviation) = self.since(target, 0);
        // Where no case has told of the target, both speak of the same wandering.
        let variance = variance.max(state.wander.variance(self.now_ns, &self.rates));
        let off_by = deviation.hypot(variance.sqrt());
        if off_by <= 0.0 {
            return known;
        }
        let width = log_deviation(known.interval);
        let half = (1.96 * off_by.hypot(width)).exp();
        let time_ns = known.time_ns * (shift + state.wander.level + offset).exp();
        Prediction { time_ns, interval: Interval { low: time_ns / half, high: time_ns * half }, ..known }
    }
}

pub(super) fn strain(state: &TargetState) -> Option<f64> {
    let (mean, runs) = state.strain;
    // Fewer runs may have been slow by chance.
    (runs >= 3).then(|| mean.exp())
}
