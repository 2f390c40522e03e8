//! Conditions of captured machines.

use siliconroute_core::Reading;

use super::*;
use crate::fixture::Tree;

const SUPPLY: &str = "sys/class/power_supply";

fn laptop(online: &str, status: &str) -> Tree {
    Tree::new().files(&[
        ("sys/class/power_supply/AC/type", "Mains\n"),
        ("sys/class/power_supply/AC/online", online),
        ("sys/class/power_supply/BAT0/type", "Battery\n"),
        ("sys/class/power_supply/BAT0/status", status),
        ("sys/class/power_supply/BAT0/capacity", "81\n"),
        ("sys/class/power_supply/BAT0/energy_now", "40000000\n"),
        ("sys/class/power_supply/BAT0/energy_full", "50000000\n"),
        ("sys/class/power_supply/hidpp_battery_0/type", "Battery\n"),
        ("sys/class/power_supply/hidpp_battery_0/scope", "Device\n"),
        ("sys/class/power_supply/hidpp_battery_0/capacity", "5\n"),
        ("sys/firmware/acpi/platform_profile", "balanced\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1200000\n"),
        ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy1/scaling_cur_freq", "2400000\n"),
        ("sys/class/hwmon/hwmon0/name", "acpitz\n"),
        ("sys/class/hwmon/hwmon0/temp1_input", "99000\n"),
        ("sys/class/hwmon/hwmon3/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon3/temp1_label", "Package id 0\n"),
        ("sys/class/hwmon/hwmon3/temp1_input", "61000\n"),
        ("sys/class/hwmon/hwmon3/temp2_label", "Core 0\n"),
        ("sys/class/hwmon/hwmon3/temp2_input", "70000\n"),
        ("sys/devices/system/cpu/cpu0/microcode/version", "0x1f\n"),
        ("proc/sys/kernel/osrelease", "6.8.0\n"),
        ("proc/loadavg", "0.52 0.58 0.59 1/467 12345\n"),
        ("proc/stat", "cpu  100 20 30 1000 50 5 5 10 0 0\ncpu0 1 1 1 1\n"),
        ("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"),
    ])
}

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

#[test]
fn reads_a_laptop_on_mains() {
    let conditions = snapshot(&laptop("1\n", "Charging\n"));
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Ac));
    assert_eq!(conditions.battery_percent, Reading::Available(80.0));
    assert_eq!(conditions.power_profile, Reading::Available("balanced".to_owned()));
    assert_eq!(conditions.governor, Reading::Available("performance+powersave".to_owned()));
    assert_eq!(conditions.cpu_mhz, Reading::Available(1800.0));
    assert_eq!(conditions.cpu_temperature_celsius, Reading::Available(61.0));
    assert_eq!(conditions.load_average_1m, Reading::Available(0.52));
    assert_eq!(conditions.cpu_times.user_ns, Reading::Available(1_200_000_000));
    assert_eq!(conditions.cpu_times.system_ns, Reading::Available(400_000_000));
    assert_eq!(conditions.cpu_times.idle_ns, Reading::Available(10_500_000_000));
    assert_eq!(conditions.cpu_times.steal_ns, Reading::Available(100_000_000));
    assert_eq!(conditions.free_memory_bytes, Reading::Available(8_000_000 * 1024));
    assert_eq!(conditions.microcode, Reading::Available("0x1f".to_owned()));
    assert_eq!(conditions.kernel_version, Reading::Available("6.8.0".to_owned()));
    let text = serde_json::to_string(&conditions).unwrap();
    assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), conditions);
}

#[test]
fn reads_a_laptop_on_battery() {
    let conditions = snapshot(&laptop("0\n", "Discharging\n"));
    assert_eq!(conditions.power_source, Reading::Available(PowerSource::Battery));
    // A charge limit leaves the battery unused while the adapter feeds the machine.
    assert_eq!(snapshot(&laptop("1\n", "Not charging\n")).power_source, Reading::Available(PowerSource::Ac));
}

#[test]
fn the_rate_of_the_batteries_is_summed_by_direction() {
    let rate = |status: &str, files: &[(&str, &str)]| {
        snapshot(&laptop("0\n", status).files(files)).battery_discharge_watts
    };
    let power = ("sys/class/power_supply/BAT0/power_now", "14200000\n");
    assert_eq!(rate("Discharging\n", &[power]), Reading::Available(14.2));
    assert_eq!(rate("Charging\n", &[power]), Reading::Available(-14.2));
    assert_eq!(rate("Full\n", &[]), Reading::Available(0.0));
    let pair = [
        ("sys/class/power_supply/BAT0/current_now", "-1000000\n"),
        ("sys/class/power_supply/BAT0/voltage_now", "12000000\n"),
    ];
    assert_eq!(rate("Discharging\n", &pair), Reading::Available(12.0));
    check_reason(&rate("Discharging\n", &[]), "power_now does not exist");
    check_reason(&snapshot(&Tree::new().directory(SUPPLY)).battery_discharge_watts, "no battery in ");
}

