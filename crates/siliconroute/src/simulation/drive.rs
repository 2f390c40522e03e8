//! Lets the router decide, learn and explore on a simulated machine.
//!
//! Invariant: decisions see what a router on a real machine would see, and never what the machine keeps to itself.

use std::sync::Arc;
use std::time::Instant;

use siliconroute_core::decide::{Context, Limits, Query, Rules, Running, decide, decide_live};
use siliconroute_core::knowledge::{Knowledge, TargetIndex};
use siliconroute_core::learning::{Explorer, Live, Run};
use siliconroute_core::{AccuracyClass, Goal, Workload};

use super::informed::Informed;
use super::machine::{Machine, SECOND_NS};
use super::scenario::{Plan, Scenario};
use super::tally::{Figures, Parts, Phase, Reaction};
use crate::quarantine::{Quarantine, Streaks};

const NIGHT_NS: f64 = 8.0 * 3_600.0 * SECOND_NS;
/// The pause between runs of one burst.
const BREATH_NS: f64 = 1e6;

/// A model that ran on the target that became slow.
struct Watch {
    /// What its runs on it were believed to take then.
    believed_ns: f64,
    runs: f64,
    noticed: bool,
}

/// It knows what every target needs now, though not what will be asked next, and wakes another target up by the same rule as
/// the router.
struct Oracle {
    /// What it took last and how often in a row, by case.
    by: Vec<(usize, u32)>,
    /// When it took each target last, by case and target.
    ran_ns: Vec<f64>,
}

impl Oracle {
    fn new(plan: &Plan) -> Self {
        Self { by: vec![(0, 0); plan.models], ran_ns: vec![f64::NEG_INFINITY; plan.models * plan.targets] }
    }

    /// The time of the target that it takes for the case `at`, among those that are not `left_out`.
    fn ask(&mut self, machine: &Machine<'_>, at: usize, left_out: &[usize]) -> f64 {
        let targets = self.ran_ns.len() / self.by.len();
        let ran_ns = &mut self.ran_ns[at * targets..][..targets];
        let (running, runs) = self.by[at];
        let workload = machine.workload_since(ran_ns[running]);
        let cost_ns = |target: usize| {
            let time_ns = machine.usual_ns(at, target, workload);
            match workload {
                Workload::Sustained if target != running => {
                    let rested_ns = machine.usual_ns(at, target, Workload::IdleLoaded);
                    time_ns + (rested_ns - time_ns) / f64::from(runs.max(1))
                }
                _ => time_ns,
            }
        };
        let may = |target: &usize| !machine.is_out(*target) && !left_out.contains(target);
        let best = (0..targets).filter(may).min_by(|&a, &b| cost_ns(a).total_cmp(&cost_ns(b))).unwrap_or(0);
        let time_ns = machine.usual_ns(at, best, machine.workload_since(ran_ns[best]));
        ran_ns[best] = machine.now_ns;
        let goes_on = best == running && workload == Workload::Sustained;
        self.by[at] = (best, if goes_on { runs + 1 } else { 1 });
        time_ns
    }
}

/// The clock of the rule on failures.
fn unix_ms(now_ns: f64) -> i64 {
    (now_ns / 1e6) as i64
}

struct Drive<'p> {
    plan: &'p Plan,
    machine: Machine<'p>,
    knowledge: Arc<Knowledge>,
    live: Live,
    explorer: Explorer,
    /// Failures in a row.
    failures: Streaks,
    /// By case: the target that answered last, and how often it was run.
    answered_by: Vec<usize>,
    runs_of: Vec<u64>,
    answers: Vec<u64>,
    oracle: Oracle,
    /// One that leaves out what the router has to leave out.
    oracle_without: Oracle,
    informed: Informed<'p>,
    informed_later: Phase,
    slow: Option<(usize, Vec<Option<Watch>>)>,
    reactions: Vec<f64>,
    all: Phase,
    phases: [Phase; 3],
    parts: Parts,
    without_learning: Phase,
    /// Runs of `answered_by` since it rested, by case.
    in_a_row: Vec<u32>,
    /// What the router that does not learn chose last, and how often in a row.
    frozen_by: Vec<Option<(TargetIndex, u32)>>,
    /// When the router that does not learn chose each target last, by case and target.
    frozen_ran_ns: Vec<f64>,
    /// By target: the time of all runs on it.
    fixed_ns: Vec<f64>,
    explored_ns: f64,
    explored_on_battery: u64,
    changes: u64,
}

/// Goes through a plan and counts what came of it; `None` where `stop` said so before its end.
pub fn simulate(scenario: Scenario, plan: &Plan, seed: u64, stop: &dyn Fn() -> bool) -> Option<Figures> {
    let mut drive = Drive::new(plan, seed);
    let start = Instant::now();
    let mut case = 0;
    for run in 0..plan.runs {
        if stop() {
            return None;
        }
        if run % plan.burst == 0 {
            drive.machine.pause(plan.pause_s * SECOND_NS);
            case = drive.machine.any_case();
        } else {
            drive.machine.pause(BREATH_NS);
        }
        if plan.night_every.is_some_and(|every| run % every == every - 1) {
            drive.machine.now_ns += NIGHT_NS;
        }
        if let (Some(factor), true) = (plan.slow_down, run == plan.runs / 2) {
            drive.slow_down(factor);
        }
        drive.request(case);
    }
    let elapsed_s = start.elapsed().as_secs_f64();
    Some(drive.figures(scenario, elapsed_s))
}

