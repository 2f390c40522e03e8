//! What the machine is doing, look by look: for a live view, for programs, and kept in the store.
//!
//! Invariant: a look is told as the sampler saw it; what needs two looks (shares, power from a counter) is made of one
//! look and the one before. Writing happens in the caller's thread, in short batches, never in the sampler's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use siliconroute_core::energy::{EnergyMethod, Meter};
use siliconroute_core::{Chip, Reading};
pub use siliconroute_hardware::PowerSource;
use siliconroute_hardware::{ClockSpread, Throttling};
use siliconroute_store::{CampaignId, NewLook, Store};

use crate::error::Error;
use crate::identify::ChipSample;
use crate::router::Router;
use crate::sampler::{Attention, Look, Sampler, Watcher};

/// Name and version of the document that programs read.
pub const SCHEMA: &str = "siliconroute.telemetry/1";

/// Looks that one transaction takes at most.
const BATCH: usize = 256;

/// One look, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Telemetry {
    /// When it began, in milliseconds since 1970 UTC.
    pub taken_unix_ms: i64,
    /// How long it took, in milliseconds.
    pub took_ms: f64,
    /// The processor.
    pub cpu: CpuTelemetry,
    /// Memory that a new allocation may count on.
    pub free_memory_bytes: Reading<u64>,
    /// What feeds the machine.
    pub power: PowerTelemetry,
    /// Every temperature that the machine tells, by the name of its sensor.
    pub temperatures_celsius: Reading<BTreeMap<String, f64>>,
    /// The chips that are watched.
    pub chips: Reading<Vec<ChipSample>>,
    /// Meters of energy and power.
    pub meters: Reading<Vec<MeterTelemetry>>,
}

/// The processor at one look.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuTelemetry {
    /// Busy share of all cores since the look before, in percent.
    pub busy_percent: Reading<f64>,
    /// Mean clock of the cores, in MHz.
    pub clock_mhz: Reading<f64>,
    /// How the clocks of the cores spread.
    pub clocks: Reading<ClockSpread>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Reading<f64>,
    /// The clock governor.
    pub governor: Reading<String>,
    /// What has slowed it down so far, and what limits its clocks now.
    pub throttling: Reading<Throttling>,
    /// Mean number of runnable processes over one minute.
    pub load_average_1m: Reading<f64>,
}

/// What feeds the machine at one look.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerTelemetry {
    /// Mains or battery.
    pub source: Reading<PowerSource>,
    /// The power profile or scheme that the user chose.
    pub profile: Reading<String>,
    /// Charge of all batteries together, 0 to 100.
    pub battery_percent: Reading<f64>,
    /// The power that all batteries together give, in watts; negative while they are charged.
    pub battery_discharge_watts: Reading<f64>,
}

/// One meter at one look.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeterTelemetry {
    /// The meter.
    #[serde(flatten)]
    pub meter: Meter,
    /// Power in watts: that told now, or that of a counter since the look before.
    pub watts: Reading<f64>,
}

impl Telemetry {
    /// What `look` tells, with the one `before` it, of a sampler that started at `started_unix_ms`.
    pub fn of(look: &Look, before: Option<&Look>, started_unix_ms: i64) -> Self {
        let (sighting, glance) = (&*look.sighting, &look.sighting.glance);
        let details = &sighting.details;
        let since = match before {
            Some(before) => Reading::Available(&*before.sighting),
            None => Reading::unavailable("this is the first look, and a share needs two"),
        };
        let busy = since.and_then(|then| glance.cpu_times.busy_fraction_since(&then.glance.cpu_times));
        Self {
            taken_unix_ms: started_unix_ms
                .saturating_add(i64::try_from(look.at.as_millis()).unwrap_or(i64::MAX)),
            took_ms: look.took.as_secs_f64() * 1e3,
            cpu: CpuTelemetry {
                busy_percent: busy.map(|share| share * 100.0),
                clock_mhz: glance.cpu_mhz.clone(),
                clocks: details.clone().and_then(|it| it.cpu_clocks),
                temperature_celsius: glance.cpu_temperature_celsius.clone(),
                governor: glance.governor.clone(),
                throttling: details.clone().map(|it| it.throttling),
                load_average_1m: details.clone().and_then(|it| it.load_average_1m),
            },
            free_memory_bytes: glance.free_memory_bytes.clone(),
            power: PowerTelemetry {
                source: glance.power_source.clone(),
                profile: glance.power_profile.clone(),
                battery_percent: details.clone().and_then(|it| it.battery_percent),
                battery_discharge_watts: details.clone().and_then(|it| it.battery_discharge_watts),
            },
            temperatures_celsius: details.clone().and_then(|it| it.temperatures_celsius),
            chips: sighting.chips.clone(),
            meters: sighting.meters.clone().map(|meters| {
                let watts = |index: usize| meter_watts(look, before, index);
                let told = meters.iter().enumerate();
                told.map(|(index, it)| MeterTelemetry { meter: it.meter.clone(), watts: watts(index) })
                    .collect()
            }),
        }
    }

    /// The document with its absences apart: what is there, and the reasons by their place in the document.
    fn split(&self) -> (String, String) {
        let whole = serde_json::to_value(self).expect("telemetry has only text keys");
        let mut absences = Map::new();
        let values = without_absences(whole, "", &mut absences).unwrap_or(Value::Null);
        (values.to_string(), Value::Object(absences).to_string())
    }
}

