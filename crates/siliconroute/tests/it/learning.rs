//! What is learned from trials: hardware models, and how much memory a target takes.

use std::path::Path;

use siliconroute::Router;
use siliconroute::campaign::Sampling;
use siliconroute::event::Silent;
use siliconroute::measure::{Job, Order};
use siliconroute_core::Reading;
use siliconroute_core::knowledge::Most;
use siliconroute_core::trial::Purpose;
use siliconroute_store::ModelRecord;

use crate::simulated::{GPU, ORT, SUSTAINED, Simulated, key, question};

/// Makes all cases look counted by an earlier method, their models lying at `path`.
fn make_stale(router: &Router, path: Option<&Path>) {
    for known in router.store().models().unwrap() {
        let record =
            ModelRecord { facts: &known.facts, name: &known.name, path, licence: None, source: None };
        router.store().record_model(&record, 0).unwrap();
    }
    for mut case in router.store().cases().unwrap() {
        (case.facts.method_version, case.facts.flops) = (0, 1.0);
        router.store().record_case(&case, 0).unwrap();
    }
}

#[test]
fn hardware_models_are_fitted_to_work_that_one_method_counted() {
    let simulated = Simulated::usual();
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let before = router.learn(&targets).unwrap();
    assert_eq!(before.unfitted.keys().filter(|(_, workload)| *workload == "sustained").count(), 0);

    make_stale(&router, None);
    let recounted = router.learn(&targets).unwrap();
    assert_eq!(recounted.cases, before.cases);
    assert_eq!(recounted.unfitted, before.unfitted);

    make_stale(&router, Some(Path::new("/nowhere/model.onnx")));
    let stale = router.learn(&targets).unwrap();
    assert!(stale.unfitted.keys().filter(|(_, workload)| *workload == "sustained").count() >= 3);
}

#[test]
fn the_memory_of_a_target_is_the_largest_that_any_session_of_the_case_took() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let (small, large) = (question(&router, "mlp-128w-4l", 1), question(&router, "mlp-128w-4l", 8));
    // So few samples teach nothing of time, but they say what the session took.
    let sampling = Sampling { fixed_iterations: Some(3), ..router.sampling() };
    for bytes in [100, 300, 200] {
        simulated.launcher.change(ORT, |fake| fake.memory_bytes = Some(bytes));
        let job = Job {
            model: small.model.clone(),
            case: small.case.clone(),
            workload: SUSTAINED,
            targets: vec![key(ORT), key(GPU)],
        };
        router.measure(&[job], &targets, &Order::new(Purpose::Bench, &sampling), &mut Silent).unwrap();
    }
    let learned = router.learn(&targets).unwrap();
    assert!(learned.trials.is_empty());
    let most = Reading::Available(Most { bytes: 300, case: small.case.id, trials: 3 });
    assert_eq!(learned.memory_of(&small.case, &key(ORT)).peak_resident, most);
    assert_eq!(learned.memory_of(&large.case, &key(ORT)).peak_resident, most, "another case of the model");
    let unknown = learned.memory_of(&small.case, &key(GPU)).peak_resident;
    assert_eq!(unknown, Reading::unavailable("a simulated worker holds no memory"));
    let strange = question(&router, "conv-8c-4l", 1).case;
    let never = learned.memory_of(&strange, &key(ORT)).session;
    assert_eq!(never, Reading::unavailable("no trial of the model on this target"));
}
