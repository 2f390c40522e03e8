//! Every decision is kept with what came of it, and can be made again from that.

use siliconroute::decisions::{DecisionId, Occasion};
use siliconroute::evaluation::Question;
use siliconroute::event::Silent;
use siliconroute::run::Routing;
use siliconroute::{ErrorKind, inputs};
use siliconroute_testkit::{Behaviour, FakeEngine, FakeTarget, Fault, Moment, TimeLaw};

use crate::simulated::{Simulated, key, question};

const FAST: &str = "gpu:1:1@a/webgpu";
const SLOW: &str = "gpu:2:2@b/webgpu";
const MODEL: &str = "mlp-64w-2l";

/// A machine that has been started once, and whose fast target behaves so from then on.
fn started(fast: Behaviour) -> Simulated {
    let target = |key: &str, overhead_ns: f64| FakeTarget::new(key, TimeLaw::new(overhead_ns, 0.0));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![]),
        FakeEngine::new("fakea", vec![target(FAST, 1e6)]),
        FakeEngine::new("fakeb", vec![target(SLOW, 2e6)]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.started();
    simulated.launcher.change(FAST, |target| *target = target.clone().on(MODEL, fast));
    simulated
}

#[track_caller]
fn run(simulated: &Simulated, routing: &Routing) -> Option<DecisionId> {
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, MODEL, 1);
    let values = inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap();
    let mut session = router.open_session(&model, &case, &targets, &learned, routing).unwrap();
    session.infer(values).unwrap();
    session.decision()
}

#[test]
fn a_run_keeps_its_decision_with_what_came_of_it() {
    let simulated = started(Behaviour::fault(Moment::Run, Fault::Crash));
    let id = run(&simulated, &Routing::default()).unwrap();
    let router = simulated.router();
    let kept = router.decision(id).unwrap();
    let document = kept.replayable().unwrap();
    assert_eq!((document.occasion, kept.chosen.clone()), (Occasion::Run, Some(key(FAST))));
    let [carried] = kept.outcomes.as_slice() else { panic!("{:?}", kept.outcomes) };
    assert_eq!((carried.target.clone(), carried.runs), (Some(key(SLOW)), 1));
    assert_eq!(carried.fell_back[0].target, key(FAST));
    assert!(carried.last_run_ms.is_some());
    // What was learned since changes nothing.
    simulated.up();
    let replayed = document.replay();
    assert!(replayed.same, "{}", replayed.reason);
    assert_eq!(replayed.reason, document.reason);
}

#[test]
fn a_named_target_is_no_decision() {
    let simulated = started(Behaviour::default());
    let before = simulated.router().decisions(1).unwrap();
    let routing = Routing { target: Some(key(SLOW)), ..Routing::default() };
    assert_eq!(run(&simulated, &routing), None);
    assert_eq!(simulated.router().decisions(1).unwrap(), before);
}

#[test]
fn a_checked_decision_has_its_regret_and_repeats() {
    let simulated = started(Behaviour::default());
    let router = simulated.router();
    let decisions: Vec<_> = router.decisions(1000).unwrap().into_iter().map(Result::unwrap).collect();
    assert!(!decisions.is_empty());
    for kept in &decisions {
        let document = kept.replayable().unwrap();
        assert_eq!((document.occasion, kept.regret_pct), (Occasion::Check, Some(0.0)));
        assert!(document.replay().same);
    }
    let error = router.decision(DecisionId(99_999)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains(&format!("the latest is {}", decisions[0].id)), "{error}");
}
