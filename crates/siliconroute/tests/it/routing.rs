//! One inference on the best target, and on the next one when it fails.

use siliconroute::evaluation::Question;
use siliconroute::event::Silent;
use siliconroute::run::{Choice, Routing};
use siliconroute::{Error, ErrorKind, inputs};
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::tensor::{NamedTensor, Tensor, TensorData};

use siliconroute_core::{AccuracyClass, ChipKind, TargetKey, Workload};
use siliconroute_store::{NewOutcome, TrialFilter};
use siliconroute_testkit::{Behaviour, FakeEngine, FakeTarget, Fault, Moment, NodePlacement, TimeLaw};

use crate::simulated::{Simulated, key, question};

const FAST: &str = "gpu:1:1@a/webgpu";
const MIDDLE: &str = "gpu:2:2@b/webgpu";
const SLOW: &str = "npu:3:3@c/qnn";
const MODEL: &str = "mlp-128w-4l";

/// Three targets of plugins, which run in workers. The machine has been started once; from then on the first ones fail
/// as told.
fn started(fast: Option<Behaviour>, middle: Option<Behaviour>) -> Simulated {
    let target = |key: &str, overhead_ns: f64| FakeTarget::new(key, TimeLaw::new(overhead_ns, 0.0));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![]),
        FakeEngine::new("fakea", vec![target(FAST, 1e6)]),
        FakeEngine::new("fakeb", vec![target(MIDDLE, 2e6)]),
        FakeEngine::new("fakec", vec![target(SLOW, 3e6)]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.started();
    for (key, behaviour) in [(FAST, fast), (MIDDLE, middle)] {
        if let Some(behaviour) = behaviour {
            simulated.launcher.change(key, |target| *target = target.clone().on("mlp-64w-2l", behaviour));
        }
    }
    simulated
}

/// The model that the targets may fail on: known from predictions alone, so that failures are news.
fn unseen(router: &siliconroute::Router) -> Question {
    question(router, "mlp-64w-2l", 1)
}

#[track_caller]
fn check(simulated: &Simulated, answered: &str, fallen: &[(&str, &str)], runs: u32) {
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    let mut session = router.open_session(&model, &case, &targets, &learned, &Routing::default()).unwrap();
    session.set_inputs(values).unwrap();
    for _ in 0..runs {
        session.run().unwrap();
    }
    assert_eq!(session.target(), &key(answered));
    assert_eq!(session.runs(), u64::from(runs));
    let found: Vec<(&str, String)> =
        session.fell_back().iter().map(|f| (f.target.as_str(), f.failure.to_string())).collect();
    assert_eq!(found.len(), fallen.len(), "{found:?}");
    for ((target, failure), (expected, reason)) in found.iter().zip(fallen) {
        assert_eq!(target, expected);
        assert!(failure.starts_with(reason), "{failure}");
    }
    let outputs = session.outputs().unwrap();
    assert_eq!(outputs[0].tensor.shape(), [1, 64]);
}

#[test]
fn the_fastest_target_answers() {
    check(&started(None, None), FAST, &[], 3);
}

#[test]
fn a_target_that_crashes_in_a_run_hands_the_request_to_the_next() {
    let crash = Behaviour::fault(Moment::Run, Fault::Crash);
    check(&started(Some(crash), None), MIDDLE, &[(FAST, "crashed")], 1);
}

#[test]
fn a_target_that_fails_later_hands_over_with_the_same_inputs() {
    let crash = Behaviour::fault_after(Moment::Run, 2, Fault::Crash);
    check(&started(Some(crash), None), MIDDLE, &[(FAST, "crashed")], 5);
}

#[test]
fn every_way_of_failing_is_followed_by_the_next_target() {
    let create = Behaviour::fault(Moment::Create, Fault::Refuse("no such operator".to_owned()));
    let inputs = Behaviour::fault(Moment::SetInputs, Fault::OutOfMemory);
    let fallen = [(FAST, "refused: no such operator"), (MIDDLE, "memory_exceeded")];
    check(&started(Some(create), Some(inputs)), SLOW, &fallen, 2);
    let hang = || Behaviour::fault(Moment::Run, Fault::Hang);
    let fallen = [(FAST, "timed_out"), (MIDDLE, "timed_out")];
    check(&started(Some(hang()), Some(hang())), SLOW, &fallen, 2);
}

#[test]
fn when_every_target_fails_each_reason_is_given() {
    let simulated = started(None, None);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    for key in [FAST, MIDDLE, SLOW] {
        simulated.launcher.change(key, |target| {
            let behaviour = Behaviour::fault(Moment::Run, Fault::Refuse(format!("{key} is tired")));
            target.models.insert("mlp-64w-2l".to_owned(), behaviour);
        });
    }
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    let mut session = router.open_session(&model, &case, &targets, &learned, &Routing::default()).unwrap();
    let error = session.infer(values).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
    for key in [FAST, MIDDLE, SLOW] {
        assert!(error.to_string().contains(&format!("{key} is tired")), "{error}");
    }
}

