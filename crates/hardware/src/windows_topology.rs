//! Windows' answer to the question for logical processors, record by record.
//!
//! Invariant: the buffer is only trusted as far as its own lengths reach; the layout is that of 64-bit
//! Windows (`SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX`).

use crate::topology::{CacheKind, CacheLevel, add_cache, sort_caches};

const HEADER_BYTES: usize = 8;
const RELATION_CORE: u32 = 0;
const RELATION_CACHE: u32 = 2;
/// A group of Windows holds at most 64 logical processors.
const GROUP_CPUS: u32 = 64;

/// Cores and caches as Windows tells of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WindowsLayout {
    /// For each core: its efficiency class (higher is faster) and its logical CPUs.
    pub(crate) cores: Vec<(u8, Vec<u32>)>,
    pub(crate) caches: Vec<CacheLevel>,
}

/// Parses the records; what follows a damaged record is left out.
pub(crate) fn parse_layout(mut bytes: &[u8]) -> WindowsLayout {
    let mut layout = WindowsLayout::default();
    while let (Some(relation), Some(size)) = (number::<4>(bytes, 0), number::<4>(bytes, 4)) {
        let Some(record) = bytes.get(..size as usize).filter(|_| size as usize >= HEADER_BYTES) else {
            break;
        };
        let body = &record[HEADER_BYTES..];
        match relation {
            RELATION_CORE => layout.cores.extend(parse_core(body)),
            RELATION_CACHE => {
                if let Some(cache) = parse_cache(body) {
                    add_cache(&mut layout.caches, cache);
                }
            }
            _ => {}
        }
        bytes = &bytes[size as usize..];
    }
    sort_caches(&mut layout.caches);
    layout
}

fn parse_core(body: &[u8]) -> Option<(u8, Vec<u32>)> {
    let class = *body.get(1)?;
    let cpus = group_cpus(body, 24, number::<2>(body, 22)?);
    (!cpus.is_empty()).then_some((class, cpus))
}

fn parse_cache(body: &[u8]) -> Option<CacheLevel> {
    let kind = match number::<4>(body, 8)? {
        0 => CacheKind::Unified,
        1 => CacheKind::Instruction,
        2 => CacheKind::Data,
        _ => return None,
    };
    // Older systems leave the group count zero and fill in one group.
    let cpus = group_cpus(body, 32, number::<2>(body, 30)?.max(1));
    let line = number::<2>(body, 2)?;
    Some(CacheLevel {
        level: u32::from(*body.first()?),
        kind,
        size_bytes: u64::from(number::<4>(body, 4)?),
        line_bytes: (line > 0).then_some(line),
        instances: 1,
        shared_by: u32::try_from(cpus.len()).unwrap_or(u32::MAX),
    })
}

/// The logical CPUs of `count` group masks from `offset` on.
fn group_cpus(body: &[u8], offset: usize, count: u32) -> Vec<u32> {
    let mut cpus = Vec::new();
    for affinity in body.get(offset..).unwrap_or_default().chunks_exact(16).take(count as usize) {
        let (Some(low), Some(high), Some(group)) =
            (number::<4>(affinity, 0), number::<4>(affinity, 4), number::<2>(affinity, 8))
        else {
            continue;
        };
        let mask = u64::from(high) << 32 | u64::from(low);
        cpus.extend((0..GROUP_CPUS).filter(|bit| mask >> bit & 1 == 1).map(|bit| group * GROUP_CPUS + bit));
    }
    cpus
}

/// A little-endian number of `N` bytes, at most four.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<u32> {
    let part = bytes.get(offset..offset.checked_add(N)?)?;
    Some(part.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::windows_machines::{cache_record as cache, core_record as core};

    fn record(relation: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + HEADER_BYTES).unwrap();
        [relation.to_le_bytes().as_slice(), &length.to_le_bytes(), body].concat()
    }

    #[test]
    fn reads_cores_and_caches() {
        let bytes = [
            core(1, 0b11, 0),
            core(0, 0b100, 0),
            core(0, 1 << 63, 1),
            record(3, &[0; 40]),
            cache(1, 49_152, 2, 0b11),
            cache(1, 49_152, 2, 0b1100),
            cache(3, 25_165_824, 0, 0b1111),
        ]
        .concat();
        let layout = parse_layout(&bytes);
        assert_eq!(layout.cores, [(1, vec![0, 1]), (0, vec![2]), (0, vec![127])]);
        let shape: Vec<(u32, u64, u32, u32)> = layout
            .caches
            .iter()
            .map(|cache| (cache.level, cache.size_bytes, cache.instances, cache.shared_by))
            .collect();
        assert_eq!(shape, [(1, 49_152, 2, 2), (3, 25_165_824, 1, 4)]);
    }

    #[test]
    fn damaged_records_end_the_reading() {
        let whole = core(1, 1, 0);
        for length in 0..whole.len() {
            assert!(parse_layout(&whole[..length]).cores.is_empty());
        }
        let endless = [0_u8; 64];
        assert_eq!(parse_layout(&endless), WindowsLayout::default());
        let mut damaged = whole.clone();
        damaged.extend([0xff; 32]);
        assert_eq!(parse_layout(&damaged).cores.len(), 1);
        let short = record(RELATION_CACHE, &[1; 9]);
        assert!(parse_layout(&short).caches.is_empty());
    }
}
