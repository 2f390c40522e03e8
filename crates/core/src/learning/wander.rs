//! How the times of all cases of one target wander together: a filter over the runs of all of them.
//!
//! Invariant: no run moves it further than the level of its own case; how fast times wander is learned and not set.

use super::belief::Belief;
use crate::identity::CaseId;
use crate::workload::Workload;

/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;

/// What a target's times may wander by in a day: the standard deviation of the log. Which it is, runs tell.
const RATES: [f64; 5] = [0.025, 0.05, 0.1, 0.2, 0.4];

/// A visit that lasts longer is followed by another one, so that what wanders meanwhile is shared out, too.
const VISIT_NS: u64 = 10_000_000_000;

/// Only a run of a case that rested as long as this tells how fast times wander.
pub(super) const TELLS_AFTER_NS: u64 = 10_000_000_000;

/// The share of runs that are taken for no sign of wandering: wild ones and sudden changes, which may lie anywhere.
const ELSEWHERE: f64 = 0.1;

/// What runs told of the rate fades by this with each that tells it: cases of one target see the same wandering, and a rate
/// need not stay.
const FADES: f64 = 0.98;

/// Standard deviation of the log time beyond which more wandering says no more.
const MOST: f64 = std::f64::consts::LN_2;

/// How likely each of [`RATES`] is.
pub(super) type Rates = [f64; RATES.len()];

/// Where the times of a target have wandered to since the start.
///
/// A random walk that all its cases follow. What moves the level of one case, while that is run, is shared out between the walk and
/// the case by what either may have been off by: a Kalman filter, whose robustness is that of the case's own level. Which rate the
/// walk has is found out as by Magill ("Optimal Adaptive Estimation of Sampled Stochastic Processes", IEEE Transactions on Automatic
/// Control 10, 1965): by how well each rate foretold the runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Wander {
    /// What all times have moved by, in log time.
    pub(super) level: f64,
    /// The variance that this had when a run was seen last.
    variance: f64,
    seen_ns: u64,
    /// Logarithms of how well each rate foretold what was seen.
    told: Rates,
    visit: Option<Visit>,
    /// What knowledge was off by for the cases that were run, weighed by the inverse of its variance, and the sum of the weights.
    off_by: (f64, f64),
}

/// Runs of one case in one workload, which tell where the target's times have wandered to.
#[derive(Debug, Clone, Copy)]
struct Visit {
    of: (CaseId, Workload),
    begun_ns: u64,
    /// What was believed before: where times have wandered to, with its variance.
    level: f64,
    variance: f64,
    /// The level of the case, and the variances of what it may have been off by itself and of what may have wandered since.
    case_level: f64,
    own: f64,
    wandered: f64,
    runs: f64,
}

/// What a run of a case that has rested was off by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surprise {
    /// In log time, from what was believed when the case ran last, wandering left out.
    pub(super) off_by: f64,
    /// How long ago that was.
    pub(super) unseen_ns: u64,
    /// Variance of what was believed, without wandering, and of runs.
    pub(super) variance: f64,
}

impl Wander {
    /// The variance of where times have wandered to by `now_ns`, at a rate of which `shared` is what all targets tell.
    pub(super) fn variance(&self, now_ns: u64, shared: &Rates) -> f64 {
        let unseen_ns = now_ns.saturating_sub(self.seen_ns) as f64;
        (self.variance + self.variance_per_day(shared) * unseen_ns / DAY_NS).min(MOST * MOST)
    }

    fn variance_per_day(&self, shared: &Rates) -> f64 {
        let likely = self.likely(shared);
        RATES.iter().zip(likely).map(|(rate, likely)| likely * rate * rate).sum()
    }

