//! What was seen of the machine while one case was measured, in a few figures.
//!
//! Invariant: pure; a figure that no look has is absent, with the reason of the first look that lacks it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siliconroute_core::{ChipKey, Reading, statistics};
use siliconroute_hardware::{Conditions, Glance, Limit};

use super::{CaseView, ChipSample, Look};

/// How a value spread over the looks that have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many looks have it.
    pub readings: usize,
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

/// One chip beside the CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChipSeen {
    /// How busy it was, 0 to 100.
    pub busy_percent: Reading<Spread>,
    /// Its clock, in MHz.
    pub clock_mhz: Reading<Spread>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Reading<Spread>,
    /// Its power, in watts.
    pub power_watts: Reading<Spread>,
    /// What held it back in any of the looks.
    pub limits: Reading<BTreeSet<Limit>>,
}

/// What was seen while a case was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Time between two snapshots, in seconds.
    pub period_s: f64,
    /// Snapshots that the figures are made from.
    pub snapshots: usize,
    /// Older snapshots of the case, which had to make room.
    pub overwritten: u64,
    /// For how long a sensor had not answered when the case ended; absent where all did within a period.
    pub unanswered_s: Option<f64>,
    /// How long a snapshot took, in milliseconds.
    pub snapshot_ms: Reading<Spread>,
    /// Mean clock of the cores, in MHz.
    pub cpu_mhz: Reading<Spread>,
    /// Temperature of the processor, in degrees Celsius.
    pub cpu_temperature_celsius: Reading<Spread>,
    /// The busy share of the machine between one snapshot and the next, 0 to 1; the measured process is part of it.
    pub busy_share: Reading<Spread>,
    /// The least memory that a new allocation could count on.
    pub least_free_memory_bytes: Reading<u64>,
    /// Whether the machine changed from mains to battery or back, also where it changed back again.
    pub power_source_changed: Reading<bool>,
    /// Whether the power profile changed.
    pub power_profile_changed: Reading<bool>,
    /// Whether the clock governor changed.
    pub governor_changed: Reading<bool>,
    /// The chips beside the CPU that the campaign runs on.
    pub chips: Reading<BTreeMap<ChipKey, ChipSeen>>,
}

impl Seen {
    /// Sums up the looks of a case that ends `now`; `blind` is why nobody looks.
    pub(super) fn of(
        book: &CaseView<'_>,
        now: Duration,
        period: Duration,
        blind: Option<&str>,
        before: &Conditions,
        after: &Conditions,
    ) -> Self {
        let unanswered = book.looking_since.map(|since| now.saturating_sub(since)).filter(|it| *it >= period);
        let none = why_none(book, now, period, blind, unanswered);
        let none = none.as_str();
        let looks = || book.looks.iter().copied();
        let glances = || looks().map(|look| &look.sighting.glance);
        let busy = looks().zip(looks().skip(1)).map(|(then, now)| {
            let (then, now) = (&then.sighting.glance, &now.sighting.glance);
            now.cpu_times.busy_fraction_since(&then.cpu_times)
        });
        let one_is_not_enough = if looks().len() == 1 { "a share takes two snapshots" } else { none };
        // What the case began and ended with counts as well, once something was seen in between.
        let (first, last) = (Glance::from(before), Glance::from(after));
        let all: Vec<&Glance> = if book.looks.is_empty() {
            Vec::new()
        } else {
            std::iter::once(&first).chain(glances()).chain(std::iter::once(&last)).collect()
        };
        Self {
            period_s: period.as_secs_f64(),
            snapshots: book.looks.len(),
            overwritten: book.overwritten,
            unanswered_s: unanswered.map(|time| time.as_secs_f64()),
            snapshot_ms: spread(looks().map(|look| Reading::Available(look.took.as_secs_f64() * 1e3)), none),
            cpu_mhz: spread(glances().map(|it| it.cpu_mhz.clone()), none),
            cpu_temperature_celsius: spread(glances().map(|it| it.cpu_temperature_celsius.clone()), none),
            busy_share: spread(busy, one_is_not_enough),
            least_free_memory_bytes: least(glances().map(|it| &it.free_memory_bytes), none),
            power_source_changed: changed(all.iter().map(|it| &it.power_source), none),
            power_profile_changed: changed(all.iter().map(|it| &it.power_profile), none),
            governor_changed: changed(all.iter().map(|it| &it.governor), none),
            chips: chips(looks(), none),
        }
    }
}

