//! What the machine is like now: power, clocks, heat, load and free memory, as a trial records it.
//!
//! Invariant: a snapshot; nothing is averaged or remembered between two of them.

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::linux;
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
    /// The power profile or scheme that the user chose, such as `balanced`.
    pub power_profile: Reading<String>,
    /// Linux's clock governor; several are joined by `+`.
    pub governor: Reading<String>,
    /// Mean clock of the cores, in MHz.
    pub cpu_mhz: Reading<f64>,
    /// Temperature of the processor, in degrees Celsius.
    pub cpu_temperature_celsius: Reading<f64>,
    /// Mean number of runnable processes over one minute.
    pub load_average_1m: Reading<f64>,
    /// CPU time since the system started, for the difference of two snapshots.
    pub cpu_times: CpuTimes,
    /// Memory that a new allocation may count on, within the process's control group.
    pub free_memory_bytes: Reading<u64>,
    /// The revision of the processor's microcode.
    pub microcode: Reading<String>,
    /// The kernel's version.
    pub kernel_version: Reading<String>,
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
#[derive(Debug, Clone)]
pub struct ConditionsProbe {
    roots: Roots,
}

impl ConditionsProbe {
    /// Prepares to read below `roots`.
    pub fn new(roots: Roots) -> Self {
        Self { roots }
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> Conditions {
        let roots = &self.roots;
        let power = linux::sensors::read_power(roots);
        Conditions {
            power_source: power.source,
            battery_percent: power.battery_percent,
            power_profile: linux::sensors::power_profile(roots),
            governor: linux::sensors::governor(roots),
            cpu_mhz: linux::sensors::cpu_mhz(roots),
            cpu_temperature_celsius: linux::sensors::cpu_temperature_celsius(roots),
            load_average_1m: linux::sensors::load_average(roots),
            cpu_times: linux::sensors::cpu_times(roots),
            free_memory_bytes: linux::limits::free_memory_bytes(roots),
            microcode: linux::sensors::microcode(roots),
            kernel_version: linux::machine::kernel_version(roots),
        }
    }
}

/// Takes a snapshot of the running machine.
pub fn detect_conditions() -> Conditions {
    crate::os::conditions()
}

#[cfg(test)]
mod tests;
