//! NPUs: Intel's through its own counters, AMD's through the processor that it is a part of.
//!
//! Invariant: a clock of zero means that the unit is switched off, and is no clock.

use std::path::Path;
use std::time::Duration;

use siliconroute_core::Reading;

use super::SHORTEST;
use crate::chip_sensors::{Busy, BusySource, ChipSample};
use crate::counters::Counter;
use crate::linux::amd_metrics;
use crate::roots::read_number;

pub(super) fn read_intel(device: &Path, busy: &mut Counter, now: Duration, sample: &mut ChipSample) {
    read_intel_counters(device, busy, now, sample);
    // The second name is the older one, which goes in 2027.
    let named = ["freq/current_freq", "npu_current_frequency_mhz"].map(|name| device.join(name));
    let clock = named.iter().find(|path| path.exists()).unwrap_or(&named[0]);
    sample.clock_mhz = read_number::<f64>(clock).and_then(running);
}

/// Reads what the driver counts itself, for which it does not wake the NPU.
pub(super) fn read_intel_counters(device: &Path, busy: &mut Counter, now: Duration, sample: &mut ChipSample) {
    let busy_us = read_number(&device.join("npu_busy_time_us"));
    sample.busy = busy
        .per_second(now, busy_us, SHORTEST, None)
        .map(|us| Busy { percent: (us / 1e4).clamp(0.0, 100.0), source: BusySource::Counted });
    sample.memory_used_bytes = read_number(&device.join("npu_memory_utilization"));
}

pub(super) fn read_amd(processor: Option<&Path>, sample: &mut ChipSample) {
    let Some(processor) = processor else {
        let reason =
            "the driver amdxdna tells no load, and the processor's graphics driver tells none of the NPU";
        sample.busy = Reading::unavailable(reason);
        return;
    };
    let metrics = amd_metrics::read(processor);
    let told = |value: fn(&amd_metrics::AmdMetrics) -> Option<f64>, what: &str| {
        let reason = format!("the processor's metrics hold no {what} of the NPU");
        metrics.clone().and_then(|metrics| Reading::from_option(value(&metrics), &reason))
    };
    sample.busy = told(|metrics| metrics.npu_percent, "load")
        .map(|percent| Busy { percent, source: BusySource::DriverAverage });
    sample.power_watts = told(|metrics| metrics.npu_watts, "power");
    sample.clock_mhz = told(|metrics| metrics.npu_mhz, "clock").and_then(running);
}

fn running(mhz: f64) -> Reading<f64> {
    Reading::from_option((mhz > 0.0).then_some(mhz), "the NPU's clock stands still")
}