impl<'p> Drive<'p> {
    fn new(plan: &'p Plan, seed: u64) -> Self {
        let mut machine = Machine::new(plan, seed);
        let knowledge = Arc::new(machine.knowledge());
        Self {
            plan,
            knowledge,
            machine,
            live: Live::new(plan.targets),
            explorer: Explorer::new(plan.share),
            failures: Streaks::default(),
            answered_by: vec![0; plan.models],
            runs_of: vec![0; plan.models],
            answers: vec![0; plan.targets],
            oracle: Oracle::new(plan),
            oracle_without: Oracle::new(plan),
            informed: Informed::new(plan, seed),
            informed_later: Phase::default(),
            slow: None,
            reactions: Vec::new(),
            all: Phase::default(),
            phases: [Phase::default(); 3],
            parts: Parts::default(),
            without_learning: Phase::default(),
            in_a_row: vec![0; plan.models],
            frozen_by: vec![None; plan.models],
            frozen_ran_ns: vec![f64::NEG_INFINITY; plan.models * plan.targets],
            fixed_ns: vec![0.0; plan.targets],
            explored_ns: 0.0,
            explored_on_battery: 0,
            changes: 0,
        }
    }

    fn request(&mut self, at: usize) {
        let now_ns = self.machine.now_ns;
        if self.machine.catch_up() {
            self.live.doubt_all(now_ns as u64);
        }
        let left_out = |target: &usize| {
            let streak = self.failures.get(&self.machine.keys[*target]);
            streak.is_some_and(|streak| Quarantine::USUAL.holds(streak, unix_ms(now_ns)))
        };
        let quarantined: Vec<usize> = (0..self.plan.targets).filter(left_out).collect();
        let (knowledge, cases) = (Arc::clone(&self.knowledge), Arc::clone(&self.machine.cases));
        let case = &cases[at];
        let workload = self.machine.workload(at, self.answered_by[at]);
        let query = Query {
            case,
            workload,
            goal: Goal::Fastest,
            accuracy: AccuracyClass::Standard,
            limits: Limits::default(),
            rules: &Rules::USUAL,
        };
        let blind = self.machine.context(&quarantined);
        let exploration = Some(self.explorer.allow(case.id, workload, None));
        let running = match workload {
            Workload::Sustained => {
                let target = TargetIndex(self.answered_by[at] as u16);
                Some(Running { target, runs: self.in_a_row[at] })
            }
            _ => None,
        };
        let context = Context { running, exploration, ..blind };
        self.live.age(case.id, now_ns as u64);
        let decision = decide_live(&knowledge, Some(&self.live), &query, &context);
        let times: Vec<f64> =
            (0..self.plan.targets).map(|target| self.machine.usual_ns(at, target, workload)).collect();
        let oracle_ns = self.oracle.ask(&self.machine, at, &[]);
        let without_ns = self.oracle_without.ask(&self.machine, at, &quarantined);
        let informed_ns = self.informed.run(&self.machine, at, case);
        for (sum, time) in self.fixed_ns.iter_mut().zip(&times) {
            *sum += time;
        }
        if self.plan.compare {
            let running = self.frozen_by[at].filter(|&(target, _)| {
                let last_ns = self.frozen_ran_ns[at * self.plan.targets + usize::from(target.0)];
                self.machine.workload_since(last_ns) == Workload::Sustained
            });
            let running = running.map(|(target, runs)| Running { target, runs });
            let context = Context { exploration: None, running, ..context.clone() };
            let frozen = decide(&knowledge, &query, &context).chosen;
            if let Some(target) = frozen {
                let before = self.frozen_by[at].filter(|(it, _)| *it == target && running.is_some());
                self.frozen_by[at] = Some((target, before.map_or(1, |(_, runs)| runs + 1)));
                let target = usize::from(target.0);
                let last_ns = &mut self.frozen_ran_ns[at * self.plan.targets + target];
                let workload = self.machine.workload_since(*last_ns);
                *last_ns = now_ns;
                self.without_learning.note(self.machine.usual_ns(at, target, workload), oracle_ns);
            }
        }
        let here_ns = |target: usize| {
            let workload = self.machine.workload(at, target);
            self.machine.usual_ns(at, target, workload)
        };
        let chosen_ns = decision.chosen.map_or(0.0, |target| here_ns(usize::from(target.0)));
        let instead_of = decision.exploration.map(|explored| usize::from(explored.instead_of.0));
        let exploring_ns = instead_of.map_or(0.0, |target| chosen_ns - here_ns(target));
        let (mut spent_ns, mut true_ns) = (0.0, 0.0);
        for target in decision.order() {
            let index = usize::from(target.0);
            let workload = self.machine.workload(at, index);
            true_ns += self.machine.usual_ns(at, index, workload);
            let fails = self.machine.fails(index);
            let time_ns = self.machine.run(at, index);
            if fails {
                spent_ns += time_ns;
                let at_ms = unix_ms(self.machine.now_ns);
                self.failures.failed(&self.machine.keys[index], at_ms, &Quarantine::USUAL);
                continue;
            }
            self.failures.answered(&self.machine.keys[index]);
            let at_ns = self.machine.now_ns as u64;
            let strained = context.strains(knowledge.target(target), query.rules);
            let run = Run { target, case, workload, time_ns, at_ns, strained };
            let noticed = self.live.observe(&knowledge, &run);
            spent_ns += self.live.usual_at_most(&run);
            self.changes += u64::from(noticed.is_some());
            self.watch(at, index, workload);
            let row = if self.answered_by[at] == index && workload == Workload::Sustained {
                self.in_a_row[at]
            } else {
                0
            };
            self.in_a_row[at] = row + 1;
            (self.answered_by[at], self.answers[index]) = (index, self.answers[index] + 1);
            break;
        }
        if let Some(explored) = decision.exploration {
            self.explored_ns += (true_ns - times[usize::from(explored.instead_of.0)]).max(0.0);
            self.explored_on_battery += u64::from(self.machine.on_battery);
        }
        self.explorer.ran(case.id, workload, &decision, spent_ns);
        self.runs_of[at] += 1;
        let phase = match self.runs_of[at] {
            0..=10 => 0,
            11..=50 => 1,
            _ => 2,
        };
        self.all.note(true_ns, oracle_ns);
        self.phases[phase].note(true_ns, oracle_ns);
        if phase == 2 {
            let parts_ns = [without_ns - oracle_ns, true_ns - chosen_ns, exploring_ns];
            self.parts.note(true_ns, oracle_ns, parts_ns);
            self.informed_later.note(informed_ns, oracle_ns);
        }
    }

