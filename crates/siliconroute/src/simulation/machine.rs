//! A machine that does not exist: what its targets need, what its sensors say, and what happens to it.
//!
//! Invariant: the time of a run follows from the plan, the seed and the runs before; nothing reads a clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use siliconroute_core::decide::{ChipNow, Context};
use siliconroute_core::form::{FitRow, fit_forms};
use siliconroute_core::knowledge::{Knowledge, KnowledgeBuilder, TargetIndex, TrialFacts};
use siliconroute_core::model::{Bindings, CaseFacts, ClassWork, Family, OperatorClass, Precision};
use siliconroute_core::statistics::{Draws, summarise};
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{Case, ChipKey, ChipKind, ModelId, ProviderName, Target, TargetKey, Workload};

use super::scenario::Plan;

pub(super) const SECOND_NS: f64 = 1e9;
pub(super) const DAY_NS: f64 = 86_400e9;
/// How far a model's time on a target lies from what the model's work tells: the log's standard deviation.
const OWN_WAYS: f64 = 0.2;
/// How far sessions of one configuration differ.
const SESSIONS: f64 = 0.05;
/// A chip at work comes to this temperature at last, with this time constant; at rest it falls to the other.
const AT_WORK_CELSIUS: f64 = 100.0;
const AT_REST_CELSIUS: f64 = 40.0;
const HEATING_S: f64 = 20.0;
/// A chip slows down from the one on, until it is down at the other.
const THROTTLES_CELSIUS: f64 = 92.0;
const RECOVERS_CELSIUS: f64 = 80.0;
const THROTTLED: f64 = 1.8;
/// What others' load multiplies the time by, and how long it and the times without it last.
const LOADED: f64 = 1.7;
const LOAD_S: f64 = 120.0;
/// How long a target that is out stays so.
const OUT_S: f64 = 600.0;
/// What the machine is slower by on battery.
const ON_BATTERY: f64 = 1.4;

/// A simulated target.
struct SimulatedTarget {
    kind: ChipKind,
    chip: ChipKey,
    overhead_ns: f64,
    ns_per_flop: f64,
    /// What a rest adds, as a share of the time.
    waking: f64,
    sensor: bool,
    /// Log of what its times have wandered by.
    wander: f64,
    slowed: f64,
    busy_ns: f64,
    celsius: f64,
    throttled: bool,
    loaded: bool,
    load_ends_ns: f64,
    /// Whether nothing runs on it.
    out: bool,
    out_changes_ns: f64,
}

impl SimulatedTarget {
    /// Lets `passed_ns` pass, of which the chip was at work for as long as was noted.
    fn heat(&mut self, passed_ns: f64) {
        let busy = (std::mem::take(&mut self.busy_ns) / passed_ns).min(1.0);
        let towards = AT_REST_CELSIUS + (AT_WORK_CELSIUS - AT_REST_CELSIUS) * busy;
        self.celsius = towards + (self.celsius - towards) * (-passed_ns / (HEATING_S * SECOND_NS)).exp();
        let limit = if self.throttled { RECOVERS_CELSIUS } else { THROTTLES_CELSIUS };
        self.throttled = self.celsius > limit;
    }
}

pub(super) struct Machine<'p> {
    plan: &'p Plan,
    targets: Vec<SimulatedTarget>,
    pub(super) cases: Arc<[Case]>,
    pub(super) keys: Vec<TargetKey>,
    /// Of running targets that nothing has happened to, by case and target.
    base_ns: Vec<f64>,
    /// When each target ran each case last.
    last_run_ns: Vec<f64>,
    draws: Draws,
    pub(super) now_ns: f64,
    pub(super) on_battery: bool,
    updated_ns: f64,
}

impl<'p> Machine<'p> {
    pub(super) fn new(plan: &'p Plan, seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let targets: Vec<SimulatedTarget> =
            (0..plan.targets).map(|index| target(index, &mut draws)).collect();
        let cases: Arc<[Case]> = (0..plan.models).map(|index| case(index, &mut draws)).collect();
        let mut base_ns = Vec::with_capacity(plan.models * plan.targets);
        for case in cases.iter() {
            for target in &targets {
                let by_law = target.overhead_ns + case.facts.flops * target.ns_per_flop;
                base_ns.push(by_law * (OWN_WAYS * draws.normal()).exp());
            }
        }
        let last_run_ns = vec![f64::NEG_INFINITY; base_ns.len()];
        Self {
            plan,
            targets,
            cases,
            keys: (0..plan.targets).map(key).collect(),
            base_ns,
            last_run_ns,
            draws,
            now_ns: 0.0,
            on_battery: false,
            updated_ns: 0.0,
        }
    }

