//! How often a call is repeated within one sample, so that the clock does not matter.
//!
//! Invariant: resolution and overhead of the clock together stay within 0.5 % of a sample.

use serde::{Deserialize, Serialize};

use super::{Interval, median};

/// Share of a sample that resolution and overhead of the clock may make up together.
const MOST_SHARE: f64 = 0.005;

/// A clock as measured on this machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timer {
    /// The smallest step that its readings show, in nanoseconds.
    pub resolution_ns: f64,
    /// What one reading takes, in nanoseconds.
    pub overhead_ns: f64,
}

/// How a sample is made up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Repetition {
    /// Calls per sample.
    pub calls: u32,
    /// The most that the clock can add to or take from a sample, as a share of it.
    pub clock_share: f64,
}

/// The time of one call, from a sample of several.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PerCall {
    /// Time of the sample over its calls, in nanoseconds. Nothing is subtracted.
    pub value_ns: f64,
    /// Between what bounds the clock leaves the true mean of these calls.
    pub bounds: Interval,
}

impl Timer {
    /// Judges a clock by the differences of readings taken right after one another, in nanoseconds.
    ///
    /// The overhead is their median. The resolution is the smallest difference above 0: an upper bound, since it holds
    /// the time of a reading as well. `None` when no difference is above 0.
    pub fn from_differences(differences_ns: &[f64]) -> Option<Self> {
        let positive = differences_ns.iter().copied().filter(|difference| *difference > 0.0);
        let resolution_ns = positive.min_by(f64::total_cmp).filter(|smallest| smallest.is_finite())?;
        let overhead_ns = median(differences_ns).filter(|overhead| overhead.is_finite())?.max(0.0);
        Some(Self { resolution_ns, overhead_ns })
    }

    /// The repetition that a call of roughly `call_ns` needs to be timed within 0.5 % and for at least `least_ns`.
    ///
    /// Two readings that are each cut to a multiple of the resolution are off by less than one resolution together,
    /// and one overhead lies between them, so a sample must last `(resolution + overhead) ÷ 0.005`.
    ///
    /// `None` unless `call_ns` is a positive, finite number.
    pub fn repetition(&self, call_ns: f64, least_ns: f64) -> Option<Repetition> {
        if !call_ns.is_finite() || call_ns <= 0.0 {
            return None;
        }
        let error = self.resolution_ns + self.overhead_ns;
        // The conversion saturates, so no latency is too short.
        let calls = ((error / MOST_SHARE).max(least_ns) / call_ns).ceil().max(1.0) as u32;
        Some(Repetition { calls, clock_share: error / (f64::from(calls) * call_ns) })
    }

    /// The time of one call, from the time of `calls` of them.
    ///
    /// The mean of the calls of one sample is all that a sample tells: with more than one call in a sample, quantiles and
    /// outliers are those of such means, and the tail of single calls is narrower in them than it is.
    pub fn per_call(&self, total_ns: f64, calls: u32) -> PerCall {
        let calls = f64::from(calls.max(1));
        let low = (total_ns - self.overhead_ns - self.resolution_ns).max(0.0);
        let bounds = Interval { low: low / calls, high: (total_ns + self.resolution_ns) / calls };
        PerCall { value_ns: total_ns / calls, bounds }
    }
}
