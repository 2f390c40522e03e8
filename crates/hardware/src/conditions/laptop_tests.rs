//! Conditions of laptops of several makers.

use siliconroute_core::Reading;

use super::*;
use crate::fixture::{Tree, laptops};
#[cfg(unix)]
use crate::glance::Glance;

fn snapshot(tree: &Tree) -> Conditions {
    ConditionsProbe::new(tree.roots()).snapshot()
}

#[track_caller]
fn check_reason<T: std::fmt::Debug>(reading: &Reading<T>, expected: &str) {
    match reading {
        Reading::Unavailable(reason) if reason.contains(expected) => {}
        other => panic!("{other:?} does not give the reason `{expected}`"),
    }
}

fn drivers(conditions: &Conditions) -> Vec<String> {
    let drivers = conditions.drivers.available().unwrap();
    drivers.iter().map(|driver| format!("{} {}", driver.driver, driver.version)).collect()
}

fn temperatures(conditions: &Conditions) -> Vec<(&str, f64)> {
    let temperatures = conditions.temperatures_celsius.available().unwrap();
    temperatures.iter().map(|(name, celsius)| (name.as_str(), *celsius)).collect()
}

#[test]
fn an_intel_laptop_on_mains_runs_freely() {
    let conditions = snapshot(&laptops::intel_with_npu());
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Ac));
    assert_eq!(
        conditions.cpu_clocks,
        Reading::Available(ClockSpread { min_mhz: 700.0, median_mhz: 1900.0, max_mhz: 2100.0 })
    );
    assert_eq!(
        conditions.throttling,
        Throttling {
            core_events: Reading::Available(0),
            package_events: Reading::Available(0),
            package_throttled_ms: Reading::Available(0),
            clock_limit_percent: Reading::Available(100.0),
            thermal_state: Reading::unavailable("Linux sums up no state of the machine's heat"),
        }
    );
    assert_eq!(
        temperatures(&conditions),
        [
            ("coretemp Core", 51.0),
            ("coretemp Package id 0", 52.0),
            ("nvme Composite", 38.85),
            ("x86_pkg_temp", 52.0)
        ]
    );
    assert_eq!(conditions.os_version, Reading::Available("Ubuntu 24.04.2 LTS".to_owned()));
    assert_eq!(drivers(&conditions), ["i915 Linux 6.11.0-29-generic", "intel_vpu Linux 6.11.0-29-generic"]);
    assert_eq!(conditions.uptime_ns, Reading::Available(1_000_000_000_000));
}

#[test]
fn an_amd_laptop_on_battery_is_held_to_half_its_clock() {
    let conditions = snapshot(&laptops::ryzen_ai());
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Battery));
    assert_eq!(conditions.power_profile, Reading::Available("low-power".to_owned()));
    assert_eq!(conditions.throttling.clock_limit_percent, Reading::Available(50.0));
    check_reason(&conditions.throttling.core_events, "no CPU has a folder thermal_throttle");
    assert_eq!(temperatures(&conditions), [("amdgpu edge", 44.0), ("k10temp Tctl", 47.25)]);
    assert_eq!(drivers(&conditions), ["amdgpu Linux 6.14.4-arch1-1", "amdxdna Linux 6.14.4-arch1-1"]);
}

#[test]
fn a_hot_laptop_has_its_events_counted_once_for_each_core() {
    let conditions = snapshot(&laptops::intel_with_nvidia());
    assert_eq!(conditions.throttling.core_events, Reading::Available(12));
    assert_eq!(conditions.throttling.package_events, Reading::Available(31));
    assert_eq!(conditions.throttling.package_throttled_ms, Reading::Available(1250));
    assert_eq!(drivers(&conditions), ["i915 Linux 6.8.0-60-generic", "nvidia 570.133.07"]);
}

#[test]
fn an_arm_laptop_is_read_by_its_thermal_zones() {
    let conditions = snapshot(&laptops::snapdragon());
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Battery));
    assert_eq!(conditions.battery_percent, Reading::Available(71.0));
    assert_eq!(conditions.cpu_temperature_celsius, Reading::Available(58.4));
    assert_eq!(temperatures(&conditions), [("cpu0-0-top-thermal", 58.4), ("gpuss-0-thermal", 51.2)]);
    check_reason(&conditions.power_profile, "platform_profile does not exist");
}

#[test]
fn a_macbook_under_linux_tells_its_battery_and_clocks() {
    let conditions = snapshot(&laptops::macbook());
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Ac));
    assert_eq!(conditions.battery_percent, Reading::Available(64.0));
    check_reason(&conditions.cpu_temperature_celsius, "no sensor of the processor");
    assert_eq!(drivers(&conditions), ["asahi Linux 6.14.8-400.asahi.fc42.aarch64+16k"]);
}

