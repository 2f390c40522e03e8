//! What a campaign will measure and how long that takes, before it begins and while it runs.
//!
//! Invariant: a plan only reckons; what is measured depends on it through the shares of a budget alone.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::target::SessionSettings;
use siliconroute_core::{Case, TargetKey, Workload};

use crate::campaign::Sampling;
use crate::error::Error;
use crate::learn::Learned;
use crate::measure::{Job, Order, Share};
use crate::router::{Router, Targets};

/// What a campaign will measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The jobs, in their order.
    pub jobs: Vec<PlannedJob>,
}

/// A job with the time that it is expected to take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedJob {
    /// The case.
    pub case: String,
    /// The workload.
    pub workload: Workload,
    /// The targets.
    pub targets: Vec<TargetKey>,
    /// The time, in seconds.
    pub expected_s: f64,
    /// Whether every target's time was measured or predicted, and not guessed from the model's work.
    pub known: bool,
    /// What the job takes at least, each target sampled once.
    #[serde(skip)]
    pub least: Duration,
    /// What each target takes until it is warm.
    #[serde(skip)]
    pub begin: BTreeMap<TargetKey, Duration>,
}

impl Plan {
    /// The time that all jobs are expected to take.
    pub fn expected(&self) -> Duration {
        seconds(self.jobs.iter().map(|job| job.expected_s).sum())
    }

    /// What the jobs from `index` on are expected to take, corrected by how the ones before compared with what was
    /// expected of them.
    pub(crate) fn remaining(&self, index: usize, elapsed: Duration) -> Duration {
        let of = |jobs: &[PlannedJob]| jobs.iter().map(|job| job.expected_s).sum::<f64>();
        let (before, after) = self.jobs.split_at(index.min(self.jobs.len()));
        let pace = if of(before) > 0.0 { (elapsed.as_secs_f64() / of(before)).clamp(0.1, 10.0) } else { 1.0 };
        seconds(of(after) * pace)
    }

    /// The part of what is left of `budget` that the job at `index` may use; `None` when nothing is left.
    ///
    /// Each job's part goes by the time expected of it, so that time which one does not need goes to the others.
    pub(crate) fn share(&self, index: usize, elapsed: Duration, budget: Option<Duration>) -> Option<Share> {
        let Some(budget) = budget else { return Some(Share { until: None, time: None }) };
        let left = budget.checked_sub(elapsed).filter(|left| !left.is_zero())?;
        let rest: f64 = self.jobs[index..].iter().map(|job| job.expected_s).sum();
        let time = part_of(left, self.jobs[index].expected_s, rest);
        Some(Share { until: Some(elapsed + time), time: Some(time) })
    }
}

impl Router {
    /// Reckons what `jobs` will take, from what was measured before or else from the models' work.
    ///
    /// # Errors
    /// When the store fails.
    pub fn plan(&self, jobs: &[Job], targets: &Targets, order: &Order<'_>) -> Result<Plan, Error> {
        let learned = self.learn(targets)?;
        let jobs = jobs.iter().map(|job| planned(job, &learned, order.sampling)).collect();
        Ok(Plan { jobs })
    }
}

/// Operations per second that a target of which nothing is known is reckoned with: a laptop's CPU.
const GUESSED_FLOPS_PER_S: f64 = 2e10;

/// Time to create a session of which nothing is known.
const GUESSED_CREATION_S: f64 = 0.2;

/// Time to start a process and load a runtime library.
const PROCESS_S: f64 = 0.15;

pub(crate) fn planned(job: &Job, learned: &Learned, sampling: &Sampling) -> PlannedJob {
    let mut known = true;
    let calls: Vec<f64> = job
        .targets
        .iter()
        .map(|target| {
            known_time_s(&job.case, target, learned).unwrap_or_else(|| {
                known = false;
                job.case.facts.flops / GUESSED_FLOPS_PER_S
            })
        })
        .collect();
    let begins: Vec<f64> = job
        .targets
        .iter()
        .zip(&calls)
        .map(|(target, call)| {
            PROCESS_S + known_start_s(&job.case, target, learned).unwrap_or(GUESSED_CREATION_S + call)
        })
        .collect();
    let targets = calls.len() as f64;
    let rest_s: f64 = sampling.rests.iter().map(Duration::as_secs_f64).sum();
    // Before the first round targets take their places, evenly spread over the rest of each.
    let spreading_s = rest_s * (1.0 - 1.0 / targets.max(1.0));
    // The calls that go before a sample in its workload, and that one.
    let least_s = begins.iter().sum::<f64>()
        + match job.workload {
            Workload::Sustained => calls.iter().map(|call| call * 4.0).sum(),
            Workload::IdleLoaded => spreading_s + rest_s + calls.iter().map(|call| call * 8.0).sum::<f64>(),
            Workload::ColdStart => begins.iter().sum::<f64>() + targets * sampling.cold_rest.as_secs_f64(),
        };
    let expected_s = match job.workload {
        Workload::Sustained => calls.iter().map(|call| sustained_s(*call, sampling)).sum(),
        Workload::IdleLoaded => {
            let sessions = sampling.rests.len() as f64;
            let begin: f64 = calls.iter().map(|call| GUESSED_CREATION_S + warm_up_s(*call, sampling)).sum();
            let samples: f64 = calls.iter().map(|call| call * 4.0).sum();
            spreading_s + f64::from(sampling.repetitions) * (rest_s + sessions * samples) + sessions * begin
        }
        Workload::ColdStart => {
            let start: f64 = calls.iter().map(|call| PROCESS_S + GUESSED_CREATION_S + call * 2.0).sum();
            let rest = targets * sampling.cold_rest.as_secs_f64();
            sampling.cold_files.len() as f64 * (start + f64::from(sampling.repetitions) * (start + rest))
        }
    };
    PlannedJob {
        case: job.case.label(),
        workload: job.workload,
        targets: job.targets.clone(),
        expected_s,
        known,
        least: seconds(least_s),
        begin: job.targets.iter().cloned().zip(begins.into_iter().map(seconds)).collect(),
    }
}

