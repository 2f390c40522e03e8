//! A model is tuned, its sessions use what was found, and nothing else does.

use siliconroute::event::Silent;
use siliconroute::measure::{Job, Order};
use siliconroute::model_tuning::{Answer, ModelTuning, TuneModel};
use siliconroute::run::Routing;
use siliconroute::{Router, Targets};
use siliconroute_core::TargetKey;
use siliconroute_core::statistics::Replication;
use siliconroute_core::trial::Purpose;
use siliconroute_core::tuning::TuningGoal;
use siliconroute_engine::ThreadOptions;
use siliconroute_testkit::{FakeEngine, FakeTarget, Working};

use crate::simulated::{Notices, ORT, RTEN, SUSTAINED, Simulated, key, ort, question, rten};

const MODEL: &str = "mlp-256w-4l";

/// One thread is twice as fast as more of them; threads that sleep cost next to nothing and save what they burn.
fn better_alone(threads: &ThreadOptions) -> Working {
    let alone = threads.count == Some(1);
    let spins = !alone && threads.spin != Some(false);
    Working {
        time_factor: if alone { 0.5 } else { 1.0 },
        busy_cores: if alone { 1.0 } else { 1.9 },
        idle_ns: Some(if spins { 30_000_000 } else { 0 }),
    }
}

/// Nothing changes the time; threads that sleep do not burn.
fn all_the_same(threads: &ThreadOptions) -> Working {
    let spins = threads.count != Some(1) && threads.spin != Some(false);
    let busy_cores = threads.count.map_or(1.0, |count| f64::from(count).min(1.0));
    Working { time_factor: 1.0, busy_cores, idle_ns: Some(if spins { 30_000_000 } else { 0 }) }
}

fn machine(of_ort: fn(&ThreadOptions) -> Working) -> Simulated {
    let ort = FakeTarget { by_threads: Some(of_ort), spread: 0.001, ..ort() };
    let rten = FakeTarget { by_threads: Some(all_the_same), spread: 0.001, ..rten() };
    Simulated::of(vec![FakeEngine::new("onnxruntime", vec![ort]), FakeEngine::new("rten", vec![rten])])
}

fn tune(router: &Router, targets: &Targets, goal: TuningGoal, batch: u64) -> ModelTuning {
    let question = question(router, MODEL, batch);
    let replication = Some(Replication { most: 8, ..Replication::default() });
    let order = TuneModel { goal, targets: Vec::new(), replication };
    router.tune_model(&question.model, &question.case, targets, &order, &mut Silent).unwrap()
}

/// The targets that a decision on a batch of the model chooses from.
fn candidates(router: &Router, targets: &Targets, batch: u64) -> Vec<String> {
    let question = question(router, MODEL, batch);
    let tuned = router.tuned_targets(targets, &question.case).unwrap();
    let learned = router.learn(&tuned.targets).unwrap();
    learned.knowledge.targets().iter().map(|entry| entry.target.key.to_string()).collect()
}

#[test]
fn a_gain_is_confirmed_and_every_session_of_the_case_takes_it() {
    let simulated = machine(better_alone);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let tuning = tune(&router, &targets, TuningGoal::Fastest, 1);
    let [of_ort, of_rten] = &tuning.targets[..] else { panic!("{tuning:?}") };
    assert_eq!((of_ort.answer, of_ort.chosen.as_str()), (Answer::Faster, "cpu/ort+threads=1"));
    let interval = of_ort.comparison.as_ref().unwrap().interval.unwrap();
    assert!(interval.low <= 0.51 && interval.high >= 0.49, "{interval:?}");
    assert!(of_ort.proofs.iter().all(|proof| proof.shown.available() == Some(&true)), "{of_ort:?}");
    assert_eq!((of_rten.answer, of_rten.chosen.as_str()), (Answer::NothingFound, RTEN));

    assert_eq!(candidates(&router, &targets, 1), ["cpu/ort+threads=1", RTEN]);
    let question = question(&router, MODEL, 1);
    let learned = router.learn(&targets).unwrap();
    let routing = Routing { isolated: true, ..Routing::default() };
    let target_of = |routing: &Routing| {
        let session = router.open_session(&question.model, &question.case, &targets, &learned, routing);
        session.unwrap().target().clone()
    };
    assert_eq!(target_of(&routing).as_str(), "cpu/ort+threads=1");
    let plain = Routing { target: Some(key(ORT)), ..routing };
    assert_eq!(target_of(&plain).as_str(), ORT);
    let settings = Routing { target: Some(key("cpu/ort+threads=2")), ..plain };
    assert_eq!(target_of(&settings).as_str(), "cpu/ort+threads=2");

    let checked = router.check(&[question], &targets, &learned, &Routing::default(), &mut Silent).unwrap();
    assert_eq!(checked[0].chosen, Some(key("cpu/ort+threads=1")));
    assert!(checked[0].times_ms.contains_key(&key("cpu/ort+threads=1")));
    assert_eq!(checked[0].strategies["always-cpu"], Some(key("cpu/ort+threads=1")));
}

