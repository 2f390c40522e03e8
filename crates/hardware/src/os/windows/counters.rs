//! Windows' performance counters of GPUs and NPUs, which every program may read.
//!
//! Invariant: a counter that Windows does not have is a reason; a query is closed with its owner.

use std::collections::BTreeMap;

use siliconroute_core::{Chip, Reading};
use windows::Win32::Foundation::LUID;
use windows::Win32::System::Performance::{
    PDH_FMT, PDH_FMT_COUNTERVALUE_ITEM_W, PDH_FMT_DOUBLE, PDH_HCOUNTER, PDH_HQUERY, PDH_MORE_DATA,
    PdhAddEnglishCounterW, PdhCloseQuery, PdhCollectQueryData, PdhGetFormattedCounterArrayW, PdhOpenQueryW,
};
use windows::core::{HSTRING, PCWSTR};

use super::adapters::place;
use crate::chip_sensors::{Busy, BusySource, ChipSample, ProcessChipUse};
use crate::windows_counters::{Value, busiest_engine, parse_instance, sum_bytes};
use crate::windows_facts::bus_address;

const LOAD: &str = r"\GPU Engine(*)\Utilization Percentage";
const MEMORY: &str = r"\GPU Adapter Memory(*)\Dedicated Usage";
const PROCESS_MEMORY: &str = r"\GPU Process Memory(*)\Dedicated Usage";
const PROCESS_SHARED: &str = r"\GPU Process Memory(*)\Shared Usage";
/// `PDH_FMT_NOCAP100`: several engines of a process together may exceed 100 %.
const UNCAPPED: u32 = 0x8000;
/// More than the names and values of all processes on all engines take.
const ARRAY_LIMIT_BYTES: u32 = 16 << 20;

/// The counters of all adapters.
#[derive(Debug)]
pub(crate) struct DeviceCounters {
    load: Reading<Query>,
    process: Reading<Query>,
    /// The values of the latest sample.
    busy: Reading<Vec<Value>>,
    memory: Reading<Vec<Value>>,
    /// Where the adapters are that the counters name.
    places: BTreeMap<u64, Option<String>>,
}

impl DeviceCounters {
    /// Opens the counters; the load is counted from here on.
    pub(crate) fn new() -> Self {
        Self {
            load: Query::open(&[LOAD, MEMORY]),
            process: Query::open(&[PROCESS_MEMORY, PROCESS_SHARED]),
            busy: Reading::unavailable("the counters were not read yet"),
            memory: Reading::unavailable("the counters were not read yet"),
            places: BTreeMap::new(),
        }
    }

    /// Reads the counters of all adapters.
    pub(crate) fn collect(&mut self) {
        let mut lists = Query::collect(&self.load).into_iter();
        self.busy = lists.next().unwrap_or_else(none);
        self.memory = lists.next().unwrap_or_else(none);
        let (busy, memory) = (self.busy.available(), self.memory.available());
        for (instance, _) in busy.into_iter().chain(memory).flatten() {
            self.places.entry(instance.luid).or_insert_with(|| address(instance.luid));
        }
    }

    /// Writes what was collected of `chip` into `sample`.
    pub(crate) fn fill(&self, chip: &Chip, sample: &mut ChipSample) {
        if !is_placed(chip) {
            let reason = "neither its LUID nor its PCI address is known, by which Windows counts";
            *sample = ChipSample::unavailable(chip.key.clone(), reason);
            return;
        }
        let mine = |luid| self.is_chip(chip, luid);
        sample.busy = self
            .busy
            .clone()
            .map(|values| Busy { percent: busiest_engine(&values, mine), source: BusySource::Counted });
        sample.memory_used_bytes = self.memory.clone().and_then(|values| {
            Reading::from_option(sum_bytes(&values, None, mine), "Windows counts no memory of this chip")
        });
    }

    /// Reads the memory of `pid` on `chip` and writes it into `found`.
    pub(crate) fn fill_process(&mut self, chip: &Chip, pid: u32, found: &mut ProcessChipUse) {
        let lists = Query::collect(&self.process);
        for (instance, _) in lists.iter().filter_map(Reading::available).flatten() {
            self.places.entry(instance.luid).or_insert_with(|| address(instance.luid));
        }
        let bytes = |list: Option<&Reading<Vec<Value>>>| {
            list.cloned().unwrap_or_else(none).and_then(|values| {
                let sum = sum_bytes(&values, Some(pid), |luid| self.is_chip(chip, luid));
                Reading::from_option(sum, "the process has not opened the chip's device")
            })
        };
        found.device_bytes = bytes(lists.first());
        found.shared_bytes = bytes(lists.get(1));
        found.work = Reading::unavailable("the work of processes is not read on Windows");
    }

    fn is_chip(&self, chip: &Chip, luid: u64) -> bool {
        if let Some(own) = chip.identity.luid {
            return own == luid;
        }
        let place = self.places.get(&luid).and_then(Option::as_deref);
        place.is_some() && place == chip.identity.bus_address.as_deref()
    }
}

