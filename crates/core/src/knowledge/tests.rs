//! How trials become what is known.

use super::*;
use crate::accuracy::{OutputDifference, OutputFault};
use crate::chip::{ChipKey, ChipKind};
use crate::model::{Bindings, CaseFacts, Family};
use crate::reading::Reading;
use crate::statistics::summarise;
use crate::target::ProviderName;

const MODEL: ModelId = ModelId([1; 32]);
const CASE: CaseId = CaseId([2; 32]);

fn target(name: &str) -> Target {
    Target {
        key: TargetKey(name.to_owned()),
        provider: ProviderName(name.to_owned()),
        provider_version: "1".to_owned(),
        chip: ChipKey::cpu(),
        chip_kind: ChipKind::Cpu,
        options: std::collections::BTreeMap::new(),
    }
}

fn trial(name: &str, outcome: Result<(Summary, OutputCheck), Failure>) -> TrialFacts {
    let target = TargetKey(name.to_owned());
    TrialFacts { target, case: CASE, model: MODEL, workload: Workload::Sustained, outcome }
}

/// A session of 9 samples around `median_ns`.
fn session(median_ns: f64) -> Summary {
    let samples: Vec<f64> = (-4..=4).map(|step| median_ns + f64::from(step)).collect();
    summarise(&samples).unwrap()
}

fn compared(error: f64) -> OutputCheck {
    let difference =
        OutputDifference { max_relative_error: error, same_top1: true, reference_magnitude: 1.0 };
    OutputCheck::Compared { reference: TargetKey("a".to_owned()), difference }
}

fn failed() -> Result<(Summary, OutputCheck), Failure> {
    Err(Failure::new(FailureKind::Crashed, "signal 11"))
}

/// Knowledge of the targets `a` and `b` from trials, oldest first.
fn knowledge(trials: Vec<TrialFacts>) -> Knowledge {
    let mut builder = KnowledgeBuilder::default();
    builder.target(target("a"), [None, None, None], None);
    builder.target(target("b"), [None, None, None], None);
    for trial in trials {
        builder.trial(trial);
    }
    builder.build()
}

fn exclusion(knowledge: &Knowledge, index: usize, class: AccuracyClass) -> Option<&Exclusion> {
    knowledge.verdicts(&case(CASE, MODEL, None)).exclusion(index, class)
}

fn case(id: CaseId, model: ModelId, precision: Option<Precision>) -> Case {
    let facts = CaseFacts {
        batch: 1,
        parameters: 1000,
        weight_bytes: 4000,
        nodes: 2,
        flops: 2000.0,
        activation_bytes: 400.0,
        by_class: Vec::new(),
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: std::collections::BTreeMap::new(),
        precision,
        assumptions: Vec::new(),
        method_version: 2,
    };
    Case { id, ..Case::new(model, "made for a test".to_owned(), Bindings::default(), facts) }
}

#[test]
fn a_success_lifts_a_failure_and_only_a_repeated_failure_outweighs_a_success() {
    #[track_caller]
    fn check(trials: Vec<TrialFacts>, failed: bool) {
        let knowledge = knowledge(trials);
        let found = exclusion(&knowledge, 0, AccuracyClass::Relaxed);
        assert_eq!(matches!(found, Some(Exclusion::Failed(_))), failed);
        assert!(exclusion(&knowledge, 1, AccuracyClass::Relaxed).is_none());
    }
    let good = || trial("a", Ok((session(100.0), OutputCheck::Reference)));
    let bad = || trial("a", failed());
    check(vec![bad()], true);
    check(vec![bad(), good()], false);
    check(vec![good(), bad()], false);
    check(vec![good(), bad(), bad()], true);
    check(vec![bad(), bad(), good()], false);
    check(vec![good(), bad(), good()], false);
    check(vec![good(), bad(), good(), bad()], false);
    let refused = || trial("a", Err(Failure::new(FailureKind::Refused, "no")));
    let given_away = || trial("a", Err(Failure::new(FailureKind::FellBack, "0 of 9 nodes")));
    check(vec![good(), refused()], true);
    check(vec![good(), given_away()], true);
    check(vec![good(), refused(), good()], false);
}

