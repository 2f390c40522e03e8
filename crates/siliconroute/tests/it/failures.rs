//! What goes wrong on one target is recorded, keeps it from being chosen there, and disturbs no other.

use siliconroute::evaluation::CheckedDecision;
use siliconroute_core::trial::FailureKind;
use siliconroute_testkit::{Behaviour, Fault, Moment, NodePlacement};

use crate::simulated::{
    DECIDED, GPU, LEARNED, ORT, RTEN, Simulated, decision, gpu, key, ort, question, rten,
};

/// The model on which the GPU would be by far the fastest.
const MODEL: &str = "conv-64c-4l";

fn with_gpu(behaviour: Behaviour) -> Simulated {
    Simulated::with(ort(), gpu().on(MODEL, behaviour), rten())
}

#[track_caller]
fn check(moment: Moment, fault: Fault, kind: FailureKind, reason: &str) {
    let simulated = with_gpu(Behaviour::fault(moment, fault));
    let report = simulated.up();
    // A refusal is final, what may pass is tried in each session, and the self-check passes over both.
    let tries = if kind == FailureKind::Refused { 1 } else { siliconroute::up::SESSIONS };
    assert_eq!(simulated.failures(GPU), vec![(MODEL.to_owned(), kind); tries]);
    assert_eq!(report.measured_trials, 3 * (LEARNED + DECIDED) - (siliconroute::up::SESSIONS - tries) - 1);
    assert_eq!(simulated.trials().len(), report.measured_trials);
    let failed: &CheckedDecision = decision(&report, MODEL, 1);
    assert_eq!(failed.chosen, Some(key(ORT)));
    assert!(failed.excluded[&key(GPU)].contains(reason), "{:?}", failed.excluded);
    assert!(!failed.times_ms.contains_key(&key(GPU)));
    assert_eq!(failed.times_ms.len(), 2);
    // The failure is one of this model alone.
    assert_eq!(decision(&report, "conv-32c-4l", 1).chosen, Some(key(GPU)));
    // What may pass is tried again once by each start, beside the reference.
    let again = if kind == FailureKind::Refused { 0 } else { 2 };
    assert_eq!(simulated.up().measured_trials, again);
}

#[test]
fn a_crash_while_the_session_is_made() {
    check(Moment::Create, Fault::Crash, FailureKind::Crashed, "failed: crashed: the worker ended by itself");
}

#[test]
fn a_crash_in_the_first_run() {
    check(Moment::Run, Fault::Crash, FailureKind::Crashed, "failed: crashed");
}

#[test]
fn a_crash_between_samples() {
    check(Moment::Sample, Fault::Crash, FailureKind::Crashed, "failed: crashed");
}

#[test]
fn a_hang() {
    check(Moment::Run, Fault::Hang, FailureKind::TimedOut, "failed: timed_out: no answer within 60.0 s");
}

#[test]
fn a_memory_blow_up() {
    check(Moment::Create, Fault::OutOfMemory, FailureKind::MemoryExceeded, "failed: memory_exceeded");
}

#[test]
fn a_refused_model() {
    let refusal = Fault::Refuse("operator Foo is unknown".to_owned());
    check(Moment::Create, refusal, FailureKind::Refused, "failed: refused: operator Foo is unknown");
}

#[test]
fn refused_inputs() {
    check(Moment::SetInputs, Fault::Refuse("too long".to_owned()), FailureKind::Refused, "too long");
}

#[test]
fn a_full_fall_back_is_no_measurement() {
    let simulated = with_gpu(Behaviour::placed(NodePlacement::Elsewhere));
    let report = simulated.up();
    assert_eq!(simulated.failures(GPU), [(MODEL.to_owned(), FailureKind::FellBack)]);
    let fell_back = decision(&report, MODEL, 1);
    assert_eq!(
        fell_back.excluded[&key(GPU)],
        "runs elsewhere: 0 of 9 nodes on the target, 9 on CPUExecutionProvider"
    );
    assert_eq!(fell_back.chosen, Some(key(ORT)));
}

