//! Tests of the pool: every row once, honest counts, and what happens when things go wrong.
//!
//! Invariant: no test depends on how fast a thread is; where an order is needed, the test makes it.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::{Dispatch, Mode, Pool, PoolError, SerialReason, Spin};
use crate::Policy;

/// Interpreted, a row costs a thousand times as much.
const MANY: usize = if cfg!(miri) { 40 } else { 1000 };

fn pool(threads: usize) -> Pool {
    pool_that(threads, Spin::Auto)
}

fn pool_that(threads: usize, spin: Spin) -> Pool {
    Pool::builder().threads(NonZeroUsize::new(threads).unwrap()).spin(spin).build().unwrap()
}

#[track_caller]
fn check_rows(pool: &Pool, rows: usize, policy: Policy) -> Dispatch {
    let hits: Vec<_> = (0..rows).map(|_| AtomicUsize::new(0)).collect();
    let calls = AtomicUsize::new(0);
    let dispatch = pool.parallel_for(rows, policy, &|range| {
        calls.fetch_add(1, Ordering::Relaxed);
        for hit in &hits[range] {
            hit.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "{policy:?} {rows}");
    assert_eq!(dispatch.chunks, calls.into_inner(), "{policy:?} {rows}");
    assert!(dispatch.steals <= dispatch.chunks);
    dispatch
}

#[test]
fn every_policy_covers_each_row_once() {
    for spin in [Spin::Auto, Spin::Never, Spin::Looks(3)] {
        for threads in [1, 2, 3, 5] {
            let pool = pool_that(threads, spin);
            for rows in [0, 1, 2, 3, 5, 7, 8, 9, 63, MANY] {
                for policy in Policy::ALL {
                    check_rows(&pool, rows, policy);
                }
            }
        }
    }
}

#[test]
fn many_calls_in_a_row_lose_no_row() {
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    for spin in [Spin::Auto, Spin::Never, Spin::Looks(20)] {
        let pool = pool_that(3, spin);
        for round in 0..rounds {
            check_rows(&pool, 1 + round % 50, Policy::ALL[round % 7]);
        }
    }
}

#[test]
fn a_static_split_steals_nothing_and_uses_as_many_threads_as_there_are_chunks() {
    let pool = pool(4);
    for (rows, threads) in [(2, 2), (3, 3), (4, 4), (9, 3), (100, 4)] {
        let dispatch = check_rows(&pool, rows, Policy::Static);
        assert_eq!((dispatch.steals, dispatch.mode), (0, Mode::Shared { threads }), "{rows}");
    }
}

#[test]
fn each_thread_has_its_own_part_of_a_static_split() {
    let pool = pool(3);
    let starts = Mutex::new(Vec::new());
    pool.parallel_for(30, Policy::Static, &|range| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        starts.lock().unwrap().push((range.start, name));
    });
    let mut starts = starts.into_inner().unwrap();
    starts.sort();
    assert_eq!(starts[1], (10, "siliconroute-pool-1".to_owned()));
    assert_eq!(starts[2], (20, "siliconroute-pool-2".to_owned()));
}

#[test]
fn chunks_that_change_hands_are_counted() {
    let pool = pool(2);
    // The worker's body waits until the caller has begun its last chunk, so the caller must take all others.
    let (first, done) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
    let dispatch = pool.parallel_for(64, Policy::Fixed8, &|range| {
        if thread::current().name().is_some_and(|name| name.starts_with("siliconroute-pool")) {
            first.store(range.start, Ordering::SeqCst);
            while done.load(Ordering::SeqCst) < 7 {
                thread::yield_now();
            }
        }
        done.fetch_add(1, Ordering::SeqCst);
    });
    // Of eight chunks, the first four are the caller's own.
    let expected = match first.into_inner() {
        usize::MAX => 4,
        start if start < 32 => 5,
        _ => 3,
    };
    assert_eq!((dispatch.chunks, dispatch.steals), (8, expected));
}

#[test]
fn a_pool_of_one_starts_no_thread() {
    let started = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&started);
    let count = move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
    };
    let pool = Pool::builder().on_start(Arc::new(count)).build().unwrap();
    let dispatch = pool.parallel_for(100, Policy::Fixed8, &|range| assert_eq!(range, 0..100));
    assert_eq!((dispatch.chunks, dispatch.mode), (1, Mode::Serial(SerialReason::OneThread)));
    assert_eq!((pool.threads().get(), started.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn every_worker_calls_the_start_function_before_the_pool_is_there() {
    let indices = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&indices);
    let threads = NonZeroUsize::new(4).unwrap();
    let note = move |index| seen.lock().unwrap().push(index);
    let _pool = Pool::builder().threads(threads).on_start(Arc::new(note)).build().unwrap();
    let mut indices = indices.lock().unwrap().clone();
    indices.sort_unstable();
    assert_eq!(indices, [1, 2, 3]);
}

#[test]
fn a_panic_in_a_start_function_is_an_error() {
    let threads = NonZeroUsize::new(3).unwrap();
    let panics = |index| assert_ne!(index, 2, "no");
    let error = Pool::builder().threads(threads).on_start(Arc::new(panics)).build().unwrap_err();
    assert!(matches!(error, PoolError::StartFunction { worker: 2 }), "{error}");
}

#[test]
fn absurdly_many_threads_are_refused() {
    let error = Pool::builder().threads(NonZeroUsize::MAX).build().unwrap_err();
    assert!(error.to_string().contains("the most is 2001"), "{error}");
}

#[test]
fn few_rows_run_on_the_caller_alone() {
    let mut pool = pool(2);
    pool.set_serial_below(10);
    assert_eq!(check_rows(&pool, 9, Policy::Static).mode, Mode::Serial(SerialReason::FewRows));
    assert_eq!(check_rows(&pool, 10, Policy::Static).mode, Mode::Shared { threads: 2 });
    // One chunk cannot be shared.
    assert_eq!(check_rows(&pool, 16, Policy::Fixed16).mode, Mode::Serial(SerialReason::FewRows));
}

#[test]
fn a_panic_reaches_the_caller_and_leaves_the_pool_usable() {
    for (rows, panics_at) in [(40, 0), (40, 39), (8, 0), (1, 0)] {
        for policy in Policy::ALL {
            let pool = pool(2);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.parallel_for(rows, policy, &|range| {
                    assert!(!range.contains(&panics_at), "row {panics_at}");
                })
            }));
            let payload = outcome.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>().unwrap(), &format!("row {panics_at}"));
            // Nothing of it is left for the next call, nested or not.
            let dispatch = check_rows(&pool, 64, policy);
            assert_eq!(dispatch.mode, Mode::Shared { threads: 2 });
        }
    }
}

