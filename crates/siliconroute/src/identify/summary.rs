//! What the sensors of each chip said at rest and under load, in one figure each.
//!
//! Invariant: a figure that no sample has is absent, with the reason of the first sample that lacks it.

use std::collections::BTreeSet;

use serde::Serialize;
use siliconroute_core::{ChipKey, Reading, statistics};
use siliconroute_hardware::{ChipSample, Limit, Observation, PowerState};

/// One chip at rest and under load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChipSummary {
    /// The chip.
    pub chip: ChipKey,
    /// At rest, before the load and after it.
    pub rest: Level,
    /// While the target worked.
    pub load: Level,
    /// The percent of the load's time in which the chip's engines worked for the target's process.
    pub process_percent: Reading<f64>,
}

/// Medians over some samples of one chip.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// How many samples there are.
    pub samples: usize,
    /// Whether the chip slept in most of them.
    pub asleep: Reading<bool>,
    /// How busy it was, 0 to 100.
    pub busy_percent: Reading<f64>,
    /// Its power, in watts.
    pub power_watts: Reading<f64>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Reading<f64>,
    /// Its clock, in MHz.
    pub clock_mhz: Reading<f64>,
    /// Device memory in use by all programs, in bytes.
    pub memory_used_bytes: Reading<f64>,
    /// What held it back in any of them.
    pub limits: Reading<BTreeSet<Limit>>,
}

/// A summary of each chip that was seen, in the order of the keys.
pub(super) fn summaries(seen: &Observation) -> Vec<ChipSummary> {
    let chips: BTreeSet<&ChipKey> =
        seen.rest.iter().chain(&seen.load).flatten().map(|sample| &sample.chip).collect();
    let summary = |chip: &ChipKey| ChipSummary {
        chip: chip.clone(),
        rest: Level::of(&of_chip(&seen.rest, chip)),
        load: Level::of(&of_chip(&seen.load, chip)),
        process_percent: process_percent(seen, chip),
    };
    chips.into_iter().map(summary).collect()
}

fn of_chip<'s>(samples: &'s [Vec<ChipSample>], chip: &ChipKey) -> Vec<&'s ChipSample> {
    samples.iter().flatten().filter(|sample| sample.chip == *chip).collect()
}

fn process_percent(seen: &Observation, chip: &ChipKey) -> Reading<f64> {
    if *chip == ChipKey::cpu() {
        return Reading::unavailable("a CPU's work is not counted here");
    }
    let Some((before, after, elapsed)) = &seen.process else {
        return Reading::unavailable("the worker has no process of its own");
    };
    let work = |uses: &[siliconroute_hardware::ProcessChipUse]| {
        let found = uses.iter().find(|found| found.chip == *chip);
        found.map_or_else(|| Reading::unavailable("the sensors do not know the chip"), |it| it.work.clone())
    };
    work(before).zip(work(after)).and_then(|(before, after)| after.percent_since(&before, *elapsed))
}

impl Level {
    fn of(samples: &[&ChipSample]) -> Self {
        let asleep = median(samples, |sample| {
            sample.power_state.clone().map(|state| f64::from(u8::from(state == PowerState::Asleep)))
        });
        Self {
            samples: samples.len(),
            asleep: asleep.map(|share| share > 0.5),
            busy_percent: median(samples, |sample| sample.busy.clone().map(|busy| busy.percent)),
            power_watts: median(samples, |sample| sample.power_watts.clone()),
            temperature_celsius: median(samples, |sample| sample.temperature_celsius.clone()),
            clock_mhz: median(samples, |sample| sample.clock_mhz.clone()),
            memory_used_bytes: median(samples, |sample| {
                sample.memory_used_bytes.clone().map(|bytes| bytes as f64)
            }),
            limits: limits(samples),
        }
    }
}

/// The median of what samples have; the first reason where none has any.
fn median(samples: &[&ChipSample], value: impl Fn(&ChipSample) -> Reading<f64>) -> Reading<f64> {
    let (mut values, mut reason) = (Vec::new(), None);
    for sample in samples {
        match value(sample) {
            Reading::Available(value) => values.push(value),
            Reading::Unavailable(why) => {
                reason.get_or_insert(why);
            }
        }
    }
    let reason = reason.unwrap_or_else(|| "no sample was taken".to_owned());
    Reading::from_option(statistics::median(&values), &reason)
}

fn limits(samples: &[&ChipSample]) -> Reading<BTreeSet<Limit>> {
    let mut found: Option<BTreeSet<Limit>> = None;
    let mut reason = None;
    for sample in samples {
        match &sample.limits {
            Reading::Available(limits) => found.get_or_insert_default().extend(limits),
            Reading::Unavailable(why) => {
                reason.get_or_insert(why.as_str());
            }
        }
    }
    Reading::from_option(found, reason.unwrap_or("no sample was taken"))
}
