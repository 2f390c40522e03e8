//! Hosts, chips, targets, models and cases.

use std::path::Path;

use siliconroute_core::model::CaseFacts;
use siliconroute_store::{ModelRecord, StoreError, StoredDiscovery};

use crate::new_store;
use crate::sample_data::{NOW, case, chip, model, prepare, target};

#[test]
fn a_host_with_other_facts_is_another_row() {
    let (_folder, store) = new_store();
    let first = store.record_host("x86_64_chip_8c_16gh", r#"{"ram":1}"#, NOW).unwrap();
    assert_eq!(store.record_host("x86_64_chip_8c_16gh", r#"{"ram":1}"#, NOW + 1).unwrap(), first);
    assert_ne!(store.record_host("x86_64_chip_8c_16gh", r#"{"ram":2}"#, NOW).unwrap(), first);
}

#[test]
fn chips_round_trip_and_take_new_facts() {
    let (_folder, store) = new_store();
    store.record_chips(&[chip()], NOW).unwrap();
    let mut newer = chip();
    newer.driver = Some("driver 2".to_owned());
    store.record_chips(std::slice::from_ref(&newer), NOW).unwrap();
    assert_eq!(store.chips().unwrap(), [newer]);
}

#[test]
fn another_provider_version_is_another_target_row() {
    let (_folder, store) = new_store();
    store.record_chips(&[chip()], NOW).unwrap();
    let first = store.record_target(&target("1"), NOW).unwrap();
    let second = store.record_target(&target("2"), NOW).unwrap();
    assert_ne!(first, second);
    assert_eq!(store.record_target(&target("1"), NOW + 1).unwrap(), first);
    let stored = store.targets().unwrap();
    let found: Vec<_> = stored.iter().map(|t| (t.id, t.target.clone(), t.recorded_unix_ms)).collect();
    assert_eq!(found, [(first, target("1"), NOW + 1), (second, target("2"), NOW)]);
    assert_eq!(stored[0].fingerprint, r#"openvino@1 {"INFERENCE_PRECISION_HINT":"f32"}"#);
}

#[test]
fn refuses_a_target_on_an_unknown_chip() {
    let (_folder, store) = new_store();
    let refused = store.record_target(&target("1"), NOW);
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

#[test]
fn models_round_trip_and_keep_what_is_not_given_again() {
    let (_folder, store) = new_store();
    let facts = model(1);
    let path = Path::new("/models/größe.onnx");
    let full =
        ModelRecord { facts: &facts, name: "a", path: Some(path), licence: Some("MIT"), source: Some("zoo") };
    store.record_model(&full, NOW).unwrap();
    let bare = ModelRecord { name: "b", path: None, licence: None, source: None, ..full };
    store.record_model(&bare, NOW).unwrap();
    let stored = store.models().unwrap().pop().unwrap();
    assert_eq!(store.model(facts.id).unwrap().as_ref(), Some(&stored));
    assert_eq!((stored.facts, stored.name.as_str(), stored.path.as_deref()), (facts, "b", Some(path)));
    assert_eq!((stored.licence.as_deref(), stored.source.as_deref()), (Some("MIT"), Some("zoo")));
    assert_eq!(store.model(model(2).id).unwrap(), None);
}

#[test]
fn a_file_is_recognised_while_its_size_and_time_stay() {
    let (_folder, store) = new_store();
    let path = Path::new("/models/a.onnx");
    let unknown = store.record_model_file(path, 10, -5, model(1).id);
    assert!(matches!(unknown, Err(StoreError::Refused { .. })), "{unknown:?}");
    prepare(&store);
    store.record_model_file(path, 10, -5, model(1).id).unwrap();
    let recognised = |size, time| store.model_by_file(path, size, time).unwrap().map(|m| m.facts.id);
    assert_eq!(recognised(10, -5), Some(model(1).id));
    assert_eq!((recognised(11, -5), recognised(10, -4)), (None, None));
    store.record_model_file(path, 11, 0, model(1).id).unwrap();
    assert_eq!((recognised(11, 0), recognised(10, -5)), (Some(model(1).id), None));
}

#[test]
fn cases_round_trip_and_take_new_facts() {
    let (_folder, store) = new_store();
    let (_, _, cases) = prepare(&store);
    assert_eq!(store.cases().unwrap(), cases);
    let mut recounted = cases[1].clone();
    recounted.facts = CaseFacts { flops: 12.5, ..recounted.facts };
    store.record_case(&recounted, NOW).unwrap();
    assert_eq!(store.cases().unwrap(), [cases[0].clone(), recounted]);
}

#[test]
fn refuses_facts_that_could_not_be_read_back() {
    let (_folder, store) = new_store();
    let (_, _, cases) = prepare(&store);
    let mut endless = case(&model(1), 16);
    endless.facts.flops = f64::INFINITY;
    let refused = store.record_case(&endless, NOW);
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(store.cases().unwrap(), cases);
}

#[test]
fn a_discovery_is_kept_under_its_fingerprint() {
    let (_folder, store) = new_store();
    assert_eq!(store.load_discovery("a").unwrap(), None);
    store.save_discovery("a", "[1]", NOW).unwrap();
    store.save_discovery("a", "[2]", NOW + 1).unwrap();
    let expected = StoredDiscovery { document: "[2]".to_owned(), recorded_unix_ms: NOW + 1 };
    assert_eq!(store.load_discovery("a").unwrap(), Some(expected));
    assert_eq!(store.load_discovery("b").unwrap(), None);
    let broken = store.save_discovery("a", "[", NOW);
    assert!(matches!(broken, Err(StoreError::Refused { .. })), "{broken:?}");
}
