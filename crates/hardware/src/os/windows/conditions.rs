//! Power, clocks, load and free memory.
//!
//! Invariant: what needs an administrator, COM or WMI is not asked for, and drivers are asked with a time limit.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siliconroute_core::Reading;
use windows::Win32::Foundation::{FILETIME, HLOCAL, LocalFree, STATUS_SUCCESS};
use windows::Win32::System::Power::{
    CallNtPowerInformation, GetSystemPowerStatus, PROCESSOR_POWER_INFORMATION, PowerGetActiveScheme,
    PowerReadFriendlyName, ProcessorInformation, SYSTEM_POWER_STATUS, SystemBatteryState,
};
use windows::Win32::System::Threading::GetSystemTimes;
use windows::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;
use windows::core::GUID;

use super::processes::{NS_PER_TICK, ticks};
use super::query::Query;
use super::registry::{self, LocalMachine};
use crate::conditions::{ClockSpread, Conditions, CpuTimes, PowerSource, Throttling};
use crate::glance::Glance;
use crate::guard::Watched;
use crate::windows_facts::{kernel_version, os_version};
use crate::windows_power::{
    BATTERY_STATE_BYTES, battery_discharge_watts, battery_left_ns, power_mode, power_mode_value,
    power_status, scheme_name, zone_temperatures,
};

const DRIVERS_ONLY: &str = "Windows tells the processor's own temperature to drivers only";
const POWER_SCHEMES_KEY: &str = r"SYSTEM\CurrentControlSet\Control\Power\User\PowerSchemes";
const ZONES: [&str; 2] =
    [r"\Thermal Zone Information(*)\High Precision Temperature", r"\Thermal Zone Information(*)\Temperature"];
/// A battery answers through the firmware's controller, which takes some tenths of a second on some laptops.
const TIME_LIMIT: Duration = Duration::from_secs(3);
static POWER: Mutex<Watched<()>> = Mutex::new(Watched::new("Windows' power manager", TIME_LIMIT, || ()));
static SCHEME: Mutex<Watched<()>> = Mutex::new(Watched::new("Windows' power service", TIME_LIMIT, || ()));
static BATTERY: Mutex<Watched<()>> = Mutex::new(Watched::new("the battery", TIME_LIMIT, || ()));
static CLOCKS: Mutex<Watched<()>> = Mutex::new(Watched::new("the processor's driver", TIME_LIMIT, || ()));
static HEAT: Mutex<Watched<[Reading<Query>; 2]>> =
    Mutex::new(Watched::new("Windows' thermal zones", TIME_LIMIT, || ZONES.map(|zone| Query::open(&[zone]))));
/// Longer than any name of a power scheme.
const NAME_UNITS: usize = 512;

/// The clocks of one logical CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) cpu: u32,
    pub(super) max_mhz: u32,
    current_mhz: u32,
    limit_mhz: u32,
}

const NO_GOVERNOR: &str = "Windows has power schemes in place of governors";
const NO_CLOCK: &str = "Windows tells no clock";

/// The power mode over the scheme, which is kept for each source of power.
fn user_power_mode(source: &Reading<PowerSource>) -> Reading<String> {
    source
        .clone()
        .and_then(|source| power_mode(registry::text(POWER_SCHEMES_KEY, power_mode_value(source)).as_deref()))
}