    /// What is known before the first run: some models measured, the others predicted from them.
    pub(super) fn knowledge(&mut self) -> Knowledge {
        let workloads = [Workload::Sustained, Workload::IdleLoaded];
        let mut trials = Vec::new();
        let mut builder = KnowledgeBuilder::default();
        for index in 0..self.targets.len() {
            let mut fits = [None, None, None];
            let key = key(index);
            for workload in workloads {
                let mut rows = Vec::new();
                for at in 0..self.plan.measured.min(self.cases.len()) {
                    let session_ns = self.usual_ns(at, index, workload) * self.chance(SESSIONS);
                    let samples: Vec<f64> =
                        (0..30).map(|_| session_ns * self.chance(self.plan.scatter)).collect();
                    let Some(summary) = summarise(&samples) else { continue };
                    let case = &self.cases[at];
                    rows.push(FitRow::from((&case.facts, case.model, summary.median_ns)));
                    let outcome = Ok((summary, OutputCheck::Reference));
                    let target = key.clone();
                    trials.push(TrialFacts { target, case: case.id, model: case.model, workload, outcome });
                }
                fits[workload.index()] = fit_forms(&rows, 1e6).ok();
            }
            let SimulatedTarget { kind, chip, .. } = &self.targets[index];
            let target = Target {
                key,
                provider: ProviderName(format!("p{index}")),
                provider_version: "1".to_owned(),
                chip: chip.clone(),
                chip_kind: *kind,
                options: BTreeMap::new(),
            };
            builder.target(target, fits, None);
        }
        for trial in trials {
            builder.trial(trial);
        }
        for case in self.cases.iter() {
            builder.case(case.clone());
        }
        builder.build()
    }

    fn chance(&mut self, deviation: f64) -> f64 {
        (deviation * self.draws.normal()).exp()
    }

    /// The workload that a run of `case` on `target` would be in now; every target has a session of every case.
    pub(super) fn workload(&self, case: usize, target: usize) -> Workload {
        self.workload_since(self.last_run_ns[case * self.targets.len() + target])
    }

    /// The workload that a run would be in on a target that ran the case last at `last_run_ns`.
    pub(super) fn workload_since(&self, last_run_ns: f64) -> Workload {
        let rested = Duration::from_secs_f64((self.now_ns - last_run_ns).clamp(0.0, DAY_NS) / SECOND_NS);
        Workload::inferred(true, Some(rested))
    }

    /// The median time that `target` needs for `case` in `workload` as things are now.
    pub(super) fn usual_ns(&self, case: usize, target: usize, workload: Workload) -> f64 {
        let base_ns = self.base_ns[case * self.targets.len() + target];
        let target = &self.targets[target];
        let mut time_ns = base_ns * target.wander.exp() * target.slowed;
        time_ns *= if target.throttled { THROTTLED } else { 1.0 };
        time_ns *= if target.loaded { LOADED } else { 1.0 };
        time_ns *= if self.on_battery { ON_BATTERY } else { 1.0 };
        time_ns * if workload == Workload::Sustained { 1.0 } else { 1.0 + target.waking }
    }

    /// Runs `case` on `target`: the clock goes on by the time that is given, and the chip heats up.
    pub(super) fn run(&mut self, case: usize, target: usize) -> f64 {
        let usual_ns = self.usual_ns(case, target, self.workload(case, target));
        let mut time_ns = usual_ns * self.chance(self.plan.scatter);
        if self.draws.uniform() < self.plan.wild_share {
            time_ns *= 3.0 + 17.0 * self.draws.uniform();
        }
        self.now_ns += time_ns;
        self.targets[target].busy_ns += time_ns;
        self.last_run_ns[case * self.targets.len() + target] = self.now_ns;
        time_ns
    }

    /// Whether a run on `target` fails.
    pub(super) fn fails(&mut self, target: usize) -> bool {
        self.is_out(target) || (self.plan.failures > 0.0 && self.draws.uniform() < self.plan.failures)
    }

    /// Whether every run on `target` fails now.
    pub(super) fn is_out(&self, target: usize) -> bool {
        self.targets[target].out
    }

    /// Log of what the times of `target` have wandered by.
    pub(super) fn wander(&self, target: usize) -> f64 {
        self.targets[target].wander
    }

    /// Lets about `mean_ns` pass without work.
    pub(super) fn pause(&mut self, mean_ns: f64) {
        let pause_ns = -mean_ns * self.draws.uniform().ln();
        self.now_ns += pause_ns;
    }

    /// A case at random.
    pub(super) fn any_case(&mut self) -> usize {
        self.draws.index(self.cases.len())
    }

    /// Makes `target` slower from now on.
    pub(super) fn slow_down(&mut self, target: usize, factor: f64) {
        self.targets[target].slowed *= factor;
    }

