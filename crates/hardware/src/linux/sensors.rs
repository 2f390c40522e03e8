//! Power, clocks and load of a Linux machine.
//!
//! Invariant: a value outside what its sensor can mean is a reason, not a reading.

use std::path::{Path, PathBuf};

use siliconroute_core::Reading;

use super::machine::field;
use crate::conditions::{CpuTimes, PowerSource};
use crate::roots::{Roots, list_names, list_numbered, read_number, read_text, read_value, read_word};

/// Clocks are read from at most this many cores, evenly spread, since each read may wake a core.
const CLOCK_SAMPLES: usize = 32;
/// `/proc/stat` counts in hundredths of a second on every architecture that Linux supports here.
const NS_PER_TICK: u64 = 10_000_000;

/// A battery that is hardly used says nothing of how long it would last when it is.
const LONGEST_HOURS: f64 = 14.0 * 24.0;

/// Power source, charge, rate and time.
#[derive(Debug)]
pub(crate) struct Power {
    pub(crate) source: Reading<PowerSource>,
    pub(crate) battery_percent: Reading<f64>,
    pub(crate) battery_discharge_watts: Reading<f64>,
    pub(crate) battery_left_ns: Reading<u64>,
}

impl Power {
    /// Gives `reason` for every value.
    pub(crate) fn unavailable(reason: &str) -> Self {
        Self {
            source: Reading::unavailable(reason),
            battery_percent: Reading::unavailable(reason),
            battery_discharge_watts: Reading::unavailable(reason),
            battery_left_ns: Reading::unavailable(reason),
        }
    }
}

/// Reads all supplies: the mains adapters, then what the batteries say.
pub(crate) fn read_power(roots: &Roots) -> Power {
    let supplies = match read_supplies(roots) {
        Reading::Available(supplies) => supplies,
        Reading::Unavailable(reason) => return Power::unavailable(&reason),
    };
    let batteries: Vec<Battery> = supplies.batteries.iter().map(|folder| read_battery(folder)).collect();
    Power {
        source: power_source(&supplies.online, &batteries, &supplies.no_battery),
        battery_percent: charge(&batteries, &supplies.no_battery),
        battery_discharge_watts: discharge_watts(&batteries, &supplies.no_battery),
        battery_left_ns: left_ns(&batteries, &supplies.no_battery),
    }
}

/// The power source alone. A battery, whose firmware may take its time, is asked only where no adapter is online,
/// and for nothing but its status.
pub(crate) fn read_power_source(roots: &Roots) -> Reading<PowerSource> {
    read_supplies(roots).and_then(|supplies| {
        let status = |folder: &PathBuf| Battery {
            status: read_word(&folder.join("status")),
            percent: Reading::unavailable("not asked for"),
            content: None,
            watts: Reading::unavailable("not asked for"),
            own_hours: None,
        };
        let batteries: Vec<Battery> = if supplies.online.contains(&true) {
            Vec::new()
        } else {
            supplies.batteries.iter().map(status).collect()
        };
        power_source(&supplies.online, &batteries, &supplies.no_battery)
    })
}

/// The machine's supplies, with what costs nothing to ask.
struct Supplies {
    /// Whether each adapter feeds the machine.
    online: Vec<bool>,
    /// The folders of the batteries.
    batteries: Vec<PathBuf>,
    /// Why there is no battery, where there is none.
    no_battery: String,
}

