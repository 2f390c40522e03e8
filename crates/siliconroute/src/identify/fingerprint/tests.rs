//! When a time makes a target suspect, and what a file of times may hold.
//!
//! Invariant: no content of the file is an error of the program.

use std::collections::BTreeMap;

use siliconroute_core::{ChipKey, ChipKind, ProviderName};

use super::*;

fn target(chip: &str, way: &str) -> Target {
    Target {
        key: TargetKey(format!("{chip}/{way}")),
        provider: ProviderName::parse(way.split('-').next().unwrap()),
        provider_version: "1.0".to_owned(),
        chip: ChipKey(chip.to_owned()),
        chip_kind: ChipKind::Gpu,
        options: BTreeMap::new(),
    }
}

fn taken(target: &Target, call_ns: f64) -> Fingerprint {
    Fingerprint {
        target: target.key.clone(),
        provider_version: target.provider_version.clone(),
        case: CaseId([1; 32]),
        power_source: None,
        call_ns,
        taken_unix_ms: 0,
    }
}

fn stored(fingerprints: &[Fingerprint]) -> Fingerprints {
    let mut all = Fingerprints::none("machine");
    fingerprints.iter().cloned().for_each(|fingerprint| all.refresh(fingerprint));
    all
}

#[test]
fn a_time_is_suspicious_when_it_is_another_adapter_s_and_not_the_target_s_own() {
    let (one, two) = (target("gpu:a", "webgpu"), target("gpu:b", "webgpu"));
    let all = stored(&[taken(&one, 10e6), taken(&two, 30e6)]);
    for (call_ns, suspicious) in
        [(10e6, false), (14.9e6, false), (20e6, false), (25.1e6, true), (35.9e6, true), (40e6, false)]
    {
        let found = all.suspicion(&taken(&one, call_ns), &[&two]);
        assert_eq!(found.is_some(), suspicious, "{call_ns}: {found:?}");
    }
    assert!(all.suspicion(&taken(&one, 30e6), &[]).is_none(), "no twin is there");
}

#[test]
fn only_times_under_the_same_circumstances_are_compared() {
    let (one, two) = (target("gpu:a", "webgpu"), target("gpu:b", "webgpu"));
    let all = stored(&[taken(&one, 10e6), taken(&two, 30e6)]);
    let fresh = taken(&one, 30e6);
    for other in [
        Fingerprint { provider_version: "2.0".to_owned(), ..fresh.clone() },
        Fingerprint { case: CaseId([2; 32]), ..fresh.clone() },
        Fingerprint { power_source: Some(PowerSource::Battery), ..fresh },
    ] {
        assert_eq!(all.suspicion(&other, &[&two]), None);
    }
}

#[test]
fn twins_differ_in_the_adapter_alone() {
    let one = target("gpu:a", "openvino-f16");
    assert!(are_twins(&one, &target("gpu:b", "openvino-f16")));
    for other in [target("gpu:a", "openvino-f16"), target("gpu:b", "openvino"), target("gpu:b", "webgpu-f16")]
    {
        assert!(!are_twins(&one, &other), "{}", other.key);
    }
    assert!(!are_twins(&one, &Target { chip_kind: ChipKind::Npu, ..target("npu:b", "openvino-f16") }));
}

#[test]
fn fingerprints_come_back_from_their_file_on_the_same_machine() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().to_owned()).unwrap();
    assert_eq!(Fingerprints::load(&home, "machine"), (Fingerprints::none("machine"), None));
    let one = target("gpu:a", "webgpu");
    let mut all = stored(&[taken(&one, 10e6)]);
    all.refresh(taken(&one, 11e6));
    assert_eq!(all.taken.len(), 1);
    all.save(&home).unwrap();
    assert_eq!(Fingerprints::load(&home, "machine"), (all, None));
    assert_eq!(Fingerprints::load(&home, "another"), (Fingerprints::none("another"), None));
}

#[test]
fn a_file_that_cannot_be_used_is_told_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().to_owned()).unwrap();
    let mut zero = stored(&[taken(&target("gpu:a", "webgpu"), 10e6)]);
    zero.taken[0].call_ns = 0.0;
    let newer = Fingerprints { schema: "siliconroute.load_fingerprints/9".to_owned(), ..zero.clone() };
    for text in [
        String::new(),
        "[".repeat(100_000),
        "x".repeat(2 << 20),
        serde_json::to_string(&zero).unwrap(),
        serde_json::to_string(&newer).unwrap(),
    ] {
        std::fs::write(Fingerprints::path(&home), text).unwrap();
        let (found, told) = Fingerprints::load(&home, "machine");
        assert_eq!(found, Fingerprints::none("machine"));
        assert!(told.unwrap().contains("load-fingerprints.json"));
    }
}
