//! The table `gpu_metrics` of the driver amdgpu, of the revisions that laptops have.
//!
//! The layout is the kernel's `kgd_pp_interface.h`. Invariant: a field is read only where the revision is
//! known and the table is long enough; all ones mean that the chip does not have it.

use std::path::Path;

use siliconroute_core::Reading;

use crate::chip_sensors::Limit;
use crate::roots::read_bytes;

/// No revision of the table comes near this size.
const TABLE_LIMIT_BYTES: u64 = 4096;

/// What is used of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AmdMetrics {
    /// Load of the busiest column of the NPU.
    pub(crate) npu_percent: Option<f64>,
    pub(crate) npu_watts: Option<f64>,
    pub(crate) npu_mhz: Option<f64>,
    throttling: Throttling,
}

/// How a revision tells of throttling.
#[derive(Debug, Clone, PartialEq)]
enum Throttling {
    /// The bits that are set now, in an order that holds for all chips.
    Bits(u64),
    /// Times spent throttled so far, by reason; `None` where the chip does not count it.
    Residencies([Option<u32>; 7]),
}

/// The reasons behind the residencies of revision 3.0, in its order.
const RESIDENCY_LIMITS: [Limit; 7] =
    [Limit::Heat, Limit::Power, Limit::Power, Limit::Power, Limit::Heat, Limit::Heat, Limit::Heat];

/// Reads the table at `path`.
pub(crate) fn read(path: &Path) -> Reading<AmdMetrics> {
    read_bytes(path, TABLE_LIMIT_BYTES).and_then(|table| match parse(&table) {
        Ok(metrics) => Reading::Available(metrics),
        Err(reason) => Reading::unavailable(format!("{}: {reason}", path.display())),
    })
}

fn parse(table: &[u8]) -> Result<AmdMetrics, String> {
    let [_, _, format, content] = *table.first_chunk().ok_or("the table has no header")?;
    let short = || format!("the table of revision {format}.{content} ends early");
    let bits = |at| known_bits(read_u64(table, at)).map(Throttling::Bits).ok_or_else(short);
    let throttling = match (format, content) {
        (1, 3) => bits(112)?,
        (2, 2..=4) => bits(120)?,
        (3, 0) => {
            let mut residencies = [None; 7];
            for (position, residency) in residencies.iter_mut().enumerate() {
                let value = read_u32(table, 228 + 4 * position).ok_or_else(short)?;
                *residency = Some(value).filter(|value| *value != u32::MAX);
            }
            Throttling::Residencies(residencies)
        }
        _ => return Err(format!("revision {format}.{content} of the table is not known")),
    };
    let mut metrics = AmdMetrics { npu_percent: None, npu_watts: None, npu_mhz: None, throttling };
    if format == 3 {
        let columns = (46..62).step_by(2).filter_map(|at| present(table, at));
        metrics.npu_percent = columns.filter(|percent| *percent <= 100.0).max_by(f64::total_cmp);
        metrics.npu_watts = present(table, 116).map(|milliwatts| milliwatts / 1000.0);
        metrics.npu_mhz = present(table, 180);
    }
    Ok(metrics)
}

/// All ones say that the chip has no such bits; none of them is set then.
fn known_bits(bits: Option<u64>) -> Option<u64> {
    bits.map(|bits| if bits == u64::MAX { 0 } else { bits })
}

fn present(table: &[u8], at: usize) -> Option<f64> {
    let bytes = table.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes)).filter(|value| *value != u16::MAX).map(f64::from)
}

fn read_u32(table: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*table.get(at..)?.first_chunk()?))
}

fn read_u64(table: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*table.get(at..)?.first_chunk()?))
}

impl AmdMetrics {
    /// Whether the table is that of a processor with an NPU.
    pub(crate) fn tells_of_an_npu(&self) -> bool {
        self.npu_percent.is_some() || self.npu_watts.is_some()
    }

    /// What limits the chip now, or has limited it since `earlier`.
    pub(crate) fn limits_since(&self, earlier: Option<&Self>) -> Reading<Vec<Limit>> {
        let mut limits = match (&self.throttling, earlier.map(|earlier| &earlier.throttling)) {
            (Throttling::Bits(bits), _) => {
                let groups = [
                    (0xffff, Limit::Power),
                    (0xffff << 16, Limit::Current),
                    (0xffff << 32, Limit::Heat),
                    (0xffff << 48, Limit::Other),
                ];
                groups.iter().filter(|(mask, _)| bits & mask != 0).map(|(_, limit)| *limit).collect()
            }
            (Throttling::Residencies(now), Some(Throttling::Residencies(then))) => {
                let grown = now.iter().zip(then).map(|(now, then)| match (now, then) {
                    (Some(now), Some(then)) => now != then,
                    _ => false,
                });
                RESIDENCY_LIMITS
                    .iter()
                    .zip(grown)
                    .filter(|(_, grown)| *grown)
                    .map(|(limit, _)| *limit)
                    .collect::<Vec<_>>()
            }
            (Throttling::Residencies(_), _) => return Reading::unavailable(crate::counters::FIRST_SAMPLE),
        };
        limits.sort_unstable();
        limits.dedup();
        Reading::Available(limits)
    }
}

#[cfg(test)]
mod tests;