#[test]
fn panics_in_all_threads_give_one() {
    let pool = pool(3);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.parallel_for(3, Policy::Static, &|range| panic!("part {}", range.start))
    }));
    assert!(outcome.unwrap_err().downcast_ref::<String>().unwrap().starts_with("part "));
    check_rows(&pool, 30, Policy::Static);
}

#[test]
fn after_a_panic_unclaimed_chunks_are_left_out() {
    let pool = pool(2);
    let calls = AtomicUsize::new(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pool.parallel_for(8 * MANY, Policy::Fixed8, &|_| {
            calls.fetch_add(1, Ordering::SeqCst);
            panic!("at once");
        })
    }));
    assert!(outcome.is_err());
    assert!(calls.into_inner() <= 2);
}

#[test]
fn a_nested_call_runs_on_its_own_thread() {
    let (outer, other) = (pool(2), pool(2));
    for inner in [&outer, &other] {
        let rows = AtomicUsize::new(0);
        outer.parallel_for(2, Policy::Static, &|_| {
            let here = thread::current().id();
            let dispatch = inner.parallel_for(50, Policy::Fixed8, &|range| {
                assert_eq!(thread::current().id(), here);
                rows.fetch_add(range.len(), Ordering::SeqCst);
            });
            assert_eq!(dispatch.mode, Mode::Serial(SerialReason::Nested));
        });
        assert_eq!(rows.into_inner(), 100);
    }
    // Also inside of a body that itself runs serially, and never after it.
    outer.parallel_for(1, Policy::Static, &|_| {
        assert_eq!(outer.parallel_for(9, Policy::Static, &|_| ()).mode, Mode::Serial(SerialReason::Nested));
    });
    assert_eq!(check_rows(&outer, 9, Policy::Static).mode, Mode::Shared { threads: 2 });
}

#[test]
fn a_second_caller_runs_its_rows_itself() {
    let pool = pool(2);
    let (held, release) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            pool.parallel_for(2, Policy::Static, &|range| {
                if range.start == 0 {
                    held.wait();
                    release.wait();
                }
            });
        });
        held.wait();
        assert_eq!(check_rows(&pool, 50, Policy::Fixed8).mode, Mode::Serial(SerialReason::PoolTaken));
        release.wait();
    });
    assert_eq!(check_rows(&pool, 50, Policy::Fixed8).mode, Mode::Shared { threads: 2 });
}

#[test]
fn many_callers_at_once_lose_no_row() {
    let rounds = if cfg!(miri) { 5 } else { 500 };
    let pool = pool(3);
    thread::scope(|scope| {
        for caller in 0..3 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 0..rounds {
                    check_rows(pool, 1 + (caller + round) % 60, Policy::ALL[(caller + round) % 7]);
                }
            });
        }
    });
}

#[test]
fn times_add_up() {
    for policy in Policy::ALL {
        let pool = pool(3);
        let dispatch = pool.parallel_for_timed(300, policy, &|_| ());
        let timing = dispatch.timing.unwrap();
        assert_eq!(timing.threads.len(), 3);
        assert!(timing.barrier_ns <= timing.wall_ns);
        assert!(timing.threads[0].busy_ns + timing.barrier_ns <= timing.wall_ns);
        for thread in &timing.threads {
            assert!(thread.busy_ns + thread.idle_ns <= timing.wall_ns.max(thread.busy_ns));
        }
        assert_eq!(pool.parallel_for(300, policy, &|_| ()).timing, None);
    }
    let alone = pool(1).parallel_for_timed(10, Policy::Static, &|_| ()).timing.unwrap();
    assert_eq!((alone.threads.len(), alone.threads[0].idle_ns, alone.barrier_ns), (1, 0, 0));
}

thread_local! {
    /// What a worker holds until it ends.
    static HELD: RefCell<Option<Arc<()>>> = const { RefCell::new(None) };
}

#[test]
fn dropping_ends_workers_awake_or_asleep() {
    for spin in [Spin::Never, Spin::Looks(u32::MAX), Spin::Auto] {
        for used in [false, true] {
            let alive = Arc::new(());
            let held = Arc::clone(&alive);
            let hold = move |_: usize| HELD.set(Some(Arc::clone(&held)));
            let threads = NonZeroUsize::new(3).unwrap();
            let pool = Pool::builder().threads(threads).spin(spin).on_start(Arc::new(hold)).build().unwrap();
            if used {
                check_rows(&pool, 9, Policy::Fixed8);
            }
            assert!(Arc::strong_count(&alive) >= 3);
            drop(pool);
            assert_eq!(Arc::strong_count(&alive), 1, "a worker has not ended");
        }
    }
}
