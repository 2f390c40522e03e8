//! Tests of the buffers.
//!
//! Invariant: no test needs the system to have huge pages; what it says about them is checked for sense.

#![expect(clippy::float_cmp, reason = "values that nothing computes with stay what they were")]

use std::num::NonZeroUsize;

use super::{Buffer, BufferError, HUGE_PAGE_BYTES, HugePages};
use crate::Pool;

fn pool() -> Pool {
    Pool::builder().threads(NonZeroUsize::new(2).unwrap()).build().unwrap()
}

#[test]
fn every_value_is_written() {
    let huge = HUGE_PAGE_BYTES / 4;
    for length in [0, 1, 1000, huge - 1, huge, huge + 1, 3 * huge + 5] {
        let buffer = Buffer::filled(&pool(), length, true, &|index| index as f32).unwrap();
        assert_eq!(buffer.values().len(), length);
        assert!(buffer.values().iter().enumerate().all(|(index, value)| *value == index as f32));
    }
}

#[test]
fn large_buffers_begin_at_a_huge_page() {
    let buffer = Buffer::filled(&pool(), HUGE_PAGE_BYTES / 4, false, &|_| 1.0).unwrap();
    assert_eq!(buffer.values().as_ptr().addr() % HUGE_PAGE_BYTES, 0);
}

#[test]
fn it_is_told_what_became_of_huge_pages() {
    let pages = |length, want| Buffer::filled(&pool(), length, want, &|_| 1.0).unwrap().huge_pages().clone();
    assert_eq!(pages(HUGE_PAGE_BYTES, false), HugePages::NotWanted);
    assert!(matches!(pages(10, true), HugePages::Unavailable(reason) if reason.contains("smaller")));
    if !cfg!(target_os = "linux") {
        assert!(matches!(pages(HUGE_PAGE_BYTES, true), HugePages::Unavailable(_)));
    }
}

#[test]
fn values_can_be_changed() {
    let mut buffer = Buffer::filled(&pool(), 10, false, &|_| 1.0).unwrap();
    buffer.values_mut()[3] = 5.0;
    assert_eq!(buffer.values()[2..5], [1.0, 5.0, 1.0]);
}

#[test]
fn absurd_lengths_are_refused() {
    for length in [usize::MAX, usize::MAX / 4, usize::MAX / 8] {
        let error = Buffer::filled(&pool(), length, true, &|_| 0.0).unwrap_err();
        assert!(matches!(error, BufferError::TooLarge { .. } | BufferError::Map { .. }), "{error}");
    }
}
