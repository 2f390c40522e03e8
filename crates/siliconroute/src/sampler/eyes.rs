//! What one look finds: the machine, its chips, its meters.
//!
//! Invariant: nothing that fails ends the looking. A sensor that tells nothing is left alone for a while and then opened
//! anew; meanwhile its last reason stands.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siliconroute_core::energy::{EnergyMethod, EnergyScope, Meter};
use siliconroute_core::{Chip, ChipKey, Reading};
use siliconroute_hardware::{
    ClockSpread, Conditions, EnergyMeters, Glance, MeterReading, PowerSource, Throttling, detect_conditions,
    detect_glance, lies_in_package,
};

use super::patience::{Patience, Turn};
use crate::identify::{ChipSample, OpenSensors, Sensors};

/// What one look finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// The machine, as far as that is cheap to ask.
    pub glance: Glance,
    /// What else there is to know of the machine.
    pub details: Reading<Details>,
    /// The chips that are watched.
    pub chips: Reading<Vec<ChipSample>>,
    /// The meters of energy and power.
    pub meters: Reading<Vec<MeterReading>>,
}

/// What is asked beyond a glance, where nothing is measured that asking could disturb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Charge of all batteries together, 0 to 100.
    pub battery_percent: Reading<f64>,
    /// The power that all batteries together give, in watts; negative while they are charged.
    pub battery_discharge_watts: Reading<f64>,
    /// How the clocks of the cores spread.
    pub cpu_clocks: Reading<ClockSpread>,
    /// Every temperature that the machine tells, in degrees Celsius, by the name of its sensor.
    pub temperatures_celsius: Reading<BTreeMap<String, f64>>,
    /// What has slowed the processor down so far, and what limits its clocks now.
    pub throttling: Throttling,
    /// Mean number of runnable processes over one minute.
    pub load_average_1m: Reading<f64>,
}

impl From<&Conditions> for Details {
    fn from(conditions: &Conditions) -> Self {
        Self {
            battery_percent: conditions.battery_percent.clone(),
            battery_discharge_watts: conditions.battery_discharge_watts.clone(),
            cpu_clocks: conditions.cpu_clocks.clone(),
            temperatures_celsius: conditions.temperatures_celsius.clone(),
            throttling: conditions.throttling.clone(),
            load_average_1m: conditions.load_average_1m.clone(),
        }
    }
}

/// Looks once, at that time since the sampler started. It runs in the sampler's thread, so it may take its time; one
/// that never returns is let go.
pub type Eyes = Box<dyn FnMut(Duration) -> Sighting + Send>;

/// Reads counters of energy.
pub trait Meters: Send {
    /// Reads each once.
    fn read(&mut self) -> Vec<MeterReading>;

    /// Why there is none, where that is so.
    fn absence(&self) -> Option<String>;
}

impl Meters for EnergyMeters {
    fn read(&mut self) -> Vec<MeterReading> {
        Self::read(self)
    }

    fn absence(&self) -> Option<String> {
        Self::absence(self).map(str::to_owned)
    }
}

/// Opens the energy counters of some chips.
pub type OpenMeters = Arc<dyn Fn(&[Chip]) -> Box<dyn Meters> + Send + Sync>;

/// The energy counters of the running machine.
pub fn machine_meters() -> OpenMeters {
    Arc::new(|chips| Box::new(EnergyMeters::detect(chips)))
}

/// What a look is to find; what is left out carries its reason.
#[derive(Debug, Clone)]
pub struct Attention {
    /// The chips whose sensors are read.
    pub chips: Reading<Vec<Chip>>,
    /// The chips whose energy is read.
    pub energy: Reading<Vec<Chip>>,
    /// Whether meters of energy are read now, which may change from look to look.
    pub metering: Arc<AtomicBool>,
    /// Whether more is asked of the machine than a glance.
    pub details: Reading<()>,
}

/// Where a look finds things.
#[derive(Clone)]
pub struct Watcher {
    /// Reads the conditions of the machine.
    pub conditions: Arc<dyn Fn() -> Conditions + Send + Sync>,
    /// Glances at the machine.
    pub glance: Arc<dyn Fn() -> Glance + Send + Sync>,
    /// Opens the sensors of chips.
    pub sensors: OpenSensors,
    /// Opens energy counters.
    pub meters: OpenMeters,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl Watcher {
    /// Looks at the running machine.
    pub fn machine(sensors: OpenSensors, meters: OpenMeters) -> Self {
        Self { conditions: Arc::new(detect_conditions), glance: Arc::new(detect_glance), sensors, meters }
    }

    /// Eyes that find what `attention` asks for. Sensors are opened by the first look that needs them.
    pub fn eyes(self, attention: Attention) -> Eyes {
        let Attention { chips, energy, metering, details } = attention;
        let mut chips = chips.map(|chips| chips.into_iter().map(WatchedChip::new).collect::<Vec<_>>());
        let mut counters = energy.map(Counters::new);
        Box::new(move |now| {
            // Energy first, as close to the look's own time as can be.
            let counted = match &mut counters {
                _ if !metering.load(Ordering::Relaxed) => {
                    Reading::unavailable("energy is read in its own windows only")
                }
                Reading::Available(counters) => Reading::Available(counters.read(&self.meters, now)),
                Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
            };
            let samples = match &mut chips {
                Reading::Available(chips) => Reading::Available(
                    chips.iter_mut().map(|chip| chip.sample(&self.sensors, now)).collect::<Vec<_>>(),
                ),
                Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
            };
            let conditions = details.available().map(|()| (self.conditions)());
            let glance = conditions.as_ref().map_or_else(|| (self.glance)(), Glance::from);
            let meters = counted.map(|mut meters| {
                let chips = chips.available().map_or(&[][..], Vec::as_slice);
                let powers = samples.available().into_iter().flatten();
                meters.extend(powers.filter_map(|sample| power_meter(chips, sample)));
                meters.push(battery_meter(&glance, || match &conditions {
                    Some(conditions) => conditions.battery_discharge_watts.clone(),
                    None => (self.conditions)().battery_discharge_watts,
                }));
                meters
            });
            let details = match &conditions {
                Some(conditions) => Reading::Available(Details::from(conditions)),
                None => details.clone().and_then(|()| Reading::unavailable("the machine was not asked")),
            };
            Sighting { glance, details, chips: samples, meters }
        })
    }
}

/// A chip with its sensors, and how they fare.
struct WatchedChip {
    chip: Chip,
    sensors: Option<Box<dyn Sensors>>,
    patience: Patience,
    last_reason: String,
}

impl WatchedChip {
    fn new(chip: Chip) -> Self {
        Self { chip, sensors: None, patience: Patience::default(), last_reason: String::new() }
    }

