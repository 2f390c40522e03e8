//! Windows' performance counters of GPUs and NPUs, which every program may read.
//!
//! Invariant: the counters are opened, read and closed in a thread of their own, since the display driver answers.

use std::collections::BTreeMap;
use std::time::Duration;

use siliconroute_core::{Chip, Reading};
use windows::Win32::Foundation::LUID;

use super::adapters::place;
use super::query::{Query, Values};
use crate::chip_sensors::{Busy, BusySource, ChipSample, ProcessChipUse};
use crate::guard::Watched;
use crate::windows_adapters::place_text;
use crate::windows_counters::{Value, busiest_engine, is_chip, is_placed, parse_instance, sum_bytes};

const LOAD: &str = r"\GPU Engine(*)\Utilization Percentage";
const MEMORY: &str = r"\GPU Adapter Memory(*)\Dedicated Usage";
const PROCESS_MEMORY: &str = r"\GPU Process Memory(*)\Dedicated Usage";
const PROCESS_SHARED: &str = r"\GPU Process Memory(*)\Shared Usage";
/// The first question may have Windows start the counters of all its services.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The counters of all adapters.
#[derive(Debug)]
pub(crate) struct DeviceCounters {
    counters: Watched<Counters>,
    latest: Lists,
}

/// The open counters.
struct Counters {
    load: Reading<Query>,
    process: Reading<Query>,
    /// Where the adapters are that the counters name.
    places: BTreeMap<u64, Option<String>>,
}

/// Two lists that were read together, and the places of the adapters in them.
#[derive(Debug)]
struct Lists {
    first: Reading<Vec<Value>>,
    second: Reading<Vec<Value>>,
    places: BTreeMap<u64, Option<String>>,
}

impl DeviceCounters {
    /// Opens the counters; the load is counted from here on.
    pub(crate) fn new() -> Self {
        let open = || Counters {
            load: Query::open(&[LOAD, MEMORY]),
            process: Query::open(&[PROCESS_MEMORY, PROCESS_SHARED]),
            places: BTreeMap::new(),
        };
        let mut counters = Watched::new("Windows' performance counters", TIME_LIMIT, open);
        let latest = match counters.ask(|_| ()) {
            Reading::Available(()) => Lists::unavailable("the counters were not read yet"),
            Reading::Unavailable(reason) => Lists::unavailable(&reason),
        };
        Self { counters, latest }
    }

    /// Reads the counters of all adapters.
    pub(crate) fn collect(&mut self) {
        self.latest = self.read(|counters| Query::collect(&counters.load));
    }

    fn read(&mut self, collect: fn(&Counters) -> [Values; 2]) -> Lists {
        let lists = self.counters.ask(move |counters| {
            let lists = collect(counters);
            counters.told(lists)
        });
        match lists {
            Reading::Available(lists) => lists,
            Reading::Unavailable(reason) => Lists::unavailable(&reason),
        }
    }

    /// Writes what was collected of `chip` into `sample`.
    pub(crate) fn fill(&self, chip: &Chip, sample: &mut ChipSample) {
        if !is_placed(&chip.identity) {
            let reason = "neither its LUID nor its place is known, by which Windows counts";
            *sample = ChipSample::unavailable(chip.key.clone(), reason);
            return;
        }
        let Lists { first: load, second: memory, .. } = &self.latest;
        let mine = |luid| self.latest.is_chip(chip, luid);
        sample.busy = load
            .clone()
            .map(|values| Busy { percent: busiest_engine(&values, mine), source: BusySource::Counted });
        sample.memory_used_bytes = memory.clone().and_then(|values| {
            Reading::from_option(sum_bytes(&values, None, mine), "Windows counts no memory of this chip")
        });
    }

    /// Reads the memory of `pid` on `chip` and writes it into `found`.
    pub(crate) fn fill_process(&mut self, chip: &Chip, pid: u32, found: &mut ProcessChipUse) {
        let lists = self.read(|counters| Query::collect(&counters.process));
        let bytes = |list: &Reading<Vec<Value>>| {
            list.clone().and_then(|values| {
                let sum = sum_bytes(&values, Some(pid), |luid| lists.is_chip(chip, luid));
                Reading::from_option(sum, "the process has not opened the chip's device")
            })
        };
        found.device_bytes = bytes(&lists.first);
        found.shared_bytes = bytes(&lists.second);
        found.work = Reading::unavailable("the work of processes is not read on Windows");
    }
}

impl Counters {
    /// The lists without the instances that do not name an adapter, and where the adapters are.
    fn told(&mut self, lists: [Values; 2]) -> Lists {
        let [first, second] = lists.map(|list| {
            list.map(|values| {
                values.into_iter().filter_map(|(name, value)| Some((parse_instance(&name)?, value))).collect()
            })
        });
        for (instance, _) in
            [&first, &second].into_iter().filter_map(|list: &Reading<Vec<Value>>| list.available()).flatten()
        {
            self.places.entry(instance.luid).or_insert_with(|| address(instance.luid));
        }
        Lists { first, second, places: self.places.clone() }
    }
}

impl Lists {
    fn unavailable(reason: &str) -> Self {
        let list = || Reading::unavailable(reason);
        Self { first: list(), second: list(), places: BTreeMap::new() }
    }

    fn is_chip(&self, chip: &Chip, luid: u64) -> bool {
        is_chip(&chip.identity, luid, self.places.get(&luid).and_then(Option::as_deref))
    }
}

fn address(luid: u64) -> Option<String> {
    let luid = LUID { LowPart: luid as u32, HighPart: ((luid >> 32) as u32).cast_signed() };
    let (place, registry_key) = place(luid);
    place_text(place, registry_key.as_deref())
}