#[test]
fn a_crash_hides_no_refusal_and_says_how_it_is_tried_again() {
    let refused = trial("a", Err(Failure::new(FailureKind::Refused, "no")));
    let sentence = |trials: Vec<TrialFacts>| {
        exclusion(&knowledge(trials), 0, AccuracyClass::Relaxed).map(Exclusion::sentence)
    };
    assert_eq!(sentence(vec![refused, trial("a", failed())]).as_deref(), Some("failed: refused: no"));
    let crashed = sentence(vec![trial("a", failed())]).unwrap();
    assert!(crashed.starts_with("failed: crashed: signal 11; `siliconroute bench`"), "{crashed}");
}

#[test]
fn outputs_are_known_to_pass_to_fail_or_not_at_all() {
    let class = AccuracyClass::Exact;
    let index = TargetIndex(1);
    let known = |trials| {
        knowledge(trials)
            .outputs_in_class(&case(CASE, MODEL, None), index, class)
            .map(|against| against.is_some())
    };
    assert_eq!(known(vec![]), None);
    assert_eq!(known(vec![trial("b", Ok((session(100.0), compared(1e-3))))]), Some(true));
    assert_eq!(known(vec![trial("b", Ok((session(100.0), compared(1e-6))))]), Some(false));
    let crashed =
        vec![trial("b", Ok((session(100.0), compared(1e-3)))), trial("b", failed()), trial("b", failed())];
    assert_eq!(known(crashed), Some(true));
}

#[test]
fn a_failure_keeps_the_times_measured_before() {
    let knowledge =
        knowledge(vec![trial("a", Ok((session(100.0), OutputCheck::Reference))), trial("a", failed())]);
    assert!(knowledge.estimate(CASE, TargetIndex(0), Workload::Sustained).is_some());
}

#[test]
fn the_latest_output_check_counts() {
    #[track_caller]
    fn check(checks: Vec<OutputCheck>, allowed: [bool; 3]) {
        let trials = checks.into_iter().map(|check| trial("b", Ok((session(100.0), check))));
        let knowledge = knowledge(trials.collect());
        let found = AccuracyClass::ALL.map(|class| exclusion(&knowledge, 1, class).is_none());
        assert_eq!(found, allowed);
    }
    let not_compared = || OutputCheck::NotCompared { reason: "constant weights".to_owned() };
    let fault = OutputFault::Count { found: 2, expected: 1 };
    let faulty = || OutputCheck::Faulty { reference: TargetKey("a".to_owned()), fault: fault.clone() };
    check(vec![compared(1e-3), compared(1e-6)], [true, true, true]);
    check(vec![compared(1e-6), compared(1e-3)], [false, true, true]);
    check(vec![compared(1e-6), faulty()], [false, false, false]);
    check(vec![faulty(), compared(3e-2)], [false, false, true]);
    check(vec![compared(1.0), OutputCheck::Reference], [true, true, true]);
    // A check that compared nothing leaves the one before it, and what is known from elsewhere.
    check(vec![compared(1e-3), not_compared()], [false, true, true]);
    check(vec![not_compared()], [true, true, true]);
}

#[test]
fn errors_on_other_models_count_where_nothing_was_compared() {
    let mut elsewhere = trial("b", Ok((session(100.0), compared(2e-2))));
    (elsewhere.model, elsewhere.case) = (ModelId([9; 32]), CaseId([9; 32]));
    let knowledge = knowledge(vec![elsewhere]);
    let worst_seen = 2e-2;
    let class = AccuracyClass::Standard;
    assert_eq!(exclusion(&knowledge, 1, class), Some(&Exclusion::UnprovenOutputs { class, worst_seen }));
    assert_eq!(exclusion(&knowledge, 1, AccuracyClass::Relaxed), None);
    assert_eq!(knowledge.targets()[1].worst_error, Some(worst_seen));
}