    fn sample(&mut self, open: &OpenSensors, now: Duration) -> ChipSample {
        match self.patience.turn(now) {
            Turn::Wait => {
                let reason = format!("{}; it is asked again later", self.last_reason);
                return ChipSample::unavailable(self.chip.key.clone(), &reason);
            }
            Turn::Reopen => self.sensors = None,
            Turn::Ask => {}
        }
        let only = std::slice::from_ref(&self.chip);
        let sensors = self.sensors.get_or_insert_with(|| open(only));
        let found = sensors.sample().into_iter().find(|sample| sample.chip == self.chip.key);
        let sample = found.unwrap_or_else(|| {
            ChipSample::unavailable(self.chip.key.clone(), "no sensor of this machine tells of the chip")
        });
        let first = first_reason(&sample);
        self.patience.saw(now, first.is_none());
        if let Some(reason) = first {
            self.last_reason = reason;
        }
        sample
    }
}

/// Why the sample tells nothing at all; `None` where it tells something.
fn first_reason(sample: &ChipSample) -> Option<String> {
    let ChipSample {
        chip: _,
        power_state,
        busy,
        power_watts,
        temperature_celsius,
        clock_mhz,
        memory_used_bytes,
        limits,
    } = sample;
    let silent = [
        why(busy),
        why(power_state),
        why(power_watts),
        why(temperature_celsius),
        why(clock_mhz),
        why(memory_used_bytes),
        why(limits),
    ];
    let reasons: Option<Vec<&str>> = silent.into_iter().collect();
    reasons.and_then(|reasons| reasons.first().map(|reason| (*reason).to_owned()))
}

fn why<T>(reading: &Reading<T>) -> Option<&str> {
    match reading {
        Reading::Available(_) => None,
        Reading::Unavailable(reason) => Some(reason),
    }
}

/// The energy counters, and how they fare.
struct Counters {
    chips: Vec<Chip>,
    open: Option<Box<dyn Meters>>,
    patience: Patience,
    /// What was read last, for as long as they are left alone.
    last: Vec<MeterReading>,
}

impl Counters {
    fn new(chips: Vec<Chip>) -> Self {
        Self { chips, open: None, patience: Patience::default(), last: Vec::new() }
    }

    fn read(&mut self, open: &OpenMeters, now: Duration) -> Vec<MeterReading> {
        match self.patience.turn(now) {
            // None of them told anything, so no value of them is old.
            Turn::Wait => return self.last.clone(),
            Turn::Reopen => self.open = None,
            Turn::Ask => {}
        }
        let meters = self.open.get_or_insert_with(|| open(&self.chips));
        let mut readings = meters.read();
        self.patience.saw(now, readings.iter().any(|reading| reading.value.available().is_some()));
        if let Some(reason) = meters.absence() {
            let meter = Meter {
                method: EnergyMethod::Counter,
                scope: EnergyScope::Package,
                name: "energy counters".to_owned(),
                chip: Some(ChipKey::cpu()),
            };
            readings.push(MeterReading { meter, value: Reading::Unavailable(reason) });
        }
        self.last.clone_from(&readings);
        readings
    }
}

/// The power that a chip's own sensors tell.
fn power_meter(chips: &[WatchedChip], sample: &ChipSample) -> Option<MeterReading> {
    let chip = &chips.iter().find(|watched| watched.chip.key == sample.chip)?.chip;
    let meter = Meter {
        method: EnergyMethod::Power,
        scope: if lies_in_package(chip) { EnergyScope::Package } else { EnergyScope::Board },
        name: format!("power of {}", chip.key),
        chip: Some(chip.key.clone()),
    };
    Some(MeterReading { meter, value: sample.power_watts.clone() })
}

/// What the battery gives, which is all that the machine takes while nothing else feeds it.
fn battery_meter(glance: &Glance, discharge_watts: impl FnOnce() -> Reading<f64>) -> MeterReading {
    let meter = Meter {
        method: EnergyMethod::Battery,
        scope: EnergyScope::Machine,
        name: "battery".to_owned(),
        chip: None,
    };
    let value = match &glance.power_source {
        Reading::Available(PowerSource::Battery) => discharge_watts(),
        Reading::Available(PowerSource::Ac) => Reading::unavailable(
            "the machine is fed by the mains, so its battery does not tell what it takes",
        ),
        Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
    };
    MeterReading { meter, value }
}

#[cfg(test)]
mod tests;