fn read_supplies(roots: &Roots) -> Reading<Supplies> {
    let folder = roots.sys.join("class/power_supply");
    list_names(&folder).map(|names| {
        let mut online = Vec::new();
        let mut batteries = Vec::new();
        let mut failure = None;
        for name in names {
            let supply = folder.join(name);
            let word = |name: &str| read_word(&supply.join(name));
            // Mice, pens and headsets have batteries too; the kernel marks them so.
            if word("scope").available().is_some_and(|scope| scope == "Device") {
                continue;
            }
            match word("type") {
                Reading::Available(kind) if kind == "Battery" => {
                    if word("present").available().is_none_or(|present| present != "0") {
                        batteries.push(supply);
                    }
                }
                Reading::Available(kind)
                    if kind == "Mains" || kind == "Wireless" || kind.starts_with("USB") =>
                {
                    if let Reading::Available(state) = read_number::<u8>(&supply.join("online")) {
                        online.push(state > 0);
                    }
                }
                // A UPS feeds the adapter, and is no battery of the machine.
                Reading::Available(_) => {}
                Reading::Unavailable(reason) => failure = Some(reason),
            }
        }
        let no_battery = failure.unwrap_or_else(|| format!("no battery in {}", folder.display()));
        Supplies { online, batteries, no_battery }
    })
}

struct Battery {
    status: Reading<String>,
    percent: Reading<f64>,
    /// Charge now and when full, in a unit that batteries of one machine share.
    content: Option<(f64, f64)>,
    /// The rate at which it is charged or used, whatever the sign.
    watts: Reading<f64>,
    /// The time for which it lasts, as it reckons itself or by its charge and current.
    own_hours: Option<f64>,
}

fn read_battery(supply: &Path) -> Battery {
    let number = |name: &str| {
        read_number::<f64>(&supply.join(name))
            .available()
            .copied()
            .filter(|value| value.is_finite() && *value >= 0.0)
    };
    // In microwatts, or in microamperes and microvolts.
    let signed = |name: &str| {
        read_number::<f64>(&supply.join(name)).map(f64::abs).and_then(|value| {
            Reading::from_option(Some(value).filter(|it| it.is_finite()), "the battery's rate is no number")
        })
    };
    let watts = match signed("power_now") {
        Reading::Available(power) => Reading::Available(power / 1e6),
        Reading::Unavailable(reason) => match (signed("current_now"), number("voltage_now")) {
            (Reading::Available(current), Some(voltage)) => Reading::Available(current * voltage / 1e12),
            _ => Reading::Unavailable(reason),
        },
    };
    let content = number("energy_now").zip(number("energy_full")).filter(|(_, full)| *full > 0.0);
    let percent = read_value(&supply.join("capacity"), "a percentage", |text| {
        text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))
    });
    let positive = |name: &str| number(name).filter(|value| *value > 0.0);
    let by_charge = || {
        let current = signed("current_now").available().copied().filter(|current| *current > 0.0)?;
        Some(number("charge_now")? / current)
    };
    let own_hours = positive("time_to_empty_now").map(|seconds| seconds / 3600.0).or_else(by_charge);
    Battery { status: read_word(&supply.join("status")), percent, content, watts, own_hours }
}

fn power_source(online: &[bool], batteries: &[Battery], no_battery: &str) -> Reading<PowerSource> {
    if online.contains(&true) {
        return Reading::Available(PowerSource::Ac);
    }
    let status = |wanted: &str| {
        batteries.iter().any(|battery| battery.status == Reading::Available(wanted.to_owned()))
    };
    if status("Discharging") {
        return Reading::Available(PowerSource::Battery);
    }
    if status("Charging") || status("Full") || status("Not charging") {
        return Reading::Available(PowerSource::Ac);
    }
    match batteries.first() {
        Some(Battery { status: Reading::Unavailable(reason), .. }) => Reading::Unavailable(reason.clone()),
        Some(_) if !online.is_empty() => Reading::Available(PowerSource::Battery),
        Some(Battery { status: Reading::Available(status), .. }) => {
            Reading::unavailable(format!("the battery's status is `{status}` and no adapter is listed"))
        }
        None => Reading::unavailable(no_battery),
    }
}

