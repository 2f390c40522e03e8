//! Power, clocks, load and free memory.
//!
//! Invariant: what needs an administrator is not asked for.

use siliconroute_core::Reading;
use windows::Win32::Foundation::{FILETIME, HLOCAL, LocalFree, STATUS_SUCCESS};
use windows::Win32::System::Power::{
    CallNtPowerInformation, GetSystemPowerStatus, PROCESSOR_POWER_INFORMATION, PowerGetActiveScheme,
    PowerReadFriendlyName, ProcessorInformation, SYSTEM_POWER_STATUS,
};
use windows::Win32::System::Threading::GetSystemTimes;
use windows::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;
use windows::core::GUID;

use super::processes::{NS_PER_TICK, ticks};
use crate::conditions::{ClockSpread, Conditions, CpuTimes, PowerSource, Throttling};
use crate::glance::Glance;
use crate::windows_facts::{power_status, scheme_name};

const ADMINISTRATORS_ONLY: &str = "Windows tells temperatures to administrators only";
/// Longer than any name of a power scheme.
const NAME_UNITS: usize = 512;

/// The clocks of one logical CPU.
pub(super) struct Clock {
    pub(super) cpu: u32,
    pub(super) max_mhz: u32,
    current_mhz: u32,
    limit_mhz: u32,
}

const NO_GOVERNOR: &str = "Windows has power schemes in place of governors";
const NO_CLOCK: &str = "Windows tells no clock";

pub(crate) fn glance() -> Glance {
    Glance {
        power_source: power().0,
        power_profile: power_scheme(),
        governor: Reading::unavailable(NO_GOVERNOR),
        cpu_mhz: Reading::from_option(mean(&current_mhz(&clocks())), NO_CLOCK),
        cpu_temperature_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        cpu_times: cpu_times(),
        free_memory_bytes: super::memory_status().map(|status| status.ullAvailPhys),
    }
}

/// The power source and the charge of the batteries.
fn power() -> (Reading<PowerSource>, Reading<f64>) {
    let mut status = SYSTEM_POWER_STATUS::default();
    // SAFETY: the call fills the structure.
    match unsafe { GetSystemPowerStatus(&raw mut status) } {
        Ok(()) => power_status(status.ACLineStatus, status.BatteryFlag, status.BatteryLifePercent),
        Err(error) => {
            let reason = format!("GetSystemPowerStatus failed: {error}");
            (Reading::unavailable(reason.clone()), Reading::Unavailable(reason))
        }
    }
}

fn current_mhz(clocks: &[Clock]) -> Vec<f64> {
    clocks.iter().map(|clock| f64::from(clock.current_mhz)).filter(|mhz| *mhz > 0.0).collect()
}

fn mean(clocks: &[f64]) -> Option<f64> {
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
}

pub(crate) fn conditions() -> Conditions {
    let (power_source, battery_percent) = power();
    let all_clocks = clocks();
    let clocks = current_mhz(&all_clocks);
    Conditions {
        power_source,
        battery_percent,
        power_profile: power_scheme(),
        governor: Reading::unavailable(NO_GOVERNOR),
        cpu_mhz: Reading::from_option(mean(&clocks), NO_CLOCK),
        cpu_clocks: Reading::from_option(ClockSpread::of(clocks), NO_CLOCK),
        cpu_temperature_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        temperatures_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        throttling: throttling(&all_clocks),
        load_average_1m: Reading::unavailable("Windows keeps no load average"),
        uptime_ns: uptime_ns(),
        cpu_times: cpu_times(),
        free_memory_bytes: super::memory_status().map(|status| status.ullAvailPhys),
        microcode: Reading::unavailable("the microcode revision is not read on Windows"),
        os_version: super::os_version(),
        kernel_version: super::kernel_version(),
        drivers: super::driver_versions(),
    }
}

