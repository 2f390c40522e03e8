//! A simulated machine to be tuned: as many equal cores as a test asks for.
//!
//! Invariant: times follow from a law, never from a clock, so that a tuning is over at once and always the same.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use siliconroute::machine::HostFacts;
use siliconroute::tuning::workbench::{
    Configuration, Load, Machine, Place, Room, Unmeasurable, Work, Workbench,
};
use siliconroute::tuning::{Policy, WorkFacts};
use siliconroute_core::Reading;
use siliconroute_core::chip_figure::{ChipFigure, ChipQuantity};

/// What one core reads, in bytes per second.
const CORE_BYTES_PER_S: f64 = 20e9;
/// What the memory gives to three cores and no more.
const MEMORY_BYTES_PER_S: f64 = 60e9;
const WORK_BYTES: u64 = 64 << 20;

/// Simulated equal cores.
#[derive(Debug, Clone)]
pub struct FakeWorkbench {
    /// How many cores there are.
    pub cores: usize,
    /// Why no work can be prepared, where none can.
    pub refusal: Option<String>,
    prepared: Arc<AtomicUsize>,
}

impl FakeWorkbench {
    /// So many cores.
    pub fn new(cores: usize) -> Self {
        Self { cores, refusal: None, prepared: Arc::default() }
    }

    /// How many tunings have begun to measure.
    pub fn tunings(&self) -> usize {
        self.prepared.load(Ordering::Relaxed)
    }
}

impl Workbench for FakeWorkbench {
    fn room(&self, _host: &HostFacts) -> Room {
        Room::uniform(self.cores)
    }

    fn watch(&self) -> Box<dyn FnOnce() -> Load> {
        Box::new(|| Load { other_busy_cores: Reading::Available(0.0), ..Load::unavailable("simulated") })
    }

    fn prepare(&self, _places: &[Place]) -> Result<Box<dyn Work>, Unmeasurable> {
        self.prepared.fetch_add(1, Ordering::Relaxed);
        match &self.refusal {
            Some(reason) => Err(Unmeasurable { reason: reason.clone() }),
            None => Ok(Box::new(FakeWork { spent_s: 0.0 })),
        }
    }
}

#[derive(Debug)]
struct FakeWork {
    spent_s: f64,
}

impl Machine for FakeWork {
    fn measure(&mut self, configuration: &Configuration) -> Result<f64, Unmeasurable> {
        let rate = (CORE_BYTES_PER_S * configuration.threads.get() as f64).min(MEMORY_BYTES_PER_S);
        let chunks = configuration.policy.chunk(4096, configuration.threads).count();
        let claims_s = if configuration.policy == Policy::Static { 0.0 } else { chunks as f64 * 1e-7 };
        let seconds = WORK_BYTES as f64 / rate + claims_s;
        self.spent_s += seconds;
        Ok(seconds)
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.spent_s)
    }
}

impl Work for FakeWork {
    fn facts(&self) -> WorkFacts {
        WorkFacts { name: "simulated".to_owned(), bytes: WORK_BYTES, pages: "simulated".to_owned() }
    }

    fn measure_figures(&mut self, _host: &HostFacts, chosen: &Configuration) -> Vec<ChipFigure> {
        let threads = u32::try_from(chosen.threads.get()).unwrap_or(u32::MAX);
        [NonZeroUsize::MIN, chosen.threads]
            .iter()
            .take(threads.min(2) as usize)
            .map(|threads| ChipFigure {
                quantity: ChipQuantity::PeakThroughput,
                level: None,
                working_set_bytes: None,
                threads: u32::try_from(threads.get()).unwrap_or(u32::MAX),
                value: 1e11 * threads.get() as f64,
                samples: vec![1e11 * threads.get() as f64],
                method: 1,
            })
            .collect()
    }
}