/// The power that all batteries together give; one that rests gives none.
fn discharge_watts(batteries: &[Battery], no_battery: &str) -> Reading<f64> {
    if batteries.is_empty() {
        return Reading::unavailable(no_battery);
    }
    let mut sum = 0.0;
    for battery in batteries {
        let sign = match battery.status.available().map(String::as_str) {
            Some("Discharging") => 1.0,
            Some("Charging") => -1.0,
            _ => continue,
        };
        match &battery.watts {
            Reading::Available(watts) => sum += sign * watts,
            Reading::Unavailable(reason) => return Reading::Unavailable(reason.clone()),
        }
    }
    Reading::Available(sum)
}

/// How long the batteries last: what a single one reckons itself, else their energy at the present rate.
fn left_ns(batteries: &[Battery], no_battery: &str) -> Reading<u64> {
    let watts = match discharge_watts(batteries, no_battery) {
        Reading::Available(watts) => Some(watts),
        Reading::Unavailable(reason) if batteries.is_empty() => return Reading::Unavailable(reason),
        Reading::Unavailable(_) => None,
    };
    let used = |battery: &Battery| battery.status.available().is_some_and(|status| status == "Discharging");
    if !batteries.iter().any(used) {
        return Reading::unavailable("the batteries are not used");
    }
    let energies: Option<Vec<f64>> =
        batteries.iter().map(|battery| battery.content.map(|(now, _)| now / 1e6)).collect();
    let by_energy = || {
        let watts = watts.filter(|watts| *watts > 0.0)?;
        Some(energies?.iter().sum::<f64>() / watts)
    };
    let hours = match batteries {
        [only] => only.own_hours.or_else(by_energy),
        _ => by_energy(),
    };
    let known = hours.filter(|hours| *hours > 0.0 && *hours <= LONGEST_HOURS);
    Reading::from_option(
        known.map(|hours| (hours * 3600e9).round() as u64),
        "the batteries do not tell what is left and how fast it is used",
    )
}

fn charge(batteries: &[Battery], no_battery: &str) -> Reading<f64> {
    if batteries.is_empty() {
        return Reading::unavailable(no_battery);
    }
    let contents: Option<Vec<(f64, f64)>> = batteries.iter().map(|battery| battery.content).collect();
    if let Some(contents) = contents {
        let (now, full) =
            contents.iter().fold((0.0, 0.0), |sum, battery| (sum.0 + battery.0, sum.1 + battery.1));
        // A worn battery may hold a little more than it last reported as full.
        return Reading::Available((now / full * 100.0).min(100.0));
    }
    let mut sum = 0.0;
    for battery in batteries {
        match &battery.percent {
            Reading::Available(percent) => sum += percent,
            Reading::Unavailable(reason) => return Reading::Unavailable(reason.clone()),
        }
    }
    Reading::Available(sum / batteries.len() as f64)
}

/// The firmware's power profile.
pub(crate) fn power_profile(roots: &Roots) -> Reading<String> {
    read_word(&roots.sys.join("firmware/acpi/platform_profile"))
}

/// The clock governors in use, joined by `+`.
pub(crate) fn governor(roots: &Roots) -> Reading<String> {
    of_clock_policies(roots, "scaling_governor", "governor")
}

/// What the clock drivers are told to prefer between speed and energy, joined by `+`.
pub(crate) fn energy_preference(roots: &Roots) -> Reading<String> {
    of_clock_policies(roots, "energy_performance_preference", "energy_performance_preference")
}

/// The words in a file of every clock policy, each once.
fn of_clock_policies(roots: &Roots, file: &str, what: &str) -> Reading<String> {
    let (folder, policies) = clock_policies(roots);
    let mut words: Vec<String> = policies
        .iter()
        .filter_map(|policy| read_word(&folder.join(policy).join(file)).available().cloned())
        .collect();
    words.sort();
    words.dedup();
    let joined = (!words.is_empty()).then(|| words.join("+"));
    Reading::from_option(joined, &format!("no {what} in {}", folder.display()))
}