fn warm_up_s(call_s: f64, sampling: &Sampling) -> f64 {
    sampling.warmup_time.as_secs_f64().max(call_s * sampling.warmup_calls as f64)
}

fn sustained_s(call_s: f64, sampling: &Sampling) -> f64 {
    let rounds = f64::from(sampling.rounds);
    let turn_s = sampling.cool_down.as_secs_f64() + 0.01_f64.max(2.0 * call_s);
    let samples_s = match sampling.fixed_iterations {
        Some(iterations) => f64::from(iterations) * call_s,
        None => {
            let least = f64::from(sampling.min_samples) * call_s.max(1e-3);
            (least + sampling.budget.as_secs_f64() / 2.0).min(sampling.hard_limit.as_secs_f64().max(call_s))
        }
    };
    let energy_s = sampling.energy.map_or(0.0, |windows| windows.total().as_secs_f64() + call_s);
    GUESSED_CREATION_S + warm_up_s(call_s, sampling) + rounds * turn_s + samples_s + energy_s
}

/// The time of one call as it was measured or predicted.
fn known_time_s(case: &Case, target: &TargetKey, learned: &Learned) -> Option<f64> {
    let (index, knowledge) = (index_of(target, learned)?, &learned.knowledge);
    if let Some(measured) = knowledge.estimate(case.id, index, Workload::Sustained) {
        return Some(measured.time_ns / 1e9);
    }
    let fit = knowledge.targets()[usize::from(index.0)].fits[Workload::Sustained.index()].as_ref()?;
    Some(fit.predict(&case.facts).time_ns / 1e9)
}

/// The time to make a session and run it once, as it was measured or predicted.
fn known_start_s(case: &Case, target: &TargetKey, learned: &Learned) -> Option<f64> {
    let start_ns = learned.knowledge.expected_ns(case, index_of(target, learned)?, Workload::ColdStart)?;
    Some(start_ns / 1e9)
}

/// Where knowledge has `target`, whatever its session settings.
fn index_of(target: &TargetKey, learned: &Learned) -> Option<TargetIndex> {
    let (base, _) = SessionSettings::split(target.as_str()).ok()?;
    learned.knowledge.find(&base)
}

/// The part of `left` that goes to what takes `own` of `rest`, in any unit; all of it where that cannot be reckoned.
pub(crate) fn part_of(left: Duration, own: f64, rest: f64) -> Duration {
    let part = own / rest;
    if part.is_finite() { left.mul_f64(part.clamp(0.0, 1.0)) } else { left }
}

/// So many seconds; the longest that a duration holds where they are more.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(expected_s: &[f64]) -> Plan {
        let job = |&expected_s: &f64| PlannedJob {
            case: String::new(),
            workload: Workload::Sustained,
            targets: Vec::new(),
            expected_s,
            known: true,
            least: Duration::ZERO,
            begin: BTreeMap::new(),
        };
        Plan { jobs: expected_s.iter().map(job).collect() }
    }

    #[test]
    fn shares_of_a_budget_go_by_what_is_expected() {
        let plan = plan(&[1.0, 3.0]);
        let share = |index, elapsed| plan.share(index, seconds(elapsed), Some(seconds(8.0)));
        assert_eq!(share(0, 0.0).unwrap().until, Some(seconds(2.0)));
        // What the first one left over goes to the second.
        assert_eq!(share(1, 0.5).unwrap().until, Some(seconds(8.0)));
        assert!(share(1, 8.0).is_none());
        assert_eq!(plan.share(1, seconds(99.0), None).unwrap().until, None);
    }

    #[test]
    fn a_part_that_cannot_be_reckoned_is_the_whole() {
        let second = seconds(1.0);
        for (own, rest, expected) in [
            (1.0, 4.0, seconds(0.25)),
            (0.0, 0.0, second),
            (f64::INFINITY, f64::INFINITY, second),
            (1.0, f64::INFINITY, Duration::ZERO),
            (f64::NAN, 1.0, second),
        ] {
            assert_eq!(part_of(second, own, rest), expected, "{own} of {rest}");
        }
        assert_eq!(seconds(f64::INFINITY), Duration::MAX);
    }

    #[test]
    fn the_remaining_time_follows_the_pace_so_far() {
        let plan = plan(&[1.0, 3.0]);
        assert_eq!(plan.remaining(0, Duration::ZERO), seconds(4.0));
        assert_eq!(plan.remaining(1, seconds(2.0)), seconds(6.0));
        assert_eq!(plan.remaining(2, seconds(4.0)), Duration::ZERO);
    }
}
