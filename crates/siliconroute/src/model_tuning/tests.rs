//! What is said of settings, from the comparison with the defaults.

use std::collections::BTreeMap;

use siliconroute_core::statistics::{PairedRound, compare_paired};
use siliconroute_core::tuning::Fate;
use siliconroute_hardware::{ClusterKind, CoreCluster};

use super::*;

fn settings(text: &str) -> CpuSettings {
    SessionSettings::split(text).unwrap().1.cpu
}

/// A search that took `cpu_ns` and `idle_ns` for the defaults, and half of both for what it found.
fn searched(found: &str, cpu_ns: Option<f64>, idle_ns: Option<f64>) -> Searched {
    let tried = |settings: CpuSettings, share: f64| Tried {
        settings,
        call_ns: Some(1e6),
        ratio: Some(1.0),
        cpu_ns: cpu_ns.map(|ns| ns * share),
        idle_cpu_ns: idle_ns.map(|ns| ns * share),
        rounds: 6,
        fate: Fate::Measured,
    };
    let best = settings(found);
    Searched { tried: vec![tried(CpuSettings::default(), 1.0), tried(best.clone(), 0.4)], best }
}

/// Eight sessions in which the first takes `ratio` times the second's time, more or less.
fn comparison(ratio: f64) -> Comparison {
    let times: Vec<f64> = (0..8).map(|session| ratio * (1.0 + 0.002 * f64::from(session % 3))).collect();
    let rounds: Vec<PairedRound<'_>> = times
        .iter()
        .zip(0..)
        .map(|(time, session)| PairedRound { session, first: std::slice::from_ref(time), second: &[1.0] })
        .collect();
    compare_paired(&rounds).unwrap()
}

#[test]
fn settings_are_taken_only_where_the_comparison_speaks_for_them() {
    #[track_caller]
    fn check(goal: TuningGoal, searched: &Searched, ratio: Option<f64>, expected: Answer) {
        let comparison = ratio.map(comparison);
        assert_eq!(answer(goal, searched, comparison.as_ref(), &[]), expected, "{goal} {ratio:?}");
    }
    let found = searched("cpu/ort+spin=off", Some(2e6), Some(20e6));
    check(TuningGoal::Fastest, &found, Some(0.8), Answer::Faster);
    check(TuningGoal::Fastest, &found, Some(1.03), Answer::NoDifference);
    check(TuningGoal::Fastest, &found, None, Answer::NotCompared);
    check(TuningGoal::Battery, &found, Some(1.03), Answer::Thriftier);
    check(TuningGoal::Battery, &found, Some(1.2), Answer::NoDifference);
    let untold = searched("cpu/ort+spin=off", None, None);
    check(TuningGoal::Battery, &untold, Some(1.03), Answer::NoDifference);
}

#[test]
fn a_setting_without_effect_is_never_taken() {
    let found = searched("cpu/ort+spin=off", Some(2e6), Some(20e6));
    let hidden = Proof { setting: "spin", shown: Reading::Available(false), seen: String::new() };
    let told = answer(TuningGoal::Fastest, &found, Some(&comparison(0.5)), &[hidden]);
    assert_eq!(told, Answer::NoEffect);
    assert!(!told.takes_found());
}

#[test]
fn sleeping_threads_are_proven_by_processor_time_after_a_call() {
    #[track_caller]
    fn check(idle_ns: Option<f64>, expected: Option<bool>) {
        let key = TargetKey("cpu/ort+spin=off".to_owned());
        let proofs = report::proofs(&searched(key.as_str(), None, idle_ns), &key, &[]);
        assert_eq!(proofs[0].setting, "spin");
        assert_eq!(proofs[0].shown.available().copied(), expected, "{proofs:?}");
    }
    check(Some(20e6), Some(true));
    check(Some(1e6), None);
    check(None, None);
}

#[test]
fn a_search_sees_the_cores_of_the_host() {
    let cluster = |kind, cpus: std::ops::Range<u32>| CoreCluster {
        kind,
        logical_cpus: cpus.collect(),
        max_mhz: Reading::unavailable("made up"),
    };
    let mut host = siliconroute_hardware::detect_host();
    host.os = "linux".to_owned();
    host.clusters = vec![cluster(ClusterKind::Performance, 0..12), cluster(ClusterKind::Efficiency, 12..20)];
    host.usable_cores = Reading::Available(20.0);
    host.physical_cores = Reading::Available(14);
    let seen = processor(&host, &NamedCores::of(&host));
    assert_eq!((seen.usable, seen.default_threads), (20, 14));
    let named: BTreeMap<String, u32> =
        seen.named.iter().map(|(cores, count)| (cores.to_string(), *count)).collect();
    assert_eq!(named, BTreeMap::from([("performance".to_owned(), 12), ("efficiency".to_owned(), 8)]));
    // A container that may use three of them runs three threads at once.
    host.usable_cores = Reading::Available(2.5);
    let seen = processor(&host, &NamedCores::of(&host));
    assert_eq!((seen.usable, seen.default_threads), (3, 3));
}
