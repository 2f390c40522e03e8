//! Which target is chosen, why the others are not, and how it is said.

mod imported;
mod record;
mod rules;

use proptest::prelude::*;

use super::*;
use crate::accuracy::{OutputDifference, OutputFault};
use crate::chip::{ChipKey, ChipKind};
use crate::form::{Fit, FitRow, Form, fit_forms};
use crate::identity::{CaseId, ModelId};
use crate::knowledge::{KnowledgeBuilder, TrialFacts};
use crate::model::{Bindings, CaseFacts, ClassWork, Family, OperatorClass, Precision};
use crate::predict::LawKind;
use crate::statistics::Summary;
use crate::target::{ProviderName, Target, TargetKey};
use crate::trial::{Failure, FailureKind, OutputCheck};

const MODEL: ModelId = ModelId([1; 32]);

/// A case of `flops` operations.
fn case(model: ModelId, flops: f64) -> Case {
    let facts = CaseFacts {
        batch: 1,
        parameters: 1_000,
        weight_bytes: 4_000,
        nodes: 3,
        flops,
        activation_bytes: 0.0,
        by_class: Vec::new(),
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: std::collections::BTreeMap::new(),
        precision: Some(Precision::Fp32),
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(model, "model".to_owned(), Bindings::default(), facts)
}

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

fn summary(median_ms: f64, half_width_ms: f64) -> Summary {
    Summary {
        samples: 30,
        median_ns: median_ms * 1e6,
        mean_ns: median_ms * 1e6,
        min_ns: (median_ms - half_width_ms) * 1e6,
        max_ns: (median_ms + half_width_ms) * 1e6,
        standard_deviation_ns: None,
        coefficient_of_variation: None,
        p05_ns: None,
        p10_ns: None,
        p90_ns: None,
        p95_ns: None,
        p99_ns: None,
        robust_spread: None,
        interval: Some(Interval {
            low: (median_ms - half_width_ms) * 1e6,
            high: (median_ms + half_width_ms) * 1e6,
        }),
        outliers: 0,
        unstable: false,
        method: 1,
        robust_deviation_ns: None,
        dependence: None,
        pseudomedian_ns: None,
        drift: None,
        changes: Vec::new(),
    }
}

/// A model of `t = 1 ms + flops · 1 ns`, exact on cases of 1e6 to 9e6 operations.
fn fit() -> Fit {
    let rows: Vec<FitRow> = (1..10_u8)
        .map(|step| {
            let flops = f64::from(step) * 1e6;
            let facts = case(ModelId([step; 32]), flops).facts;
            FitRow::from((&facts, ModelId([step; 32]), 1e6 + flops))
        })
        .collect();
    fit_forms(&rows, 0.0).unwrap()
}

/// Knowledge in the making: targets first, then trials of [`MODEL`]'s case.
struct World {
    builder: KnowledgeBuilder,
    case: Case,
}

impl World {
    fn new(targets: &[(&str, bool, Option<f64>)]) -> Self {
        let mut builder = KnowledgeBuilder::default();
        for (name, fitted, proven_error) in targets {
            builder.target(target(name), [fitted.then(fit), None, None], *proven_error);
        }
        Self { builder, case: case(MODEL, 5e6) }
    }

    fn trial(mut self, name: &str, outcome: Result<(Summary, OutputCheck), Failure>) -> Self {
        let (target, case) = (TargetKey(name.to_owned()), self.case.id);
        let trial = TrialFacts { target, case, model: MODEL, workload: Workload::Sustained, outcome };
        self.builder.trial(trial);
        self
    }

    fn measured(self, name: &str, median_ms: f64, half_width_ms: f64) -> Self {
        self.trial(name, Ok((summary(median_ms, half_width_ms), OutputCheck::Reference)))
    }

    fn compared(self, name: &str, median_ms: f64, error: f64, same_top1: bool) -> Self {
        let difference = OutputDifference { max_relative_error: error, same_top1, reference_magnitude: 1.0 };
        let check = OutputCheck::Compared { reference: TargetKey("a".to_owned()), difference };
        self.trial(name, Ok((summary(median_ms, 0.01), check)))
    }

    fn build(self) -> (Knowledge, Case) {
        (self.builder.build(), self.case)
    }
}

fn query(case: &Case, accuracy: AccuracyClass) -> Query<'_> {
    Query {
        case,
        workload: Workload::Sustained,
        goal: Goal::Fastest,
        accuracy,
        limits: Limits::default(),
        rules: &Rules::USUAL,
    }
}

