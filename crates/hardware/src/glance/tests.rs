//! A glance tells what the conditions tell, and asks for less.

use super::*;
use crate::conditions::ConditionsProbe;
use crate::fixture::Tree;

const CLOCK: &str = "sys/devices/system/cpu/cpufreq/policy0";

fn laptop(online: &str, status: &str) -> Tree {
    let supply = |name: &str| format!("sys/class/power_supply/{name}");
    Tree::new().files(&[
        (supply("AC/type").as_str(), "Mains\n"),
        (supply("AC/online").as_str(), online),
        (supply("BAT0/type").as_str(), "Battery\n"),
        (supply("BAT0/status").as_str(), status),
        (supply("BAT0/capacity").as_str(), "81\n"),
        ("sys/firmware/acpi/platform_profile", "balanced\n"),
        (format!("{CLOCK}/scaling_governor").as_str(), "powersave\n"),
        (format!("{CLOCK}/scaling_cur_freq").as_str(), "1200000\n"),
        ("sys/class/hwmon/hwmon3/name", "coretemp\n"),
        ("sys/class/hwmon/hwmon3/temp1_input", "61000\n"),
        ("proc/stat", "cpu  100 20 30 1000 50 5 5 10 0 0\n"),
        ("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"),
    ])
}

#[test]
fn a_glance_is_the_changing_part_of_the_conditions() {
    for (online, status) in [("1\n", "Charging\n"), ("0\n", "Discharging\n"), ("0\n", "Unknown\n")] {
        let tree = laptop(online, status);
        let conditions = ConditionsProbe::new(tree.roots()).snapshot();
        let glance = Glance::below(&tree.roots());
        assert_eq!(glance, Glance::from(&conditions), "{online} {status}");
        assert!(glance.cpu_mhz.available().is_some() && glance.power_source.available().is_some());
    }
}

#[test]
fn a_machine_that_tells_nothing_gives_reasons() {
    let tree = Tree::new().file("proc/cpuinfo", "cpu MHz : 2000.0\n");
    let glance = Glance::below(&tree.roots());
    // The kernel may interrupt every core to fill this file, so the clock that stands there is not read.
    assert!(matches!(&glance.cpu_mhz, Reading::Unavailable(reason) if reason.contains("cpufreq")));
    assert!(glance.power_source.available().is_none() && glance.cpu_times.user_ns.available().is_none());
}

#[test]
fn the_running_machine_can_be_glanced_at() {
    let (earlier, later) = (detect_glance(), detect_glance());
    if let (Reading::Available(then), Reading::Available(now)) =
        (&earlier.cpu_times.user_ns, &later.cpu_times.user_ns)
    {
        assert!(now >= then);
    }
}

#[cfg(unix)]
#[test]
fn no_reader_starts_a_process() {
    // A program that starts disturbs what is measured, and may hang.
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains(concat!("process::", "Command")), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen} files");
}
