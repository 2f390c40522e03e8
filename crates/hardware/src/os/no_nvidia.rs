//! A system for which NVIDIA makes no driver.
//!
//! Invariant: nothing is loaded, and nothing is written.

use siliconroute_core::{Chip, Reading};

use crate::chip_sensors::{ChipSample, ProcessChipUse};

/// The same calls as on the systems that have the driver.
#[derive(Debug)]
pub(crate) struct Nvidia;

impl Nvidia {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn fill(&mut self, _chip: &Chip, _sample: &mut ChipSample) {}

    pub(crate) fn total_energy_millijoules(&mut self, _chip: &Chip) -> Reading<u64> {
        Reading::unavailable("NVIDIA makes no driver for this system")
    }

    pub(crate) fn fill_process(&mut self, _chip: &Chip, _pid: u32, _found: &mut ProcessChipUse) {}
}
