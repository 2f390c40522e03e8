//! Tunings: one for each machine, case and target.

use siliconroute_core::target::{Cores, CpuSettings, TargetKey};
use siliconroute_store::{NewTuning, StoreError};

use crate::new_store;
use crate::sample_data::{NOW, model, prepare};

#[test]
fn the_latest_tuning_of_a_machine_case_and_target_is_kept() {
    let (_folder, store) = new_store();
    let (campaign, _, [first, second]) = prepare(&store);
    let key = TargetKey("cpu/ort".to_owned());
    let plain = CpuSettings::default();
    let settings = CpuSettings {
        threads: Some(2),
        spin: Some(false),
        block_base: Some(4),
        cores: Cores::listed(vec![0, 1]),
    };
    let new = NewTuning {
        hardware_id: "here",
        case: first.id,
        target: &key,
        provider_version: "1",
        settings: &plain,
        campaign: None,
        document: "{}",
        created_unix_ms: NOW,
    };
    store.record_tuning(&new).unwrap();
    let newer = NewTuning { settings: &settings, campaign: Some(campaign), created_unix_ms: NOW + 1, ..new };
    store.record_tuning(&newer).unwrap();
    store.record_tuning(&NewTuning { hardware_id: "elsewhere", ..new }).unwrap();
    store.record_tuning(&NewTuning { case: second.id, ..new }).unwrap();
    let stored = store.tunings("mlp-1").unwrap();
    assert_eq!(stored.len(), 3);
    assert_eq!((&stored[0].settings, stored[0].campaign), (&settings, Some(campaign)));
    assert_eq!((stored[0].case, stored[0].model), (first.id, model(1).id));
    assert_eq!(store.tunings("mlp-2").unwrap(), []);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());

    assert_eq!(store.forget_tunings("here", model(1).id).unwrap(), 2);
    assert_eq!(store.forget_tunings("here", model(1).id).unwrap(), 0);
    assert_eq!(store.tunings("mlp-1").unwrap()[0].hardware_id, "elsewhere");
}

#[test]
fn a_tuning_of_an_unknown_case_is_refused() {
    let (_folder, store) = new_store();
    let (_, _, [case, _]) = prepare(&store);
    let unknown = siliconroute_core::CaseId([7; 32]);
    assert_ne!(case.id, unknown);
    let refused = store.record_tuning(&NewTuning {
        hardware_id: "here",
        case: unknown,
        target: &TargetKey("cpu/ort".to_owned()),
        provider_version: "1",
        settings: &CpuSettings::default(),
        campaign: None,
        document: "{}",
        created_unix_ms: NOW,
    });
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}
