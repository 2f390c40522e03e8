//! The state of the running machine, as far as decisions take it into account.
//!
//! Invariant: what a sensor does not tell is absent from the context, so that no rule rests on it.

use siliconroute_core::decide::{ChipNow, Context};
use siliconroute_core::{ChipKey, Reading};
use siliconroute_hardware::{PowerSource, detect_conditions};

/// What the machine is like now: battery, free memory, and the temperature of the processor.
pub fn detect_context() -> Context {
    let conditions = detect_conditions();
    Context {
        charge_on_battery_percent: charge_on_battery(&conditions.power_source, &conditions.battery_percent),
        free_memory_bytes: conditions.free_memory_bytes.available().copied(),
        chips: cpu_now(&conditions.cpu_temperature_celsius).into_iter().collect(),
        ..Context::default()
    }
}

/// The charge, while the machine runs on it.
fn charge_on_battery(source: &Reading<PowerSource>, percent: &Reading<f64>) -> Option<f64> {
    let on_battery = source.available() == Some(&PowerSource::Battery);
    percent.available().copied().filter(|_| on_battery)
}

fn cpu_now(celsius: &Reading<f64>) -> Option<ChipNow> {
    let celsius = celsius.available().copied()?;
    Some(ChipNow { chip: ChipKey::cpu(), busy_percent: None, celsius: Some(celsius) })
}

#[cfg(test)]
mod tests;
