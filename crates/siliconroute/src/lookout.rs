//! The lookout: what the sampler saw while a campaign ran, case by case.
//!
//! Invariant: a reader of the sampler's ring and nothing more; what a case is told is a pure function of the looks.
//!
//! Reading order: this file (whose looks count), `seen` (what a case is told of them).

mod seen;

use std::cell::Cell;
use std::time::Duration;

use siliconroute_hardware::Conditions;

pub use self::seen::{ChipSeen, Seen, Spread};
use crate::identify::ChipSample;
use crate::sampler::{Eyes, Look, Ring, Sampler, Shared};

/// Tells what was seen while a case was measured.
#[derive(Debug)]
pub struct Lookout {
    sampler: Sampler,
    /// When the case began, and the first look that may be of it.
    begun: Cell<(Duration, u64)>,
}

impl Lookout {
    /// Starts to look, once every `period`, and waits for the first look, which opens sensors.
    ///
    /// A thread that cannot be started is a reason in what was [`Self::seen`].
    pub fn start(eyes: Eyes, period: Duration) -> Self {
        Self::over(Sampler::start(eyes, period))
    }

    fn over(sampler: Sampler) -> Self {
        Self { sampler, begun: Cell::default() }
    }

    /// The sampler, for other readers of its ring.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// A case begins: what was seen before is not of it.
    pub fn begin(&self) {
        let now = self.sampler.now();
        self.begun.set((now, first_look(&self.sampler.shared)));
    }

    /// What was seen since the case began, its conditions `before` and `after` included where that tells of changes.
    pub fn seen(&self, before: &Conditions, after: &Conditions) -> Seen {
        let ((begun, first), now) = (self.begun.get(), self.sampler.now());
        let ring = self.sampler.shared.lock();
        let looks = CaseView::since(&ring, begun, first);
        Seen::of(&looks, now, self.sampler.period(), self.sampler.blind(), before, after)
    }

    /// Ends the looking.
    ///
    /// # Errors
    /// When a sensor does not answer: the thread is let go and ends once it does.
    pub fn stop(&mut self) -> Result<(), String> {
        self.sampler.stop()
    }
}

/// The number of the first look of a case that begins now: one that is under way is not of it.
fn first_look(shared: &Shared) -> u64 {
    let ring = shared.lock();
    ring.next + u64::from(ring.looking_since.is_some())
}

/// The looks of one case.
#[derive(Debug)]
struct CaseView<'r> {
    looks: Vec<&'r Look>,
    /// Looks of the case that had to go.
    overwritten: u64,
    /// When the case began.
    begun: Duration,
    /// When the look under way began.
    looking_since: Option<Duration>,
    /// Whether the thread has ended.
    ended: bool,
}

impl<'r> CaseView<'r> {
    /// The looks that began at `begun` or later, of which `first` is the first.
    fn since(ring: &'r Ring, begun: Duration, first: u64) -> Self {
        Self {
            looks: ring.looks.iter().filter(|look| look.number >= first && look.at >= begun).collect(),
            overwritten: ring.looks.front().map_or(0, |oldest| oldest.number.saturating_sub(first)),
            begun,
            looking_since: ring.looking_since,
            ended: ring.ended,
        }
    }
}

#[cfg(test)]
mod tests;
