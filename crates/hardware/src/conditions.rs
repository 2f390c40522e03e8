//! What the machine is like now: power, clocks, heat, throttling, load, free memory and versions, as a trial
//! records it.
//!
//! Invariant: a snapshot; nothing is averaged or remembered between two of them. A document of an earlier
//! version still reads: what it lacks is a reading that was not recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::linux;
use crate::linux::driver_files::{self, DriverFiles};
use crate::roots::Roots;

/// Where the machine draws its power from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    /// The mains.
    Ac,
    /// Its battery.
    Battery,
}

/// The conditions at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Mains or battery.
    pub power_source: Reading<PowerSource>,
    /// Charge of all batteries together, 0 to 100.
    pub battery_percent: Reading<f64>,
    /// The power that all batteries together give, in watts; negative while they are charged.
    #[serde(default = "not_recorded")]
    pub battery_discharge_watts: Reading<f64>,
    /// How long the batteries last at the present rate, as the system or the battery reckons it; a reason while they
    /// are not used.
    #[serde(default = "not_recorded")]
    pub battery_left_ns: Reading<u64>,
    /// The power profile or scheme that the user chose, such as `balanced`; on macOS whether Low Power Mode is on.
    pub power_profile: Reading<String>,
    /// What else the user chose of power: Windows' power mode over the scheme, such as `best performance`, and what
    /// Linux's clock drivers are told to prefer, such as `balance_performance`; several are joined by `+`.
    #[serde(default = "not_recorded")]
    pub power_mode: Reading<String>,
    /// Linux's clock governor; several are joined by `+`.
    pub governor: Reading<String>,
    /// Mean clock of the cores, in MHz.
    pub cpu_mhz: Reading<f64>,
    /// How the clocks of the cores spread.
    #[serde(default = "not_recorded")]
    pub cpu_clocks: Reading<ClockSpread>,
    /// Temperature of the processor, in degrees Celsius.
    pub cpu_temperature_celsius: Reading<f64>,
    /// Every temperature that the machine tells, in degrees Celsius, by the name of its sensor; at most 24,
    /// and of sensors that share a name the hottest.
    #[serde(default = "not_recorded")]
    pub temperatures_celsius: Reading<BTreeMap<String, f64>>,
    /// What has slowed the processor down so far, and what limits its clocks now.
    #[serde(default)]
    pub throttling: Throttling,
    /// Mean number of runnable processes over one minute.
    pub load_average_1m: Reading<f64>,
    /// Time since the system started, for the difference of two snapshots.
    #[serde(default = "not_recorded")]
    pub uptime_ns: Reading<u64>,
    /// CPU time since the system started, for the difference of two snapshots.
    pub cpu_times: CpuTimes,
    /// Memory that a new allocation may count on, within the process's control group.
    pub free_memory_bytes: Reading<u64>,
    /// The revision of the processor's microcode.
    pub microcode: Reading<String>,
    /// The system's name and version as its maker writes them.
    #[serde(default = "not_recorded")]
    pub os_version: Reading<String>,
    /// The kernel's version.
    pub kernel_version: Reading<String>,
    /// The drivers of the GPUs and NPUs, sorted by name; none where the machine has neither.
    #[serde(default = "not_recorded")]
    pub drivers: Reading<Vec<DriverVersion>>,
}

/// What a document of an earlier version says about a value that it does not hold.
fn not_recorded<T>() -> Reading<T> {
    Reading::unavailable("not recorded")
}

/// The clocks of the cores at one moment, in MHz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockSpread {
    /// The slowest core.
    pub min_mhz: f64,
    /// The core in the middle; of an even number the mean of the two.
    pub median_mhz: f64,
    /// The fastest core.
    pub max_mhz: f64,
}

impl ClockSpread {
    /// Orders `clocks`; `None` where there are none.
    pub(crate) fn of(mut clocks: Vec<f64>) -> Option<Self> {
        clocks.sort_by(f64::total_cmp);
        let (min_mhz, max_mhz) = (*clocks.first()?, *clocks.last()?);
        let (low, high) = (clocks.get((clocks.len() - 1) / 2)?, clocks.get(clocks.len() / 2)?);
        Some(Self { min_mhz, median_mhz: f64::midpoint(*low, *high), max_mhz })
    }
}

/// What slows the processor down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throttling {
    /// Times that a core was slowed by its heat since the system started, summed over the cores.
    pub core_events: Reading<u64>,
    /// Times that a package was slowed by its heat since the system started, summed over the packages.
    pub package_events: Reading<u64>,
    /// Time that packages have spent slowed by heat since the system started, in milliseconds, summed over
    /// the packages.
    pub package_throttled_ms: Reading<u64>,
    /// The lowest clock that a core may rise to, of its hardware's own maximum, in percent: under 100 a
    /// setting or the firmware holds it down.
    pub clock_limit_percent: Reading<f64>,
    /// What macOS says of the heat of the whole machine.
    #[serde(default = "not_recorded")]
    pub thermal_state: Reading<ThermalState>,
}

/// How far macOS holds the machine back for its heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThermalState {
    /// Not at all.
    Nominal,
    /// Work that nobody waits for is put off.
    Fair,
    /// The processor, the GPU and the rest are slowed.
    Serious,
    /// They are slowed as far as they can be.
    Critical,
}