fn name(knowledge: &Knowledge, target: Option<TargetIndex>) -> Option<&str> {
    target.map(|target| knowledge.target(target).key.as_str())
}

#[track_caller]
fn check(world: World, accuracy: AccuracyClass, chosen: Option<&str>, next: Option<&str>, sentence: &str) {
    let (knowledge, case) = world.build();
    let decision = decide(&knowledge, &query(&case, accuracy), &Context::default());
    assert_eq!(name(&knowledge, decision.chosen), chosen);
    assert_eq!(name(&knowledge, decision.runner_up), next);
    assert_eq!(decision.sentence(&knowledge), sentence);
}

#[test]
fn the_least_measured_time_wins() {
    check(
        World::new(&[("a", false, None), ("b", false, None), ("c", false, None)])
            .measured("a", 3.0, 0.1)
            .measured("b", 2.0, 0.1)
            .measured("c", 2.5, 0.1),
        AccuracyClass::Standard,
        Some("b"),
        Some("c"),
        "b needs 2.00 ms (measured in 1 session, 95 % interval 1.90 ms to 2.10 ms); \
         the next, c, needs 2.50 ms, 1.25 times as long",
    );
}

#[test]
fn a_measured_time_beats_the_fitted_one_of_the_same_target() {
    // The fit says 6 ms; two sessions say otherwise.
    check(
        World::new(&[("a", true, None), ("b", true, None)]).measured("a", 8.0, 0.1).measured("a", 10.0, 0.1),
        AccuracyClass::Standard,
        Some("b"),
        Some("a"),
        "b is predicted to need 6.00 ms (predicted by F1 (roofline), 95 % interval 6.00 ms to 6.00 ms); \
         the next, a, needs 9.00 ms, 1.50 times as long",
    );
    check(
        World::new(&[("a", true, None), ("b", true, None)]).measured("a", 2.0, 0.1).measured("a", 4.0, 0.1),
        AccuracyClass::Standard,
        Some("a"),
        Some("b"),
        "a needs 3.00 ms (measured in 2 sessions, 95 % interval 1.90 ms to 4.10 ms); \
         the next, b, needs 6.00 ms, 2.00 times as long",
    );
}

#[test]
fn a_fitted_time_beyond_the_measured_range_says_so() {
    let mut world = World::new(&[("a", true, None)]);
    world.case = case(MODEL, 18e6);
    let (knowledge, case) = world.build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
    let sentence = decision.sentence(&knowledge);
    assert!(sentence.starts_with("a may need 19.0 ms (predicted by F1 (roofline), outside of the measured"));
    assert!(sentence.ends_with("; no other target is suitable"), "{sentence}");
}

#[test]
fn measured_times_can_be_left_out() {
    let (knowledge, case) =
        World::new(&[("a", true, None), ("b", false, None)]).measured("b", 1.0, 0.1).build();
    let context = Context { ignore_measurements: true, ..Context::default() };
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &context);
    assert_eq!(name(&knowledge, decision.chosen), Some("a"));
    assert_eq!(decision.candidates[1].outlook.unwrap_err(), &Exclusion::NoPrediction);
}

/// A case with what came of its trial.
type Tried = (Case, Result<(Summary, OutputCheck), Failure>);

