//! Which chip answers when a target is given work: what the sensors saw before, during and after.
//!
//! Invariant: pure, and a chip is named only on evidence; a chip without sensors is never ruled out silently.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siliconroute_core::{ChipKey, Reading};

use crate::chip_sensors::{Busy, ChipSample, PowerState, ProcessChipUse};

/// A chip's load has risen when it is this many points above its rest.
const RISE_POINTS: f64 = 20.0;
/// The CPU's load has risen when that many more cores are busy than at rest.
const RISE_CORES: f64 = 0.5;
/// Of several chips with risen load one answered when it rose this many times as much as any other.
const LEAD: f64 = 3.0;
/// The engines of a chip worked for a process when they did so for this percent of the time.
const PROCESS_PERCENT: f64 = 5.0;
/// Power has risen when it is this many times that at rest …
const POWER_RATIO: f64 = 1.5;
/// … and this many watts above it.
const POWER_WATTS: f64 = 2.0;

/// What was seen while a target worked.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// Samples of all chips at rest, before the work and after it.
    pub rest: Vec<Vec<ChipSample>>,
    /// Samples of all chips while the target worked.
    pub load: Vec<Vec<ChipSample>>,
    /// What the working process had on each chip at the start of the work and at its end, and the time between
    /// the two.
    pub process: Option<(Vec<ProcessChipUse>, Vec<ProcessChipUse>, Duration)>,
    /// Logical CPUs of the machine, which a CPU's load is a share of.
    pub logical_cores: u32,
}

/// How an answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The driver counted the engines' work for this very process.
    ProcessWork,
    /// The chip's load rose with the work.
    Load,
    /// The chip's power rose with the work, and its load is not told.
    Power,
    /// The chip slept at rest and was awake during the work.
    Awoke,
}

/// Which chip answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One chip did the work.
    Answered {
        /// The chip.
        chip: ChipKey,
        /// How that is known.
        evidence: Evidence,
        /// Chips of which no sensor tells whether they worked too.
        unseen: Vec<ChipKey>,
    },
    /// Several chips may have done it.
    Ambiguous {
        /// The chips, the likeliest first.
        candidates: Vec<ChipKey>,
        /// Why no one of them can be named.
        reason: String,
    },
    /// No sensor tells it.
    NoSensor {
        /// Why.
        reason: String,
    },
}

/// What one chip's sensors say.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sight {
    /// Its load, power or wakefulness rose, by that many points or by an unknown amount.
    Rose(Evidence, f64),
    /// Its load is told, and did not rise.
    Quiet,
    /// Nothing tells whether it worked.
    Unseen,
}

/// Says which chip answered.
///
/// The rule, in this order:
/// 1. A GPU or NPU whose engines worked for the process for at least 5 % of the time answered; of several, the
///    one that worked three times as much as the next.
/// 2. A GPU or NPU answered when its load, compared by medians, rose by at least 20 points over its rest, or,
///    where its load is not told, when it awoke or its power rose by half and by 2 W. Of several, load counts
///    before power, and the one with three times the rise of the next. The CPU may have risen too: it feeds
///    the others.
/// 3. The CPU answered when no other chip rose, all of them are seen, and at least half a core more was busy.
///    A chip is not seen where neither load nor power is told, and where it was over 80 % busy at rest.
/// 4. When the CPU rose and some chip is unseen, either may have answered.
pub fn identify_chip(seen: &Observation) -> Verdict {
    let mut keys: Vec<&ChipKey> = seen.load.iter().flatten().map(|sample| &sample.chip).collect();
    keys.sort();
    keys.dedup();
    if keys.is_empty() {
        return Verdict::NoSensor { reason: "no chip was looked at during the work".to_owned() };
    }
    let cpu = ChipKey::cpu();
    let sights: BTreeMap<&ChipKey, Sight> =
        keys.iter().filter(|key| ***key != cpu).map(|key| (*key, sight(seen, key))).collect();
    let unseen: Vec<ChipKey> =
        sights.iter().filter(|(_, sight)| **sight == Sight::Unseen).map(|(key, _)| (*key).clone()).collect();
    let answered = |chip: &ChipKey, evidence| {
        let unseen = unseen.iter().filter(|key| *key != chip).cloned().collect();
        Verdict::Answered { chip: chip.clone(), evidence, unseen }
    };

    let workers = process_work(seen);
    if let Some(verdict) = leader(&workers, "the process worked on several chips") {
        return verdict.unwrap_or_else(|chip| answered(&chip, Evidence::ProcessWork));
    }
    for wanted in [[Evidence::Load, Evidence::Load], [Evidence::Awoke, Evidence::Power]] {
        let mut risen: Vec<(ChipKey, f64)> = Vec::new();
        let mut evidence = wanted[0];
        for (key, sight) in &sights {
            if let Sight::Rose(how, rise) = sight
                && wanted.contains(how)
            {
                risen.push(((*key).clone(), *rise));
                evidence = *how;
            }
        }
        if let Some(verdict) = leader(&risen, "several chips rose with the work") {
            return verdict.unwrap_or_else(|chip| answered(&chip, evidence));
        }
    }
    match (cpu_sight(seen), unseen.is_empty()) {
        (Sight::Rose(evidence, _), true) => answered(&cpu, evidence),
        (Sight::Rose(..), false) => Verdict::Ambiguous {
            reason: format!("the CPU worked, and no sensor tells whether {} did", list(&unseen)),
            candidates: std::iter::once(cpu).chain(unseen).collect(),
        },
        (Sight::Quiet, true) => Verdict::Ambiguous {
            candidates: keys.into_iter().cloned().collect(),
            reason: "no chip rose with the work: it was too little to see, or the machine is busy".to_owned(),
        },
        (Sight::Quiet, false) => Verdict::Ambiguous {
            reason: format!("no chip that is seen rose with the work; {} is not seen", list(&unseen)),
            candidates: unseen,
        },
        (Sight::Unseen, _) => Verdict::NoSensor {
            reason: format!("the load of {} is not told", list(&[vec![cpu], unseen].concat())),
        },
    }
}