#[test]
fn wrong_inputs_are_the_callers_error_and_no_targets_failure() {
    let simulated = started(None, None);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let mut session = router.open_session(&model, &case, &targets, &learned, &Routing::default()).unwrap();
    let narrow = Tensor::new(vec![1, 3], TensorData::Float32(vec![0.0; 3])).unwrap();
    let wrong = [
        Vec::new(),
        vec![NamedTensor { name: "input".to_owned(), tensor: narrow.clone() }],
        vec![NamedTensor { name: "other".to_owned(), tensor: narrow }],
    ];
    for values in wrong {
        let error = session.infer(values).unwrap_err();
        assert!(matches!(error, Error::Input(_)), "{error}");
    }
    let error = session.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    assert_eq!(session.target(), &key(FAST));
    assert_eq!(session.fell_back(), []);
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    assert_eq!(session.infer(values).unwrap().target, key(FAST));
}

#[test]
fn a_named_target_answers_or_nobody() {
    let simulated = started(None, None);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let routing = Routing { target: Some(key(SLOW)), ..Routing::default() };
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    let outcome = router
        .open_session(&model, &case, &targets, &learned, &routing)
        .unwrap()
        .infer(values.clone())
        .unwrap();
    assert_eq!(outcome.target, key(SLOW));
    simulated.launcher.change(SLOW, |target| {
        target.behaviour = Behaviour::fault(Moment::Run, Fault::Crash);
    });
    let mut session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
    assert!(matches!(session.infer(values).unwrap_err(), Error::TargetFailed { .. }));
}

#[test]
fn before_anything_is_known_a_fixed_order_decides_and_says_so() {
    let reference = FakeTarget::new("cpu/rten", TimeLaw::new(9e6, 0.0));
    let gpu = FakeTarget::new(FAST, TimeLaw::new(1e6, 0.0));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![]),
        FakeEngine::new("fakea", vec![gpu]),
        FakeEngine::new("rten", vec![reference]),
    ]);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let isolated = || Routing { isolated: true, ..Routing::default() };
    let open = |routing: &Routing| router.open_session(&model, &case, &targets, &learned, routing).unwrap();
    let session = open(&isolated());
    assert_eq!((session.target(), session.choice()), (&key("cpu/rten"), Choice::FixedOrder));
    let order = format!("chosen by the fixed order cpu/rten, {FAST}");
    assert!(session.notice().unwrap().contains(&order), "{:?}", session.notice());
    let session = open(&Routing { chip_kind: Some(ChipKind::Gpu), ..isolated() });
    assert_eq!((session.target(), session.choice()), (&key(FAST), Choice::FixedOrder));
    assert!(session.notice().unwrap().contains("the only target at hand"), "{:?}", session.notice());
    let session = open(&Routing { target: Some(key(FAST)), ..isolated() });
    assert_eq!((session.choice(), session.notice()), (Choice::Named, None));
    simulated.up();
    let learned = router.learn(&targets).unwrap();
    let session = router.open_session(&model, &case, &targets, &learned, &isolated()).unwrap();
    assert_eq!((session.target(), session.choice()), (&key(FAST), Choice::Decided));
    assert_eq!(session.notice(), None);
}

#[test]
fn nothing_is_chosen_that_is_known_to_fail() {
    let refuse = Behaviour::fault(Moment::Create, Fault::Refuse("no such operator".to_owned()));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![]),
        FakeEngine::new("fakea", vec![FakeTarget::new(FAST, TimeLaw::new(1e6, 0.0)).on(MODEL, refuse)]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let error = router.open_session(&model, &case, &targets, &learned, &Routing::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NothingSuitable);
    assert!(error.to_string().contains("no such operator"), "{error}");
}

#[test]
fn what_the_reference_refuses_to_compute_nobody_else_answers() {
    let refuse = Behaviour::fault(Moment::Run, Fault::Refuse("index 999 is beyond the table".to_owned()));
    let ort = FakeTarget::new("cpu/ort", TimeLaw::new(1e3, 0.0)).on("mlp-64w-2l", refuse);
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort]),
        FakeEngine::new("fakea", vec![FakeTarget::new(FAST, TimeLaw::new(1e6, 0.0))]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    let routing = Routing { isolated: true, ..Routing::default() };
    let mut session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
    session.set_inputs(values).unwrap();
    let error = session.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let error = error.to_string();
    assert!(error.starts_with("cpu/ort refuses to compute mlp-64w-2l"), "{error}");
    assert!(error.contains("so no other target is asked: cpu/ort: refused: index 999 is beyond"), "{error}");
    assert_eq!(session.fell_back().len(), 1);
}