#[track_caller]
fn check_doubt(tried: &[Tried], next: &Case, expected: Option<u32>) {
    let mut world = World::new(&[("a", true, None)]);
    for (case, outcome) in tried {
        world.builder.case(case.clone());
        let (target, model) = (TargetKey("a".to_owned()), case.model);
        let (workload, outcome) = (Workload::Sustained, outcome.clone());
        world.builder.trial(TrialFacts { target, case: case.id, model, workload, outcome });
    }
    let (knowledge, _) = world.build();
    let decision = decide(&knowledge, &query(next, AccuracyClass::Standard), &Context::default());
    match (decision.candidates[0].outlook, expected) {
        (Err(Exclusion::ExpectedToFail { class: OperatorClass::Conv, models }), Some(expected)) => {
            assert_eq!(*models, expected);
        }
        (Ok(_), None) => {}
        (found, _) => panic!("{found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_target_that_refused_all_models_with_an_operator_is_expected_to_refuse_the_next() {
    let with = |number: u8, class: OperatorClass| {
        let mut case = case(ModelId([number; 32]), 5e6);
        case.facts.by_class = vec![ClassWork { class, nodes: 1, flops: 5e6, bytes: 1e4 }];
        Case { id: CaseId::derive(case.model, "batch=1"), ..case }
    };
    let refused = || Err(Failure::new(FailureKind::Refused, "no convolutions"));
    let ran = || Ok((summary(1.0, 0.1), OutputCheck::Reference));
    let (matrix, conv) = (OperatorClass::MatMul, OperatorClass::Conv);
    let next = with(9, conv);
    let matrices = (with(1, matrix), ran());
    let (one, two) = ((with(2, conv), refused()), (with(3, conv), refused()));
    check_doubt(std::slice::from_ref(&matrices), &next, None);
    check_doubt(&[matrices.clone(), one.clone()], &next, Some(1));
    check_doubt(&[matrices.clone(), one.clone(), two.clone()], &next, Some(2));
    check_doubt(&[matrices.clone(), one.clone(), two.clone()], &with(9, matrix), None);
    check_doubt(&[matrices.clone(), one.clone(), two.clone(), (with(4, conv), ran())], &next, None);
    // A crash may pass, and what never ran anything tells no class from another.
    let crash = |number| (with(number, conv), Err(Failure::new(FailureKind::Crashed, "signal 11")));
    check_doubt(&[matrices, crash(2), crash(3)], &next, None);
    check_doubt(&[one, two], &next, None);
}

#[test]
fn equal_times_go_to_the_target_listed_first() {
    for order in [["a", "b"], ["b", "a"]] {
        let world = World::new(&[(order[0], false, None), (order[1], false, None)])
            .measured("a", 2.0, 0.1)
            .measured("b", 2.0, 0.1);
        let (knowledge, case) = world.build();
        let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
        assert_eq!(name(&knowledge, decision.chosen), Some(order[0]));
        assert_eq!(name(&knowledge, decision.runner_up), Some(order[1]));
    }
}

#[test]
fn overlapping_intervals_are_a_tie() {
    check(
        World::new(&[("a", false, None), ("b", false, None)]).measured("a", 2.1, 0.2).measured("b", 2.0, 0.2),
        AccuracyClass::Standard,
        Some("b"),
        Some("a"),
        "b needs 2.00 ms (measured in 1 session, 95 % interval 1.80 ms to 2.20 ms); \
         a with 2.10 ms is not separable from it",
    );
}

#[test]
fn wrong_outputs_exclude_by_class() {
    let world = || {
        World::new(&[("a", false, None), ("b", false, None)])
            .measured("a", 5.0, 0.1)
            .compared("b", 1.0, 2e-2, true)
    };
    for (class, chosen) in
        [(AccuracyClass::Exact, "a"), (AccuracyClass::Standard, "a"), (AccuracyClass::Relaxed, "b")]
    {
        let (knowledge, case) = world().build();
        let decision = decide(&knowledge, &query(&case, class), &Context::default());
        assert_eq!(name(&knowledge, decision.chosen), Some(chosen), "{class}");
        if chosen == "a" {
            let exclusion = decision.candidates[1].outlook.unwrap_err();
            let expected = format!("outputs fail the class {class}: relative error 2.0e-2");
            assert_eq!(exclusion.sentence(), expected);
        }
    }
}

#[test]
fn another_largest_element_fails_the_relaxed_class() {
    check(
        World::new(&[("a", false, None), ("b", false, None)])
            .measured("a", 5.0, 0.1)
            .compared("b", 1.0, 2e-2, false),
        AccuracyClass::Relaxed,
        Some("a"),
        None,
        "a needs 5.00 ms (measured in 1 session, 95 % interval 4.90 ms to 5.10 ms); \
         no other target is suitable",
    );
}

#[test]
fn faulty_outputs_exclude_from_every_class() {
    for class in AccuracyClass::ALL {
        let fault = OutputFault::NotFinite { index: 0, element: 7 };
        let check = OutputCheck::Faulty { reference: TargetKey("a".to_owned()), fault };
        let (knowledge, case) =
            World::new(&[("a", true, None)]).trial("a", Ok((summary(1.0, 0.1), check))).build();
        let decision = decide(&knowledge, &query(&case, class), &Context::default());
        assert_eq!(decision.chosen, None);
        let sentence = decision.candidates[0].outlook.unwrap_err().sentence();
        assert!(sentence.contains("not finite at element 7"), "{sentence}");
    }
}

#[test]
fn a_target_that_is_inexact_elsewhere_must_prove_its_outputs() {
    let (knowledge, case) = World::new(&[("a", true, Some(2e-3)), ("b", true, None)]).build();
    let decide_for = |class| decide(&knowledge, &query(&case, class), &Context::default());
    let exact = decide_for(AccuracyClass::Exact);
    assert_eq!(name(&knowledge, exact.chosen), Some("b"));
    assert_eq!(
        exact.candidates[0].outlook.unwrap_err().sentence(),
        "outputs never compared for this model, and a relative error of 2.0e-3 elsewhere fails the class exact"
    );
    assert_eq!(name(&knowledge, decide_for(AccuracyClass::Standard).chosen), Some("a"));
}

#[test]
fn a_comparison_on_this_model_outweighs_a_worse_one_elsewhere() {
    let (knowledge, case) = World::new(&[("a", false, Some(4e-2))]).compared("a", 1.0, 1e-6, true).build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Exact), &Context::default());
    assert_eq!(name(&knowledge, decision.chosen), Some("a"));
}

