//! Decisions against the truth, for the router and for every baseline, on times that are known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use siliconroute::evaluation::{CheckedDecision, Evaluation, EvaluationPlan, ask};
use siliconroute::event::{Event, Listener, Silent};
use siliconroute::run::Routing;
use siliconroute::{Error, Router};
use siliconroute_core::{Reading, Workload};
use siliconroute_testkit::{Behaviour, FakeEngine, FakeTarget, TimeLaw};

use crate::simulated::{GPU, ORT, RTEN, SUSTAINED, Simulated, StopAt, gpu, key, ort, question, rten};

/// A target with these times in milliseconds, exactly.
fn timed(target: FakeTarget, times_ms: &[(&str, f64)]) -> FakeTarget {
    let still = FakeTarget { spread: 0.0, ..target };
    times_ms.iter().fold(still, |target, (model, ms)| target.on(model, Behaviour::time(ms * 1e6)))
}

/// Checks decisions for these models on a machine that has learned already.
fn check(simulated: &Simulated, models: &[&str]) -> Vec<CheckedDecision> {
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let questions: Vec<_> = models.iter().map(|model| question(&router, model, 1)).collect();
    router.check(&questions, &targets, &learned, &Routing::default(), &mut Silent).unwrap()
}

#[track_caller]
fn close(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

#[test]
fn a_decision_is_made_before_the_trials_that_judge_it() {
    let simulated = Simulated::with(
        timed(ort(), &[("mlp-512w-4l", 2.0)]),
        timed(gpu(), &[("mlp-512w-4l", 1.0)]),
        timed(rten(), &[("mlp-512w-4l", 4.0)]),
    );
    simulated.up();
    // The GPU becomes three times slower behind the router's back.
    simulated.launcher.change(GPU, |target| *target = timed(gpu(), &[("mlp-512w-4l", 3.0)]));
    let checked = check(&simulated, &["mlp-512w-4l"]).remove(0);
    assert_eq!(checked.chosen, Some(key(GPU)));
    assert_eq!(checked.best, Some(key(ORT)));
    close(checked.regret_pct, 50.0);
    close(checked.predicted_ms.get(&key(GPU)).copied(), 1.0);
    close(checked.times_ms.get(&key(GPU)).copied(), 3.0);
    // What the target once did excuses nothing: the sessions of the check tell the two apart.
    assert!(!checked.tie);
    // From now on it is known: three sessions, of which the median is still the old time.
    assert_eq!(check(&simulated, &["mlp-512w-4l"])[0].chosen, Some(key(GPU)));
}

#[test]
fn every_strategy_is_judged_on_the_same_times() {
    let models = ["mlp-512w-4l", "conv-8c-4l"];
    let simulated = Simulated::with(
        timed(ort(), &[(models[0], 2.0), (models[1], 3.0)]),
        timed(gpu(), &[(models[0], 4.0), (models[1], 1.0)]),
        timed(rten(), &[(models[0], 1.0), (models[1], 6.0)]),
    );
    simulated.up();
    let evaluation = Evaluation::of(check(&simulated, &models));
    let score = |strategy: &str| &evaluation.strategies[strategy];
    assert!(evaluation.decisions.iter().all(|decision| decision.candidates == 3));
    assert_eq!(evaluation.without_choice, 0);
    assert_eq!((score("router").wins, score("router").total), (2, 2));
    close(score("router").mean_regret_pct, 0.0);
    // 2 ms and 3 ms where 1 ms is best.
    close(score("always-cpu").mean_regret_pct, 150.0);
    close(score("always-cpu").max_regret_pct, 200.0);
    // 4 ms and 1 ms where 1 ms is best; the GPU is also the first of the usual list.
    close(score("always-gpu").mean_regret_pct, 150.0);
    assert_eq!((score("always-gpu").wins, score("always-gpu").total), (1, 2));
    assert_eq!(score("always-gpu"), score("always-first-listed"));
    close(score("always-first-listed").accuracy_pct, 50.0);
    // The last one measured is judged apart from the ones predicted, of which there are none.
    assert_eq!(evaluation.router_by_knowledge["measured"].total, 2);
    assert_eq!(evaluation.router_by_knowledge["predicted"].total, 0);
    close(evaluation.prediction.mape_pct, 0.0);
    close(evaluation.prediction.interval_coverage_pct, 100.0);
    assert_eq!(evaluation.prediction.total, 6);
    assert_eq!(evaluation.prediction_fitted.total, 0);
}

#[test]
fn fit_only_leaves_measurements_out() {
    // Made-up times of one model that its hardware model cannot know.
    let simulated = Simulated::with(ort(), gpu().on("conv-64c-4l", Behaviour::time(90e6)), rten());
    let report = simulated.up();
    let decision = report.evaluation.decisions.iter().find(|d| d.model == "conv-64c-4l").unwrap();
    assert_eq!(decision.chosen, Some(key(ORT)));
    let fitted = decision.strategies["fit-only"].clone();
    assert!(fitted.is_some());
    assert_eq!(decision.strategies["always-cpu"], Some(key(ORT)));
    assert_eq!(decision.strategies["always-first-listed"], Some(key(GPU)));
    assert_eq!(decision.strategies["always-gpu"], Some(key(GPU)));
}

#[test]
fn a_strategy_without_its_target_is_not_applicable() {
    let simulated = Simulated::usual();
    simulated.home.remove_package("fakegpu");
    let report = simulated.up();
    let score = &report.evaluation.strategies["always-gpu"];
    assert_eq!((score.total, score.not_applicable), (0, report.evaluation.decisions.len()));
    assert_eq!((score.accuracy_pct, score.mean_regret_pct), (None, None));
    let listed = &report.evaluation.decisions[0].strategies["always-first-listed"];
    assert_eq!(*listed, Some(key(ORT)));
}

#[test]
fn intervals_of_equal_targets_overlap_and_count_as_a_tie() {
    let simulated = Simulated::with(
        ort().on("mlp-512w-4l", Behaviour::time(1e6)),
        gpu(),
        rten().on("mlp-512w-4l", Behaviour::time(1e6)),
    );
    let report = simulated.up();
    for decision in report.evaluation.decisions.iter().filter(|d| d.model == "mlp-512w-4l") {
        let (ort, rten) = (decision.times_ms[&key(ORT)], decision.times_ms[&key(RTEN)]);
        assert!((ort - 1.0).abs() < 0.02 && (rten - 1.0).abs() < 0.02);
        assert!(decision.tie || decision.best == decision.chosen);
    }
    assert_eq!(report.evaluation.strategies["router"].wins, report.evaluation.strategies["router"].total);
}

/// The decision for `mlp-512w-4l` at batch 1 with that model left out, where it takes `own_ms` on one target.
fn left_out(own_ms: f64) -> CheckedDecision {
    let simulated = Simulated::with(
        timed(ort(), &[("mlp-512w-4l", own_ms)]),
        timed(gpu(), &[]),
        FakeTarget { spread: 0.0, ..rten() },
    );
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let trials = || {
        let filter = siliconroute_store::TrialFilter::default();
        router.store().trial_summaries(&filter).unwrap().len()
    };
    let before = trials();
    let questions = router.measured_questions(&learned, &mut Silent).unwrap();
    let left_out = router.leave_models_out(&questions, &targets, SUSTAINED).unwrap();
    assert_eq!(trials(), before, "nothing is measured");
    let decisions = left_out.evaluation.decisions;
    assert!(decisions.iter().all(|it| it.source.values().all(|source| source != "measured")));
    let wanted = |it: &&CheckedDecision| it.model == "mlp-512w-4l" && it.batch == 1;
    decisions.iter().find(wanted).unwrap().clone()
}

#[test]
fn a_left_out_model_is_decided_by_what_the_others_tell() {
    let (usual, slow) = (left_out(0.1), left_out(50.0));
    assert_eq!(usual.predicted_ms.len(), 3);
    for (target, predicted) in &usual.predicted_ms {
        let other = slow.predicted_ms[target];
        assert!((predicted / other - 1.0).abs() < 1e-6, "{target}: {predicted} {other}");
    }
    assert_eq!(usual.chosen, slow.chosen);
    close(slow.times_ms.get(&key(ORT)).copied(), 50.0);
    close(usual.times_ms.get(&key(ORT)).copied(), 0.1);
}

#[test]
fn conditions_are_recorded_with_every_trial() {
    let simulated = Simulated::usual();
    check(&simulated, &["mlp-128w-4l"]);
    let router = simulated.router();
    let stored = router.store().trial_summaries(&siliconroute_store::TrialFilter::default()).unwrap();
    assert_eq!(stored.len(), 3);
    for trial in stored {
        let trial = router.store().trial(trial.id).unwrap().unwrap();
        let conditions: serde_json::Value = serde_json::from_str(&trial.conditions).unwrap();
        assert_eq!(conditions["schema"], "siliconroute.conditions/3");
        let seen = &conditions["meanwhile"]["seen"]["available"];
        assert_eq!((&seen["period_s"], &seen["snapshots"]), (&serde_json::json!(1.0), &serde_json::json!(0)));
        let reason = seen["cpu_mhz"]["unavailable"].as_str().unwrap();
        assert!(reason.contains("shorter than one period"), "simulated time passes at once: {reason}");
        let measured = trial.outcome.unwrap();
        assert!(matches!(measured.peak_resident_bytes, Reading::Unavailable(_)));
        assert!(measured.samples.len() >= 30);
    }
}

/// A session that ONNX Runtime, or OpenVINO, would put where it likes; known to the engine and offered to nobody.
fn others(name: &str, times_ms: &[(&str, f64)]) -> FakeTarget {
    let target = timed(FakeTarget::new(&format!("auto/{name}"), TimeLaw::new(1e6, 0.0)), times_ms);
    FakeTarget { unavailable: Some("is no target".to_owned()), ..target }
}

#[test]
fn an_evaluation_measures_every_workload_beside_what_others_choose() {
    let model = "mlp-512w-4l";
    let plugin = vec![
        timed(gpu(), &[(model, 1.0)]),
        others("ort-max-performance", &[(model, 4.0)]),
        others("ort-prefer-cpu", &[(model, 2.0)]),
    ];
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![timed(ort(), &[(model, 2.0)])]),
        FakeEngine::new("fakegpu", plugin),
        FakeEngine::new("rten", vec![timed(rten(), &[(model, 3.0)])]),
    ]);
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let plan = EvaluationPlan { decisions: 3, ..EvaluationPlan::default() };
    let asked = ask(&[question(&router, model, 1)], &learned.knowledge, &plan);
    assert_eq!(asked.iter().map(|it| it.workload).collect::<Vec<_>>(), Workload::ALL);
    let checks = router.evaluate(&asked, &plan, &targets, &learned, &mut Silent).unwrap();
    assert!(checks.failure().is_none());
    let evaluation = checks.evaluation(plan.budget);
    assert!(evaluation.elapsed_s.is_some() && evaluation.budget_s.is_none());
    for decision in &evaluation.decisions {
        assert_eq!(decision.times_ms.len(), 3, "{}: nobody is left out", decision.workload);
        assert_eq!(decision.best, Some(key(GPU)));
        let chose = &decision.others["ort-prefer-cpu"];
        assert_eq!(
            (chose.measured_as.clone(), chose.failure.clone()),
            (Some(key("auto/ort-prefer-cpu")), None)
        );
    }
    let sustained = &evaluation.by_workload["sustained"];
    close(sustained["ort-max-performance"].mean_regret_pct, 300.0);
    close(sustained["ort-prefer-cpu"].mean_regret_pct, 100.0);
    close(sustained["always-cpu/rten"].mean_regret_pct, 200.0);
    close(sustained["oracle"].mean_regret_pct, 0.0);
    // Of a rested target nothing is known here, and the fixed order decides.
    assert_eq!(evaluation.by_workload["idle_loaded"]["router"].total, 1);
    assert_eq!(evaluation.strategies["router"].total, 3);
    // What the machine has not is said, not passed over.
    assert!(evaluation.unavailable["openvino-auto"].contains("OpenVINO"), "{:?}", evaluation.unavailable);
    assert!(evaluation.unavailable["ort-prefer-npu"].contains("auto/ort-prefer-npu"));
    assert_eq!(evaluation.strategies["ort-prefer-npu"].total, 0);
    // Sessions of others teach nothing: they are no targets.
    let again = router.learn(&targets).unwrap();
    assert!(again.trials.iter().all(|trial| !trial.target.as_str().starts_with("auto/")));
    assert_eq!(again.knowledge.targets().len(), 3);
    // Nor do they leave for other machines, and that is no fault of theirs.
    let file = simulated.home.path().join("knowledge.jsonl");
    let exported = router.export_knowledge(&file).unwrap();
    // Simulated times repeat, which no real ones do.
    let fault = exported.first_fault.unwrap_or_default();
    assert!(fault.is_empty() || fault.contains("the same session"), "{fault}");
    let names: Vec<&str> = exported.baselines.keys().map(String::as_str).collect();
    assert_eq!(names, ["ort-max-performance", "ort-prefer-cpu"]);
    assert!(exported.baselines.values().all(|sessions| *sessions > 0));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("ort-"));
}