/// Why there is no look at all, should there be none.
fn why_none(
    book: &CaseView<'_>,
    now: Duration,
    period: Duration,
    blind: Option<&str>,
    unanswered: Option<Duration>,
) -> String {
    if let Some(reason) = blind {
        return reason.to_owned();
    }
    if let Some(time) = unanswered {
        return format!("a sensor has not answered for {:.1} s", time.as_secs_f64());
    }
    if book.ended {
        return "the thread that looks has ended".to_owned();
    }
    let elapsed = now.saturating_sub(book.begun);
    if elapsed < period {
        format!(
            "shorter than one period: the case took {:.2} s of {} s",
            elapsed.as_secs_f64(),
            period.as_secs_f64()
        )
    } else {
        "no snapshot was finished in time".to_owned()
    }
}

/// The available values, or the first reason; `none` is the reason where there is no reading at all.
fn available<T>(readings: impl Iterator<Item = Reading<T>>, none: &str) -> Result<Vec<T>, String> {
    let (mut values, mut reason) = (Vec::new(), None);
    for reading in readings {
        match reading {
            Reading::Available(value) => values.push(value),
            Reading::Unavailable(why) => {
                reason.get_or_insert(why);
            }
        }
    }
    if values.is_empty() { Err(reason.unwrap_or_else(|| none.to_owned())) } else { Ok(values) }
}

fn spread(readings: impl Iterator<Item = Reading<f64>>, none: &str) -> Reading<Spread> {
    let values = match available(readings, none) {
        Ok(values) => values,
        Err(reason) => return Reading::Unavailable(reason),
    };
    let spread = statistics::median(&values).map(|median| Spread {
        readings: values.len(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        median,
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    });
    Reading::from_option(spread, none)
}

fn least<'r>(readings: impl Iterator<Item = &'r Reading<u64>>, none: &str) -> Reading<u64> {
    match available(readings.cloned(), none) {
        Ok(values) => Reading::from_option(values.into_iter().min(), none),
        Err(reason) => Reading::Unavailable(reason),
    }
}

/// Whether any two values that were read differ; that takes two.
fn changed<'r, T: PartialEq + 'r>(
    readings: impl Iterator<Item = &'r Reading<T>>,
    none: &str,
) -> Reading<bool> {
    let (mut first, mut again, mut differs, mut reason) = (None, false, false, None);
    for reading in readings {
        match (reading, first) {
            (Reading::Available(value), None) => first = Some(value),
            (Reading::Available(value), Some(first)) => {
                again = true;
                differs |= value != first;
            }
            (Reading::Unavailable(why), _) => {
                reason.get_or_insert(why.as_str());
            }
        }
    }
    Reading::from_option(again.then_some(differs), reason.unwrap_or(none))
}

fn chips<'l>(looks: impl Iterator<Item = &'l Look>, none: &str) -> Reading<BTreeMap<ChipKey, ChipSeen>> {
    let mut samples: BTreeMap<&ChipKey, Vec<&ChipSample>> = BTreeMap::new();
    let (mut told, mut reason) = (false, None);
    for look in looks {
        match &look.sighting.chips {
            Reading::Available(chips) => {
                told = true;
                for sample in chips {
                    samples.entry(&sample.chip).or_default().push(sample);
                }
            }
            Reading::Unavailable(why) => {
                reason.get_or_insert(why.as_str());
            }
        }
    }
    let seen = samples.into_iter().map(|(chip, samples)| (chip.clone(), ChipSeen::of(&samples, none)));
    Reading::from_option(told.then(|| seen.collect()), reason.unwrap_or(none))
}

impl ChipSeen {
    fn of(samples: &[&ChipSample], none: &str) -> Self {
        let of = |value: fn(&ChipSample) -> Reading<f64>| spread(samples.iter().map(|it| value(it)), none);
        let limits = available(samples.iter().map(|it| it.limits.clone()), none);
        Self {
            busy_percent: of(|it| it.busy.clone().map(|busy| busy.percent)),
            clock_mhz: of(|it| it.clock_mhz.clone()),
            temperature_celsius: of(|it| it.temperature_celsius.clone()),
            power_watts: of(|it| it.power_watts.clone()),
            limits: match limits {
                Ok(limits) => Reading::Available(limits.into_iter().flatten().collect()),
                Err(reason) => Reading::Unavailable(reason),
            },
        }
    }
}