impl Default for Throttling {
    fn default() -> Self {
        Self::unavailable("not recorded")
    }
}

impl Throttling {
    /// Gives `reason` for every value.
    pub(crate) fn unavailable(reason: &str) -> Self {
        Self {
            core_events: Reading::unavailable(reason),
            package_events: Reading::unavailable(reason),
            package_throttled_ms: Reading::unavailable(reason),
            clock_limit_percent: Reading::unavailable(reason),
            thermal_state: Reading::unavailable(reason),
        }
    }
}

/// The driver of a chip.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DriverVersion {
    /// Its name, such as `amdgpu`.
    pub driver: String,
    /// Its own version; a driver that is part of the kernel has the kernel's, written `Linux 6.8.0`.
    pub version: String,
}

/// CPU time of all cores since the system started, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// In programs, at any priority.
    pub user_ns: Reading<u64>,
    /// In the kernel, interrupts included.
    pub system_ns: Reading<u64>,
    /// Idle, waiting for disks included.
    pub idle_ns: Reading<u64>,
    /// Taken by other machines of the same host.
    pub steal_ns: Reading<u64>,
}

impl CpuTimes {
    /// The busy share of the time between `earlier` and these times, 0 to 1.
    ///
    /// Busy is user, system and steal over all; steal counts as none where it is not told. Unavailable
    /// when either snapshot lacks a time, and when no time has passed or the counters went back.
    pub fn busy_fraction_since(&self, earlier: &Self) -> Reading<f64> {
        let grown = |now: &Reading<u64>, then: &Reading<u64>| match (now, then) {
            (Reading::Available(now), Reading::Available(then)) => now
                .checked_sub(*then)
                .map_or_else(|| Reading::unavailable("the CPU time counters went back"), Reading::Available),
            (Reading::Unavailable(reason), _) | (_, Reading::Unavailable(reason)) => {
                Reading::Unavailable(reason.clone())
            }
        };
        let (user, system, idle) = match (
            grown(&self.user_ns, &earlier.user_ns),
            grown(&self.system_ns, &earlier.system_ns),
            grown(&self.idle_ns, &earlier.idle_ns),
        ) {
            (Reading::Available(user), Reading::Available(system), Reading::Available(idle)) => {
                (user as f64, system as f64, idle as f64)
            }
            (Reading::Unavailable(reason), _, _)
            | (_, Reading::Unavailable(reason), _)
            | (_, _, Reading::Unavailable(reason)) => return Reading::Unavailable(reason),
        };
        let steal = grown(&self.steal_ns, &earlier.steal_ns).available().map_or(0.0, |ns| *ns as f64);
        let busy = user + system + steal;
        if busy + idle > 0.0 {
            Reading::Available(busy / (busy + idle))
        } else {
            Reading::unavailable("no CPU time has passed between the two snapshots")
        }
    }
}

/// Reads the conditions of a Linux machine, running or captured.
///
/// Supplies, temperatures and the power profile, for which a driver or firmware answers, have three seconds each; one
/// that hangs is a reason at once for as long as it hangs.
#[derive(Debug, Clone)]
pub struct ConditionsProbe {
    files: Arc<DriverFiles>,
}

impl ConditionsProbe {
    /// Prepares to read below `roots`.
    pub fn new(roots: Roots) -> Self {
        Self::with_time_limit(roots, driver_files::TIME_LIMIT)
    }

    /// Prepares to read below `roots`, where no driver has longer than `limit`.
    pub(crate) fn with_time_limit(roots: Roots, limit: Duration) -> Self {
        Self { files: Arc::new(DriverFiles::new(roots, limit)) }
    }

    /// The files that drivers answer for.
    pub(crate) fn files(&self) -> &DriverFiles {
        &self.files
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> Conditions {
        let files = self.files();
        let roots = files.roots();
        let power = files.power();
        let clocks = linux::sensors::cpu_clocks(roots);
        let kernel_version = linux::machine::kernel_version(roots);
        Conditions {
            power_source: power.source,
            battery_percent: power.battery_percent,
            battery_discharge_watts: power.battery_discharge_watts,
            battery_left_ns: power.battery_left_ns,
            power_profile: files.power_profile(),
            power_mode: linux::sensors::energy_preference(roots),
            governor: linux::sensors::governor(roots),
            cpu_mhz: clocks.clone().map(|clocks| clocks.iter().sum::<f64>() / clocks.len() as f64),
            cpu_clocks: clocks.and_then(|clocks| {
                Reading::from_option(ClockSpread::of(clocks), "the list of clocks is empty")
            }),
            cpu_temperature_celsius: files.cpu_temperature_celsius(),
            temperatures_celsius: files.temperatures_celsius(),
            throttling: linux::throttling::read(roots),
            load_average_1m: linux::sensors::load_average(roots),
            uptime_ns: linux::sensors::uptime_ns(roots),
            cpu_times: linux::sensors::cpu_times(roots),
            free_memory_bytes: linux::limits::free_memory_bytes(roots),
            microcode: linux::sensors::microcode(roots),
            os_version: linux::machine::os_version(roots),
            drivers: linux::drivers::versions(roots),
            kernel_version,
        }
    }
}

/// Takes a snapshot of the running machine.
pub fn detect_conditions() -> Conditions {
    crate::os::conditions()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod laptop_tests;
