//! What the clock that times inferences can tell apart, and what reading it costs.
//!
//! Invariant: measured on this machine, in a few milliseconds at most; nothing is assumed of the system's clock.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Readings in one round, whose mean is one value of the cost.
const ROUND: u32 = 200;
/// Rounds; their median is robust against the ones that the system interrupted.
const ROUNDS: usize = 41;
/// Steps that are waited for.
const STEPS: usize = 200;
/// Share of a sample that resolution and overhead of the clock may make up together.
const MOST_SHARE: f64 = 0.005;
/// A clock that does not move for this long is given up on.
const PATIENCE: Duration = Duration::from_millis(100);
/// Readings without a step after which the clock is given up on, should it stand still altogether.
const READING_LIMIT: u32 = 50_000_000;

/// The clock of `std::time::Instant`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimerFacts {
    /// The smallest step that was seen between two readings. Where reading takes longer than the clock's own
    /// step it is the reading that is seen, which is then what limits a timing.
    pub resolution_ns: f64,
    /// What one reading costs.
    pub overhead_ns: f64,
}

impl TimerFacts {
    /// How long a sample must last for the clock to change it by at most 0.5 %.
    ///
    /// Two readings that are each cut to a multiple of the resolution are off by less than one resolution together, and
    /// one overhead lies between them.
    pub fn least_sample(&self) -> Duration {
        Duration::from_nanos(((self.resolution_ns + self.overhead_ns) / MOST_SHARE).ceil() as u64)
    }
}

/// Measures the clock of `std::time::Instant`.
///
/// The resolution is the smallest difference above zero between readings in a row; the cost is the median over
/// 41 rounds of the mean of 200 readings.
pub fn timer_facts() -> TimerFacts {
    let mut costs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUND {
                std::hint::black_box(Instant::now());
            }
            start.elapsed().as_nanos() as f64 / f64::from(ROUND)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    let overhead_ns = costs[ROUNDS / 2];
    let begun = Instant::now();
    let smallest = (0..STEPS).map_while(|_| step().filter(|_| begun.elapsed() < PATIENCE)).min();
    // A clock without a step in all that time has at least that resolution.
    let smallest = smallest.unwrap_or(PATIENCE);
    TimerFacts { resolution_ns: smallest.as_nanos() as f64, overhead_ns }
}

/// Waits until the clock moves on; `None` where it does not.
fn step() -> Option<Duration> {
    let start = Instant::now();
    (0..READING_LIMIT).map(|_| start.elapsed()).find(|elapsed| !elapsed.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_a_step_and_a_cost() {
        let facts = timer_facts();
        assert!(facts.resolution_ns >= 1.0 && facts.overhead_ns > 0.0, "{facts:?}");
    }

    #[test]
    fn a_sample_is_two_hundred_times_as_long_as_the_clock_errs() {
        let fine = TimerFacts { resolution_ns: 1.0, overhead_ns: 24.0 };
        assert_eq!(fine.least_sample(), Duration::from_micros(5));
        let coarse = TimerFacts { resolution_ns: 15_625_000.0, overhead_ns: 0.0 };
        assert_eq!(coarse.least_sample(), Duration::from_millis(3125));
    }
}