fn list(keys: &[ChipKey]) -> String {
    keys.iter().map(ChipKey::as_str).collect::<Vec<_>>().join(", ")
}

/// The chip that leads `risen`, or why none does; `None` where nothing rose.
fn leader(risen: &[(ChipKey, f64)], reason: &str) -> Option<Result<Verdict, ChipKey>> {
    let mut risen = risen.to_vec();
    risen.sort_by(|one, two| two.1.total_cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    match risen.as_slice() {
        [] => None,
        [(only, _)] => Some(Err(only.clone())),
        [(first, most), (_, next), ..] if *most >= LEAD * next => Some(Err(first.clone())),
        _ => Some(Ok(Verdict::Ambiguous {
            candidates: risen.iter().map(|(key, _)| key.clone()).collect(),
            reason: format!("{reason}, and none {LEAD} times as much as the next"),
        })),
    }
}

/// The chips whose engines worked for the process, with the percent of the time.
fn process_work(seen: &Observation) -> Vec<(ChipKey, f64)> {
    let Some((before, after, elapsed)) = &seen.process else { return Vec::new() };
    let percent = |now: &ProcessChipUse| {
        let work = *now.work.available()?;
        let then = before.iter().find(|then| then.chip == now.chip).and_then(|then| then.work.available());
        // A process that opens the chip only for the work has no earlier count, and all of it is the work's.
        let then = then.copied().or_else(|| work.nothing_yet())?;
        let percent = *work.percent_since(&then, *elapsed).available()?;
        (percent >= PROCESS_PERCENT).then(|| (now.chip.clone(), percent))
    };
    after.iter().filter_map(percent).collect()
}

fn sight(seen: &Observation, key: &ChipKey) -> Sight {
    let (rest, load) = (of_chip(&seen.rest, key), of_chip(&seen.load, key));
    if let Some(busy) = median(&load, busy_of) {
        // Without a sample at rest nothing shows that the load is the work's.
        return match median(&rest, busy_of) {
            Some(idle) if busy - idle >= RISE_POINTS => Sight::Rose(Evidence::Load, busy - idle),
            // A chip that other programs keep busy has no room to rise, whoever the work is for.
            Some(idle) if idle > 100.0 - RISE_POINTS => Sight::Unseen,
            Some(_) => Sight::Quiet,
            None => Sight::Unseen,
        };
    }
    let asleep = |samples: &[&ChipSample]| {
        let asleep = samples
            .iter()
            .filter(|sample| sample.power_state == Reading::Available(PowerState::Asleep))
            .count();
        !samples.is_empty() && asleep * 2 > samples.len()
    };
    if asleep(&load) {
        return Sight::Quiet;
    }
    let told = load.iter().any(|sample| sample.power_state.available().is_some());
    if told && asleep(&rest) {
        return Sight::Rose(Evidence::Awoke, RISE_POINTS);
    }
    let watts = |sample: &ChipSample| sample.power_watts.available().copied();
    match (median(&rest, watts), median(&load, watts)) {
        (Some(idle), Some(busy)) if busy >= idle * POWER_RATIO && busy - idle >= POWER_WATTS => {
            Sight::Rose(Evidence::Power, busy - idle)
        }
        _ => Sight::Unseen,
    }
}

fn cpu_sight(seen: &Observation) -> Sight {
    let cpu = ChipKey::cpu();
    let (rest, load) = (of_chip(&seen.rest, &cpu), of_chip(&seen.load, &cpu));
    match (median(&rest, busy_of), median(&load, busy_of)) {
        (Some(idle), Some(busy)) => {
            let cores = (busy - idle) / 100.0 * f64::from(seen.logical_cores.max(1));
            if cores >= RISE_CORES { Sight::Rose(Evidence::Load, cores) } else { Sight::Quiet }
        }
        _ => Sight::Unseen,
    }
}

fn of_chip<'a>(samples: &'a [Vec<ChipSample>], key: &ChipKey) -> Vec<&'a ChipSample> {
    samples.iter().flatten().filter(|sample| sample.chip == *key).collect()
}

/// The load of a chip; one that sleeps has none, unless it has worked since the sample before.
fn busy_of(sample: &ChipSample) -> Option<f64> {
    let asleep = sample.power_state == Reading::Available(PowerState::Asleep);
    sample.busy.available().map(|Busy { percent, .. }| *percent).or(asleep.then_some(0.0))
}

fn median(samples: &[&ChipSample], value: impl Fn(&ChipSample) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = samples.iter().filter_map(|sample| value(sample)).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests;