#[test]
fn a_partial_fall_back_is_measured_and_says_so() {
    let simulated = with_gpu(Behaviour::placed(NodePlacement::Partial(7, 2)));
    let report = simulated.up();
    assert_eq!(decision(&report, MODEL, 1).chosen, Some(key(GPU)));
    let router = simulated.router();
    let trials = router.store().trial_summaries(&siliconroute_store::TrialFilter::default()).unwrap();
    let told = trials
        .iter()
        .filter(|trial| trial.target == key(GPU))
        .filter_map(|trial| trial.outcome.as_ref().ok())
        .filter_map(|measured| measured.placement.clone().available().cloned())
        .filter(|placement| placement.to_string() == "7 of 9 nodes on the target, 2 on CPUExecutionProvider")
        .count();
    assert_eq!(told, siliconroute::up::SESSIONS + 1);
}

#[test]
fn a_crash_that_passes_is_made_good_by_the_next_start() {
    let simulated = with_gpu(Behaviour::fault(Moment::Run, Fault::Crash));
    assert_eq!(decision(&simulated.up(), MODEL, 1).chosen, Some(key(ORT)));
    simulated.launcher.change(GPU, |target| target.models.clear());
    let router = simulated.router();
    simulated.up();
    let targets = router.targets(&mut siliconroute::event::Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let question = question(&router, MODEL, 1);
    let query = router.query(&question.case, &siliconroute::run::Routing::default());
    let decision = siliconroute_core::decide::decide(
        &learned.knowledge,
        &query,
        &siliconroute_core::decide::Context::default(),
    );
    let chosen = decision.chosen.map(|target| learned.knowledge.target(target).key.clone());
    assert_eq!(chosen, Some(key(GPU)));
    assert_eq!(simulated.up().measured_trials, 0);
}

#[test]
fn a_worker_that_died_is_replaced_for_the_next_model() {
    // The embedded engine dies of the very first case, and is fastest on the second-smallest ones.
    let simulated =
        Simulated::with(ort(), gpu(), rten().on("mlp-512w-4l", Behaviour::fault(Moment::Run, Fault::Crash)));
    let report = simulated.up();
    assert_eq!(decision(&report, "mlp-128w-4l", 1).chosen, Some(key(RTEN)));
    assert_eq!(decision(&report, "mlp-2048w-4l", 1).times_ms.len(), 3);
    // Two batch sizes, each tried in every session.
    assert_eq!(simulated.failures(RTEN).len(), 2 * siliconroute::up::SESSIONS);
}

#[test]
fn the_next_target_gives_the_reference_where_the_first_one_fails() {
    let simulated =
        Simulated::with(ort().on(MODEL, Behaviour::fault(Moment::Run, Fault::Crash)), gpu(), rten());
    let report = simulated.up();
    let decision = decision(&report, MODEL, 1);
    assert_eq!(decision.chosen, Some(key(GPU)));
    assert_eq!(decision.times_ms.len(), 2);
}

#[test]
fn a_model_that_fails_everywhere_has_no_choice_and_the_rest_goes_on() {
    let broken = || Behaviour::fault(Moment::Create, Fault::Refuse("no".to_owned()));
    let simulated =
        Simulated::with(ort().on(MODEL, broken()), gpu().on(MODEL, broken()), rten().on(MODEL, broken()));
    let report = simulated.up();
    let decision = decision(&report, MODEL, 1);
    assert_eq!((&decision.chosen, &decision.best, decision.regret_pct), (&None, &None, None));
    assert_eq!(decision.excluded.len(), 3);
    assert_eq!(report.evaluation.decisions.len(), DECIDED);
    assert_eq!(report.evaluation.strategies["router"].not_applicable, 1);
    assert_eq!(simulated.up().measured_trials, 0);
}