#[test]
fn several_batteries_count_by_their_size() {
    let tree = laptop("0\n", "Discharging\n").files(&[
        ("sys/class/power_supply/BAT1/type", "Battery\n"),
        ("sys/class/power_supply/BAT1/status", "Unknown\n"),
        ("sys/class/power_supply/BAT1/energy_now", "0\n"),
        ("sys/class/power_supply/BAT1/energy_full", "50000000\n"),
    ]);
    assert_eq!(snapshot(&tree).battery_percent, Reading::Available(40.0));
}

#[test]
fn the_time_left_is_the_batterys_own_or_its_energy_at_the_present_rate() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let left =
        |status: &str, files: &[(&str, &str)]| snapshot(&laptop("0\n", status).files(files)).battery_left_ns;
    let power = ("sys/class/power_supply/BAT0/power_now", "16000000\n");
    // 40 Wh at 16 W.
    assert_eq!(left("Discharging\n", &[power]), Reading::Available(HOUR_NS * 5 / 2));
    let own = ("sys/class/power_supply/BAT0/time_to_empty_now", "7200\n");
    assert_eq!(left("Discharging\n", &[power, own]), Reading::Available(HOUR_NS * 2));
    let second = [
        power,
        own,
        ("sys/class/power_supply/BAT1/type", "Battery\n"),
        ("sys/class/power_supply/BAT1/status", "Not charging\n"),
        ("sys/class/power_supply/BAT1/energy_now", "24000000\n"),
        ("sys/class/power_supply/BAT1/energy_full", "24000000\n"),
    ];
    // The battery that rests meanwhile is used afterwards.
    assert_eq!(left("Discharging\n", &second), Reading::Available(HOUR_NS * 4));
    check_reason(&left("Charging\n", &[power]), "not used");
    check_reason(&left("Discharging\n", &[]), "do not tell what is left");
    for odd in ["0\n", "1\n", "NaN\n", "-0\n", "inf\n"] {
        let power = ("sys/class/power_supply/BAT0/power_now", odd);
        check_reason(&left("Discharging\n", &[power]), "do not tell what is left");
    }
    check_reason(&snapshot(&Tree::new().directory(SUPPLY)).battery_left_ns, "no battery in ");
}

#[test]
fn a_battery_that_counts_charge_lasts_as_long_as_its_current_lets_it() {
    let tree = Tree::new().files(&[
        ("sys/class/power_supply/BAT0/type", "Battery\n"),
        ("sys/class/power_supply/BAT0/status", "Discharging\n"),
        ("sys/class/power_supply/BAT0/charge_now", "3000000\n"),
        ("sys/class/power_supply/BAT0/current_now", "-1500000\n"),
    ]);
    assert_eq!(snapshot(&tree).battery_left_ns, Reading::Available(2 * 3_600_000_000_000));
}