#[test]
fn outputs_of_a_model_are_judged_by_those_of_its_precision() {
    use Precision::{Fp16, Fp32, Int8};
    let class = AccuracyClass::Standard;
    let check = |tried: &[(Precision, OutputCheck)], unproven: [bool; 3]| {
        let mut builder = KnowledgeBuilder::default();
        builder.target(target("b"), [None, None, None], Some(1e-6));
        for (number, (precision, outputs)) in (10..).zip(tried) {
            let (id, model) = (CaseId([number; 32]), ModelId([number; 32]));
            builder.case(case(id, model, Some(*precision)));
            builder.trial(TrialFacts {
                case: id,
                model,
                ..trial("b", Ok((session(100.0), outputs.clone())))
            });
        }
        let knowledge = builder.build();
        let of = |precision| knowledge.verdicts(&case(CASE, MODEL, precision)).exclusion(0, class).is_some();
        assert_eq!([Some(Fp32), Some(Int8), Some(Fp16)].map(of), unproven, "{tried:?}");
        // Where the precision is not known, all count.
        assert_eq!(of(None), unproven.contains(&true));
    };
    check(&[(Fp32, compared(1e-6)), (Int8, compared(2e-2))], [false, true, true]);
    check(&[(Fp32, compared(2e-2)), (Int8, compared(1e-3))], [true, false, true]);
    check(&[(Fp32, compared(1e-6)), (Int8, compared(1e-3))], [false, false, false]);
    let fault = OutputFault::Count { found: 2, expected: 1 };
    let faulty = OutputCheck::Faulty { reference: TargetKey("a".to_owned()), fault };
    check(&[(Fp32, compared(1e-6)), (Int8, faulty)], [true, true, true]);
}

#[test]
fn the_worst_error_starts_from_the_proof() {
    let mut builder = KnowledgeBuilder::default();
    builder.target(target("a"), [None, None, None], Some(3e-3));
    builder.trial(trial("a", Ok((session(100.0), compared(1e-6)))));
    assert_eq!(builder.build().targets()[0].worst_error, Some(3e-3));
}

#[test]
fn sessions_are_joined_by_the_median_of_medians_and_the_hull() {
    let sessions = [100.0, 300.0, 110.0];
    let trials = sessions.map(|ns| trial("a", Ok((session(ns), OutputCheck::Reference))));
    let knowledge = knowledge(trials.to_vec());
    let estimate = knowledge.estimate(CASE, TargetIndex(0), Workload::Sustained).unwrap();
    let own = sessions.map(|ns| session(ns).interval.unwrap());
    assert!((estimate.time_ns - 110.0).abs() < 1e-9);
    assert_eq!((estimate.sessions, estimate.samples), (3, 27));
    assert!((estimate.interval.low - own[0].low).abs() < 1e-9);
    assert!((estimate.interval.high - own[1].high).abs() < 1e-9);
}

#[test]
fn a_session_of_few_samples_spans_what_it_saw() {
    let few = summarise(&[90.0, 100.0, 130.0]).unwrap();
    assert!(few.interval.is_none());
    let knowledge = knowledge(vec![trial("a", Ok((few, OutputCheck::Reference)))]);
    let estimate = knowledge.estimate(CASE, TargetIndex(0), Workload::Sustained).unwrap();
    assert_eq!(estimate.interval, Interval { low: 90.0, high: 130.0 });
}

#[test]
fn trials_of_other_targets_are_passed_over() {
    let knowledge =
        knowledge(vec![trial("gone", Ok((session(10.0), OutputCheck::Reference))), trial("gone", failed())]);
    assert_eq!(knowledge.known_cases(), 0);
    assert!(knowledge.cells(CASE).is_none());
    assert!(knowledge.find(&TargetKey("gone".to_owned())).is_none());
}

#[test]
fn workloads_are_kept_apart() {
    let mut cold = trial("a", Ok((session(900.0), OutputCheck::Reference)));
    cold.workload = Workload::ColdStart;
    let knowledge = knowledge(vec![trial("a", Ok((session(100.0), OutputCheck::Reference))), cold]);
    let time = |workload| knowledge.estimate(CASE, TargetIndex(0), workload).map(|it| it.time_ns);
    assert_eq!(time(Workload::Sustained), Some(100.0));
    assert_eq!(time(Workload::IdleLoaded), None);
    assert_eq!(time(Workload::ColdStart), Some(900.0));
    assert_eq!(knowledge.known_cases(), 1);
}