#[test]
fn a_failed_target_is_not_chosen_though_it_could_be_predicted() {
    let crash = Failure::new(FailureKind::Crashed, "signal 11");
    let fell = Failure::new(FailureKind::FellBack, "0 of 9 nodes on the target");
    let (knowledge, case) = World::new(&[("a", true, None), ("b", true, None)])
        .trial("a", Err(crash))
        .trial("b", Err(fell))
        .build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Relaxed), &Context::default());
    assert_eq!((decision.chosen, decision.runner_up), (None, None));
    assert!(!decision.is_tie());
    let sentences: Vec<String> =
        decision.candidates.iter().map(|candidate| candidate.outlook.unwrap_err().sentence()).collect();
    assert_eq!(
        sentences,
        [
            "failed: crashed: signal 11; `siliconroute bench` or the next `siliconroute up` tries it again",
            "runs elsewhere: 0 of 9 nodes on the target"
        ]
    );
    assert_eq!(
        decision.sentence(&knowledge),
        "no target is suitable: each one is excluded for the reason beside it"
    );
}

#[test]
fn nothing_known_gives_no_choice() {
    let (knowledge, case) = World::new(&[("a", false, None)]).build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
    assert_eq!(decision.chosen, None);
    let sentence = decision.candidates[0].outlook.unwrap_err().sentence();
    assert_eq!(sentence, "no measurement and no hardware model yet");
    let (knowledge, case) = World::new(&[]).build();
    let empty = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
    assert!(empty.chosen.is_none() && empty.candidates.is_empty());
}

#[test]
fn another_workload_is_another_question() {
    let (knowledge, case) = World::new(&[("a", false, None)]).measured("a", 1.0, 0.1).build();
    let cold = Query { workload: Workload::ColdStart, ..query(&case, AccuracyClass::Standard) };
    assert_eq!(decide(&knowledge, &cold, &Context::default()).chosen, None);
}

#[test]
fn more_targets_than_fit_inline_are_decided_all_the_same() {
    let names: Vec<String> = (0..3 * INLINE_TARGETS).map(|index| format!("t{index}")).collect();
    let targets: Vec<(&str, bool, Option<f64>)> =
        names.iter().map(|name| (name.as_str(), false, None)).collect();
    let mut world = World::new(&targets);
    for (index, name) in names.iter().enumerate() {
        world = world.measured(name, 100.0 - index as f64, 0.1);
    }
    let (knowledge, case) = world.build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
    assert!(decision.candidates.spilled());
    assert_eq!(decision.candidates.len(), 3 * INLINE_TARGETS);
    assert_eq!(name(&knowledge, decision.chosen), Some("t47"));
    assert_eq!(name(&knowledge, decision.runner_up), Some("t46"));
}

#[test]
fn up_to_the_inline_number_nothing_is_allocated_for_candidates() {
    let names: Vec<String> = (0..INLINE_TARGETS).map(|index| format!("t{index}")).collect();
    let targets: Vec<(&str, bool, Option<f64>)> =
        names.iter().map(|name| (name.as_str(), true, None)).collect();
    let (knowledge, case) = World::new(&targets).build();
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &Context::default());
    assert!(!decision.candidates.spilled());
}

#[test]
fn an_interval_beyond_a_factor_of_a_thousand_is_too_wide_to_tell() {
    #[track_caller]
    fn check(low: f64, high: f64, expected: &str) {
        assert_eq!(format_interval_ns(Interval { low, high }, " to "), expected);
    }
    check(1e3, 2e3, "1.00 µs to 2.00 µs");
    check(1e3, 1e6, "1.00 µs to 1.00 ms");
    check(1e3, 1.001e6, "too wide to tell");
    check(1e-9, 1e9, "too wide to tell");
    check(0.0, 1e9, "too wide to tell");
    check(0.0, 0.0, "0 ns to 0 ns");
    check(1.0, f64::INFINITY, "too wide to tell");
    check(f64::NAN, 1.0, "too wide to tell");
}

