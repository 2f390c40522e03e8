//! One that knows the law of the machine but not what comes: what can be reached at best without foresight.
//!
//! Invariant: where times have wandered to it sees by its own runs alone, as the router does; all else of the present it is told.

use siliconroute_core::decide::{Candidate, Prediction, Source};
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::learning::{Explorer, explore};
use siliconroute_core::statistics::{Draws, Interval};
use siliconroute_core::{Case, Workload};

use super::machine::{DAY_NS, Machine};
use super::scenario::Plan;

/// What it believes of where the times of a target have wandered to, by a Kalman filter with the true variances.
#[derive(Clone, Copy, Default)]
struct Wandered {
    level: f64,
    variance: f64,
    seen_ns: f64,
}

/// It chooses by the same rules as the router, but knows from the beginning what every model takes on every target, how fast times
/// wander and how far runs scatter, and is told of load, heat, slow-downs and failures at once.
pub(super) struct Informed<'p> {
    plan: &'p Plan,
    targets: Vec<Wandered>,
    explorer: Explorer,
    draws: Draws,
    /// What it took last and how often in a row, by case.
    by: Vec<(usize, u32)>,
    /// When it ran each case on each target last.
    ran_ns: Vec<f64>,
}

impl<'p> Informed<'p> {
    pub(super) fn new(plan: &'p Plan, seed: u64) -> Self {
        Self {
            plan,
            targets: vec![Wandered::default(); plan.targets],
            explorer: Explorer::new(plan.share),
            draws: Draws::new(!seed),
            by: vec![(0, 0); plan.models],
            ran_ns: vec![f64::NEG_INFINITY; plan.models * plan.targets],
        }
    }

    /// The time that a run of `case`, the one at `at`, takes by its choice.
    pub(super) fn run(&mut self, machine: &Machine<'_>, at: usize, case: &Case) -> f64 {
        let targets = self.plan.targets;
        let (running, runs) = self.by[at];
        let ran_ns = &self.ran_ns[at * targets..][..targets];
        let workload = machine.workload_since(ran_ns[running]);
        let allowance = self.explorer.allow(case.id, workload, None);
        let believed = |target: usize, workload| {
            let wandered = &self.targets[target];
            let time_ns =
                machine.usual_ns(at, target, workload) * (wandered.level - machine.wander(target)).exp();
            (time_ns, self.variance(target, machine.now_ns).sqrt())
        };
        let waking_ns = |target: usize| {
            believed(target, Workload::IdleLoaded).0 - believed(target, Workload::Sustained).0
        };
        let candidate = |target: usize| {
            let (time_ns, deviation) = believed(target, workload);
            let half = (1.96 * deviation).exp();
            let interval = Interval { low: time_ns / half, high: time_ns * half };
            let source = Source::Served { runs: 1, strained: false };
            let waking = match workload {
                Workload::Sustained if target != running => waking_ns(target) / f64::from(runs.max(1)),
                _ => 0.0,
            };
            Candidate {
                target: TargetIndex(target as u16),
                outlook: Ok(Prediction { time_ns, interval, source }),
                energy: None,
                memory_bytes: None,
                load_watts: None,
                within_ns: None,
                spread: None,
                barred: machine.is_out(target).then_some(siliconroute_core::decide::Bar::Quarantined),
                score: Some(time_ns + waking),
            }
        };
        let candidates: Vec<Candidate<'_>> = (0..targets).map(candidate).collect();
        let open = candidates.iter().filter(|it| it.barred.is_none());
        let score = |it: &&Candidate<'_>| it.score.unwrap_or(f64::INFINITY);
        let best = open.min_by(|a, b| score(a).total_cmp(&score(b))).map_or(TargetIndex(0), |it| it.target);
        let start_ns = |target: TargetIndex| match workload {
            Workload::Sustained => Some(waking_ns(usize::from(target.0))),
            _ => Some(0.0),
        };
        let explored = explore(&candidates, best, &allowance, start_ns).filter(|_| !machine.on_battery);
        let chosen = explored.map_or(best, |(target, _)| target);
        let instead_of_ns = explored.map(|(_, explored)| {
            candidates[usize::from(explored.instead_of.0)].outlook.map_or(0.0, |it| it.time_ns)
        });
        let target = usize::from(chosen.0);
        let here = machine.workload_since(ran_ns[target]);
        let time_ns = machine.usual_ns(at, target, here);
        let goes_on = target == running && workload == Workload::Sustained;
        self.by[at] = (target, if goes_on { runs + 1 } else { 1 });
        self.ran_ns[at * targets + target] = machine.now_ns;
        self.learn(target, machine);
        self.explorer.spend(case.id, workload, Some(chosen), time_ns, instead_of_ns);
        time_ns
    }

    fn variance(&self, target: usize, now_ns: f64) -> f64 {
        let Wandered { variance, seen_ns, .. } = self.targets[target];
        variance + self.plan.wander_per_day.powi(2) * (now_ns - seen_ns) / DAY_NS
    }

    fn learn(&mut self, target: usize, machine: &Machine<'_>) {
        let variance = self.variance(target, machine.now_ns);
        let seen = machine.wander(target) + self.plan.scatter * self.draws.normal();
        let gain = variance / (variance + self.plan.scatter.powi(2));
        let level = self.targets[target].level;
        self.targets[target] = Wandered {
            level: level + gain * (seen - level),
            variance: (1.0 - gain) * variance,
            seen_ns: machine.now_ns,
        };
    }
}