    /// Slows the target down that answered most, and watches every model that it answered last.
    fn slow_down(&mut self, factor: f64) {
        let Some(slow) = (0..self.plan.targets).max_by_key(|&target| self.answers[target]) else { return };
        self.machine.slow_down(slow, factor);
        let watch = |(at, case): (usize, &siliconroute_core::Case)| {
            let belief = self.live.belief(case.id, TargetIndex(slow as u16), Workload::Sustained)?;
            let watch = Watch { believed_ns: belief.time_ns(), runs: 0.0, noticed: false };
            (self.answered_by[at] == slow).then_some(watch)
        };
        self.slow = Some((slow, self.machine.cases.iter().enumerate().map(watch).collect()));
    }

    /// Sees whether a run on the slow target made its slow-down believed.
    fn watch(&mut self, at: usize, target: usize, workload: Workload) {
        let Some((slow, watches)) = &mut self.slow else { return };
        let (Some(watch), true) = (&mut watches[at], *slow == target) else { return };
        let (false, Some(factor)) = (watch.noticed, self.plan.slow_down) else { return };
        watch.runs += 1.0;
        let index = TargetIndex(target as u16);
        let id = self.machine.cases[at].id;
        let sustained = self.live.belief(id, index, Workload::Sustained);
        let noticed = sustained.is_some_and(|belief| belief.time_ns() > watch.believed_ns * factor.sqrt());
        if noticed && workload == Workload::Sustained {
            watch.noticed = true;
            self.reactions.push(watch.runs);
        }
    }

    fn figures(self, scenario: Scenario, elapsed_s: f64) -> Figures {
        let unnoticed = self.slow.iter().flat_map(|(_, watches)| watches.iter().flatten());
        let unnoticed = unnoticed.filter(|watch| !watch.noticed && watch.runs >= 10.0).count();
        let fixed_ns = self.fixed_ns.iter().copied().fold(f64::INFINITY, f64::min);
        Figures {
            scenario: scenario.name(),
            targets: self.plan.targets,
            models: self.plan.models,
            decisions: self.plan.runs,
            simulated_hours: self.machine.now_ns / SECOND_NS / 3_600.0,
            best_fixed_regret_pct: 100.0 * (fixed_ns / self.all.oracle_ns() - 1.0),
            exploration_pct: 100.0 * self.explored_ns / self.all.time_ns(),
            exploration_share_pct: 100.0 * self.plan.share,
            explorations: self.explorer.account.explorations,
            explorations_on_battery: self.explored_on_battery,
            reaction: Reaction::of(self.reactions, unnoticed),
            changes_noticed: self.changes,
            changes_per_10_000: 1e4 * self.changes as f64 / self.plan.runs.max(1) as f64,
            decisions_per_second: self.plan.runs as f64 / elapsed_s,
            without_learning: self.plan.compare.then(|| self.without_learning.reckon()),
            phases: self.phases.map(Phase::reckon),
            parts: self.parts.reckon(),
            informed: self.informed_later.reckon(),
            all: self.all.reckon(),
        }
    }
}
