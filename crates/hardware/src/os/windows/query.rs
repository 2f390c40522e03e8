//! Performance counters by name (PDH), which every user may read and which need no COM.
//!
//! Invariant: a counter that Windows does not have is a reason; a query is closed with its owner.

use siliconroute_core::Reading;
use windows::Win32::System::Performance::{
    PDH_FMT, PDH_FMT_COUNTERVALUE_ITEM_W, PDH_FMT_DOUBLE, PDH_HCOUNTER, PDH_HQUERY, PDH_MORE_DATA,
    PdhAddEnglishCounterW, PdhCloseQuery, PdhCollectQueryData, PdhGetFormattedCounterArrayW, PdhOpenQueryW,
};
use windows::core::{HSTRING, PCWSTR};

/// `PDH_FMT_NOCAP100`: several engines of a process together may exceed 100 %.
const UNCAPPED: u32 = 0x8000;
/// More than the names and values of all processes on all engines take.
const ARRAY_LIMIT_BYTES: u32 = 16 << 20;

/// The values of all instances of a counter, by the instance's name.
pub(super) type Values = Reading<Vec<(String, f64)>>;

/// Counters that are read together.
#[derive(Debug)]
pub(super) struct Query {
    handle: PDH_HQUERY,
    counters: Vec<PDH_HCOUNTER>,
}

impl Query {
    pub(super) fn open(paths: &[&str]) -> Reading<Self> {
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

    /// Reads all counters; one list for each, or one reason for all of `N`.
    pub(super) fn collect<const N: usize>(query: &Reading<Self>) -> [Values; N] {
        let query = match query {
            Reading::Available(query) => query,
            Reading::Unavailable(reason) => {
                return std::array::from_fn(|_| Reading::unavailable(reason.clone()));
            }
        };
        // SAFETY: the query is open.
        let status = unsafe { PdhCollectQueryData(query.handle) };
        if status != 0 {
            let reason = format!("PdhCollectQueryData failed with error {status:#x}");
            return std::array::from_fn(|_| Reading::unavailable(reason.clone()));
        }
        let mut lists = query.counters.iter().map(|counter| values(*counter));
        std::array::from_fn(|_| {
            lists.next().unwrap_or_else(|| Reading::unavailable("Windows returned no such counter"))
        })
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        // SAFETY: the query was opened and is not used again. A failure leaves nothing to do.
        let _status = unsafe { PdhCloseQuery(self.handle) };
    }
}

fn values(counter: PDH_HCOUNTER) -> Values {
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
        Some((name, value))
    };
    Reading::Available(items.iter().take(count as usize).filter_map(read).collect())
}
