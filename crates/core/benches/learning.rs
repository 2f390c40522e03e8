//! Times learning while serving, with 16 targets and 1,000 cases that runs have told of: first what the state of the machine
//! adds to a decision, in turns with a bare look into a table; then a decision, one that may explore, a run that is taken
//! over into a snapshot of its own, and the same with what a copy costs.
//!
//! Run with `cargo bench -p siliconroute-core --bench learning`, or with `-- contexts` for the first part alone.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Instant;

use siliconroute_core::decide::{ChipNow, Context, Limits, Query, Rules, decide, decide_live};
use siliconroute_core::knowledge::{Knowledge, KnowledgeBuilder, TargetIndex, TrialFacts};
use siliconroute_core::learning::{Explorer, Live, Run};
use siliconroute_core::statistics::{CONFIDENCE, Draws, median, median_interval, summarise};
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{
    AccuracyClass, Bindings, Case, CaseFacts, CaseId, ChipKey, ChipKind, Family, Goal, ModelId, ProviderName,
    Target, TargetKey, Workload,
};

const TARGETS: usize = 16;
const CASES: usize = 1_000;
/// A sample goes through all cases once, so that no sample finds what it reads in the nearest cache already.
const EACH_CASE: u32 = CASES as u32;
const SECOND_NS: u64 = 1_000_000_000;
/// Turns of each way to decide; one goes through all cases.
const TURNS: usize = 400;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match &words[..] {
        [] => report_contexts(),
        [only] if only == "contexts" => return report_contexts(),
        _ => {}
    }
    divan::main();
}

/// What a decision is told of the machine.
fn contexts() -> [(&'static str, Context); 3] {
    let chip = |index: usize, busy: f64, celsius: f64| ChipNow {
        chip: ChipKey(format!("chip-{index}")),
        busy_percent: Some(busy),
        celsius: Some(celsius),
    };
    let machine = Context {
        power_plan: Some("balanced".to_owned()),
        free_memory_bytes: Some(4 << 30),
        chips: [chip(0, 5.0, 50.0), chip(1, 40.0, 60.0), chip(2, 95.0, 70.0), chip(3, 10.0, 80.0)]
            .into_iter()
            .collect(),
        ..Context::default()
    };
    let battery = Context { charge_on_battery_percent: Some(20.0), ..machine.clone() };
    [
        ("nothing of the machine", Context::default()),
        ("load, heat and memory", machine),
        ("the same on a low battery", battery),
    ]
}

/// A way to decide for a case, with its name.
type Way<'w> = (String, Box<dyn Fn(&Case) + 'w>);

/// Prints what each context adds to a decision, beside a look into a table of the fastest targets: all in turns.
fn report_contexts() {
    let World { knowledge, live, cases } = world();
    let times: HashMap<CaseId, [f64; TARGETS]> =
        cases.iter().map(|case| (case.id, std::array::from_fn(time_ns))).collect();
    let (contexts, knowledge, live, times) = (&contexts(), &knowledge, &live, &times);
    let mut ways: Vec<Way<'_>> = vec![(
        "a look into a table".to_owned(),
        Box::new(move |case: &Case| {
            let row = &black_box(times)[&case.id];
            let fastest = (0..TARGETS).min_by(|a, b| row[*a].total_cmp(&row[*b]));
            black_box(fastest);
        }),
    )];
    for (what, context) in contexts {
        let way = move |case: &Case| {
            black_box(decide(black_box(knowledge), &query(case), black_box(context)).chosen);
        };
        ways.push((format!("measured, told {what}"), Box::new(way)));
    }
    for (what, context) in contexts {
        let way = move |case: &Case| {
            let decision =
                decide_live(black_box(knowledge), Some(black_box(live)), &query(case), black_box(context));
            black_box(decision.chosen);
        };
        ways.push((format!("with runs, told {what}"), Box::new(way)));
    }
    let mut all_ns = vec![Vec::new(); ways.len()];
    for turn in 0..TURNS {
        // The order changes, so that drift hits all alike, and each way follows every other, whose traces are in the caches. The
        // number of ways is prime, so that any stride reaches all.
        let stride = 1 + turn % (ways.len() - 1);
        for place in 0..ways.len() {
            let way = (turn + place * stride) % ways.len();
            let start = Instant::now();
            cases.iter().for_each(&ways[way].1);
            all_ns[way].push(start.elapsed().as_secs_f64() * 1e9 / cases.len() as f64);
        }
    }
    println!("a decision among {TARGETS} targets, {CASES} cases in each of {TURNS} turns:");
    for (index, ((what, _), own)) in ways.iter().zip(&all_ns).enumerate() {
        // Each is set against the one of its kind that is told nothing, the table against none.
        let plain = if index == 0 { 0 } else { index - (index - 1) % contexts.len() };
        let ratios: Vec<f64> = own.iter().zip(&all_ns[plain]).map(|(own, plain)| own / plain).collect();
        let interval = median_interval(&ratios, CONFIDENCE).expect("hundreds of turns have an interval");
        println!(
            "  {what:<44} {:>6.0} ns, × {:.3} [{:.3} – {:.3}]",
            median(own).expect("some turns"),
            median(&ratios).expect("some turns"),
            interval.low,
            interval.high
        );
    }
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
        precision: None,
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
        decide_live(black_box(&knowledge), Some(black_box(&live)), &query(case), &context).chosen
    });
}

/// The same with an allowance that pays for looking at any target, so that all of them draw.
#[divan::bench(sample_size = EACH_CASE)]
fn decision_that_may_explore(bencher: divan::Bencher<'_, '_>) {
    let World { knowledge, live, cases } = world();
    let mut explorer = Explorer::new(0.01);
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
        black_box(&published);
    });
}
