//! Tables of amdgpu in the revisions that laptops have.

use super::*;
use crate::counters::FIRST_SAMPLE;
use crate::fixture::laptops::apu_metrics;

fn table(format: u8, content: u8, length: usize, at: usize, bits: u64) -> Vec<u8> {
    let mut table = vec![0_u8; length];
    table[2..4].copy_from_slice(&[format, content]);
    table[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    table
}

#[test]
fn the_npu_of_a_processor_is_read_from_revision_3() {
    let metrics = parse(&apu_metrics(73, 1850, 1800, 0)).unwrap();
    assert_eq!(
        (metrics.npu_percent, metrics.npu_watts, metrics.npu_mhz),
        (Some(73.0), Some(1.85), Some(1800.0))
    );
    let none = parse(&apu_metrics(u16::MAX, u16::MAX, u16::MAX, 0)).unwrap();
    // The other columns are zero in the test's table, so that only the power and the clock are missing.
    assert_eq!((none.npu_percent, none.npu_watts, none.npu_mhz), (Some(0.0), None, None));
}

#[test]
fn residencies_that_grew_are_limits() {
    let earlier = parse(&apu_metrics(0, 0, 0, 10)).unwrap();
    let later = parse(&apu_metrics(0, 0, 0, 12)).unwrap();
    assert_eq!(later.limits_since(None), Reading::unavailable(FIRST_SAMPLE));
    assert_eq!(later.limits_since(Some(&later)), Reading::Available(Vec::new()));
    assert_eq!(later.limits_since(Some(&earlier)), Reading::Available(vec![Limit::Heat]));
    let absent = parse(&apu_metrics(0, 0, 0, u32::MAX)).unwrap();
    assert_eq!(later.limits_since(Some(&absent)), Reading::Available(Vec::new()));
}

#[test]
fn bits_that_are_set_are_limits_at_once() {
    #[track_caller]
    fn check(table: &[u8], expected: &[Limit]) {
        let limits = parse(table).unwrap().limits_since(None);
        assert_eq!(limits, Reading::Available(expected.to_vec()));
    }
    check(&table(1, 3, 120, 112, 0), &[]);
    check(&table(1, 3, 120, 112, 1), &[Limit::Power]);
    check(&table(2, 2, 128, 120, 1 << 16 | 1 << 33), &[Limit::Heat, Limit::Current]);
    check(&table(2, 4, 168, 120, 1 << 50), &[Limit::Other]);
    // All ones say that the chip has none of these bits.
    check(&table(2, 3, 152, 120, u64::MAX), &[]);
}

#[test]
fn tables_that_are_unknown_or_cut_are_reasons() {
    #[track_caller]
    fn check(table: &[u8], expected: &str) {
        assert!(parse(table).unwrap_err().contains(expected));
    }
    check(b"", "no header");
    check(&[4, 0, 1], "no header");
    check(&table(9, 9, 64, 8, 0), "revision 9.9 of the table is not known");
    check(&table(1, 3, 119, 8, 0), "ends early");
    check(&apu_metrics(0, 0, 0, 0)[..250], "revision 3.0 ends early");
}
