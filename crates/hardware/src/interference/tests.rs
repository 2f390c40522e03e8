//! What disturbed the time between two snapshots of a captured machine.

use super::*;
use crate::conditions::ConditionsProbe;
use crate::fixture::{Tree, laptops};

fn snapshot(tree: &Tree) -> Conditions {
    ConditionsProbe::new(tree.roots()).snapshot()
}

/// The laptop two seconds later: 4 s of CPU time in programs, 1 s in the kernel, 0.5 s stolen, 2.5 s idle.
fn two_seconds_later(tree: Tree) -> Tree {
    tree.file("proc/uptime", "1002.00 3004.00\n")
        .file("proc/stat", "cpu  10400 0 5100 300250 1000 0 200 50 0 0\n")
}

#[track_caller]
fn check_reason<T: std::fmt::Debug>(reading: &Reading<T>, expected: &str) {
    match reading {
        Reading::Unavailable(reason) if reason.contains(expected) => {}
        other => panic!("{other:?} does not give the reason `{expected}`"),
    }
}

#[test]
fn other_programs_and_other_machines_are_told_from_the_measured_one() {
    let tree = laptops::intel_with_npu();
    let earlier = snapshot(&tree);
    let later = snapshot(&two_seconds_later(tree));
    let found = Interference::between(&earlier, &later, &Reading::Available(3_000_000_000));
    assert_eq!(found.elapsed_ns, Reading::Available(2_000_000_000));
    // 5 s of work, of which 3 s were the process's, in 2 s of time.
    assert_eq!(found.other_busy_cores, Reading::Available(1.0));
    assert_eq!(found.steal_share, Reading::Available(0.0625));
    assert_eq!(found.throttle_events, Reading::Available(0));
    assert_eq!(found.clock_change_mhz, Reading::Available(0.0));
    assert_eq!(found.power_source_changed, Reading::Available(false));
    // The counters' steps may make the process look busier than the machine.
    let alone = Interference::between(&earlier, &later, &Reading::Available(5_010_000_000));
    assert_eq!(alone.other_busy_cores, Reading::Available(0.0));
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Interference>(&text).unwrap(), found);
}

#[test]
fn heat_and_a_pulled_plug_are_seen() {
    let tree = laptops::intel_with_nvidia();
    let earlier = snapshot(&tree);
    let tree = two_seconds_later(tree)
        .each_cpu(0..4, "thermal_throttle/package_throttle_count", "34\n")
        .each_cpu(0..4, "thermal_throttle/package_throttle_total_time_ms", "1400\n")
        .each_cpu(0..2, "thermal_throttle/core_throttle_count", "8\n")
        .file("sys/class/hwmon/hwmon1/temp1_input", "87000\n")
        .file("sys/class/power_supply/AC/online", "0\n")
        .file("sys/class/power_supply/BAT0/status", "Discharging\n");
    let tree = (0..4).fold(tree, |tree, policy| {
        tree.file(&format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_cur_freq"), "1400000\n")
    });
    let found = Interference::between(&earlier, &snapshot(&tree), &Reading::Available(0));
    assert_eq!(found.throttle_events, Reading::Available(4));
    assert_eq!(found.throttled_ms, Reading::Available(150));
    assert_eq!(found.temperature_change_celsius, Reading::Available(-12.0));
    assert_eq!(found.clock_change_mhz, Reading::Available(-1000.0));
    assert_eq!(found.power_source_changed, Reading::Available(true));
    assert_eq!(found.battery_change_percent, Reading::Available(0.0));
}

#[test]
fn too_short_a_time_and_counters_that_went_back_are_reasons() {
    let tree = laptops::ryzen_ai();
    let earlier = snapshot(&tree);
    let found = Interference::between(&earlier, &earlier, &Reading::Available(0));
    check_reason(&found.elapsed_ns, "0 ms passed between the snapshots");
    check_reason(&found.other_busy_cores, "0 ms passed");
    check_reason(&found.throttle_events, "no CPU has a folder thermal_throttle");
    let restarted = snapshot(&tree.file("proc/uptime", "5.00 5.00\n"));
    let found = Interference::between(&earlier, &restarted, &Reading::Available(0));
    check_reason(&found.elapsed_ns, "the uptime counter went back");
    let unknown = Interference::between(&earlier, &earlier, &Reading::unavailable("the process is gone"));
    check_reason(&unknown.other_busy_cores, "0 ms passed");
}

#[test]
fn an_unknown_time_of_the_process_hides_the_others() {
    let tree = laptops::ryzen_ai();
    let earlier = snapshot(&tree);
    let later = snapshot(&two_seconds_later(tree));
    let found = Interference::between(&earlier, &later, &Reading::unavailable("the process is gone"));
    check_reason(&found.other_busy_cores, "the process is gone");
    assert_eq!(found.steal_share, Reading::Available(0.0625));
}

#[test]
fn other_programs_are_seen_where_the_system_tells_of_no_other_machines() {
    let tree = laptops::intel_with_npu();
    let mut earlier = snapshot(&tree);
    let mut later = snapshot(&two_seconds_later(tree));
    later.cpu_times.steal_ns = Reading::unavailable("Windows counts no steal time");
    let half_told = Interference::between(&earlier, &later, &Reading::Available(3_000_000_000));
    check_reason(&half_told.taken_share, "Windows counts no steal time");
    earlier.cpu_times.steal_ns = Reading::unavailable("Windows counts no steal time");
    let found = Interference::between(&earlier, &later, &Reading::Available(3_000_000_000));
    check_reason(&found.steal_share, "Windows counts no steal time");
    // 2 of 5 s of work were others', of 7.5 s in all.
    assert!((found.taken_share.available().unwrap() - 2.0 / 7.5).abs() < 1e-9);
    assert_eq!(found.disturbed, Reading::Available(true));
}
