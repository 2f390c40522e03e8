//! What hardware models are fitted from.

use std::path::Path;

use siliconroute::Router;
use siliconroute::event::Silent;
use siliconroute_store::ModelRecord;

use crate::simulated::Simulated;

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