/// The clocks of the cores as their driver tells them, in MHz; never an empty list.
///
/// `/proc/cpuinfo` is not asked, for which the kernel may interrupt every core.
pub(crate) fn driver_clocks(roots: &Roots) -> Reading<Vec<f64>> {
    let (folder, policies) = clock_policies(roots);
    let clocks: Vec<f64> = policies
        .iter()
        .filter_map(|policy| {
            read_number::<f64>(&folder.join(policy).join("scaling_cur_freq")).available().copied()
        })
        .map(|khz| khz / 1000.0)
        .filter(|mhz| (1.0..20_000.0).contains(mhz))
        .collect();
    let no_clock = format!("no clock in {}", folder.display());
    Reading::from_option((!clocks.is_empty()).then_some(clocks), &no_clock)
}

/// The clocks of the cores, in MHz; never an empty list.
pub(crate) fn cpu_clocks(roots: &Roots) -> Reading<Vec<f64>> {
    let no_clock = match driver_clocks(roots) {
        Reading::Available(clocks) => return Reading::Available(clocks),
        Reading::Unavailable(no_clock) => {
            format!("{no_clock} and none in {}", roots.proc.join("cpuinfo").display())
        }
    };
    let text = read_text(&roots.proc.join("cpuinfo"));
    let clocks: Vec<f64> = text
        .available()
        .map(String::as_str)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse().ok())
        .filter(|mhz| (1.0..20_000.0).contains(mhz))
        .collect();
    Reading::from_option((!clocks.is_empty()).then_some(clocks), &no_clock)
}

pub(super) fn clock_policies(roots: &Roots) -> (PathBuf, Vec<String>) {
    let folder = roots.sys.join("devices/system/cpu/cpufreq");
    let policies = list_numbered(&folder, "policy").available().cloned().unwrap_or_default();
    let step = policies.len().div_ceil(CLOCK_SAMPLES).max(1);
    (folder, policies.into_iter().step_by(step).collect())
}

/// The time since the system started.
pub(crate) fn uptime_ns(roots: &Roots) -> Reading<u64> {
    read_value(&roots.proc.join("uptime"), "seconds", |text| {
        let seconds = text.split_whitespace().next()?.parse::<f64>().ok()?;
        // Ten thousand years, far below what the nanoseconds' type ends at only by rounding.
        (0.0..=9e9).contains(&seconds).then(|| (seconds * 1e9).round() as u64)
    })
}

/// The load average over one minute.
pub(crate) fn load_average(roots: &Roots) -> Reading<f64> {
    read_value(&roots.proc.join("loadavg"), "load averages", |text| {
        text.split_whitespace().next()?.parse::<f64>().ok().filter(|load| load.is_finite() && *load >= 0.0)
    })
}

/// The CPU times of all cores together.
pub(crate) fn cpu_times(roots: &Roots) -> CpuTimes {
    let line = read_value(&roots.proc.join("stat"), "a line cpu", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        (ticks.len() >= 4).then_some(ticks)
    });
    // user nice system idle iowait irq softirq steal; guests' time is in user and nice already.
    let sum = |columns: &[usize]| match &line {
        Reading::Available(ticks) => Reading::Available(
            columns
                .iter()
                .filter_map(|column| ticks.get(*column))
                .fold(0_u64, |sum, ticks| sum.saturating_add(ticks.saturating_mul(NS_PER_TICK))),
        ),
        Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
    };
    let steal_ns = match &line {
        Reading::Available(ticks) if ticks.len() <= 7 => {
            Reading::unavailable("this kernel counts no steal time")
        }
        _ => sum(&[7]),
    };
    CpuTimes { user_ns: sum(&[0, 1]), system_ns: sum(&[2, 5, 6]), idle_ns: sum(&[3, 4]), steal_ns }
}

/// The revision of the microcode.
pub(crate) fn microcode(roots: &Roots) -> Reading<String> {
    let path = roots.sys.join("devices/system/cpu/cpu0/microcode/version");
    if let found @ Reading::Available(_) = read_word(&path) {
        return found;
    }
    read_value(&roots.proc.join("cpuinfo"), "a line microcode", |text| {
        field(text, "microcode").map(str::to_owned)
    })
}