pub(crate) fn glance() -> Glance {
    let power_source = power().0;
    Glance {
        power_profile: power_scheme(),
        power_mode: user_power_mode(&power_source),
        power_source,
        governor: Reading::unavailable(NO_GOVERNOR),
        cpu_mhz: Reading::from_option(mean(&current_mhz(&clocks())), NO_CLOCK),
        cpu_temperature_celsius: Reading::unavailable(DRIVERS_ONLY),
        cpu_times: cpu_times(),
        free_memory_bytes: super::memory_status().map(|status| status.ullAvailPhys),
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
    let user_mode = user_power_mode(&power_source);
    let battery = battery_state();
    let all_clocks = clocks();
    let clocks = current_mhz(&all_clocks);
    Conditions {
        power_source,
        battery_percent,
        battery_discharge_watts: battery.clone().and_then(|state| battery_discharge_watts(&state)),
        battery_left_ns: battery.and_then(|state| battery_left_ns(&state)),
        power_profile: power_scheme(),
        power_mode: user_mode,
        governor: Reading::unavailable(NO_GOVERNOR),
        cpu_mhz: Reading::from_option(mean(&clocks), NO_CLOCK),
        cpu_clocks: Reading::from_option(ClockSpread::of(clocks), NO_CLOCK),
        cpu_temperature_celsius: Reading::unavailable(DRIVERS_ONLY),
        temperatures_celsius: temperatures(),
        throttling: throttling(&all_clocks),
        load_average_1m: Reading::unavailable("Windows keeps no load average"),
        uptime_ns: uptime_ns(),
        cpu_times: cpu_times(),
        free_memory_bytes: super::memory_status().map(|status| status.ullAvailPhys),
        microcode: Reading::unavailable("the microcode revision is not read on Windows"),
        os_version: os_version(&LocalMachine),
        kernel_version: kernel_version(&LocalMachine),
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

/// The power source and the charge of the batteries.
fn power() -> (Reading<PowerSource>, Reading<f64>) {
    let asked = POWER.lock().unwrap_or_else(PoisonError::into_inner).ask(|()| power_line());
    match asked.and_then(|status| status) {
        Reading::Available((line, flag, percent)) => power_status(line, flag, percent),
        Reading::Unavailable(reason) => (Reading::unavailable(reason.clone()), Reading::Unavailable(reason)),
    }
}

/// Mains, battery flags and percent.
fn power_line() -> Reading<(u8, u8, u8)> {
    let mut status = SYSTEM_POWER_STATUS::default();
    // SAFETY: the call fills the structure.
    match unsafe { GetSystemPowerStatus(&raw mut status) } {
        Ok(()) => Reading::Available((status.ACLineStatus, status.BatteryFlag, status.BatteryLifePercent)),
        Err(error) => Reading::unavailable(format!("GetSystemPowerStatus failed: {error}")),
    }
}

/// A `SYSTEM_BATTERY_STATE`.
///
/// The power manager is asked rather than each battery or WMI: it needs neither COM nor a handle, answers every user, and
/// sums the batteries itself.
fn battery_state() -> Reading<[u8; BATTERY_STATE_BYTES]> {
    let asked = BATTERY.lock().unwrap_or_else(PoisonError::into_inner).ask(|()| read_battery_state());
    asked.and_then(|state| state)
}

/// The state as bytes, since its flags may hold more than a `bool` may.
fn read_battery_state() -> Reading<[u8; BATTERY_STATE_BYTES]> {
    // Whole numbers, as which the structure is aligned.
    let mut state = [0_u32; BATTERY_STATE_BYTES / 4];
    let bytes = size_of_val(&state) as u32;
    // SAFETY: the call takes no input and writes at most `bytes` to the state.
    let status = unsafe {
        CallNtPowerInformation(SystemBatteryState, None, 0, Some(state.as_mut_ptr().cast()), bytes)
    };
    if status != STATUS_SUCCESS {
        return Reading::unavailable(format!("Windows tells no battery state (error {:#x})", status.0));
    }
    let mut told = [0; BATTERY_STATE_BYTES];
    for (place, byte) in told.iter_mut().zip(state.iter().flat_map(|word| word.to_ne_bytes())) {
        *place = byte;
    }
    Reading::Available(told)
}

/// The temperatures of the firmware's thermal zones, which every user may read.
fn temperatures() -> Reading<BTreeMap<String, f64>> {
    let read = |queries: &mut [Reading<Query>; 2]| {
        let [tenths, kelvins] = queries.each_ref().map(|query| {
            let [values] = Query::collect(query);
            values
        });
        zone_temperatures(&tenths, &kelvins)
    };
    HEAT.lock().unwrap_or_else(PoisonError::into_inner).ask(read).and_then(|zones| zones)
}

/// The clocks of the logical CPUs of this program's processor group.
pub(super) fn clocks() -> Vec<Clock> {
    let asked = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner).ask(|()| read_clocks());
    asked.available().cloned().unwrap_or_default()
}

fn read_clocks() -> Vec<Clock> {
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

/// The power scheme's name, for which Windows asks a service.
fn power_scheme() -> Reading<String> {
    let asked = SCHEME.lock().unwrap_or_else(PoisonError::into_inner).ask(|()| read_power_scheme());
    asked.and_then(|scheme| scheme)
}

fn read_power_scheme() -> Reading<String> {
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
