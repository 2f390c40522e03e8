//! A system that has no performance counters of devices beside its files.
//!
//! Invariant: nothing is read, and nothing is written.

use siliconroute_core::Chip;

use crate::chip_sensors::{ChipSample, ProcessChipUse};

/// The same calls as on the system that has the counters.
#[derive(Debug)]
pub(crate) struct DeviceCounters;

impl DeviceCounters {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn collect(&mut self) {}

    pub(crate) fn fill(&self, _chip: &Chip, _sample: &mut ChipSample) {}

    pub(crate) fn fill_process(&mut self, _chip: &Chip, _pid: u32, _found: &mut ProcessChipUse) {}
}
