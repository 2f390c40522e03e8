//! Waits for a machine that others leave alone.
//!
//! Invariant: it looks only between measurements, and before both sides of a pair alike.

use std::thread;
use std::time::{Duration, Instant};

use siliconroute_core::Reading;
use siliconroute_hardware::detect_conditions;

const LOOK_FOR: Duration = Duration::from_millis(500);
/// Share of the machine that may be busy while this program does nothing.
const MOST_BUSY: f64 = 0.05;

/// How often a pair began on a quiet machine.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    patience: Duration,
    pairs: usize,
    undisturbed: usize,
}

impl Quiet {
    /// Waits up to `patience` before each pair; 0 looks once.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, ..Self::default() }
    }

    /// Waits until little else runs, as long as patience lasts.
    pub(crate) fn wait(&mut self) {
        let begin = Instant::now();
        self.pairs += 1;
        loop {
            let before = detect_conditions().cpu_times;
            thread::sleep(LOOK_FOR);
            match detect_conditions().cpu_times.busy_fraction_since(&before) {
                Reading::Available(busy) if busy <= MOST_BUSY => {
                    self.undisturbed += 1;
                    return;
                }
                Reading::Available(_) if begin.elapsed() < self.patience => {}
                Reading::Available(_) | Reading::Unavailable(_) => return,
            }
        }
    }

    /// What was found, in words.
    pub(crate) fn told(&self) -> String {
        format!("{} of {} pairs began on a quiet machine", self.undisturbed, self.pairs)
    }
}
