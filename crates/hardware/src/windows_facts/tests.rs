//! Host facts of made-up Windows machines, and of ones whose registry is empty.

use super::*;
use crate::fixture::windows_machines::{FakeRegistry, fake_copilot_host, fake_hybrid_host, fake_server_host};
use crate::topology::ClusterKind;

#[track_caller]
fn reason<T: std::fmt::Debug>(reading: &Reading<T>, part: &str) {
    match reading {
        Reading::Unavailable(reason) => assert!(reason.contains(part), "{reason}"),
        Reading::Available(value) => panic!("found {value:?}"),
    }
}

#[test]
fn a_laptop_of_unlike_cores_is_described() {
    let (answers, registry) = fake_hybrid_host();
    let facts = answers.facts(&registry);
    assert_eq!(facts.cpu_name, Reading::Available("Intel(R) Core(TM) Ultra 7 155H".to_owned()));
    assert_eq!((facts.logical_cores, &facts.physical_cores), (22, &Reading::Available(16)));
    let clusters: Vec<_> =
        facts.clusters.iter().map(|cluster| (cluster.kind, cluster.logical_cpus.len())).collect();
    let expected = [(ClusterKind::Performance, 12), (ClusterKind::Efficiency, 8), (ClusterKind::LowPower, 2)];
    assert_eq!(clusters, expected);
    assert_eq!(facts.clusters[0].max_mhz, Reading::Available(4800));
    assert_eq!(facts.caches.len(), 2);
    assert_eq!(facts.os_version, Reading::Available("Windows 11 Home 24H2 (build 26100)".to_owned()));
    assert_eq!(facts.kernel_version, Reading::Available("10.0.26100.4061".to_owned()));
    assert_eq!(facts.virtual_machine, Reading::Available(None));
}

#[test]
fn a_processor_without_an_instruction_for_its_name_is_named_by_the_registry() {
    let (answers, registry) = fake_copilot_host();
    let facts = answers.facts(&registry);
    let name = "Snapdragon(R) X Elite - X1E80100 - Qualcomm(R) Oryon(TM) CPU";
    assert_eq!(facts.cpu_name, Reading::Available(name.to_owned()));
    assert_eq!(facts.cpu_vendor, Reading::Available("Qualcomm Technologies Inc".to_owned()));
    assert_eq!(facts.architecture, "arm64");
    assert_eq!(facts.clusters.len(), 1);
    assert_eq!(facts.clusters[0].kind, ClusterKind::Uniform);
    assert_eq!(facts.virtual_machine, Reading::Available(None));
}

#[test]
fn a_server_of_two_groups_has_all_its_processors() {
    let (answers, registry) = fake_server_host();
    let facts = answers.facts(&registry);
    assert_eq!((facts.logical_cores, &facts.usable_cores), (96, &Reading::Available(96.0)));
    assert_eq!(facts.physical_cores, Reading::Available(48));
    // Each CPU has its own number, though both groups count from zero.
    assert_eq!(facts.clusters.len(), 1);
    assert_eq!(facts.clusters[0].logical_cpus.len(), 96);
}

#[test]
fn usable_processors_are_counted_over_groups() {
    #[track_caller]
    fn check(masks: Option<(u64, u64)>, own: &[u16], active: &[u32], build: u32, expected: Option<f64>) {
        let groups = ProcessorGroups { masks, own: own.to_vec(), active: active.to_vec() };
        assert_eq!(groups.usable_cores(build).available().copied(), expected);
    }
    check(Some((0xff, 0xff)), &[0], &[8], 19_045, Some(8.0));
    check(Some((0x0f, 0xff)), &[0], &[8], 26_100, Some(4.0));
    check(Some((u64::MAX, u64::MAX)), &[0], &[64, 64], 19_045, Some(64.0));
    check(Some((u64::MAX, u64::MAX)), &[0], &[64, 64], 26_100, Some(128.0));
    check(Some((0xf, u64::MAX)), &[0], &[64, 64], 26_100, Some(4.0));
    check(Some((0, 0)), &[0, 1], &[48, 32], 19_045, Some(80.0));
    check(Some((0, 0)), &[7], &[48, 32], 19_045, None);
    check(None, &[0], &[8], 26_100, None);
    check(Some((0, 0)), &[], &[], 0, None);
}

#[test]
fn an_empty_registry_costs_its_own_values_only() {
    let (answers, _) = fake_hybrid_host();
    let facts = answers.facts(&FakeRegistry::default());
    reason(&facts.os_version, "no ProductName");
    reason(&facts.kernel_version, "no CurrentBuild");
    assert_eq!(facts.cpu_name, Reading::Available("Intel(R) Core(TM) Ultra 7 155H".to_owned()));
    assert_eq!(facts.clusters.len(), 3);
    let (answers, _) = fake_copilot_host();
    let facts = answers.facts(&FakeRegistry::default());
    reason(&facts.cpu_name, "no ProcessorNameString of the processor");
    reason(&facts.cpu_vendor, "no VendorIdentifier");
    reason(&facts.virtual_machine, "neither the processor nor the firmware");
}

#[test]
fn a_layout_that_windows_does_not_tell_leaves_the_rest() {
    let (mut answers, registry) = fake_hybrid_host();
    answers.layout = Reading::unavailable("GetLogicalProcessorInformationEx failed");
    let facts = answers.facts(&registry);
    assert!(facts.clusters.is_empty() && facts.caches.is_empty());
    reason(&facts.physical_cores, "GetLogicalProcessorInformationEx failed");
    assert_eq!(facts.logical_cores, 22);
}

#[test]
fn no_reader_needs_com_or_wmi() {
    // Neither is set up in a worker's threads, and WMI is switched off on many machines.
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains("Win32_Graphics_Dxgi"));
    for feature in ["Win32_System_Com", "Win32_System_Wmi", "\nwmi"] {
        assert!(!manifest.contains(feature), "{feature}");
    }
}

#[test]
fn windows_11_is_told_by_its_build() {
    #[track_caller]
    fn check(product: &str, release: Option<&str>, build: Option<&str>, expected: &str) {
        assert_eq!(system_name(product, release, build), expected);
    }
    check("Windows 10 Pro", Some("24H2"), Some("26100"), "Windows 11 Pro 24H2 (build 26100)");
    check("Windows 10 Home", Some("22H2"), Some("19045"), "Windows 10 Home 22H2 (build 19045)");
    check("Windows Server 2025 Standard", None, Some("26100"), "Windows Server 2025 Standard (build 26100)");
    check("Windows 10", None, None, "Windows 10");
}
