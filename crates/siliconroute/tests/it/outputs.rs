//! Wrong outputs keep a target from being chosen, in the classes that they fail.

use siliconroute::evaluation::CheckedDecision;
use siliconroute::event::Silent;
use siliconroute::run::Routing;
use siliconroute_core::decide::{Context, decide};
use siliconroute_core::{AccuracyClass, TargetKey};
use siliconroute_testkit::{Behaviour, Outputs};

use crate::simulated::{DECIDED, GPU, LEARNED, ORT, Simulated, decision, gpu, key, ort, question, rten};

const MODEL: &str = "conv-64c-4l";

fn with_gpu(outputs: Outputs) -> Simulated {
    Simulated::with(ort(), gpu().on(MODEL, Behaviour::outputs(outputs)), rten())
}

/// What is chosen for [`MODEL`] in each class, strictest first.
fn chosen(simulated: &Simulated) -> [Option<TargetKey>; 3] {
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let question = question(&router, MODEL, 1);
    AccuracyClass::ALL.map(|class| {
        let routing = Routing { accuracy: Some(class), ..Routing::default() };
        let query = router.query(&question.case, &routing);
        let decision = decide(&learned.knowledge, &query, &Context::default());
        decision.chosen.map(|target| learned.knowledge.target(target).key.clone())
    })
}

#[track_caller]
fn check(outputs: Outputs, allowed: [bool; 3], finding: &str) {
    let simulated = with_gpu(outputs);
    let report = simulated.up();
    let expected = allowed.map(|allowed| Some(key(if allowed { GPU } else { ORT })));
    assert_eq!(chosen(&simulated), expected);
    let in_standard: &CheckedDecision = decision(&report, MODEL, 1);
    assert_eq!(in_standard.excluded.contains_key(&key(GPU)), !allowed[1]);
    if !allowed[1] {
        let found = &in_standard.excluded[&key(GPU)];
        assert!(found.contains(finding), "{found}");
        assert_eq!(in_standard.best, Some(key(ORT)));
        assert!(!in_standard.times_ms.contains_key(&key(GPU)));
    }
    // It was measured all the same, so that the finding can be seen again.
    assert_eq!(report.measured_trials, 3 * (LEARNED + DECIDED));
}

#[test]
fn outputs_within_a_class_are_allowed_in_it() {
    check(Outputs::Right, [true, true, true], "");
    check(Outputs::Off(1e-3), [false, true, true], "");
    check(Outputs::Off(3e-2), [false, false, true], "relative error 3.0e-2");
    check(Outputs::Off(0.5), [false, false, false], "relative error 5.0e-1");
}

#[test]
fn another_largest_element_fails_the_relaxed_class() {
    check(Outputs::OffAtTheTop(3e-2), [false, false, false], "and another largest element");
}

#[test]
fn outputs_that_cannot_be_right_fail_every_class() {
    check(Outputs::NotANumber, [false, false, false], "not finite at element 0");
    check(Outputs::WrongShape, [false, false, false], "has shape [1, 64, 64, 64, 1]");
    check(Outputs::WrongCount, [false, false, false], "2 outputs where the reference has 1");
}

#[test]
fn an_inexact_target_is_not_chosen_unproven() {
    // Every model is off by more than the class allows but this one, which was never compared.
    let simulated = Simulated::with(ort(), gpu().always(Behaviour::outputs(Outputs::Off(2e-2))), rten());
    let report = simulated.up();
    assert_eq!(report.targets.len(), 3);
    let unseen = decision(&report, "conv-48c-4l", 1);
    assert_eq!(unseen.chosen, Some(key(ORT)));
    assert!(unseen.excluded[&key(GPU)].contains("never compared"), "{:?}", unseen.excluded);
    assert_eq!(report.measured_trials, 3 * (LEARNED + DECIDED));
}

#[test]
fn an_unproven_target_that_turns_out_right_is_measured_once_and_counted_once() {
    // Inexact on the learned models, exact on one that is only predicted.
    let gpu = gpu().always(Behaviour::outputs(Outputs::Off(2e-2))).on("conv-48c-4l", Behaviour::default());
    let simulated = Simulated::with(ort(), gpu, rten());
    let report = simulated.up();
    let unseen = decision(&report, "conv-48c-4l", 1);
    assert_eq!((&unseen.chosen, &unseen.best), (&Some(key(ORT)), &Some(key(GPU))));
    assert!(unseen.regret_pct.unwrap() > 100.0);
    assert_eq!(report.measured_trials, 3 * (LEARNED + DECIDED));
    assert_eq!(simulated.trials().len(), report.measured_trials);
}
