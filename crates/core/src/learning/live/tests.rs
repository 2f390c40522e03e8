//! What decisions read of runs: two targets with measured times, from fixed seeds.

use super::*;
use crate::accuracy::AccuracyClass;
use crate::chip::{ChipKey, ChipKind};
use crate::decide::{ChipNow, Context, Decision, Limits, Query, Rules, decide, decide_live};
use crate::identity::ModelId;
use crate::knowledge::{KnowledgeBuilder, TrialFacts};
use crate::learning::{Allowance, Explorer};
use crate::model::{Bindings, CaseFacts, Family, Precision};
use crate::statistics::{Draws, summarise};
use crate::target::{ProviderName, Target, TargetKey};
use crate::trial::OutputCheck;
use crate::workload::Goal;

const CPU: TargetIndex = TargetIndex(0);
const GPU: TargetIndex = TargetIndex(1);
const SECOND: u64 = 1_000_000_000;

fn case(number: u8) -> Case {
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
        index_limits: std::collections::BTreeMap::new(),
        precision: Some(Precision::Fp32),
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(ModelId([number; 32]), "model".to_owned(), Bindings::default(), facts)
}

/// Knowledge of `cases` that take 1.2 ms on `cpu` and 1 ms on `gpu`.
fn knowledge(cases: &[&Case]) -> Knowledge {
    let mut builder = KnowledgeBuilder::default();
    for (name, chip_kind) in [("cpu", ChipKind::Cpu), ("gpu", ChipKind::Gpu)] {
        let target = Target {
            key: TargetKey(name.to_owned()),
            provider: ProviderName(name.to_owned()),
            provider_version: "1".to_owned(),
            chip: ChipKey(name.to_owned()),
            chip_kind,
            options: std::collections::BTreeMap::new(),
        };
        builder.target(target, [None, None, None], None);
    }
    for case in cases {
        for (name, ms) in [("cpu", 1.2), ("gpu", 1.0)] {
            let samples: Vec<f64> = (0..30_u8).map(|at| ms * 1e6 * (1.0 + 0.0005 * f64::from(at))).collect();
            builder.trial(TrialFacts {
                target: TargetKey(name.to_owned()),
                case: case.id,
                model: case.model,
                workload: Workload::Sustained,
                outcome: Ok((summarise(&samples).unwrap(), OutputCheck::Reference)),
            });
        }
    }
    builder.build()
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

fn ask<'k>(knowledge: &'k Knowledge, live: &Live, case: &Case) -> Decision<'k> {
    decide_live(knowledge, Some(live), &query(case), &Context::default())
}

fn run(case: &Case, target: TargetIndex, ms: f64, at: u64) -> Run<'_> {
    Run {
        target,
        case,
        workload: Workload::Sustained,
        time_ns: ms * 1e6,
        at_ns: at * SECOND,
        strained: false,
    }
}

#[test]
fn no_run_leaves_a_decision_as_it_was() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let (alone, beside) = (decide(&knowledge, &query(&case), &Context::default()), Live::new(2));
    let beside = ask(&knowledge, &beside, &case);
    assert_eq!(format!("{alone:?}"), format!("{beside:?}"));
    assert_eq!(alone.chosen, Some(GPU));
}

#[test]
fn runs_take_the_place_of_knowledge_and_a_change_is_noticed() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let mut live = Live::new(2);
    let mut draws = Draws::new(1);
    let mut time = |ms: f64| ms * (0.03 * draws.normal()).exp();
    for at in 0..30 {
        assert_eq!(live.observe(&knowledge, &run(&case, GPU, time(1.0), at)), None);
    }
    let decision = ask(&knowledge, &live, &case);
    let source = decision.prediction(GPU).unwrap().source;
    assert_eq!((decision.chosen, source), (Some(GPU), Source::Served { runs: 30, strained: false }));
    assert!(decision.sentence(&knowledge).contains("as 30 runs showed"), "{}", decision.sentence(&knowledge));
    let snapshot = live.clone();
    let noticed: Vec<u64> =
        (30..40).filter(|&at| live.observe(&knowledge, &run(&case, GPU, time(3.0), at)).is_some()).collect();
    assert_eq!(noticed, [34]);
    assert_eq!(ask(&knowledge, &live, &case).chosen, Some(CPU));
    // Whoever still reads the snapshot from before sees nothing of it.
    assert_eq!(ask(&knowledge, &snapshot, &case).chosen, Some(GPU));
    let fitted_only = Context { ignore_measurements: true, ..Context::default() };
    let baseline = decide_live(&knowledge, Some(&live), &query(&case), &fitted_only);
    assert_eq!(format!("{baseline:?}"), format!("{:?}", decide(&knowledge, &query(&case), &fitted_only)));
}