#[test]
fn targets_keep_the_order_in_which_they_were_listed() {
    let knowledge = knowledge(Vec::new());
    let keys: Vec<&str> = knowledge.targets().iter().map(|entry| entry.target.key.as_str()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(knowledge.find(&TargetKey("b".to_owned())), Some(TargetIndex(1)));
    assert!(knowledge.estimate(CASE, TargetIndex(7), Workload::Sustained).is_none());
}

#[test]
fn a_case_answers_for_itself_and_the_worst_one_for_untried_shapes() {
    let (large, untried) = (CaseId([8; 32]), CaseId([9; 32]));
    let of_large = |outcome| TrialFacts { case: large, ..trial("a", outcome) };
    let good = || Ok((session(1e6), compared(1e-7)));
    // Out of memory at a large batch says nothing against the small one, whichever came last.
    for trials in [vec![trial("a", good()), of_large(failed())], vec![of_large(failed()), trial("a", good())]]
    {
        let knowledge = knowledge(trials);
        let excluded = |case| {
            knowledge.verdicts(&self::case(case, MODEL, None)).exclusion(0, AccuracyClass::Exact).is_some()
        };
        assert_eq!([CASE, large, untried].map(excluded), [false, true, true]);
    }
    let knowledge = knowledge(vec![trial("a", good()), of_large(Ok((session(1e6), compared(1e-3))))]);
    let excluded = |case| {
        knowledge.verdicts(&self::case(case, MODEL, None)).exclusion(0, AccuracyClass::Exact).is_some()
    };
    assert_eq!([CASE, large, untried].map(excluded), [false, true, true]);
}

#[test]
fn outputs_that_cannot_be_right_make_a_target_suspect_everywhere() {
    let fault = OutputFault::NotFinite { index: 0, element: 0 };
    let faulty = OutputCheck::Faulty { reference: TargetKey("b".to_owned()), fault };
    let knowledge = knowledge(vec![trial("a", Ok((session(1e6), faulty)))]);
    let stranger = case(CaseId([8; 32]), ModelId([8; 32]), None);
    let stranger = knowledge.verdicts(&stranger);
    assert!(matches!(
        stranger.exclusion(0, AccuracyClass::Relaxed),
        Some(Exclusion::UnprovenOutputs { worst_seen, .. }) if worst_seen.is_infinite()
    ));
}

#[test]
fn the_most_memory_of_the_case_counts_and_else_that_of_the_models_other_cases() {
    let unknown = || Reading::unavailable("not told");
    let facts = |case: CaseId, peak: Reading<u64>, session: u64| MemoryFacts {
        target: TargetKey("a".to_owned()),
        case,
        model: MODEL,
        taken: Ok(MemoryTaken {
            peak_resident_bytes: peak,
            session_bytes: Reading::Available(session),
            device_bytes: unknown(),
        }),
    };
    let (large, untried) = (CaseId([3; 32]), CaseId([4; 32]));
    let mut builder = KnowledgeBuilder::default();
    builder.target(target("a"), [None, None, None], None);
    builder.memory(facts(CASE, unknown(), 10));
    builder.memory(facts(CASE, unknown(), 30));
    builder.memory(facts(CASE, unknown(), 20));
    builder.memory(facts(large, Reading::Available(900), 500));
    builder.memory(MemoryFacts {
        target: TargetKey("b".to_owned()),
        taken: Err(Failure::new(FailureKind::MemoryExceeded, "over 8 GiB")),
        ..facts(CASE, unknown(), 0)
    });
    let knowledge = builder.build();
    let of = |case: CaseId, key: &str| knowledge.memory_of(case, MODEL, &TargetKey(key.to_owned()));
    let most = |bytes, case, trials| Reading::Available(Most { bytes, case, trials });
    let own = of(CASE, "a");
    assert_eq!(own.session, most(30, CASE, 3));
    assert_eq!(own.peak_resident, most(900, large, 1), "the case itself tells none");
    assert_eq!(own.device, Reading::unavailable("not told"));
    assert_eq!(of(untried, "a").session, most(500, large, 1));
    assert_eq!(of(CASE, "b"), MemoryUse::unavailable("memory_exceeded: over 8 GiB"));
    let never = MemoryUse::unavailable("no trial of the model on this target");
    assert_eq!(of(CASE, "c"), never);
    assert_eq!(knowledge.memory_of(CASE, ModelId([9; 32]), &TargetKey("a".to_owned())), never);
}
