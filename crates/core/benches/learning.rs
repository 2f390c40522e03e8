//! Times learning while serving, with 16 targets and 1,000 cases that runs have told of: a decision, one that may explore, a
//! run that is taken over into a snapshot of its own, and the same with what a copy costs.
//!
//! Run with `cargo bench -p siliconroute-core --bench learning`.

use std::collections::BTreeMap;

use siliconroute_core::decide::{Context, Limits, Query, Rules, decide_live};
use siliconroute_core::knowledge::{Knowledge, KnowledgeBuilder, TargetIndex, TrialFacts};
use siliconroute_core::learning::{Explorer, Live, Run};
use siliconroute_core::statistics::{Draws, summarise};
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{
    AccuracyClass, Bindings, Case, CaseFacts, ChipKey, ChipKind, Family, Goal, ModelId, ProviderName, Target,
    TargetKey, Workload,
};

const TARGETS: usize = 16;
const CASES: usize = 1_000;
/// A sample goes through all cases once, so that no sample finds what it reads in the nearest cache already.
const EACH_CASE: u32 = CASES as u32;
const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    divan::main();
}

struct World {
    knowledge: Knowledge,
    live: Live,
    cases: Vec<Case>,
}

fn target(index: usize) -> Target {
    let (chip, provider) = (ChipKey(format!("chip-{index}")), ProviderName(format!("p{index}")));
    Target {
        key: TargetKey::new(&chip, &provider, None),
        provider,
        provider_version: "1".to_owned(),
        chip,
        chip_kind: ChipKind::Gpu,
        options: BTreeMap::new(),
    }
}

fn case(index: usize) -> Case {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&(index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let facts = CaseFacts {
        batch: 1,
        parameters: 1_000,
        weight_bytes: 4_000,
        nodes: 10,
        flops: 1e6,
        activation_bytes: 1e4,
        by_class: Vec::new(),
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: BTreeMap::new(),
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(ModelId(digest), format!("model-{index}"), Bindings::default(), facts)
}

fn time_ns(target: usize) -> f64 {
    1e6 * (1.0 + 0.05 * target as f64)
}

fn world() -> World {
    let mut builder = KnowledgeBuilder::default();
    let keys: Vec<TargetKey> = (0..TARGETS).map(|index| target(index).key).collect();
    for index in 0..TARGETS {
        builder.target(target(index), [None, None, None], None);
    }
    let cases: Vec<Case> = (0..CASES).map(case).collect();
    for case in &cases {
        for (index, key) in keys.iter().enumerate() {
            let samples: Vec<f64> =
                (0..30).map(|at| time_ns(index) * (1.0 + 0.002 * f64::from(at))).collect();
            builder.trial(TrialFacts {
                target: key.clone(),
                case: case.id,
                model: case.model,
                workload: Workload::Sustained,
                outcome: Ok((summarise(&samples).expect("thirty finite samples"), OutputCheck::Reference)),
            });
        }
    }
    let knowledge = builder.build();
    let (mut live, mut draws) = (Live::new(TARGETS), Draws::new(1));
    for case in &cases {
        for index in 0..TARGETS {
            for at in 0..3 {
                let time_ns = time_ns(index) * (0.05 * draws.normal()).exp();
                live.observe(&knowledge, &run(case, index, time_ns, at));
            }
        }
    }
    World { knowledge, live, cases }
}

fn run(case: &Case, target: usize, time_ns: f64, at_s: u64) -> Run<'_> {
    let at_ns = at_s * SECOND_NS;
    let target = TargetIndex(target as u16);
    Run { target, case, workload: Workload::Sustained, time_ns, at_ns, strained: false }
}

fn query(case: &Case) -> Query<'_> {
    Query {
        case,
        workload: Workload::Sustained,
        goal: Goal::Fastest,
        accuracy: AccuracyClass::Standard,
        limits: Limits::default(),
        rules: &Rules::USUAL,
    }
}

/// A decision that reads what runs have told.
#[divan::bench(sample_size = EACH_CASE)]
fn decision(bencher: divan::Bencher<'_, '_>) {
    let World { knowledge, live, cases } = world();
    let context = Context::default();
    let mut cases = cases.iter().cycle();
    bencher.bench_local(|| {
        let case = cases.next().expect("a cycle does not end");
        decide_live(divan::black_box(&knowledge), Some(divan::black_box(&live)), &query(case), &context)
            .chosen
    });
}

/// The same with an allowance that pays for looking at any target, so that all of them draw.
#[divan::bench(sample_size = EACH_CASE)]
fn decision_that_may_explore(bencher: divan::Bencher<'_, '_>) {
    let World { knowledge, live, cases } = world();
    let mut explorer = Explorer::new(0.01, 1);
    explorer.account.spend(1e15, None);
    let mut cases = cases.iter().cycle();
    bencher.bench_local(|| {
        let case = cases.next().expect("a cycle does not end");
        explorer.spend(case.id, Workload::Sustained, None, 1e9, None);
        let exploration = Some(explorer.allow(case.id, Workload::Sustained, None));
        let context = Context { exploration, ..Context::default() };
        decide_live(&knowledge, Some(&live), &query(case), &context).chosen
    });
}

/// A run that is taken over into the snapshot of one's own.
#[divan::bench(sample_size = EACH_CASE)]
fn run_taken_over(bencher: divan::Bencher<'_, '_>) {
    let World { knowledge, mut live, cases } = world();
    let (mut draws, mut at) = (Draws::new(2), 10);
    bencher.bench_local(|| {
        at += 1;
        let time_ns = time_ns(3) * (0.05 * draws.normal()).exp();
        live.observe(&knowledge, &run(&cases[at as usize % CASES], 3, time_ns, at))
    });
}

/// The whole update: the row is shared with the published snapshot, so it is copied, and a new snapshot is published.
#[divan::bench(sample_size = EACH_CASE)]
fn snapshot_update(bencher: divan::Bencher<'_, '_>) {
    let World { knowledge, mut live, cases } = world();
    let (mut draws, mut at) = (Draws::new(2), 10);
    let mut published = std::sync::Arc::new(live.clone());
    bencher.bench_local(|| {
        at += 1;
        let time_ns = time_ns(3) * (0.05 * draws.normal()).exp();
        live.observe(&knowledge, &run(&cases[at as usize % CASES], 3, time_ns, at));
        published = std::sync::Arc::new(live.clone());
        divan::black_box(&published);
    });
}
