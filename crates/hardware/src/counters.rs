//! Rates out of counters that only ever grow.
//!
//! Invariant: pure; a counter that went back, or too short a time, is a reason and never a rate.

use std::time::Duration;

use siliconroute_core::Reading;

use crate::chip_sensors::{Busy, BusySource};
use crate::conditions::CpuTimes;

/// Why a counter that was read once gives no rate.
pub(crate) const FIRST_SAMPLE: &str = "this is the first sample, and a rate needs two";

/// CPU time is counted in steps of up to 10 ms for each core.
const SHORTEST_FOR_CPU: Duration = Duration::from_millis(50);

/// The earlier value of a counter.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    earlier: Option<(Duration, u64)>,
}

impl Counter {
    /// The growth in one second since the earlier value, in the counter's own unit.
    ///
    /// Over less than `shortest` there is no rate, and the earlier value stays, so that the next call covers
    /// both times. A counter that starts again at zero after `wraps_at` may have gone back once.
    pub(crate) fn per_second(
        &mut self,
        now: Duration,
        value: Reading<u64>,
        shortest: Duration,
        wraps_at: Option<u64>,
    ) -> Reading<f64> {
        value.and_then(|value| {
            let Some((then, earlier)) = self.earlier else {
                self.earlier = Some((now, value));
                return Reading::unavailable(FIRST_SAMPLE);
            };
            let elapsed = now.saturating_sub(then);
            if elapsed < shortest {
                let ms = shortest.as_millis();
                return Reading::unavailable(format!("the samples are less than {ms} ms apart"));
            }
            self.earlier = Some((now, value));
            let grown = value.checked_sub(earlier).or_else(|| {
                // From the earlier value to the end, and from zero to this one.
                wraps_at?.checked_sub(earlier)?.checked_add(value)
            });
            let rate = grown.map(|grown| grown as f64 / elapsed.as_secs_f64());
            Reading::from_option(rate, "the counter went back")
        })
    }
}

/// The earlier CPU times.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    earlier: Option<(Duration, CpuTimes)>,
}

impl CpuMeter {
    /// The busy share since the earlier times.
    pub(crate) fn busy(&mut self, now: Duration, times: CpuTimes) -> Reading<Busy> {
        let Some((then, earlier)) = &self.earlier else {
            self.earlier = Some((now, times));
            return Reading::unavailable(FIRST_SAMPLE);
        };
        if now.saturating_sub(*then) < SHORTEST_FOR_CPU {
            let ms = SHORTEST_FOR_CPU.as_millis();
            return Reading::unavailable(format!("the samples are less than {ms} ms apart"));
        }
        let busy = times.busy_fraction_since(earlier);
        self.earlier = Some((now, times));
        busy.map(|share| Busy { percent: share * 100.0, source: BusySource::Counted })
    }
}

#[cfg(test)]
mod tests;