    /// Brings what depends on the time up to it; says whether the power source has changed.
    pub(super) fn catch_up(&mut self) -> bool {
        let passed_ns = self.now_ns - self.updated_ns;
        if passed_ns < 0.1 * SECOND_NS {
            return false;
        }
        self.updated_ns = self.now_ns;
        let wander = self.plan.wander_per_day * (passed_ns / DAY_NS).sqrt();
        for index in 0..self.targets.len() {
            let step = wander * self.draws.normal();
            self.targets[index].wander += step;
            if self.plan.heat {
                self.targets[index].heat(passed_ns);
            }
            if self.plan.load && self.now_ns > self.targets[index].load_ends_ns {
                let lasts_ns = -LOAD_S * SECOND_NS * self.draws.uniform().ln();
                let target = &mut self.targets[index];
                target.loaded = !target.loaded && target.kind == ChipKind::Gpu;
                target.load_ends_ns = self.now_ns + lasts_ns * if target.loaded { 1.0 } else { 4.0 };
            }
        }
        if let Some(every_s) = self.plan.out_every_s {
            for index in 0..self.targets.len() {
                if self.now_ns > self.targets[index].out_changes_ns {
                    let until_ns = -every_s * SECOND_NS * self.draws.uniform().ln();
                    let target = &mut self.targets[index];
                    // At the beginning all work.
                    target.out = !target.out && target.out_changes_ns > 0.0;
                    let lasts_ns = if target.out { OUT_S * SECOND_NS } else { until_ns };
                    target.out_changes_ns = self.now_ns + lasts_ns;
                }
            }
        }
        let period_ns = self.plan.battery_s.map(|period_s| period_s * SECOND_NS);
        let on_battery = period_ns.is_some_and(|period_ns| (self.now_ns / period_ns) as u64 % 2 == 1);
        std::mem::replace(&mut self.on_battery, on_battery) != on_battery
    }

    /// What the sensors say.
    pub(super) fn context(&self, quarantined: &[usize]) -> Context {
        let mut context = Context {
            charge_on_battery_percent: self.on_battery.then_some(60.0),
            quarantined: quarantined.iter().map(|target| TargetIndex(*target as u16)).collect(),
            ..Context::default()
        };
        let told = |target: &&SimulatedTarget| target.sensor && (target.loaded || target.celsius > 70.0);
        context.chips = self
            .targets
            .iter()
            .filter(told)
            .map(|target| ChipNow {
                chip: target.chip.clone(),
                busy_percent: target.loaded.then_some(95.0),
                celsius: self.plan.heat.then_some(target.celsius),
            })
            .collect();
        context
    }
}

fn key(index: usize) -> TargetKey {
    TargetKey(format!("simulated:{index}"))
}

/// CPUs answer sooner, GPUs and NPUs get more done.
fn target(index: usize, draws: &mut Draws) -> SimulatedTarget {
    let kind = [ChipKind::Cpu, ChipKind::Gpu, ChipKind::Npu][index % 3];
    let (overhead_ns, ns_per_flop, waking) = match kind {
        ChipKind::Cpu => (5e3, 0.02, 0.3),
        ChipKind::Gpu => (1e5, 0.002, 0.8),
        ChipKind::Npu => (5e4, 0.005, 0.5),
    };
    let mut spread = |middle: f64| middle * (0.5 * draws.normal()).exp();
    SimulatedTarget {
        kind,
        chip: ChipKey(format!("simulated-{index}")),
        overhead_ns: spread(overhead_ns),
        ns_per_flop: spread(ns_per_flop),
        waking: spread(waking),
        sensor: index % 4 != 3,
        wander: 0.0,
        slowed: 1.0,
        busy_ns: 0.0,
        celsius: AT_REST_CELSIUS,
        throttled: false,
        loaded: false,
        load_ends_ns: 0.0,
        out: false,
        out_changes_ns: 0.0,
    }
}

/// A model of between a million and ten thousand million operations.
fn case(index: usize, draws: &mut Draws) -> Case {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&(index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let flops = 10_f64.powf(6.0 + 4.0 * draws.uniform());
    let parameters = (flops / 2.0 / (1.0 + 20.0 * draws.uniform())) as u64;
    let facts = CaseFacts {
        batch: 1,
        parameters,
        weight_bytes: 4 * parameters,
        nodes: 20,
        flops,
        activation_bytes: 1e4,
        by_class: vec![ClassWork { class: OperatorClass::MatMul, nodes: 20, flops, bytes: 4e4 }],
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: BTreeMap::new(),
        precision: Some(Precision::Fp32),
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(ModelId(digest), format!("simulated-{index}"), Bindings::default(), facts)
}