#[test]
fn other_batches_and_a_named_target_stay_as_they_are() {
    let simulated = machine(better_alone);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    tune(&router, &targets, TuningGoal::Fastest, 1);
    assert_eq!(candidates(&router, &targets, 8), [ORT, RTEN]);
    let asked = question(&router, MODEL, 1);
    let tuned = router.tuned_targets(&targets, &asked.case).unwrap();
    assert_eq!(tuned.targets.get(ORT).unwrap().target.key, key(ORT));
    let job = Job { model: asked.model, case: asked.case, workload: SUSTAINED, targets: vec![key(ORT)] };
    let sampling = router.sampling();
    let order = Order::new(Purpose::Bench, &sampling);
    let measured = router.measure(&[job], &tuned.targets, &order, &mut Silent).unwrap();
    assert_eq!(measured.trials[0].target, key(ORT));
}

#[test]
fn no_difference_is_an_answer() {
    let simulated = machine(all_the_same);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let tuning = tune(&router, &targets, TuningGoal::Fastest, 1);
    for target in &tuning.targets {
        assert!(!target.answer.takes_found(), "{target:?}");
        assert_eq!(target.chosen, target.target);
    }
    assert_eq!(candidates(&router, &targets, 1), [ORT, RTEN]);
}

#[test]
fn for_the_battery_threads_that_burn_nothing_after_a_call_are_taken() {
    let simulated = machine(all_the_same);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let tuning = tune(&router, &targets, TuningGoal::Battery, 1);
    let of_ort = &tuning.targets[0];
    assert_eq!(of_ort.answer, Answer::Thriftier, "{of_ort:?}");
    let idle = |key: &TargetKey| of_ort.tried.iter().find(|it| it.target == *key).unwrap().tried.idle_cpu_ns;
    assert!(idle(&of_ort.chosen) < idle(&of_ort.target));
}

#[test]
fn a_tuning_that_no_longer_fits_is_told_and_not_used() {
    let simulated = machine(better_alone);
    let router = simulated.router();
    let mut targets = router.targets(&mut Silent).unwrap();
    tune(&router, &targets, TuningGoal::Fastest, 1);
    for found in &mut targets.discovery.found {
        found.target.provider_version.push_str(" newer");
    }
    let question = question(&router, MODEL, 1);
    let tuned = router.tuned_targets(&targets, &question.case).unwrap();
    assert!(tuned.targets.discovery.find(&key(ORT)).is_some());
    let [notice] = &tuned.notices[..] else { panic!("{:?}", tuned.notices) };
    assert!(notice.contains("cpu/ort") && notice.contains("newer"), "{notice}");
    let mut told = Notices::default();
    let learned = router.learn(&targets).unwrap();
    router.check(&[question], &targets, &learned, &Routing::default(), &mut told).unwrap();
    assert!(told.0.contains(notice), "{:?}", told.0);
}

#[test]
fn what_is_forgotten_is_used_no_more() {
    let simulated = machine(better_alone);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    tune(&router, &targets, TuningGoal::Fastest, 1);
    let model = question(&router, MODEL, 1).model;
    assert_eq!(router.forget_model_tuning(&model).unwrap(), 2);
    assert_eq!(router.forget_model_tuning(&model).unwrap(), 0);
    assert_eq!(candidates(&router, &targets, 1), [ORT, RTEN]);
}

#[test]
fn a_target_without_threads_of_its_own_is_refused() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let question = question(&router, MODEL, 1);
    let order = TuneModel { targets: vec![key(crate::simulated::GPU)], ..TuneModel::default() };
    let refused = router.tune_model(&question.model, &question.case, &targets, &order, &mut Silent);
    assert!(refused.unwrap_err().to_string().contains("cpu/ort, cpu/rten have"));
}