#[test]
fn a_model_that_every_engine_refuses_is_the_callers_error_told_in_brief() {
    let reason = format!("load failed {}: this is an invalid model", "at length ".repeat(300));
    let refuse = Behaviour::fault(Moment::Create, Fault::Refuse(reason));
    let refusing =
        |key: &str, ns: f64| FakeTarget::new(key, TimeLaw::new(ns, 0.0)).on("mlp-64w-2l", refuse.clone());
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![refusing("cpu/ort", 1e3)]),
        FakeEngine::new("fakea", vec![refusing(FAST, 1e6)]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let open = |target: Option<&str>| {
        let routing = Routing { target: target.map(key), isolated: true, ..Routing::default() };
        router.open_session(&model, &case, &targets, &learned, &routing).unwrap_err()
    };
    for error in [open(None), open(Some("cpu/ort"))] {
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        let text = error.to_string();
        assert!(text.contains("this is an invalid model") && text.len() < 500, "{text}");
    }
    // A provider of one chip may lack what the model needs.
    assert_eq!(open(Some(FAST)).kind(), ErrorKind::WorkFailed);
}

/// The answer of a router whose only fast target behaves so, asked by its name.
fn named(
    behaviour: Behaviour,
    accuracy: Option<AccuracyClass>,
    learnt: bool,
) -> Result<Option<String>, Error> {
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![FakeTarget::new("cpu/ort", TimeLaw::new(1e6, 0.0))]),
        FakeEngine::new("fakea", vec![FakeTarget::new(FAST, TimeLaw::new(1e3, 0.0)).on(MODEL, behaviour)]),
        FakeEngine::new("rten", vec![]),
    ]);
    if learnt {
        simulated.up();
    }
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let routing = Routing { target: Some(key(FAST)), accuracy, isolated: true, ..Routing::default() };
    let mut session = router.open_session(&model, &case, &targets, &learned, &routing)?;
    session.infer(inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap())?;
    assert_eq!(session.target(), &key(FAST));
    Ok(session.notice().map(str::to_owned))
}

#[test]
fn a_named_target_that_fails_the_accuracy_class_answers_with_a_notice() {
    let off = || Behaviour::outputs(siliconroute_testkit::Outputs::Off(3e-3));
    let exact = Some(AccuracyClass::Exact);
    let notice = named(off(), exact, true).unwrap().unwrap();
    assert!(notice.contains("fail the class exact: relative error 3.0e-3"), "{notice}");
    assert_eq!(named(off(), Some(AccuracyClass::Standard), true).unwrap(), None);
    assert_eq!(named(Behaviour::default(), exact, true).unwrap(), None);
    let notice = named(Behaviour::default(), exact, false).unwrap().unwrap();
    assert!(notice.contains("within the class exact is not known"), "{notice}");
    assert_eq!(named(Behaviour::default(), None, false).unwrap(), None);
}

