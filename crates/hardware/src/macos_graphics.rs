//! What the driver of Apple's GPUs counts, from its `PerformanceStatistics` in the registry.
//!
//! Apple documents none of the keys. Invariant: pure; a key that is missing, or a figure that cannot be, is a reason.

use siliconroute_core::{Chip, ChipKind, Reading};

use crate::chip_sensors::{Busy, BusySource, ChipSample};
use crate::macos_table::Table;

/// The table of a driver that is asked for.
pub(crate) const STATISTICS: &str = "PerformanceStatistics";

/// Writes what the drivers of the machine's GPUs tell into the sample of `chip`.
///
/// `accelerators` has one table for each GPU. Nothing in it tells two GPUs apart, so only a single one is told.
pub(crate) fn fill(accelerators: &Reading<Vec<Table>>, chip: &Chip, sample: &mut ChipSample) {
    if chip.kind != ChipKind::Gpu {
        return;
    }
    let statistics = accelerators.clone().and_then(|tables| match tables.as_slice() {
        [only] => Reading::from_option(
            only.table(STATISTICS).cloned(),
            "the GPU's entry in the registry has no PerformanceStatistics",
        ),
        [] => Reading::unavailable("the registry has no entry IOAccelerator"),
        several => Reading::unavailable(format!(
            "the registry has {} entries IOAccelerator, and does not tell which chip each of them is",
            several.len()
        )),
    });
    sample.busy = statistics.clone().and_then(|table| busy(&table));
    sample.memory_used_bytes = statistics.and_then(|table| {
        let bytes = table.number("In use system memory").and_then(|bytes| u64::try_from(bytes).ok());
        Reading::from_option(bytes, "the GPU's driver tells no memory in use")
    });
}

fn busy(statistics: &Table) -> Reading<Busy> {
    let percent = statistics.number("Device Utilization %").filter(|percent| (0..=100).contains(percent));
    Reading::from_option(
        percent.map(|percent| Busy { percent: percent as f64, source: BusySource::DriverAverage }),
        "the GPU's driver tells no load",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::macs;

    fn sample(accelerators: Vec<Table>, chip: &str) -> ChipSample {
        let chip = crate::fixture::chip(chip);
        let mut sample = ChipSample::unavailable(chip.key.clone(), "administrators only");
        fill(&Reading::Available(accelerators), &chip, &mut sample);
        sample
    }

    #[track_caller]
    fn check_reason<T: std::fmt::Debug>(reading: &Reading<T>, expected: &str) {
        match reading {
            Reading::Unavailable(reason) if reason.contains(expected) => {}
            other => panic!("{other:?} does not give the reason `{expected}`"),
        }
    }

    #[test]
    fn a_gpu_of_apples_tells_its_load_and_memory_and_no_more() {
        let sample = sample(vec![macs::fake_accelerator(37, 412 << 20)], "gpu@soc");
        assert_eq!(
            sample.busy,
            Reading::Available(Busy { percent: 37.0, source: BusySource::DriverAverage })
        );
        assert_eq!(sample.memory_used_bytes, Reading::Available(412 << 20));
        check_reason(&sample.power_watts, "administrators only");
        check_reason(&sample.clock_mhz, "administrators only");
    }

    #[test]
    fn the_neural_engine_is_not_taken_for_the_gpu() {
        let sample = sample(vec![macs::fake_accelerator(37, 1)], "npu@soc");
        check_reason(&sample.busy, "administrators only");
    }

    #[test]
    fn gpus_that_cannot_be_told_apart_and_figures_that_cannot_be_are_reasons() {
        #[track_caller]
        fn check(accelerators: Vec<Table>, expected: &str) {
            check_reason(&sample(accelerators, "gpu@soc").busy, expected);
        }
        check(Vec::new(), "no entry IOAccelerator");
        check(vec![Table::default()], "no PerformanceStatistics");
        check(vec![macs::fake_accelerator(1, 1), macs::fake_accelerator(2, 2)], "2 entries");
        for percent in [-1, 101, i64::MIN, i64::MAX] {
            check(vec![macs::fake_accelerator(percent, 1)], "tells no load");
        }
        let sample = sample(vec![macs::fake_accelerator(1, -1)], "gpu@soc");
        check_reason(&sample.memory_used_bytes, "no memory in use");
    }

    #[test]
    fn a_registry_that_does_not_answer_is_the_reason() {
        let chip = crate::fixture::chip("gpu@soc");
        let mut sample = ChipSample::unavailable(chip.key.clone(), "x");
        fill(&Reading::unavailable("the registry did not answer within 3 seconds"), &chip, &mut sample);
        check_reason(&sample.busy, "did not answer within 3 seconds");
        check_reason(&sample.memory_used_bytes, "did not answer within 3 seconds");
    }
}