/// Windows tells programs of no heat, but of the clock that a core may rise to.
fn throttling(clocks: &[Clock]) -> Throttling {
    let percent = clocks
        .iter()
        .map(|clock| f64::from(clock.limit_mhz) / f64::from(clock.max_mhz) * 100.0)
        .min_by(f64::total_cmp);
    Throttling {
        clock_limit_percent: Reading::from_option(percent, NO_CLOCK),
        ..Throttling::unavailable("Windows counts no throttling")
    }
}

/// The time since the system started, sleep left out.
fn uptime_ns() -> Reading<u64> {
    let mut ticks = 0;
    // SAFETY: the call writes one number.
    let told = unsafe { QueryUnbiasedInterruptTime(&raw mut ticks) };
    Reading::from_option(
        told.as_bool().then(|| ticks.saturating_mul(NS_PER_TICK)),
        "QueryUnbiasedInterruptTime failed",
    )
}

/// The clocks of the logical CPUs of this program's processor group.
pub(super) fn clocks() -> Vec<Clock> {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(64);
    let mut table = vec![PROCESSOR_POWER_INFORMATION::default(); count];
    let bytes = size_of_val(table.as_slice()) as u32;
    // SAFETY: the call takes no input and writes at most `bytes` to the table.
    let status = unsafe {
        CallNtPowerInformation(ProcessorInformation, None, 0, Some(table.as_mut_ptr().cast()), bytes)
    };
    if status != STATUS_SUCCESS {
        return Vec::new();
    }
    // Rows beyond the last CPU stay zero.
    table
        .iter()
        .filter(|row| row.MaxMhz > 0)
        .map(|row| Clock {
            cpu: row.Number,
            max_mhz: row.MaxMhz,
            current_mhz: row.CurrentMhz,
            limit_mhz: row.MhzLimit,
        })
        .collect()
}

fn power_scheme() -> Reading<String> {
    let mut scheme: *mut GUID = std::ptr::null_mut();
    // SAFETY: the call writes one pointer to memory that it has allocated.
    let status = unsafe { PowerGetActiveScheme(None, &raw mut scheme) };
    if status.0 != 0 || scheme.is_null() {
        return Reading::unavailable(format!("PowerGetActiveScheme failed with error {}", status.0));
    }
    // SAFETY: on success the pointer leads to one GUID until it is freed.
    let id = unsafe { *scheme };
    let mut name = vec![0_u16; NAME_UNITS];
    let mut bytes = (name.len() * 2) as u32;
    // SAFETY: the buffer has the length stated, in bytes.
    let named = unsafe {
        PowerReadFriendlyName(
            None,
            Some(&raw const id),
            None,
            None,
            Some(name.as_mut_ptr().cast()),
            &raw mut bytes,
        )
    };
    // SAFETY: the memory came from PowerGetActiveScheme, which leaves it to LocalFree, and is not used again.
    unsafe { LocalFree(Some(HLOCAL(scheme.cast()))) };
    let own_name = (named.0 == 0)
        .then(|| String::from_utf16_lossy(name.split(|unit| *unit == 0).next().unwrap_or_default()))
        .filter(|name| !name.is_empty());
    Reading::Available(scheme_name(id.data1, own_name))
}

pub(crate) fn cpu_times() -> CpuTimes {
    let [mut idle, mut kernel, mut user] = [FILETIME::default(); 3];
    // SAFETY: the three structures are written once each.
    let asked = unsafe { GetSystemTimes(Some(&raw mut idle), Some(&raw mut kernel), Some(&raw mut user)) };
    let time = |ticks: u64| match &asked {
        Ok(()) => Reading::Available(ticks.saturating_mul(NS_PER_TICK)),
        Err(error) => Reading::unavailable(format!("GetSystemTimes failed: {error}")),
    };
    CpuTimes {
        user_ns: time(ticks(user)),
        // Windows counts idle time as time of the kernel.
        system_ns: time(ticks(kernel).saturating_sub(ticks(idle))),
        idle_ns: time(ticks(idle)),
        steal_ns: Reading::unavailable("Windows counts no steal time"),
    }
}
