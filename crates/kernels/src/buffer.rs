//! Memory for measuring: one block of values, on huge pages where the system gives them.
//!
//! Invariant: every value has been written before a buffer is there. Memory that was never written may all be one page
//! of zeros, and reading it measures nothing.

#![expect(unsafe_code, reason = "mapped bytes are used as values")]

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;

use memmap2::MmapMut;

use crate::policy::Policy;
use crate::pool::Pool;

/// Size of the usual huge page, to which larger buffers are aligned.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Values that one thread writes at a time: a multiple of a huge page.
const BLOCK: usize = HUGE_PAGE_BYTES / size_of::<f32>();

/// Values of fp32 in memory of their own, aligned to a cache line and, from 2 MiB on, to a huge page.
#[derive(Debug)]
pub struct Buffer {
    map: MmapMut,
    /// Where the values begin, in bytes.
    start: usize,
    length: usize,
    huge_pages: HugePages,
}

/// Whether a buffer may lie on huge pages.
///
/// The system may say yes and still have none; only it knows what a buffer really lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HugePages {
    /// The system was asked for them and did not refuse.
    AskedFor,
    /// They were not wanted.
    NotWanted,
    /// They could not be asked for, and why.
    Unavailable(String),
}

impl Buffer {
    /// Makes a buffer of `length` values, value `i` being `value(i)`, written by the threads of `pool`.
    ///
    /// Each thread writes the part that a static split gives it, so that on systems with several memories the parts
    /// lie near the cores that read them in such a split.
    ///
    /// # Errors
    /// When the system has not that much memory to give.
    pub fn filled(
        pool: &Pool,
        length: usize,
        want_huge_pages: bool,
        value: &(impl Fn(usize) -> f32 + Sync),
    ) -> Result<Self, BufferError> {
        let bytes = length.checked_mul(size_of::<f32>()).filter(|bytes| *bytes <= isize::MAX as usize / 2);
        let bytes = bytes.ok_or(BufferError::TooLarge { values: length })?;
        let aligns = bytes >= HUGE_PAGE_BYTES;
        let reserved = if aligns { bytes + HUGE_PAGE_BYTES } else { bytes.max(1) };
        let mut map = MmapMut::map_anon(reserved).map_err(|source| BufferError::Map { bytes, source })?;
        let start = if aligns { map.as_ptr().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        let huge_pages = match (want_huge_pages, aligns) {
            (false, _) => HugePages::NotWanted,
            (true, false) => HugePages::Unavailable("the buffer is smaller than a huge page".to_owned()),
            (true, true) => ask_for_huge_pages(&map, start, bytes),
        };
        let values = Values(map.as_mut_ptr().wrapping_add(start).cast());
        pool.parallel_for(length.div_ceil(BLOCK), Policy::Static, &|blocks: Range<usize>| {
            for index in blocks.start * BLOCK..length.min(blocks.end.saturating_mul(BLOCK)) {
                // SAFETY: `index < length`, which the map has room for behind `start`; the pool gives each block to
                // one thread.
                unsafe { values.write(index, value(index)) };
            }
        });
        Ok(Self { map, start, length, huge_pages })
    }

    /// Whether the buffer may lie on huge pages.
    pub fn huge_pages(&self) -> &HugePages {
        &self.huge_pages
    }

    /// The values.
    pub fn values(&self) -> &[f32] {
        // SAFETY: the map has `length` values behind `start`, aligned to a page; any bytes are values.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.start).cast(), self.length) }
    }

    /// The values, to be changed.
    pub fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `values`, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(self.start).cast(), self.length) }
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(map: &MmapMut, start: usize, bytes: usize) -> HugePages {
    match map.advise_range(memmap2::Advice::HugePage, start, bytes) {
        Ok(()) => HugePages::AskedFor,
        Err(error) => HugePages::Unavailable(format!("the system refuses them: {error}")),
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: &MmapMut, _: usize, _: usize) -> HugePages {
    HugePages::Unavailable("this system cannot be asked for them without a privilege".to_owned())
}

/// Where values are written to.
struct Values(*mut f32);

// SAFETY: threads write to different places, as `write` demands.
unsafe impl Sync for Values {}

impl Values {
    /// # Safety
    /// The place is within the map, and no other thread accesses it.
    unsafe fn write(&self, index: usize, value: f32) {
        // SAFETY: the caller promises it.
        unsafe { self.0.add(index).write(value) };
    }
}

/// Why there is no buffer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// More than an address space can hold.
    #[error("a buffer of {values} values is larger than memory can be; ask for less")]
    TooLarge {
        /// What was asked for.
        values: usize,
    },
    /// The system refused.
    #[error("cannot get {bytes} bytes of memory; close programs or ask for less")]
    Map {
        /// What was asked for.
        bytes: usize,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
