//! What the machine is like at one moment, as far as that is cheap to ask, for looking again and again while
//! something is measured.
//!
//! Invariant: no process is started, nothing is woken, and no more is read than what can change within seconds.

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::conditions::{Conditions, ConditionsProbe, CpuTimes, PowerSource};
use crate::linux;
use crate::roots::Roots;

/// The part of the [`Conditions`] that may change while something is measured and costs next to nothing to read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Glance {
    /// Mains or battery.
    pub power_source: Reading<PowerSource>,
    /// The power profile or scheme that the user chose.
    pub power_profile: Reading<String>,
    /// What else the user chose of power: Windows' power mode over the scheme, or what Linux's clock drivers are told to prefer.
    #[serde(default = "not_recorded")]
    pub power_mode: Reading<String>,
    /// The clock governor.
    pub governor: Reading<String>,
    /// Mean clock of the cores, in MHz.
    pub cpu_mhz: Reading<f64>,
    /// Temperature of the processor, in degrees Celsius.
    pub cpu_temperature_celsius: Reading<f64>,
    /// CPU time since the system started.
    pub cpu_times: CpuTimes,
    /// Memory that a new allocation may count on.
    pub free_memory_bytes: Reading<u64>,
}

/// What a document of an earlier version says about a value that it does not hold.
fn not_recorded<T>() -> Reading<T> {
    Reading::unavailable("not recorded")
}

impl Glance {
    /// The power plan: profile, mode and governor, as far as the machine tells them; `None` where it tells none.
    pub fn power_plan(&self) -> Option<String> {
        let told = [&self.power_profile, &self.power_mode, &self.governor];
        let told: Vec<&str> = told.into_iter().filter_map(|it| it.available()).map(String::as_str).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// A glance that tells nothing, for `reason`.
    pub fn unavailable(reason: &str) -> Self {
        Self {
            power_source: Reading::unavailable(reason),
            power_profile: Reading::unavailable(reason),
            power_mode: Reading::unavailable(reason),
            governor: Reading::unavailable(reason),
            cpu_mhz: Reading::unavailable(reason),
            cpu_temperature_celsius: Reading::unavailable(reason),
            cpu_times: CpuTimes {
                user_ns: Reading::unavailable(reason),
                system_ns: Reading::unavailable(reason),
                idle_ns: Reading::unavailable(reason),
                steal_ns: Reading::unavailable(reason),
            },
            free_memory_bytes: Reading::unavailable(reason),
        }
    }

    /// Reads a Linux machine, running or captured, below `roots`.
    ///
    /// The clocks are those of the clock driver: a machine without one has a clock that does not change.
    pub fn below(roots: &Roots) -> Self {
        Self::of(&ConditionsProbe::new(roots.clone()))
    }

    /// Reads the Linux machine of `probe`.
    pub(crate) fn of(probe: &ConditionsProbe) -> Self {
        let files = probe.files();
        let roots = files.roots();
        let clocks = linux::sensors::driver_clocks(roots);
        Self {
            power_source: files.power_source(),
            power_profile: files.power_profile(),
            power_mode: linux::sensors::energy_preference(roots),
            governor: linux::sensors::governor(roots),
            cpu_mhz: clocks.map(|clocks| clocks.iter().sum::<f64>() / clocks.len() as f64),
            cpu_temperature_celsius: files.cpu_temperature_celsius(),
            cpu_times: linux::sensors::cpu_times(roots),
            free_memory_bytes: linux::limits::free_memory_bytes(roots),
        }
    }
}

impl From<&Conditions> for Glance {
    fn from(conditions: &Conditions) -> Self {
        Self {
            power_source: conditions.power_source.clone(),
            power_profile: conditions.power_profile.clone(),
            power_mode: conditions.power_mode.clone(),
            governor: conditions.governor.clone(),
            cpu_mhz: conditions.cpu_mhz.clone(),
            cpu_temperature_celsius: conditions.cpu_temperature_celsius.clone(),
            cpu_times: conditions.cpu_times.clone(),
            free_memory_bytes: conditions.free_memory_bytes.clone(),
        }
    }
}

/// Glances at the running machine.
pub fn detect_glance() -> Glance {
    crate::os::glance()
}

#[cfg(test)]
mod tests;
