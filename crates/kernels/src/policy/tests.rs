//! Tests of how rows are cut.
//!
//! Invariant: every expected number follows from the definitions by hand.

use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::Policy;

#[track_caller]
fn check(policy: Policy, rows: usize, threads: usize, size: usize, count: usize) {
    let chunking = policy.chunk(rows, NonZeroUsize::new(threads).unwrap());
    assert_eq!((chunking.size(), chunking.count()), (size, count), "{policy:?} {rows} {threads}");
}

#[test]
fn sizes_follow_the_definitions() {
    check(Policy::Static, 4096, 2, 2048, 2);
    check(Policy::Static, 7, 3, 3, 3);
    check(Policy::Static, 2, 4, 1, 2);
    check(Policy::Fixed8, 4096, 2, 8, 512);
    check(Policy::Fixed16, 17, 2, 16, 2);
    check(Policy::Fixed32, 31, 2, 32, 1);
    check(Policy::Proportional2, 4096, 2, 1024, 4);
    check(Policy::Proportional2, 3, 2, 1, 3);
    check(Policy::Proportional4, 4096, 2, 512, 8);
    check(Policy::Adaptive, 4096, 2, 512, 8);
    check(Policy::Adaptive, 64, 2, 16, 4);
    for policy in Policy::ALL {
        check(policy, 0, 3, policy.chunk(0, NonZeroUsize::new(3).unwrap()).size(), 0);
    }
}

#[test]
fn a_static_rule_has_at_most_one_chunk_for_each_thread() {
    for (rows, threads) in [(1, 1), (5, 4), (4096, 3), (10, 16)] {
        assert!(Policy::Static.chunk(rows, NonZeroUsize::new(threads).unwrap()).count() <= threads);
    }
}

proptest! {
    #[test]
    fn chunks_cover_each_row_once(rows in 0_usize..5_000, threads in 1_usize..40) {
        for policy in Policy::ALL {
            let chunking = policy.chunk(rows, NonZeroUsize::new(threads).unwrap());
            let mut next = 0;
            for index in 0..chunking.count() {
                let chunk = chunking.rows(index).unwrap();
                prop_assert_eq!(chunk.start, next);
                prop_assert!(!chunk.is_empty());
                next = chunk.end;
            }
            prop_assert_eq!(next, rows);
            prop_assert_eq!(chunking.rows(chunking.count()), None);
        }
    }

    #[test]
    fn absurd_numbers_do_not_overflow(rows in any::<usize>(), threads in 1_usize..=usize::MAX, index in any::<usize>()) {
        for policy in Policy::ALL {
            let chunking = policy.chunk(rows, NonZeroUsize::new(threads).unwrap());
            if let Some(chunk) = chunking.rows(index) {
                prop_assert!(chunk.end <= rows);
            }
        }
    }
}
