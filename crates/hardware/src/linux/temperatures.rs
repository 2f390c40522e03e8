//! Temperatures of a Linux machine: the processor's own, and all that have a name.
//!
//! Invariant: a value that no working sensor gives is a reason, not a reading.

use std::collections::BTreeMap;
use std::path::Path;

use siliconroute_core::Reading;

use crate::roots::{Roots, list_names, list_numbered, read_value, read_word};

/// More sensors than this say nothing that a trial would be judged by.
const SENSOR_LIMIT: usize = 24;
/// More inputs than a monitor has; bounds the work on a made-up tree.
const INPUT_LIMIT: usize = 64;
/// More monitors and zones than a machine has.
const MONITOR_LIMIT: usize = 64;

/// The processor's temperature: the hottest package sensor, else a thermal zone of the processor.
///
/// ACPI's own zone is not used: on many boards it never changes.
pub(crate) fn cpu_temperature_celsius(roots: &Roots) -> Reading<f64> {
    let monitors = roots.sys.join("class/hwmon");
    let zones = roots.sys.join("class/thermal");
    let mut temperatures = Vec::new();
    let mut failure = None;
    let mut note = |reading: Reading<f64>| match reading {
        Reading::Available(celsius) => temperatures.push(celsius),
        Reading::Unavailable(reason) => failure = Some(reason),
    };
    for monitor in list_numbered(&monitors, "hwmon").available().into_iter().flatten() {
        let folder = monitors.join(monitor);
        let name = read_word(&folder.join("name"));
        let known = ["k10temp", "zenpower", "coretemp", "cpu_thermal", "cpu-thermal", "soc_thermal"];
        if name.available().is_some_and(|name| known.contains(&name.as_str())) {
            note(monitor_temperature(&folder));
        }
    }
    for zone in list_numbered(&zones, "thermal_zone").available().into_iter().flatten() {
        let folder = zones.join(zone);
        let kind = read_word(&folder.join("type"));
        let of_cpu = kind.available().is_some_and(|kind| {
            let kind = kind.to_lowercase();
            kind == "x86_pkg_temp" || kind == "tcpu" || kind.starts_with("cpu") || kind.starts_with("soc")
        });
        if of_cpu {
            note(celsius(&folder.join("temp")));
        }
    }
    match (temperatures.into_iter().max_by(f64::total_cmp), failure) {
        (Some(hottest), _) => Reading::Available(hottest),
        (None, Some(reason)) => Reading::Unavailable(reason),
        (None, None) => Reading::unavailable(format!(
            "no sensor of the processor in {} or {}",
            monitors.display(),
            zones.display()
        )),
    }
}

/// The package's input of a monitor; the first input where none is labelled so.
fn monitor_temperature(folder: &Path) -> Reading<f64> {
    for input in 1..=8 {
        let label = read_word(&folder.join(format!("temp{input}_label")));
        let package = label
            .available()
            .is_some_and(|label| label == "Tdie" || label.starts_with("Package id") || label == "Tctl");
        if package {
            return celsius(&folder.join(format!("temp{input}_input")));
        }
    }
    celsius(&folder.join("temp1_input"))
}

pub(crate) fn celsius(path: &Path) -> Reading<f64> {
    read_value(path, "a temperature", |text| {
        let celsius = text.parse::<f64>().ok()? / 1000.0;
        (-50.0..=150.0).contains(&celsius).then_some(celsius)
    })
}

/// All temperatures by the sensor's name, such as `nvme Composite`; the cores of a package count as one.
pub(crate) fn all(roots: &Roots) -> Reading<BTreeMap<String, f64>> {
    let monitors = roots.sys.join("class/hwmon");
    let zones = roots.sys.join("class/thermal");
    let mut found = BTreeMap::<String, f64>::new();
    let mut note = |name: String, celsius: f64| {
        if found.len() < SENSOR_LIMIT || found.contains_key(&name) {
            let hottest = found.entry(name).or_insert(celsius);
            *hottest = hottest.max(celsius);
        }
    };
    for monitor in list_numbered(&monitors, "hwmon").available().into_iter().flatten().take(MONITOR_LIMIT) {
        let folder = monitors.join(monitor);
        let Reading::Available(name) = read_word(&folder.join("name")) else { continue };
        let files = list_names(&folder);
        let inputs = files.available().into_iter().flatten().filter_map(|file| {
            file.strip_prefix("temp")?
                .strip_suffix("_input")
                .filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        for number in inputs.take(INPUT_LIMIT) {
            let Reading::Available(celsius) = celsius(&folder.join(format!("temp{number}_input"))) else {
                continue;
            };
            let label = read_word(&folder.join(format!("temp{number}_label")));
            let label = label.available().map(String::as_str).unwrap_or_default();
            let label = if label.starts_with("Core ") { "Core" } else { label };
            note(format!("{name} {label}").trim_end().to_owned(), celsius);
        }
    }
    for zone in list_numbered(&zones, "thermal_zone").available().into_iter().flatten().take(MONITOR_LIMIT) {
        let folder = zones.join(zone);
        let Reading::Available(kind) = read_word(&folder.join("type")) else { continue };
        if let Reading::Available(celsius) = celsius(&folder.join("temp")) {
            note(kind, celsius);
        }
    }
    let none = format!("no temperature in {} or {}", monitors.display(), zones.display());
    Reading::from_option((!found.is_empty()).then_some(found), &none)
}