/// The power of the meter at `index` of `look`.
fn meter_watts(look: &Look, before: Option<&Look>, index: usize) -> Reading<f64> {
    let Some(reading) = look.sighting.meters.available().and_then(|meters| meters.get(index)) else {
        return Reading::unavailable("the meter was not read");
    };
    if reading.meter.method != EnergyMethod::Counter {
        return reading.value.clone();
    }
    let earlier = before.and_then(|before| {
        let same = before.sighting.meters.available()?.iter().find(|it| it.meter == reading.meter)?;
        Some((before.at, same.value.clone()))
    });
    let Some((then, earlier)) = earlier else {
        return reading
            .value
            .clone()
            .and_then(|_| Reading::unavailable("this is the counter's first reading, and power needs two"));
    };
    let elapsed = look.at.saturating_sub(then).as_secs_f64();
    reading.value.clone().zip(earlier).and_then(|(joules, earlier)| {
        let grown = joules - earlier;
        let watts = (elapsed > 0.0 && grown >= 0.0).then(|| grown / elapsed);
        Reading::from_option(watts, "the counter began anew")
    })
}

/// Takes `{"available": value}` for the value and moves `{"unavailable": reason}` to `absences`, by its place.
fn without_absences(value: Value, place: &str, absences: &mut Map<String, Value>) -> Option<Value> {
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}/{key}") };
    match value {
        Value::Object(mut object) if object.len() == 1 && object.contains_key("unavailable") => {
            absences.insert(place.to_owned(), object.remove("unavailable").unwrap_or(Value::Null));
            None
        }
        Value::Object(mut object) if object.len() == 1 && object.contains_key("available") => {
            without_absences(object.remove("available").unwrap_or(Value::Null), place, absences)
        }
        Value::Object(object) => Some(Value::Object(
            object
                .into_iter()
                .filter_map(|(key, value)| {
                    Some((key.clone(), without_absences(value, &below(&key), absences)?))
                })
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| {
                    without_absences(item, &below(&index.to_string()), absences).unwrap_or(Value::Null)
                })
                .collect(),
        )),
        other => Some(other),
    }
}

/// Brings what a sampler saw into the store, batch by batch.
#[derive(Debug)]
pub struct Recorder {
    started_unix_ms: i64,
    /// The first look that is not in the store yet.
    next: u64,
    /// The look before that.
    before: Option<Look>,
    /// Looks that went out of the ring before they were written.
    lost: u64,
}

impl Recorder {
    /// Records what a sampler sees that started at `started_unix_ms`.
    pub fn new(started_unix_ms: i64) -> Self {
        Self { started_unix_ms, next: 0, before: None, lost: 0 }
    }

    /// Writes what the sampler has seen since the last call, in transactions of at most 256 looks.
    ///
    /// A store that cannot be written now loses nothing: the looks are written with the next call, as long as the
    /// sampler's ring holds them. Gives how many were written.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn write(
        &mut self,
        sampler: &Sampler,
        store: &Store,
        campaign: Option<CampaignId>,
    ) -> Result<usize, Error> {
        let mut written = 0;
        loop {
            let looks = sampler.looks_from(self.next, BATCH);
            let (Some(first), Some(last)) = (looks.first(), looks.last().cloned()) else {
                return Ok(written);
            };
            let lost = first.number.saturating_sub(self.next);
            let mut before = self.before.clone();
            let mut rows = Vec::with_capacity(looks.len());
            for look in looks {
                let told = Telemetry::of(&look, before.as_ref(), self.started_unix_ms);
                let (document, absences) = told.split();
                let took_ns = u64::try_from(look.took.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX >> 1);
                rows.push(NewLook { taken_unix_ms: told.taken_unix_ms, took_ns, document, absences });
                before = Some(look);
            }
            store.record_telemetry(campaign, &rows)?;
            written += rows.len();
            self.lost += lost;
            (self.next, self.before) = (last.number + 1, before);
        }
    }

    /// Looks that were lost because the store could not be written for too long.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Router {
    /// Starts to watch the machine with all its chips and meters, once every `period`.
    ///
    /// A chip whose sensors are read may not go to sleep meanwhile.
    pub fn watch_machine(&self, period: Duration) -> Sampler {
        let chips: Vec<Chip> = self
            .machine
            .chips
            .iter()
            .filter_map(|finding| finding.chip.available().cloned())
            .filter(|chip| !chip.software)
            .collect();
        let attention = Attention {
            chips: Reading::Available(chips.clone()),
            energy: Reading::Available(chips),
            metering: Arc::new(AtomicBool::new(true)),
            details: Reading::Available(()),
        };
        Sampler::start(self.watcher().eyes(attention), period)
    }

    /// What the sampler of a campaign or of a live view looks through.
    pub(crate) fn watcher(&self) -> Watcher {
        Watcher::machine(Arc::clone(&self.sensors), Arc::clone(&self.meters))
    }

    /// Milliseconds since 1970 UTC, by the router's clock.
    pub fn unix_ms(&self) -> i64 {
        (self.clock)()
    }
}

#[cfg(test)]
mod tests;