    /// How likely each rate is for this target.
    pub(super) fn likely(&self, shared: &Rates) -> Rates {
        let most = self.told.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Rates = std::array::from_fn(|at| shared[at] * (self.told[at] - most).exp());
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// The variance of what times may have wandered from `followed_ns` to `now_ns` beyond what is known of it.
    pub(super) fn unknown(&self, followed_ns: u64, now_ns: u64, shared: &Rates) -> f64 {
        let elapsed_ns = now_ns.saturating_sub(followed_ns) as f64;
        let wandered = self.variance_per_day(shared) * elapsed_ns / DAY_NS;
        wandered.min(self.variance(now_ns, shared))
    }

    /// Begins a visit by the case with `belief`, or goes on with the one under way.
    pub(super) fn visit(&mut self, of: (CaseId, Workload), belief: &mut Belief, now_ns: u64, shared: &Rates) {
        let goes_on = |visit: &Visit| visit.of == of && now_ns.saturating_sub(visit.begun_ns) < VISIT_NS;
        if self.visit.as_ref().is_some_and(goes_on) {
            belief.follow_from(None);
            return;
        }
        let (case_level, own, wandered, _) = belief.parts(now_ns);
        let variance = self.variance(now_ns, shared);
        self.visit = Some(Visit {
            of,
            begun_ns: now_ns,
            level: self.level,
            variance,
            case_level,
            own,
            wandered,
            runs: 0.0,
        });
        belief.follow_from(Some(now_ns));
    }

    /// Takes over what a run of the visit made of the case's level. One that `changed` by itself tells nothing.
    pub(super) fn learn(&mut self, belief: &mut Belief, changed: bool, now_ns: u64) {
        let Some(visit) = &mut self.visit else { return };
        visit.runs += 1.0;
        let (level, _, _, scatter) = belief.parts(now_ns);
        let Visit { own, wandered, .. } = *visit;
        self.seen_ns = self.seen_ns.max(now_ns);
        if changed {
            (self.level, self.variance, self.visit) = (visit.level, visit.variance, None);
        } else if wandered > 0.0 {
            self.level = visit.level + wandered / (wandered + own) * (level - visit.case_level);
            let told = wandered * wandered / (wandered + own + scatter / visit.runs);
            self.variance = (visit.variance - told).max(0.0);
        }
        belief.follows(self.level);
    }

    /// Takes over what knowledge was off by for a case, in place of what was believed of that before.
    pub(super) fn learn_offset(&mut self, before: Option<(f64, f64)>, now: Option<(f64, f64)>) {
        for (told, sign) in [(before, -1.0), (now, 1.0)] {
            let Some((off_by, weight)) = told else { continue };
            self.off_by.0 += sign * weight * off_by;
            self.off_by.1 += sign * weight;
        }
    }

    /// What all of knowledge is off by at `now_ns`, in log time, with its variance: it is told by the cases that were run, as far as
    /// times may have wandered at all.
    ///
    /// A case takes part of what its target wanders for its own; what all of them have taken is found here again.
    pub(super) fn offset(&self, now_ns: u64, shared: &Rates) -> (f64, f64) {
        let wandered = (self.variance_per_day(shared) * now_ns as f64 / DAY_NS).min(MOST * MOST);
        if wandered <= 0.0 {
            return (0.0, 0.0);
        }
        let variance = 1.0 / (self.off_by.1 + 1.0 / wandered);
        (variance * self.off_by.0, variance)
    }

    /// Takes over what a run tells of the rate.
    pub(super) fn learn_rate(&mut self, surprise: &Surprise) {
        let Surprise { off_by, unseen_ns, variance } = *surprise;
        let elsewhere = ELSEWHERE * density(off_by, 1.0);
        for (told, rate) in self.told.iter_mut().zip(RATES) {
            let wandered = rate * rate * unseen_ns as f64 / DAY_NS;
            let here = (1.0 - ELSEWHERE) * density(off_by, variance + wandered);
            *told = FADES * *told + (here + elsewhere).ln();
        }
    }
}

/// Of a normal distribution about 0, but for a factor that all have in common.
fn density(at: f64, variance: f64) -> f64 {
    (-0.5 * at * at / variance).exp() / variance.sqrt()
}

/// What is believed of the rates before any run: the usual one is 5 % a day.
pub(super) const USUAL_RATES: Rates = [0.2, 0.4, 0.2, 0.1, 0.1];

/// What all targets together tell of the rates, where `before` was believed of them until now: it is what is believed of one that was
/// hardly seen.
///
/// A step of the EM algorithm (Dempster, Laird and Rubin, Journal of the Royal Statistical Society B 39, 1977): a target that tells
/// nothing repeats what is believed, so that those that nobody runs do not outvote the others.
pub(super) fn shared<'w>(before: &Rates, targets: impl Iterator<Item = &'w Wander>) -> Rates {
    // The usual rates count as much as two targets.
    let mut sum = USUAL_RATES.map(|usual| 2.0 * usual);
    for target in targets {
        let likely = target.likely(before);
        sum.iter_mut().zip(likely).for_each(|(sum, likely)| *sum += likely);
    }
    let all: f64 = sum.iter().sum();
    sum.map(|it| it / all)
}

#[cfg(test)]
mod tests;