/// A supply's name, type, and further attributes.
type Supply<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// What feeds a machine with the supplies given.
fn fed_by(supplies: &[Supply<'_>]) -> Conditions {
    let tree = supplies.iter().fold(Tree::new(), |tree, (name, kind, attributes)| {
        let tree = tree.file(&format!("{SUPPLY}/{name}/type"), kind);
        attributes
            .iter()
            .fold(tree, |tree, (attribute, text)| tree.file(&format!("{SUPPLY}/{name}/{attribute}"), text))
    });
    snapshot(&tree)
}

#[test]
fn supplies_of_every_kind_are_told_apart() {
    const USED: &[(&str, &str)] = &[("status", "Discharging\n"), ("capacity", "50\n")];
    const ON: &[(&str, &str)] = &[("online", "1\n")];
    const OFF: &[(&str, &str)] = &[("online", "0\n")];
    const FOR_A_DEVICE: &[(&str, &str)] = &[("online", "1\n"), ("scope", "Device\n")];
    const IN_A_MOUSE: &[(&str, &str)] = &[("capacity", "5\n"), ("status", "Full\n"), ("scope", "Device\n")];
    #[track_caller]
    fn check(supplies: &[Supply<'_>], source: Option<PowerSource>, percent: Option<f64>) {
        let conditions = fed_by(supplies);
        let found = (conditions.power_source.available(), conditions.battery_percent.available());
        assert_eq!(found, (source.as_ref(), percent.as_ref()), "{conditions:?}");
    }
    let battery = ("BAT0", "Battery\n", USED);
    // A USB-C adapter by power delivery, as the port or as the driver of the charger names it.
    check(&[battery, ("ucsi-source-psy-USBC000:001", "USB\n", ON)], Some(PowerSource::Ac), Some(50.0));
    check(&[battery, ("tcpm-source-psy-0-0022", "USB_PD\n", ON)], Some(PowerSource::Ac), Some(50.0));
    check(&[battery, ("ucsi-source-psy-USBC000:001", "USB\n", OFF)], Some(PowerSource::Battery), Some(50.0));
    check(&[battery, ("wireless", "Wireless\n", ON)], Some(PowerSource::Ac), Some(50.0));
    // What the port feeds does not feed the machine.
    check(
        &[battery, ("ucsi-source-psy-USBC000:002", "USB\n", FOR_A_DEVICE)],
        Some(PowerSource::Battery),
        Some(50.0),
    );
    // A UPS and the battery of a mouse are no batteries of a desktop machine.
    check(&[("hid-ups", "UPS\n", USED), ("hidpp_battery_0", "Battery\n", IN_A_MOUSE)], None, None);
    check(
        &[("AC", "Mains\n", ON), ("hidpp_battery_0", "Battery\n", IN_A_MOUSE)],
        Some(PowerSource::Ac),
        None,
    );
    // A bay without its battery.
    check(
        &[("BAT1", "Battery\n", &[("present", "0\n")]), ("AC", "Mains\n", ON)],
        Some(PowerSource::Ac),
        None,
    );
}

#[test]
fn the_processors_temperature_is_taken_from_the_sensor_that_is_its_own() {
    #[track_caller]
    fn check(monitors: &[(&str, &[(&str, &str)])], expected: Option<f64>) {
        let tree = monitors.iter().enumerate().fold(Tree::new(), |tree, (number, (name, inputs))| {
            let folder = format!("sys/class/hwmon/hwmon{number}");
            let tree = tree.file(&format!("{folder}/name"), name);
            inputs.iter().enumerate().fold(tree, |tree, (input, (label, millidegrees))| {
                let input = format!("{folder}/temp{}", input + 1);
                tree.file(&format!("{input}_label"), label).file(&format!("{input}_input"), millidegrees)
            })
        });
        let found = snapshot(&tree);
        assert_eq!(found.cpu_temperature_celsius.available(), expected.as_ref(), "{monitors:?}");
        // Whatever the sensor, it is among all of them.
        let all = found.temperatures_celsius.available().unwrap();
        assert!(expected.is_none_or(|celsius| all.values().any(|one| *one >= celsius)), "{all:?}");
    }
    let acpi: (&str, &[(&str, &str)]) = ("acpitz\n", &[("", "27800\n")]);
    let board: (&str, &[(&str, &str)]) =
        ("thinkpad\n", &[("CPU\n", "66000\n"), ("GPU\n", "80000\n"), ("", "50000\n")]);
    check(&[("coretemp\n", &[("Core 0\n", "70000\n"), ("Package id 0\n", "61000\n")]), board], Some(61.0));
    check(&[acpi, ("k10temp\n", &[("Tctl\n", "47250\n"), ("Tccd1\n", "45000\n")])], Some(47.25));
    check(&[("zenpower\n", &[("Tdie\n", "52000\n"), ("Tctl\n", "62000\n")])], Some(52.0));
    check(&[("cpu_thermal\n", &[("", "44000\n")])], Some(44.0));
    // Without a sensor of the processor, the board's controller feels its heat.
    check(&[acpi, board], Some(66.0));
    check(
        &[(
            "cros_ec\n",
            &[("Battery\n", "31000\n"), ("cpu_f75303@4d\n", "58000\n"), ("CPU_VR\n", "71000\n")],
        )],
        Some(58.0),
    );
    check(&[("dell_smm\n", &[("CPU\n", "49000\n"), ("Ambient\n", "88000\n")])], Some(49.0));
    // On many boards this one never changes.
    check(&[acpi], None);
    check(&[("nvme\n", &[("Composite\n", "38850\n")])], None);
}

#[test]
fn a_desktop_has_no_battery() {
    let conditions = snapshot(&Tree::new().directory(SUPPLY));
    check_reason(&conditions.battery_percent, "no battery in ");
    check_reason(&conditions.power_source, "no battery in ");
}

#[test]
fn a_bare_virtual_machine_gives_reasons() {
    let conditions = snapshot(&Tree::new());
    check_reason(&conditions.power_source, "power_supply does not exist");
    check_reason(&conditions.cpu_mhz, "no clock in ");
    check_reason(&conditions.governor, "no governor in ");
    check_reason(&conditions.cpu_temperature_celsius, "no sensor of the processor");
    check_reason(&conditions.load_average_1m, "loadavg does not exist");
    check_reason(&conditions.cpu_times.idle_ns, "stat does not exist");
    check_reason(&conditions.free_memory_bytes, "meminfo does not exist");
}

#[test]
fn clocks_come_from_the_processor_list_where_there_is_no_governor() {
    let tree = Tree::new()
        .file("proc/cpuinfo", "cpu MHz\t\t: 2500.5\n\ncpu MHz\t\t: 2599.5\nmicrocode\t: 0x1000065\n");
    let conditions = snapshot(&tree);
    assert_eq!(conditions.cpu_mhz, Reading::Available(2550.0));
    assert_eq!(conditions.microcode, Reading::Available("0x1000065".to_owned()));
}

#[test]
fn garbage_is_a_reason() {
    let tree = laptop("yes\n", "\n").files(&[
        ("sys/class/power_supply/BAT0/energy_now", "NaN\n"),
        ("sys/class/power_supply/BAT0/capacity", "250\n"),
        ("sys/class/hwmon/hwmon3/temp1_input", "4294967295\n"),
        ("proc/stat", "cpu  1 2 x 4\n"),
        ("proc/loadavg", "inf\n"),
        ("proc/meminfo", "MemAvailable: 99999999999999999999 kB\n"),
    ]);
    let conditions = snapshot(&tree);
    check_reason(&conditions.power_source, "status holds ``");
    check_reason(&conditions.battery_percent, "holds `250` instead of a percentage");
    check_reason(&conditions.cpu_temperature_celsius, "instead of a temperature");
    check_reason(&conditions.cpu_times.user_ns, "instead of a line cpu");
    check_reason(&conditions.load_average_1m, "instead of load averages");
    check_reason(&conditions.free_memory_bytes, "instead of a line MemAvailable");
}

#[test]
fn an_unreadable_file_is_a_reason() {
    // A folder in place of the file fails for every user; a mode of 000 would not fail for root.
    let tree = Tree::new().directory("proc/loadavg");
    check_reason(&snapshot(&tree).load_average_1m, "loadavg cannot be read");
}

#[cfg(unix)]
#[test]
fn a_forbidden_file_says_that_permission_is_missing() {
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::new().file("proc/loadavg", "0.1 0.1 0.1\n");
    let path = tree.roots().proc.join("loadavg");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads the file all the same, so only one of the two can be expected.
    match snapshot(&tree).load_average_1m {
        Reading::Unavailable(reason) => assert!(reason.ends_with("permission denied"), "{reason}"),
        Reading::Available(load) => assert!((load - 0.1).abs() < 1e-9),
    }
}

fn times(user: u64, system: u64, idle: u64, steal: Reading<u64>) -> CpuTimes {
    CpuTimes {
        user_ns: Reading::Available(user),
        system_ns: Reading::Available(system),
        idle_ns: Reading::Available(idle),
        steal_ns: steal,
    }
}

#[test]
fn busy_is_a_share_of_the_time_between() {
    let none = || Reading::unavailable("none");
    let start = times(100, 100, 100, none());
    assert_eq!(times(200, 150, 350, none()).busy_fraction_since(&start), Reading::Available(0.375));
    check_reason(&start.busy_fraction_since(&start), "no CPU time has passed");
    check_reason(&start.busy_fraction_since(&times(200, 0, 0, none())), "went back");
    let stolen = times(100, 100, 200, Reading::Available(300));
    assert_eq!(
        stolen.busy_fraction_since(&times(100, 100, 100, Reading::Available(200))),
        Reading::Available(0.5)
    );
    let missing = CpuTimes { idle_ns: Reading::unavailable("no idle"), ..start.clone() };
    check_reason(&missing.busy_fraction_since(&start), "no idle");
}

#[test]
fn the_running_machine_has_memory_and_times() {
    let conditions = detect_conditions();
    assert!(conditions.free_memory_bytes.available().is_some_and(|bytes| *bytes > 0));
    assert!(conditions.cpu_times.idle_ns.available().is_some());
}