#[test]
fn a_target_that_changed_for_two_cases_is_doubted_for_all() {
    let cases = [case(1), case(2), case(3)];
    let knowledge = knowledge(&[&cases[0], &cases[1], &cases[2]]);
    let mut live = Live::new(2);
    for at in 0..30 {
        for case in &cases {
            assert_eq!(live.observe(&knowledge, &run(case, GPU, 1.0, at)), None);
        }
    }
    let mut changed = Vec::new();
    for case in &cases[..2] {
        for at in 30..40 {
            changed.extend(live.observe(&knowledge, &run(case, GPU, 3.0, at)).map(|it| it.target_changed));
        }
    }
    assert_eq!(changed, [false, true]);
    // The third case needs no run then.
    live.age(cases[2].id, 41 * SECOND);
    assert_eq!(ask(&knowledge, &live, &cases[2]).chosen, Some(CPU));
    // The other target is believed as before.
    let [cpu, gpu] = [CPU, GPU].map(|target| ask(&knowledge, &live, &cases[2]).prediction(target).unwrap());
    assert!(cpu.interval.high / cpu.interval.low < 1.25, "{cpu:?}");
    assert!(gpu.time_ns > 2.5e6, "{gpu:?}");
}

#[test]
fn two_cases_that_change_apart_tell_nothing_of_their_target() {
    let cases = [case(1), case(2), case(3)];
    let knowledge = knowledge(&[&cases[0], &cases[1], &cases[2]]);
    let mut live = Live::new(2);
    for case in &cases {
        (0..30).for_each(|at| assert_eq!(live.observe(&knowledge, &run(case, GPU, 1.0, at)), None));
    }
    let mut changed = Vec::new();
    for (case, ms) in [(&cases[0], 3.0), (&cases[1], 0.3)] {
        for at in 30..40 {
            changed.extend(live.observe(&knowledge, &run(case, GPU, ms, at)).map(|it| it.target_changed));
        }
    }
    assert_eq!(changed, [false, false]);
    live.age(cases[2].id, 41 * SECOND);
    let prediction = ask(&knowledge, &live, &cases[2]).prediction(GPU).unwrap();
    assert!((0.9e6..1.1e6).contains(&prediction.time_ns), "{prediction:?}");
    // A case that took the change over by itself is not moved once more.
    let prediction = ask(&knowledge, &live, &cases[0]).prediction(GPU).unwrap();
    assert!((2.5e6..3.5e6).contains(&prediction.time_ns), "{prediction:?}");
}

#[test]
fn a_wild_run_counts_as_no_longer_than_runs_usually_take() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let mut live = Live::new(2);
    (0..30).for_each(|at| assert_eq!(live.observe(&knowledge, &run(&case, GPU, 1.0, at)), None));
    let [wild, usual] = [run(&case, GPU, 20.0, 30), run(&case, GPU, 1.0, 31)];
    live.observe(&knowledge, &wild);
    assert!(live.usual_at_most(&wild) < 1.5e6, "{}", live.usual_at_most(&wild));
    live.observe(&knowledge, &usual);
    assert!((live.usual_at_most(&usual) - 1e6).abs() < 1.0);
}

#[test]
fn what_rests_on_something_that_was_changed_is_believed_less() {
    let (case, other) = (case(1), case(2));
    let knowledge = knowledge(&[&case, &other]);
    let mut live = Live::new(2);
    (0..30).for_each(|at| assert_eq!(live.observe(&knowledge, &run(&case, GPU, 1.0, at)), None));
    live.doubt(GPU, 30 * SECOND);
    live.age(case.id, 31 * SECOND);
    for case in [&case, &other] {
        let width = |target| {
            let interval = ask(&knowledge, &live, case).prediction(target).unwrap().interval;
            interval.high / interval.low
        };
        assert!(width(GPU) > 10.0 && width(CPU) < 1.25, "{} {}", width(GPU), width(CPU));
    }
    live.observe(&knowledge, &run(&case, GPU, 3.0, 32));
    assert_eq!(ask(&knowledge, &live, &case).chosen, Some(CPU));
    live.doubt(TargetIndex(9), 0);
}

#[test]
fn a_change_of_the_whole_machine_is_believed_of_targets_that_were_not_run_since() {
    let (case, other) = (case(1), case(2));
    let knowledge = knowledge(&[&case, &other]);
    let mut live = Live::new(2);
    for at in 1..30 {
        assert_eq!(live.observe(&knowledge, &run(&case, GPU, 1.0, at)), None);
        assert_eq!(live.observe(&knowledge, &run(&case, CPU, 1.2, at)), None);
    }
    // On battery all is half as fast; the CPU is not taken for the faster one because it was not run there yet.
    live.doubt_all(30 * SECOND);
    live.age(case.id, 32 * SECOND);
    let interval = ask(&knowledge, &live, &case).prediction(CPU).unwrap().interval;
    assert!(interval.high / interval.low > 5.0, "{interval:?}");
    for at in 32..40 {
        live.observe(&knowledge, &run(&case, GPU, 2.0, at));
        live.age(case.id, at * SECOND);
    }
    for case in [&case, &other] {
        let decision = ask(&knowledge, &live, case);
        let cpu_ms = decision.prediction(CPU).unwrap().time_ns / 1e6;
        assert!(decision.chosen == Some(GPU) && (2.2..2.5).contains(&cpu_ms), "{decision:?}");
    }
    // Plugged in again, and again on battery: times from before all that are moved by all of it.
    for round in 4..24_u64 {
        live.doubt_all(round * 10 * SECOND);
        let ms = if round % 2 == 0 { 1.0 } else { 2.0 };
        for at in 1..9 {
            live.observe(&knowledge, &run(&case, GPU, ms, round * 10 + at));
        }
    }
    live.age(case.id, 1_000 * SECOND);
    let cpu_ms = ask(&knowledge, &live, &case).prediction(CPU).unwrap().time_ns / 1e6;
    assert!((1.8..3.2).contains(&cpu_ms), "{cpu_ms}");
}