/// Whether the counters can be matched to the chip.
fn is_placed(chip: &Chip) -> bool {
    // Only chips on the PCI bus have a vendor's id there.
    chip.identity.luid.is_some()
        || (chip.identity.pci_vendor.is_some() && chip.identity.bus_address.is_some())
}

fn none() -> Reading<Vec<Value>> {
    Reading::unavailable("Windows returned no such counter")
}

fn address(luid: u64) -> Option<String> {
    let luid = LUID { LowPart: luid as u32, HighPart: ((luid >> 32) as u32).cast_signed() };
    place(luid).map(|(bus, device, function)| bus_address(bus, device, function))
}

/// Counters that are read together.
#[derive(Debug)]
struct Query {
    handle: PDH_HQUERY,
    counters: Vec<PDH_HCOUNTER>,
}

// SAFETY: the handles are names for the library, which does not tie them to a thread; they are used by one
// thread at a time.
unsafe impl Send for Query {}

impl Query {
    fn open(paths: &[&str]) -> Reading<Self> {
        let mut query = Self { handle: PDH_HQUERY::default(), counters: Vec::new() };
        // SAFETY: the call writes one handle.
        let status = unsafe { PdhOpenQueryW(PCWSTR::null(), 0, &raw mut query.handle) };
        if status != 0 {
            return Reading::unavailable(format!("PdhOpenQuery failed with error {status:#x}"));
        }
        for path in paths {
            let mut counter = PDH_HCOUNTER::default();
            let text = HSTRING::from(*path);
            // SAFETY: the query is open, the text ends with a NUL, and the call writes one handle.
            let status = unsafe { PdhAddEnglishCounterW(query.handle, &text, 0, &raw mut counter) };
            if status != 0 {
                return Reading::unavailable(format!("Windows has no counter {path} (error {status:#x})"));
            }
            query.counters.push(counter);
        }
        // A load needs two readings; this is the first. A failure shows with the second.
        // SAFETY: the query is open.
        let _status = unsafe { PdhCollectQueryData(query.handle) };
        Reading::Available(query)
    }

    /// Reads all counters; one list for each, or one reason for all.
    fn collect(query: &Reading<Self>) -> Vec<Reading<Vec<Value>>> {
        let query = match query {
            Reading::Available(query) => query,
            Reading::Unavailable(reason) => return vec![Reading::unavailable(reason.clone()); 2],
        };
        // SAFETY: the query is open.
        let status = unsafe { PdhCollectQueryData(query.handle) };
        if status != 0 {
            let reason = format!("PdhCollectQueryData failed with error {status:#x}");
            return vec![Reading::Unavailable(reason); query.counters.len()];
        }
        query.counters.iter().map(|counter| values(*counter)).collect()
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        // SAFETY: the query was opened and is not used again. A failure leaves nothing to do.
        let _status = unsafe { PdhCloseQuery(self.handle) };
    }
}

/// The values of all instances of a counter; instances that do not name an adapter are left out.
fn values(counter: PDH_HCOUNTER) -> Reading<Vec<Value>> {
    let format = PDH_FMT(PDH_FMT_DOUBLE.0 | UNCAPPED);
    let (mut bytes, mut count) = (0_u32, 0_u32);
    // SAFETY: without a buffer the call only writes the two numbers.
    let status =
        unsafe { PdhGetFormattedCounterArrayW(counter, format, &raw mut bytes, &raw mut count, None) };
    if status == 0 {
        return Reading::Available(Vec::new());
    }
    if status != PDH_MORE_DATA || bytes > ARRAY_LIMIT_BYTES {
        return Reading::unavailable(format!(
            "the counter cannot be read (error {status:#x}, {bytes} bytes)"
        ));
    }
    // The items come first and the names behind them, in one buffer; whole items keep it aligned.
    let item = size_of::<PDH_FMT_COUNTERVALUE_ITEM_W>();
    let mut items = vec![PDH_FMT_COUNTERVALUE_ITEM_W::default(); (bytes as usize).div_ceil(item)];
    bytes = (items.len() * item) as u32;
    // SAFETY: the buffer has the length stated.
    let status = unsafe {
        PdhGetFormattedCounterArrayW(
            counter,
            format,
            &raw mut bytes,
            &raw mut count,
            Some(items.as_mut_ptr()),
        )
    };
    if status != 0 {
        return Reading::unavailable(format!("the counter cannot be read (error {status:#x})"));
    }
    let read = |item: &PDH_FMT_COUNTERVALUE_ITEM_W| {
        // Valid data are 0, and 1 where they changed since the last time.
        if item.FmtValue.CStatus > 1 || item.szName.is_null() {
            return None;
        }
        // SAFETY: the name lies in the buffer, which is alive, and ends with a NUL.
        let name = unsafe { item.szName.to_string() }.ok()?;
        // SAFETY: the format asked for makes the value a double.
        let value = unsafe { item.FmtValue.Anonymous.doubleValue };
        Some((parse_instance(&name)?, value))
    };
    Reading::Available(items.iter().take(count as usize).filter_map(read).collect())
}
