//! Takes timings of a session, next to the session, so that no transport is part of them.
//!
//! Invariant: between the two clock readings of a sample there is nothing but calls of `run`.

use std::time::{Duration, Instant};

use siliconroute_core::trial::{Before, Sample};

use crate::session::{RunError, Session};

/// What a warm-up found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WarmUp {
    /// Calls made.
    pub calls: u64,
    /// The first call ever made on this session is part of the warm-up only if nothing ran before it.
    pub first_ns: u64,
    /// The fastest call.
    pub fastest_ns: u64,
    /// The last call.
    pub last_ns: u64,
}

/// Runs until both `min_calls` and `min_time` are reached.
///
/// # Errors
/// The first run that fails.
pub fn measure_warm_up(
    session: &mut dyn Session,
    min_calls: u64,
    min_time: Duration,
) -> Result<WarmUp, RunError> {
    let begin = Instant::now();
    let mut warm_up = WarmUp { calls: 0, first_ns: 0, fastest_ns: u64::MAX, last_ns: 0 };
    while warm_up.calls < min_calls.max(1) || begin.elapsed() < min_time {
        let call = Instant::now();
        session.run()?;
        let elapsed = nanoseconds(call.elapsed());
        if warm_up.calls == 0 {
            warm_up.first_ns = elapsed;
        }
        warm_up.calls += 1;
        warm_up.fastest_ns = warm_up.fastest_ns.min(elapsed);
        warm_up.last_ns = elapsed;
    }
    Ok(warm_up)
}

/// Takes up to `count` samples of `calls` calls each, at least one, and no new one after `budget`.
///
/// # Errors
/// The first run that fails.
pub fn measure_samples(
    session: &mut dyn Session,
    round: u32,
    calls: u32,
    count: u32,
    budget: Duration,
) -> Result<Vec<Sample>, RunError> {
    let begin = Instant::now();
    let calls = calls.max(1);
    let mut samples = Vec::with_capacity(count.clamp(1, 4096) as usize);
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            session.run()?;
        }
        let total_ns = nanoseconds(start.elapsed());
        samples.push(Sample { round, calls, total_ns, before: Before::Running });
        if samples.len() >= count as usize || begin.elapsed() >= budget {
            return Ok(samples);
        }
    }
}

/// How many calls a sample needs to last at least `least`, when one takes `call_ns`.
pub fn calls_per_sample(call_ns: u64, least: Duration) -> u32 {
    let calls = nanoseconds(least).div_ceil(call_ns.max(1));
    u32::try_from(calls).unwrap_or(u32::MAX).max(1)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_are_repeated_to_fill_a_sample() {
        let ms = Duration::from_millis(1);
        assert_eq!(calls_per_sample(2_300, ms), 435);
        assert_eq!(calls_per_sample(0, ms), 1_000_000);
        assert_eq!(calls_per_sample(5_000_000, ms), 1);
    }
}