#[test]
fn runs_under_strain_leave_the_usual_time_alone_and_tell_what_strain_does() {
    let (case, other) = (case(1), case(2));
    let knowledge = knowledge(&[&case, &other]);
    let mut live = Live::new(2);
    (0..10).for_each(|at| assert_eq!(live.observe(&knowledge, &run(&case, GPU, 1.0, at)), None));
    let usual = ask(&knowledge, &live, &case).prediction(GPU);
    for at in 10..20 {
        live.observe(&knowledge, &Run { strained: true, ..run(&case, GPU, 2.0, at) });
    }
    assert_eq!(ask(&knowledge, &live, &case).prediction(GPU), usual);
    assert!((live.strain(GPU).unwrap() - 2.0).abs() < 0.05, "{:?}", live.strain(GPU));
    let busy = ChipNow { chip: ChipKey("gpu".to_owned()), busy_percent: Some(95.0), celsius: None };
    let context = Context { chips: [busy].into_iter().collect(), ..Context::default() };
    for case in [&case, &other] {
        let decision = decide_live(&knowledge, Some(&live), &query(case), &context);
        // What the runs told takes the place of the rule's factor.
        assert!(decision.fired.is_empty() && decision.chosen == Some(CPU), "{decision:?}");
    }
}

#[test]
fn times_that_are_none_and_targets_beyond_the_known_are_passed_over() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let mut live = Live::new(2);
    for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(live.observe(&knowledge, &run(&case, GPU, ms, 1)), None);
    }
    assert_eq!(live.observe(&knowledge, &run(&case, TargetIndex(2), 1.0, 1)), None);
    assert!(live.belief(case.id, GPU, Workload::Sustained).is_none());
    live.age(case.id, 5);
}

#[test]
fn nothing_is_explored_on_battery_against_a_deadline_or_where_energy_decides() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let mut live = Live::new(2);
    for target in [CPU, GPU] {
        live.doubt(target, 1);
    }
    let explored = |limits: Limits, goal: Goal, charge: Option<f64>| {
        let allowance = Allowance { left_ns: 1e9, open: None, runs: 1, held: None, runs_ahead: 1e3 };
        let context =
            Context { charge_on_battery_percent: charge, exploration: Some(allowance), ..Context::default() };
        let decision =
            decide_live(&knowledge, Some(&live), &Query { goal, limits, ..query(&case) }, &context);
        let looked = decision.exploration.inspect(|explored| {
            assert_eq!((decision.chosen, explored.instead_of), (Some(CPU), GPU));
            assert!(decision.sentence(&knowledge).contains("looked at again"));
        });
        looked.is_some()
    };
    assert!(explored(Limits::default(), Goal::Fastest, None));
    assert!(!explored(Limits::default(), Goal::Fastest, Some(90.0)));
    assert!(!explored(Limits { deadline_ns: Some(1e9), ..Limits::default() }, Goal::Fastest, None));
    assert!(!explored(Limits::default(), Goal::Cool, None));
}

#[test]
fn a_look_is_seen_through_to_its_end_and_charged() {
    let case = case(1);
    let knowledge = knowledge(&[&case]);
    let mut live = Live::new(2);
    for target in [CPU, GPU] {
        live.doubt(target, 1);
    }
    let mut explorer = Explorer::new(0.01);
    explorer.account.spend(1e9, None);
    let mut visits = Vec::new();
    for _ in 0..200 {
        let exploration = Some(explorer.allow(case.id, Workload::Sustained, None));
        let context = Context { exploration, ..Context::default() };
        let decision = decide_live(&knowledge, Some(&live), &query(&case), &context);
        visits.push(decision.exploration.is_some());
        explorer.ran(case.id, Workload::Sustained, &decision, 1.2e6);
    }
    let lengths: Vec<usize> =
        visits.chunk_by(|one, next| one == next).filter(|it| it[0]).map(<[_]>::len).collect();
    assert!(lengths.len() > 3 && lengths.iter().all(|length| length % 3 == 0), "{lengths:?}");
    let account = explorer.account;
    assert_eq!(account.explorations, lengths.iter().sum::<usize>() as u64);
    assert!(account.explored_ns > 0.0 && account.left_ns() > -1e6, "{account:?}");
}