#[test]
fn an_evaluation_keeps_to_its_budget() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let budget = Some(std::time::Duration::from_nanos(1));
    let plan = EvaluationPlan { budget, ..EvaluationPlan::default() };
    let asked = ask(&[question(&router, "mlp-512w-4l", 1)], &learned.knowledge, &plan);
    let mut told = Notices::default();
    let checks = router.evaluate(&asked, &plan, &targets, &learned, &mut told).unwrap();
    let nothing = checks.failure().unwrap();
    assert_eq!(nothing.to_string(), "no decision could be checked, since the budget has no room for any");
    let left_out = |text: &&String| text.contains("not checked, since it takes at least about");
    assert_eq!(told.0.iter().filter(left_out).count(), 3, "{:?}", told.0);
    assert_eq!(checks.evaluation(budget).not_checked.len(), 3);
}

#[test]
fn a_budget_leaves_out_the_decisions_that_it_has_no_room_for_and_no_others() {
    let slow = |target: FakeTarget| timed(target, &[("mlp-512w-4l", 30_000.0)]);
    let simulated = Simulated::with(slow(ort()), slow(gpu()), slow(rten()));
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    // Room for any decision on the light model, and for no inference on the heavy one.
    let budget = Some(std::time::Duration::from_secs(20));
    let plan = EvaluationPlan { budget, decisions: 2, workloads: vec![SUSTAINED] };
    let questions = ["mlp-512w-4l", "mlp-128w-4l"].map(|model| question(&router, model, 1));
    let asked = ask(&questions, &learned.knowledge, &plan);
    simulated.launcher.forget_calls();
    let checks = router.evaluate(&asked, &plan, &targets, &learned, &mut Silent).unwrap();
    let checked: Vec<&str> = checks.decisions.iter().map(|it| it.model.as_str()).collect();
    let left_out: Vec<&str> = checks.not_checked.iter().map(|it| it.model.as_str()).collect();
    assert_eq!((checked, left_out), (vec!["mlp-128w-4l"], vec!["mlp-512w-4l"]));
    assert!(simulated.launcher.sessions().iter().all(|(_, model)| model == "mlp-128w-4l"));
    assert!(checks.failure().is_none(), "what has room is checked");
}

