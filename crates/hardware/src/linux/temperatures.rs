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
/// As many as the largest of the boards' controllers has.
const BOARD_INPUTS: u32 = 24;
/// More monitors and zones than a machine has.
const MONITOR_LIMIT: usize = 64;

/// Monitors of processors, by the kernel's names.
const PROCESSORS: [&str; 6] =
    ["k10temp", "zenpower", "coretemp", "cpu_thermal", "cpu-thermal", "soc_thermal"];
/// Controllers of boards that have a sensor at the processor among others.
const BOARDS: [&str; 4] = ["thinkpad", "cros_ec", "dell_smm", "dell_ddv"];

/// The processor's temperature: the hottest package sensor or thermal zone of the processor, else what the board's
/// controller feels there.
///
/// ACPI's own zone (`acpitz`) is not used: on many boards it never changes.
pub(crate) fn cpu_temperature_celsius(roots: &Roots) -> Reading<f64> {
    let monitors = roots.sys.join("class/hwmon");
    let zones = roots.sys.join("class/thermal");
    let mut temperatures = Vec::new();
    let mut failure = None;
    let mut boards = Vec::new();
    let mut note = |reading: Reading<f64>| match reading {
        Reading::Available(celsius) => temperatures.push(celsius),
        Reading::Unavailable(reason) => failure = Some(reason),
    };
    for monitor in list_numbered(&monitors, "hwmon").available().into_iter().flatten() {
        let folder = monitors.join(monitor);
        let name = read_word(&folder.join("name"));
        let Some(name) = name.available() else { continue };
        if PROCESSORS.contains(&name.as_str()) {
            note(monitor_temperature(&folder));
        } else if BOARDS.contains(&name.as_str()) {
            boards.push(folder);
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
    let own = temperatures.into_iter().max_by(f64::total_cmp);
    let by_board = || boards.iter().filter_map(|board| board_temperature(board)).max_by(f64::total_cmp);
    match (own.or_else(by_board), failure) {
        (Some(hottest), _) => Reading::Available(hottest),
        (None, Some(reason)) => Reading::Unavailable(reason),
        (None, None) => Reading::unavailable(format!(
            "no sensor of the processor in {} or {}",
            monitors.display(),
            zones.display()
        )),
    }
}

/// The hottest of a board's inputs that are labelled as the processor's, and not as its voltage regulator's.
fn board_temperature(folder: &Path) -> Option<f64> {
    let of_processor = |input: &u32| {
        let label = read_word(&folder.join(format!("temp{input}_label")));
        label.available().is_some_and(|label| {
            let label = label.to_lowercase();
            (label.contains("cpu") || label.contains("apu")) && !label.contains("vr")
        })
    };
    let celsius = |input: u32| celsius(&folder.join(format!("temp{input}_input"))).available().copied();
    (1..=BOARD_INPUTS).filter(of_processor).filter_map(celsius).max_by(f64::total_cmp)
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