#[test]
fn durations_have_three_digits_and_a_unit() {
    #[track_caller]
    fn check(ns: f64, expected: &str) {
        assert_eq!(format_duration_ns(ns), expected);
    }
    check(0.0, "0 ns");
    check(1e-9, "< 0.01 ns");
    check(0.004, "< 0.01 ns");
    check(0.01, "0.01 ns");
    check(0.4, "0.40 ns");
    check(999.0, "999 ns");
    check(1e3, "1.00 µs");
    check(12_345.0, "12.3 µs");
    check(99_960.0, "100 µs");
    check(123_456.0, "123 µs");
    check(999_600.0, "1.00 ms");
    check(9.996e6, "10.0 ms");
    check(2.5e9, "2.50 s");
    check(4e12, "4000 s");
    check(f64::NAN, "unknown");
    check(f64::INFINITY, "unknown");
}

#[test]
fn sources_have_short_names() {
    #[track_caller]
    fn check(basis: Basis, name: &str, sentence: &str) {
        assert_eq!((Source::Predicted(basis).name(), basis.sentence().as_str()), (name, sentence));
    }
    let law = Basis {
        law: LawKind::Form(Form::TwoLevel),
        extrapolated: false,
        shapes: 0,
        shapes_weight: 0.0,
        elsewhere: 0,
        elsewhere_weight: 0.0,
    };
    assert_eq!(Source::Measured { sessions: 3 }.name(), "measured");
    check(law, "F2", "by F2 (two-level memory)");
    let shapes = Basis { shapes: 1, shapes_weight: 0.75, extrapolated: true, ..law };
    let sentence =
        "75 % from 1 time of the model here, 25 % by F2 (two-level memory), outside of the measured range";
    check(shapes, "same-model", sentence);
    let elsewhere = Basis { elsewhere: 3, elsewhere_weight: 0.6, ..law };
    let sentence = "60 % from 3 times of it on other targets, 40 % by F2 (two-level memory)";
    check(elsewhere, "other-targets", sentence);
    let cold = Basis { law: LawKind::SessionStart, ..law };
    check(cold, "session-start", "by session-start (session creation and first run)");
}

/// What is known of a target in a random world.
#[derive(Debug, Clone, Copy)]
enum Known {
    Nothing,
    Failed,
    Wrong,
    Measured(f64),
}

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![
        Just(Known::Nothing),
        Just(Known::Failed),
        Just(Known::Wrong),
        // Few values, so that equal times come up.
        (1_u8..6).prop_map(|ms| Known::Measured(f64::from(ms))),
    ]
}

proptest! {
    #[test]
    fn the_chosen_target_has_the_least_time(worlds in prop::collection::vec(known(), 0..40)) {
        let names: Vec<String> = (0..worlds.len()).map(|index| format!("t{index}")).collect();
        let targets: Vec<(&str, bool, Option<f64>)> =
            names.iter().map(|name| (name.as_str(), false, None)).collect();
        let mut world = World::new(&targets);
        for (name, known) in names.iter().zip(&worlds) {
            world = match known {
                Known::Nothing => world,
                Known::Failed => world.trial(name, Err(Failure::new(FailureKind::TimedOut, "slow"))),
                Known::Wrong => world.compared(name, 0.5, 1.0, true),
                Known::Measured(ms) => world.measured(name, *ms, 0.1),
            };
        }
        let (knowledge, case) = world.build();
        let query = query(&case, AccuracyClass::Standard);
        let decision = decide(&knowledge, &query, &Context::default());
        let mut times: Vec<(f64, u16)> = worlds
            .iter()
            .enumerate()
            .filter_map(|(index, known)| match known {
                Known::Measured(ms) => Some((ms * 1e6, index as u16)),
                _ => None,
            })
            .collect();
        times.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let expected = |rank: usize| times.get(rank).map(|(_, index)| TargetIndex(*index));
        prop_assert_eq!(decision.chosen, expected(0));
        prop_assert_eq!(decision.runner_up, expected(1));
        prop_assert_eq!(decision.candidates.len(), worlds.len());

        let again = decide(&knowledge, &query, &Context::default());
        prop_assert_eq!(format!("{decision:?}"), format!("{again:?}"));
    }
}