#[test]
fn a_named_target_that_fails_is_named_alone() {
    let error = named(Behaviour::fault(Moment::Run, Fault::Crash), None, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
    assert!(error.to_string().contains(&format!("failed on {FAST}: crashed")), "{error}");
    let error = named(Behaviour::placed(NodePlacement::Elsewhere), None, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NothingSuitable);
    let told = "it would run none of the model's nodes; ONNX Runtime's CPU provider would";
    assert!(error.to_string().contains(told) && error.to_string().starts_with(FAST), "{error}");
}

#[test]
fn whoever_waits_is_told_which_target_is_tried_next() {
    let hang = Behaviour::fault(Moment::Run, Fault::Hang);
    let simulated = Simulated::of(vec![
        FakeEngine::new(
            "onnxruntime",
            vec![FakeTarget::new("cpu/ort", TimeLaw::new(1e3, 0.0)).on(MODEL, hang)],
        ),
        FakeEngine::new("fakea", vec![FakeTarget::new(FAST, TimeLaw::new(1e6, 0.0))]),
        FakeEngine::new("rten", vec![]),
    ]);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let routing = Routing { isolated: true, ..Routing::default() };
    let mut told = Vec::new();
    let mut session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
    session.on_fall_back(|fallen, next| told.push((fallen.failure.kind, next.clone())));
    session.infer(inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap()).unwrap();
    drop(session);
    assert_eq!(told, [(siliconroute_core::trial::FailureKind::TimedOut, key(FAST))]);
}

#[test]
fn a_target_that_checks_no_computed_indices_is_told_for_a_model_that_computes_some() {
    for (behaviour, told) in [(Some(Behaviour::default()), true), (None, false)] {
        let mut target = FakeTarget::new(FAST, TimeLaw::new(1e3, 0.0));
        if let Some(behaviour) = behaviour {
            target = target.on("index-probe", behaviour);
        }
        let simulated = Simulated::of(vec![
            FakeEngine::new("onnxruntime", vec![]),
            FakeEngine::new("fakea", vec![target]),
            FakeEngine::new("rten", vec![]),
        ]);
        let own = simulated.home.path().join("gathering.onnx");
        std::fs::write(&own, siliconroute_onnx::index_probe_model()).unwrap();
        let router = simulated.router();
        let targets = router.targets(&mut Silent).unwrap();
        let learned = router.learn(&targets).unwrap();
        let notice = |model: &str| {
            let Question { model, case } = question(&router, model, 1);
            let routing = Routing { target: Some(key(FAST)), isolated: true, ..Routing::default() };
            let session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
            session.notice().is_some_and(|notice| notice.contains("does not check indices that gathering"))
        };
        assert_eq!(notice(&own.display().to_string()), told);
        assert!(!notice(MODEL));
    }
}

#[test]
fn a_target_that_failed_twice_is_left_out_for_a_while() {
    let simulated = started(Some(Behaviour::fault(Moment::Run, Fault::Crash)), None);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    for failures in [1, 1, 0] {
        let mut session =
            router.open_session(&model, &case, &targets, &learned, &Routing::default()).unwrap();
        session.infer(values.clone()).unwrap();
        assert_eq!((session.target(), session.fell_back().len()), (&key(MIDDLE), failures));
    }
    let context = router.context(&learned);
    let left_out: Vec<&str> =
        context.quarantined.iter().map(|index| learned.knowledge.target(*index).key.as_str()).collect();
    assert_eq!(left_out, [FAST]);
}

#[test]
fn another_process_leaves_out_a_target_that_failed_while_it_served() {
    let simulated = started(None, None);
    let models = ["mlp-64w-2l", "mlp-96w-2l"];
    simulated.launcher.change(FAST, |target| {
        let crash = || Behaviour::fault(Moment::Run, Fault::Crash);
        target.models.extend(models.map(|model| (model.to_owned(), crash())));
    });
    let left_out = |router: &siliconroute::Router| {
        let targets = router.targets(&mut Silent).unwrap();
        let learned = router.learn(&targets).unwrap();
        let context = router.context(&learned);
        let key = |index: &TargetIndex| learned.knowledge.target(*index).key.clone();
        context.quarantined.iter().map(key).collect::<Vec<_>>()
    };
    {
        let router = simulated.router();
        let targets = router.targets(&mut Silent).unwrap();
        let learned = router.learn(&targets).unwrap();
        // What fails on one model alone speaks of that model.
        for (width, failing) in [(models[0], false), (models[1], true)] {
            let Question { model, case } = question(&router, width, 1);
            let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
            let routing = Routing { target: Some(key(FAST)), ..Routing::default() };
            let mut session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
            assert!(session.infer(values).is_err());
            drop(session);
            assert_eq!(left_out(&simulated.router()) == [key(FAST)], failing, "{width}");
        }
    }
    // An inference that it has answered since ends that.
    let router = simulated.router();
    let trials = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    let row = trials.iter().find(|trial| trial.target == key(FAST)).unwrap().target_id;
    let at_ms = router.unix_ms() + 1_000;
    let decision = router.store().latest_decisions(1).unwrap()[0].as_ref().unwrap().id;
    let outcome = NewOutcome { decision, target: Some(row), document: "{}", created_unix_ms: at_ms };
    router.store().record_outcome(&outcome).unwrap();
    assert_eq!(left_out(&router), Vec::<TargetKey>::new());
}

#[test]
fn a_workload_that_nobody_names_is_inferred_and_said() {
    let simulated = started(None, None);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = unseen(&router);
    let one = Routing { inferences: Some(1), ..Routing::default() };
    let rate = siliconroute_core::decide::Limits { least_per_second: Some(1.0), ..Default::default() };
    for (routing, workload, why) in [
        (Routing::default(), Workload::Sustained, Some("a session is to serve more than one inference")),
        (Routing { inferences: Some(2), ..Routing::default() }, Workload::Sustained, Some("more than one")),
        (one.clone(), Workload::ColdStart, Some("no session is alive and one inference is asked for")),
        (Routing { limits: rate, ..one.clone() }, Workload::Sustained, Some("inferences a second")),
        (Routing { workload: Some(Workload::IdleLoaded), ..one }, Workload::IdleLoaded, None),
    ] {
        assert_eq!(router.query(&case, &routing).workload, workload);
        let session = router.open_session(&model, &case, &targets, &learned, &routing).unwrap();
        match (session.inference(), why) {
            (Some(said), Some(why)) => {
                assert!(said.contains(workload.name()) && said.contains(why), "{said}");
            }
            (said, why) => assert_eq!(said, why),
        }
    }
}
