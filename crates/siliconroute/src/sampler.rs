//! The sampler: looks at the machine at a steady pace, from a thread of its own, into a ring that readers share.
//!
//! Invariant: the thread ends with the sampler, however that ends. One whose sensor hangs is let go instead, so that no
//! sensor keeps anybody from ending; it holds the sensors and what it has seen, and nothing of the store, so that
//! looking never waits for the disk.
//!
//! Reading order: this file (the thread and the ring of looks), `eyes` (what one look finds), `patience` (sensors that
//! fail).

mod eyes;
mod patience;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use siliconroute_hardware::{Glance, MeterReading};

pub use eyes::{Attention, Details, Eyes, Meters, OpenMeters, Sighting, Watcher, machine_meters};

/// Time between two looks. Governors and heat act within seconds, and cases take from one second to a minute; at this
/// pace the looks take less than a thousandth of one core (`cargo bench -p siliconroute --bench measuring -- overhead`).
pub const PERIOD: Duration = Duration::from_secs(1);

/// Looks that the ring holds, an hour's at the usual pace; beyond them the oldest go.
pub(crate) const MOST_LOOKS: usize = 3_600;

/// How long one waits for a sensor, once at the start and once at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of the thread.
const NAME: &str = "sampler";

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Its number, counted from the sampler's start.
    pub number: u64,
    /// When it began, since the sampler started.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// What it found.
    pub sighting: Arc<Sighting>,
}

/// Looks at the machine until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: SystemClock,
    period: Duration,
    patience: Duration,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    blind: Option<String>,
}

impl Sampler {
    /// Starts to look, once every `period`, and waits for the first look, which opens sensors.
    ///
    /// A thread that cannot be started is a reason, in [`Self::blind`].
    pub fn start(eyes: Eyes, period: Duration) -> Self {
        Self::start_with(eyes, period, PATIENCE)
    }

    pub(crate) fn start_with(mut eyes: Eyes, period: Duration, patience: Duration) -> Self {
        let (shared, clock) = (Arc::new(Shared::default()), SystemClock { begin: Instant::now() });
        let own = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            let _end = TellEnd(&own);
            keep_looking(&own, &mut eyes, &clock, period);
        });
        let (thread, blind) = match spawned {
            Ok(thread) => (Some(thread), None),
            Err(error) => (None, Some(format!("the thread that looks could not be started: {error}"))),
        };
        let sampler = Self { shared, clock, period, patience, thread, blind };
        if sampler.thread.is_some() {
            drop(sampler.shared.wait(patience, |ring| !ring.looked && !ring.ended));
        }
        sampler
    }

    /// Time between two looks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The time now, on the scale of [`Look::at`].
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Why nobody looks, where that is so.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// How many looks were taken, which is the number of the next one.
    pub fn looks_taken(&self) -> u64 {
        self.shared.lock().next
    }

    /// The looks from `number` on that the ring still holds, at most so many, oldest first.
    pub fn looks_from(&self, number: u64, most: usize) -> Vec<Look> {
        let ring = self.shared.lock();
        ring.looks.iter().filter(|look| look.number >= number).take(most).cloned().collect()
    }

    /// Waits for the look `number`, for `time` at most; `false` where it has not come, nor will while a sensor hangs.
    pub fn wait_for(&self, number: u64, time: Duration) -> bool {
        self.shared.wait(time, |ring| ring.next <= number && !ring.ended).next > number
    }

    /// For how long the look under way has lasted, where that is longer than a period: a sensor does not answer.
    pub fn unanswered(&self) -> Option<Duration> {
        let since = self.shared.lock().looking_since?;
        Some(self.now().saturating_sub(since)).filter(|time| *time >= self.period)
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.blind.is_some() || self.shared.lock().ended
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When a sensor does not answer: the thread is let go and ends once it does.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let ended = self.shared.wait(self.patience, |ring| !ring.ended).ended;
        if !ended {
            return Err("a sensor has not answered, so what was seen while measuring is not complete; \
                `siliconroute doctor` shows which sensors there are"
                .to_owned());
        }
        thread.join().map_err(|_panic| "looking at the sensors ended by a fault of this program".to_owned())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        if let Err(reason) = self.stop() {
            tracing::warn!("{reason}");
        }
    }
}

/// What the thread and the sampler share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    ring: Mutex<Ring>,
    changed: Condvar,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time` at most while `still` holds.
    pub(crate) fn wait(
        &self,
        time: Duration,
        mut still: impl FnMut(&mut Ring) -> bool,
    ) -> MutexGuard<'_, Ring> {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |ring| still(ring));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The ring of looks, and how the thread fares.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    pub(crate) looks: VecDeque<Look>,
    /// The number of the next look.
    pub(crate) next: u64,
    /// When the look under way began.
    pub(crate) looking_since: Option<Duration>,
    /// Whether a look was ever finished.
    pub(crate) looked: bool,
    stop: bool,
    pub(crate) ended: bool,
}

impl Ring {
    pub(crate) fn write(&mut self, at: Duration, took: Duration, sighting: Sighting) {
        (self.looked, self.looking_since) = (true, None);
        if self.looks.len() == MOST_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(Look { number: self.next, at, took, sighting: Arc::new(sighting) });
        self.next += 1;
    }
}

/// The time that the thread goes by.
pub(crate) trait Clock {
    /// Since the sampler started.
    fn now(&self) -> Duration;

    /// Waits until `due`; `false` when the thread is to end.
    fn wait_until(&self, due: Duration, shared: &Shared) -> bool;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock {
    begin: Instant,
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wait_until(&self, due: Duration, shared: &Shared) -> bool {
        !shared.wait(due.saturating_sub(self.now()), |ring| !ring.stop).stop
    }
}

/// Looks at multiples of `period` until the clock says that it is enough; looks that came too late are left out.
pub(crate) fn keep_looking(shared: &Shared, eyes: &mut Eyes, clock: &impl Clock, period: Duration) {
    let mut due = clock.now();
    loop {
        let at = clock.now();
        shared.lock().looking_since = Some(at);
        let sighting = eyes(at);
        shared.lock().write(at, clock.now().saturating_sub(at), sighting);
        shared.changed.notify_all();
        let late = clock.now().saturating_sub(due).as_nanos() / period.as_nanos().max(1);
        due += period * u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
        if !clock.wait_until(due, shared) {
            return;
        }
    }
}

/// Tells that the thread has ended, also where it panics.
struct TellEnd<'s>(&'s Shared);

impl Drop for TellEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
pub(crate) mod tests;
