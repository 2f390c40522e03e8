//! What a call with an empty body costs, on the pool and on simple ones, on a quiet and on a crowded machine.
//!
//! Invariant: pools take turns in a new order each time, each made for its turn; a turn begins with calls that are not
//! timed, so that no pool starts asleep.

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use siliconroute_kernels::{Policy, Pool, Spin};

use crate::reference_pools::{ConditionPool, ParkPool};
use crate::{Spread, pool};

pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    let cores = thread::available_parallelism()?.get();
    println!("empty body, nanoseconds a call; ratio to the pool that parks at once, within a turn\n");
    println!("| machine | threads | pool | median | p05–p95 | ratio | p05–p95 |");
    println!("| --- | ---: | --- | ---: | ---: | ---: | ---: |");
    let brief = Duration::from_millis(2);
    let long = Duration::from_millis(60);
    print_rows("quiet", 2, brief, 100)?;
    print_rows("more threads than cores", 2 * cores, brief, 60)?;
    let crowd = Crowd::start(cores);
    print_rows("a busy thread for each core", 2, long, 40)?;
    drop(crowd);
    println!();
    Ok(())
}

/// Measures each row `turns` times, each time with pools that were made for that turn.
///
/// The system tends to let a thread sleep and wake where it did before, so that a pool of more threads than cores keeps the
/// places that it happened to get: two pools of the same code differ by a quarter for as long as both live.
fn print_rows(machine: &str, threads: usize, sample: Duration, turns: usize) -> Result<(), Box<dyn Error>> {
    let mut times = vec![Vec::new(); ROWS.len()];
    let mut order: Vec<usize> = (0..ROWS.len()).collect();
    let mut state = 1_u64;
    for _ in 0..turns {
        shuffle(&mut order, &mut state);
        for &which in &order {
            times[which].push(time_a_call(ROWS[which].1, threads, sample)?);
        }
    }
    for ((name, _), own) in ROWS.iter().zip(&times) {
        let ratio = Spread::of(own.iter().zip(&times[0]).map(|(own, reference)| own / reference).collect());
        let spread = Spread::of(own.clone());
        println!(
            "| {machine} | {threads} | {name} | {:.0} | {:.0}–{:.0} | {:.2} | {:.2}–{:.2} |",
            spread.median, spread.low, spread.high, ratio.median, ratio.low, ratio.high,
        );
    }
    Ok(())
}

/// What is measured, the reference first.
const ROWS: &[(&str, Kind)] = &[
    ("parks at once (reference)", Kind::Parks),
    ("condition variable (reference)", Kind::Condition),
    ("this, Static", Kind::This { spin: Spin::Auto, policy: Policy::Static, timed: false }),
    ("this, Static, timed", Kind::This { spin: Spin::Auto, policy: Policy::Static, timed: true }),
    ("this, Proportional2", Kind::This { spin: Spin::Auto, policy: Policy::Proportional2, timed: false }),
    ("this, Static, never looks", Kind::This { spin: Spin::Never, policy: Policy::Static, timed: false }),
];

/// A pool and how it is called.
#[derive(Clone, Copy)]
enum Kind {
    Parks,
    Condition,
    This { spin: Spin, policy: Policy, timed: bool },
}

/// Makes a pool and returns nanoseconds a call of it.
fn time_a_call(kind: Kind, threads: usize, sample: Duration) -> Result<f64, Box<dyn Error>> {
    let body = |index: usize| {
        black_box(index);
    };
    Ok(match kind {
        Kind::Parks => {
            let parked = ParkPool::new(threads);
            nanoseconds_a_call(&|| parked.call(&body), sample)
        }
        Kind::Condition => {
            let condition = ConditionPool::new(threads);
            nanoseconds_a_call(&|| condition.call(&body), sample)
        }
        Kind::This { spin, policy, timed } => {
            let pool = pool(threads, spin)?;
            let call = if timed { empty_timed } else { empty };
            nanoseconds_a_call(&|| call(&pool, policy), sample)
        }
    })
}

/// Puts `items` into another order: what a pool leaves behind, such as where its threads sleep, must not always meet
/// the same one.
fn shuffle(items: &mut [usize], state: &mut u64) {
    for last in (1..items.len()).rev() {
        // Marsaglia, "Xorshift RNGs" (2003), and the shuffle of Fisher and Yates.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        items.swap(last, (*state % (last as u64 + 1)) as usize);
    }
}

fn nanoseconds_a_call(call: &dyn Fn(), sample: Duration) -> f64 {
    for _ in 0..20 {
        call();
    }
    let start = Instant::now();
    let mut calls = 0_u32;
    loop {
        for _ in 0..20 {
            call();
        }
        calls += 20;
        let elapsed = start.elapsed();
        if elapsed >= sample {
            return elapsed.as_nanos() as f64 / f64::from(calls);
        }
    }
}

fn empty(pool: &Pool, policy: Policy) {
    black_box(pool.parallel_for(4 * pool.threads().get(), policy, &|rows| {
        black_box(rows.start);
    }));
}

fn empty_timed(pool: &Pool, policy: Policy) {
    black_box(pool.parallel_for_timed(4 * pool.threads().get(), policy, &|rows| {
        black_box(rows.start);
    }));
}

/// Threads that keep cores busy until dropped.
struct Crowd {
    goes_on: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    fn start(threads: usize) -> Self {
        let goes_on = Arc::new(AtomicBool::new(true));
        let busy = |_| {
            let goes_on = Arc::clone(&goes_on);
            thread::spawn(move || {
                while goes_on.load(Ordering::Relaxed) {
                    spin_loop();
                }
            })
        };
        let threads = (0..threads).map(busy).collect();
        Self { goes_on, threads }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