#[test]
fn an_evaluation_that_is_stopped_gives_what_it_has_checked() {
    let simulated = Simulated::usual();
    simulated.up();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let router = Router::open(options).unwrap();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let plan = EvaluationPlan { decisions: 2, workloads: vec![SUSTAINED], ..EvaluationPlan::default() };
    let questions = [1, 8].map(|batch| question(&router, "mlp-128w-4l", batch));
    let asked = ask(&questions, &learned.knowledge, &plan);
    // Two sessions of the first decision, and the second one's has begun.
    let mut stop = StopAt { step: "mlp-128w-4l", left: 3, cancelled };
    let checks = router.evaluate(&asked, &plan, &targets, &learned, &mut stop).unwrap();
    assert!(matches!(checks.failure(), Some(Error::Interrupted)));
    let evaluation = checks.evaluation(None);
    assert!(evaluation.interrupted && evaluation.not_checked.is_empty());
    assert_eq!(evaluation.decisions.len(), 1);
    assert_eq!(evaluation.strategies["router"].total, 1);
}

#[test]
fn decisions_are_spread_over_what_was_measured_first() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let questions = router.measured_questions(&learned, &mut Silent).unwrap();
    assert!(questions.len() > 4);
    let plan = EvaluationPlan { decisions: 8, ..EvaluationPlan::default() };
    let asked = ask(&questions, &learned.knowledge, &plan);
    let count = |workload| asked.iter().filter(|it| it.workload == workload).count();
    assert_eq!(Workload::ALL.map(count), [3, 3, 2]);
    let mut cases: Vec<_> = asked.iter().map(|it| (it.workload.index(), it.question.case.id)).collect();
    cases.sort();
    cases.dedup();
    assert_eq!(cases.len(), 8, "no case is asked twice in one workload");
    assert_eq!(ask(&questions[..1], &learned.knowledge, &plan).len(), 3);
}

/// Notices, as the user would be told them.
#[derive(Default)]
struct Notices(Vec<String>);

impl Listener for Notices {
    fn event(&mut self, event: Event) {
        if let Event::Notice(text) = event {
            self.0.push(text);
        }
    }
}

#[test]
fn what_cannot_be_measured_is_no_failed_decision() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    // No rest of ten seconds fits into this.
    let budget = Some(std::time::Duration::from_secs(2));
    let plan = EvaluationPlan { budget, decisions: 1, workloads: vec![Workload::IdleLoaded] };
    let asked = ask(&[question(&router, "mlp-512w-4l", 1)], &learned.knowledge, &plan);
    let before = router.decisions(1_000).unwrap().len();
    let mut told = Notices::default();
    let checks = router.evaluate(&asked, &plan, &targets, &learned, &mut told).unwrap();
    assert!(checks.decisions.is_empty() && checks.failure().is_some());
    assert!(
        told.0.iter().any(|text| text.contains("idle_loaded: not checked, since it takes at least about ")),
        "{:?}",
        told.0
    );
    assert_eq!(router.decisions(1_000).unwrap().len(), before, "nothing is kept of it");
}
