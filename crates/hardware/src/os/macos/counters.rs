//! What the drivers of GPUs write into the I/O registry, which every program may read.
//!
//! Invariant: the registry is read in a thread with a deadline, since the driver answers.

use std::time::Duration;

use siliconroute_core::{Chip, Reading};

use super::registry;
use crate::chip_sensors::{ChipSample, ProcessChipUse};
use crate::guard::Watched;
use crate::macos_graphics::{STATISTICS, fill};
use crate::macos_table::Table;

/// The registry's class of all drivers of GPUs.
const ACCELERATOR_CLASS: &str = "IOAccelerator";
const TIME_LIMIT: Duration = Duration::from_secs(3);

/// The tables of all GPUs.
#[derive(Debug)]
pub(crate) struct DeviceCounters {
    registry: Watched<()>,
    latest: Reading<Vec<Table>>,
}

impl DeviceCounters {
    /// Reads nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            registry: Watched::new("the GPU's entry in the I/O registry", TIME_LIMIT, || ()),
            latest: Reading::unavailable("the I/O registry was not read yet"),
        }
    }

    /// Reads the tables of all GPUs.
    pub(crate) fn collect(&mut self) {
        let told = self.registry.ask(|()| registry::entries(ACCELERATOR_CLASS, &[STATISTICS]));
        self.latest = told.and_then(|tables| tables);
    }

    /// Writes what was collected of `chip` into `sample`.
    pub(crate) fn fill(&self, chip: &Chip, sample: &mut ChipSample) {
        fill(&self.latest, chip, sample);
    }

    pub(crate) fn fill_process(&mut self, _chip: &Chip, _pid: u32, _found: &mut ProcessChipUse) {}
}
