//! What the machine as a whole does to what serving has learned.

use std::collections::BTreeMap;

use siliconroute_core::decide::{Limits, Rules};
use siliconroute_core::knowledge::{Knowledge, KnowledgeBuilder, TrialFacts};
use siliconroute_core::model::{Bindings, CaseFacts, Family, Precision};
use siliconroute_core::statistics::summarise;
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{AccuracyClass, ChipKey, ChipKind, Goal, ModelId, ProviderName, Target};

use super::*;

const CPU: TargetIndex = TargetIndex(0);
const GPU: TargetIndex = TargetIndex(1);
const SECOND: u64 = 1_000_000_000;

fn case() -> Case {
    let facts = CaseFacts {
        batch: 1,
        parameters: 1_000,
        weight_bytes: 4_000,
        nodes: 3,
        flops: 1e6,
        activation_bytes: 0.0,
        by_class: Vec::new(),
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: BTreeMap::new(),
        precision: Some(Precision::Fp32),
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(ModelId([1; 32]), "model".to_owned(), Bindings::default(), facts)
}

/// Knowledge of `case`, which takes 1.2 ms on the CPU and 1 ms on the GPU.
fn knowledge(case: &Case) -> Knowledge {
    let mut builder = KnowledgeBuilder::default();
    for (name, chip_kind, ms) in [("cpu", ChipKind::Cpu, 1.2), ("gpu", ChipKind::Gpu, 1.0)] {
        let target = Target {
            key: TargetKey(name.to_owned()),
            provider: ProviderName(name.to_owned()),
            provider_version: "1".to_owned(),
            chip: ChipKey(name.to_owned()),
            chip_kind,
            options: BTreeMap::new(),
        };
        builder.target(target, [None, None, None], None);
        let samples: Vec<f64> = (0..30_u8).map(|at| ms * 1e6 * (1.0 + 0.0005 * f64::from(at))).collect();
        builder.trial(TrialFacts {
            target: TargetKey(name.to_owned()),
            case: case.id,
            model: case.model,
            workload: Workload::Sustained,
            outcome: Ok((summarise(&samples).unwrap(), OutputCheck::Reference)),
        });
    }
    builder.build()
}

fn under(plan: Option<&str>) -> Context {
    Context { power_plan: plan.map(str::to_owned), ..Context::default() }
}

/// What is believed of the times on the CPU and the GPU, in milliseconds, after runs on both under one plan and runs of `ms` on the
/// GPU alone under the next.
fn believed_after(plans: [Option<&str>; 2], ms: f64) -> [f64; 2] {
    let case = case();
    let knowledge = knowledge(&case);
    let live = Live::new(2);
    let mut pupil = Pupil { live, explorer: Explorer::new(0.0), changes: Vec::new(), power: None };
    let run = |pupil: &mut Pupil, target, ms: f64, at: u64| {
        let (workload, time_ns, at_ns) = (Workload::Sustained, ms * 1e6, at * SECOND);
        let run = Run { target, case: &case, workload, time_ns, at_ns, strained: false };
        pupil.live.observe(&knowledge, &run);
    };
    for at in 1..30 {
        pupil.note_power(&under(plans[0]), at * SECOND);
        run(&mut pupil, CPU, 1.2, at);
        run(&mut pupil, GPU, 1.0, at);
    }
    for at in 30..38 {
        pupil.note_power(&under(plans[1]), at * SECOND);
        run(&mut pupil, GPU, ms, at);
    }
    pupil.live.age(case.id, 40 * SECOND);
    let query = Query {
        case: &case,
        workload: Workload::Sustained,
        goal: Goal::Fastest,
        accuracy: AccuracyClass::Standard,
        limits: Limits::default(),
        rules: &Rules::USUAL,
    };
    let decision = decide_live(&knowledge, Some(&pupil.live), &query, &Context::default());
    [CPU, GPU].map(|target| decision.prediction(target).unwrap().time_ns / 1e6)
}

#[test]
fn another_power_plan_moves_all_times_by_what_runs_since_tell() {
    let saving = "profile power-saver, governor powersave";
    let [cpu_ms, gpu_ms] = believed_after([Some("profile performance"), Some(saving)], 2.0);
    // The GPU comes closer with each run; the CPU was not run since.
    assert!((1.5..2.1).contains(&gpu_ms) && (2.2..2.5).contains(&cpu_ms), "{cpu_ms} and {gpu_ms} ms");
}

#[test]
fn the_same_power_plan_or_one_that_is_not_told_leaves_the_times_of_other_targets_alone() {
    let plan = Some("profile performance");
    for plans in [[plan, plan], [plan, None], [None, plan], [None, None]] {
        let [cpu_ms, _] = believed_after(plans, 2.0);
        assert!((1.15..1.25).contains(&cpu_ms), "{plans:?}: {cpu_ms} ms");
    }
}