#[cfg(unix)]
#[test]
fn a_supply_that_hangs_costs_its_own_readings_until_it_answers() {
    const STATUS: &str = "sys/class/power_supply/BAT1/status";
    let tree = laptops::ryzen_ai().hanging(STATUS);
    let probe = ConditionsProbe::with_time_limit(tree.roots(), Duration::from_secs(2));
    let conditions = probe.snapshot();
    check_reason(&conditions.power_source, "the power supplies below ");
    check_reason(&conditions.battery_percent, "did not answer within 2 seconds");
    check_reason(&conditions.battery_left_ns, "did not answer within 2 seconds");
    assert_eq!(conditions.power_profile, Reading::Available("low-power".to_owned()));
    assert_eq!(conditions.cpu_temperature_celsius, Reading::Available(47.25));
    assert!(conditions.cpu_times.user_ns.available().is_some());
    // Nobody asks again as long as it hangs, not even through another probe.
    check_reason(&Glance::of(&probe).power_source, "has not answered for");
    check_reason(&Glance::below(&tree.roots()).power_source, "has not answered for");
    let _tree = tree.let_go(STATUS, "Discharging\n");
    let mut again = std::iter::repeat_with(|| Glance::of(&probe).power_source);
    assert_eq!(again.find_map(|it| it.available().copied()), Some(PowerSource::Battery));
}

#[cfg(unix)]
#[test]
fn a_temperature_sensor_that_hangs_costs_the_temperatures_alone() {
    let tree = laptops::intel_with_npu().hanging("sys/class/hwmon/hwmon5/temp1_input");
    let conditions = ConditionsProbe::with_time_limit(tree.roots(), Duration::from_secs(2)).snapshot();
    // The processor's own sensor is another one, and was asked first.
    assert_eq!(conditions.cpu_temperature_celsius, Reading::Available(52.0));
    check_reason(&conditions.temperatures_celsius, "the temperature sensors below ");
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Ac));
}

#[test]
fn clock_drivers_tell_what_they_prefer() {
    let policy =
        |number: u32| format!("sys/devices/system/cpu/cpufreq/policy{number}/energy_performance_preference");
    let tree = laptops::ryzen_ai().file(&policy(0), "balance_power\n").file(&policy(1), "power\n");
    assert_eq!(snapshot(&tree).power_mode, Reading::Available("balance_power+power".to_owned()));
    check_reason(&snapshot(&laptops::snapdragon()).power_mode, "no energy_performance_preference in ");
}

#[test]
fn garbage_in_the_new_files_is_a_reason() {
    let tree = laptops::intel_with_nvidia()
        .each_cpu(0..4, "thermal_throttle/package_throttle_count", "many\n")
        .each_cpu(0..4, "thermal_throttle/core_throttle_count", "99999999999999999999999\n")
        .file("proc/uptime", "-5 0\n")
        .file("proc/driver/nvidia/version", "no version at all\n")
        .directory("sys/class/hwmon/hwmon1/temp2_input");
    let tree = (0..4).fold(tree, |tree, policy| {
        let policy = format!("sys/devices/system/cpu/cpufreq/policy{policy}");
        tree.file(&format!("{policy}/cpuinfo_max_freq"), "0\n")
    });
    let conditions = snapshot(&tree);
    assert!(conditions.throttling.core_events.available().is_none());
    assert!(conditions.throttling.package_events.available().is_none());
    assert_eq!(conditions.throttling.package_throttled_ms, Reading::Available(1250));
    check_reason(&conditions.throttling.clock_limit_percent, "no limit of a clock");
    check_reason(&conditions.uptime_ns, "instead of seconds");
    check_reason(&conditions.drivers, "instead of a version");
    assert_eq!(temperatures(&conditions), [("coretemp Package id 0", 99.0)]);
}

#[test]
fn a_machine_without_gpus_has_no_drivers_and_that_is_known() {
    assert_eq!(snapshot(&Tree::new()).drivers, Reading::Available(Vec::new()));
    check_reason(&snapshot(&Tree::new()).temperatures_celsius, "no temperature in ");
}

#[test]
fn endless_sensors_stay_bounded() {
    let tree = (0..100).fold(Tree::new(), |tree, number| {
        tree.file(&format!("sys/class/thermal/thermal_zone{number}/type"), &format!("zone-{number}\n"))
            .file(&format!("sys/class/thermal/thermal_zone{number}/temp"), "40000\n")
    });
    assert_eq!(temperatures(&snapshot(&tree)).len(), 24);
}

#[test]
fn a_document_of_an_earlier_version_still_reads() {
    let earlier = r#"{"power_source":{"available":"ac"},"battery_percent":{"unavailable":"no battery"},
        "power_profile":{"unavailable":"x"},"governor":{"available":"powersave"},"cpu_mhz":{"available":2000.0},
        "cpu_temperature_celsius":{"unavailable":"x"},"load_average_1m":{"available":0.5},
        "cpu_times":{"user_ns":{"available":1},"system_ns":{"available":1},"idle_ns":{"available":1},
        "steal_ns":{"available":0}},"free_memory_bytes":{"available":1000},"microcode":{"unavailable":"x"},
        "kernel_version":{"available":"6.8.0"}}"#;
    let conditions: Conditions = serde_json::from_str(earlier).unwrap();
    assert_eq!(conditions.cpu_mhz, Reading::Available(2000.0));
    assert_eq!(conditions.drivers, Reading::unavailable("not recorded"));
    assert_eq!(conditions.throttling, Throttling::default());
    assert_eq!(conditions.uptime_ns, Reading::unavailable("not recorded"));
    assert_eq!(conditions.battery_left_ns, Reading::unavailable("not recorded"));
    let throttling = r#"{"core_events":{"available":1},"package_events":{"available":1},
        "package_throttled_ms":{"available":1},"clock_limit_percent":{"available":90.0}}"#;
    let throttling: Throttling = serde_json::from_str(throttling).unwrap();
    assert_eq!(throttling.thermal_state, Reading::unavailable("not recorded"));
}
