//! What macOS's answers about power and heat mean: source, charge, rate and time of the battery, Low Power Mode,
//! thermal state.
//!
//! Invariant: pure; the answers come from `os::macos` or from a test, and what a battery says when it knows nothing
//! (65535 minutes, −1, a rate of nought while it is used) is a reason.

use siliconroute_core::Reading;

use crate::conditions::{PowerSource, ThermalState};
use crate::macos_table::Table;

/// What the battery's entry in the registry is asked for.
pub(crate) const BATTERY_KEYS: [&str; 5] =
    ["InstantAmperage", "Amperage", "Voltage", "ExternalConnected", "TimeRemaining"];
/// More than any battery of a laptop gives or takes.
const HIGHEST_MILLIAMPERES: u64 = 50_000;
const HIGHEST_MILLIVOLTS: i64 = 50_000;
/// A battery that has not watched its rate for long enough says 65535.
const HIGHEST_MINUTES: i64 = 14 * 24 * 60;
const NS_PER_MINUTE: u64 = 60_000_000_000;
const NO_BATTERY: &str = "no battery, says macOS";

/// The power sources, and the battery's own entry in the registry.
#[derive(Debug, Clone)]
pub(crate) struct PowerAnswers {
    /// The name of the source that feeds the machine.
    pub(crate) providing: Option<String>,
    /// The descriptions of all sources.
    pub(crate) sources: Vec<Table>,
    /// The entry of the battery's driver in the registry.
    pub(crate) battery: Reading<Table>,
}

/// Why a machine without a battery has no entry.
pub(crate) const NO_ENTRY: &str = "the battery has no entry AppleSmartBattery in the registry";

impl PowerAnswers {
    /// The name of the source that feeds the machine, where nothing else was asked for.
    pub(crate) fn of_source(providing: Option<String>) -> Self {
        Self { providing, sources: Vec::new(), battery: Reading::unavailable("not asked for") }
    }

    pub(crate) fn power_source(&self) -> Reading<PowerSource> {
        match self.providing.as_deref() {
            Some("AC Power") => Reading::Available(PowerSource::Ac),
            Some("Battery Power") => Reading::Available(PowerSource::Battery),
            Some("UPS Power") => Reading::unavailable(
                "a UPS feeds the machine, which is neither the mains nor its own battery",
            ),
            Some(other) => {
                let shown: String = other.chars().take(40).collect();
                Reading::unavailable(format!("macOS calls the power source `{shown}`"))
            }
            None => Reading::unavailable("macOS names no power source"),
        }
    }

    /// The batteries in the machine: those of mice and of a UPS are listed, too.
    fn batteries(&self) -> impl Iterator<Item = &Table> {
        self.sources.iter().filter(|source| {
            source.text("Type") == Some("InternalBattery") && source.flag("Is Present") != Some(false)
        })
    }

    fn has_battery(&self) -> bool {
        self.batteries().next().is_some()
    }

    /// The charge of all batteries together, in percent.
    pub(crate) fn battery_percent(&self) -> Reading<f64> {
        if !self.has_battery() {
            return Reading::unavailable(NO_BATTERY);
        }
        let (mut now, mut full) = (0.0, 0.0);
        for battery in self.batteries() {
            let charge = battery.number("Current Capacity").zip(battery.number("Max Capacity"));
            let Some((charge, capacity)) = charge.filter(|(charge, capacity)| *charge >= 0 && *capacity > 0)
            else {
                return Reading::unavailable("the battery does not tell its charge");
            };
            now += charge as f64;
            full += capacity as f64;
        }
        Reading::Available((now / full * 100.0).min(100.0))
    }

    /// The power that the battery gives, in watts; negative while it is charged.
    pub(crate) fn battery_discharge_watts(&self) -> Reading<f64> {
        if !self.has_battery() {
            return Reading::unavailable(NO_BATTERY);
        }
        let battery = match &self.battery {
            Reading::Available(battery) => battery,
            Reading::Unavailable(reason) => return Reading::Unavailable(reason.clone()),
        };
        // The other rate is smoothed over seconds, and keeps its sign for a while after the plug was pulled.
        let rate = battery.number("InstantAmperage").or_else(|| battery.number("Amperage"));
        let rate = rate.filter(|rate| rate.unsigned_abs() <= HIGHEST_MILLIAMPERES);
        let voltage = battery.number("Voltage").filter(|it| (1..=HIGHEST_MILLIVOLTS).contains(it));
        let Some((rate, voltage)) = rate.zip(voltage) else {
            return Reading::unavailable("the battery does not tell its rate");
        };
        if rate == 0 && battery.flag("ExternalConnected") == Some(false) {
            return Reading::unavailable("the battery has not measured its rate yet");
        }
        Reading::Available((-rate * voltage) as f64 / 1e6)
    }

    /// How long the battery lasts.
    pub(crate) fn battery_left_ns(&self) -> Reading<u64> {
        if !self.has_battery() {
            return Reading::unavailable(NO_BATTERY);
        }
        match self.power_source() {
            Reading::Available(PowerSource::Battery) => {}
            Reading::Available(PowerSource::Ac) => {
                return Reading::unavailable("the battery is not used: the mains feed the machine");
            }
            Reading::Unavailable(reason) => return Reading::Unavailable(reason),
        }
        let told = self.batteries().find_map(|battery| known_minutes(battery.number("Time to Empty")));
        let own = || known_minutes(self.battery.available()?.number("TimeRemaining"));
        let minutes = told.or_else(own);
        Reading::from_option(
            minutes.map(|minutes| minutes.saturating_mul(NS_PER_MINUTE)),
            "macOS still reckons how long the battery lasts",
        )
    }
}

fn known_minutes(minutes: Option<i64>) -> Option<u64> {
    minutes.filter(|minutes| (1..=HIGHEST_MINUTES).contains(minutes))?.try_into().ok()
}

/// What the user chose in the settings, as far as programs are told.
pub(crate) fn power_profile(low_power_mode: bool) -> String {
    if low_power_mode { "low power" } else { "automatic or high power" }.to_owned()
}

/// Interprets an `NSProcessInfoThermalState`.
pub(crate) fn thermal_state(state: i64) -> Reading<ThermalState> {
    match state {
        0 => Reading::Available(ThermalState::Nominal),
        1 => Reading::Available(ThermalState::Fair),
        2 => Reading::Available(ThermalState::Serious),
        3 => Reading::Available(ThermalState::Critical),
        other => Reading::unavailable(format!("macOS gives the thermal state {other}, which is not known")),
    }
}

#[cfg(test)]
mod tests;
