//! The lookout: looks at the machine at a steady pace while a campaign runs, from a thread of its own.
//!
//! Invariant: the thread ends with the lookout, however that ends. One whose sensor hangs is let go instead, so that
//! no sensor keeps a campaign from ending; it holds the sensors and what it has seen, and nothing of the store.
//!
//! Reading order: this file (the thread and the ring of looks), `seen` (what a case is told of them).

mod seen;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use siliconroute_core::{Chip, Reading};
use siliconroute_hardware::{Conditions, Glance, detect_glance};

pub use self::seen::{ChipSeen, Seen, Spread};
use crate::identify::{ChipSample, OpenSensors, Sensors};

/// Time between two looks. Governors and heat act within seconds, and cases take from one second to a minute; at this
/// pace the looks take less than a thousandth of one core (`cargo bench -p siliconroute --bench measuring -- overhead`).
pub const PERIOD: Duration = Duration::from_secs(1);

/// Looks that are kept of a case, an hour's at the usual pace; beyond them the oldest go.
const MOST_LOOKS: usize = 3_600;

/// How long a campaign waits for a sensor, once at its start and once at its end.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of the thread.
const NAME: &str = "lookout";

/// What one look finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// The machine.
    pub glance: Glance,
    /// The chips beside the CPU.
    pub chips: Reading<Vec<ChipSample>>,
}

/// Looks once. It runs in the lookout's thread, so it may take its time; one that never returns is let go.
pub type Eyes = Box<dyn FnMut() -> Sighting + Send>;

/// Eyes for the running machine and for `chips`, whose sensors are opened by the first look.
pub fn machine_eyes(chips: Reading<Vec<Chip>>, open: OpenSensors) -> Eyes {
    let mut sensors: Option<Box<dyn Sensors>> = None;
    Box::new(move || Sighting {
        glance: detect_glance(),
        chips: match &chips {
            Reading::Available(chips) => {
                Reading::Available(sensors.get_or_insert_with(|| open(chips)).sample())
            }
            Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
        },
    })
}

/// Looks at the machine until it is stopped or dropped.
#[derive(Debug)]
pub struct Lookout {
    shared: Arc<Shared>,
    clock: SystemClock,
    period: Duration,
    patience: Duration,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    blind: Option<String>,
}

impl Lookout {
    /// Starts to look, once every `period`, and waits for the first look, which opens sensors.
    ///
    /// A thread that cannot be started is a reason in what was [`Self::seen`].
    pub fn start(eyes: Eyes, period: Duration) -> Self {
        Self::start_with(eyes, period, PATIENCE)
    }

    fn start_with(mut eyes: Eyes, period: Duration, patience: Duration) -> Self {
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
        let lookout = Self { shared, clock, period, patience, thread, blind };
        if lookout.thread.is_some() {
            drop(lookout.shared.wait(patience, |book| !book.looked && !book.ended));
        }
        lookout
    }

    /// Forgets what was seen before: a case begins.
    pub fn begin(&self) {
        self.shared.lock().begin(self.clock.now());
    }

    /// What was seen since the case began, its conditions `before` and `after` included where that tells of changes.
    pub fn seen(&self, before: &Conditions, after: &Conditions) -> Seen {
        let book = self.shared.lock();
        Seen::of(&book, self.clock.now(), self.period, self.blind.as_deref(), before, after)
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// When a sensor does not answer: the thread is let go and ends once it does.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let ended = self.shared.wait(self.patience, |book| !book.ended).ended;
        if !ended {
            return Err("a sensor has not answered, so what was seen while measuring is not complete; \
                `siliconroute doctor` shows which sensors there are"
                .to_owned());
        }
        thread.join().map_err(|_panic| "looking at the sensors ended by a fault of this program".to_owned())
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        if let Err(reason) = self.stop() {
            tracing::warn!("{reason}");
        }
    }
}

/// What the thread and the lookout share.
#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time` at most while `still` holds.
    fn wait(&self, time: Duration, mut still: impl FnMut(&mut Book) -> bool) -> MutexGuard<'_, Book> {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |book| still(book));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One look.
#[derive(Debug)]
struct Look {
    /// When it began, since the lookout started.
    at: Duration,
    /// How long it took.
    took: Duration,
    sighting: Sighting,
}

/// The ring of looks, and how the thread fares.
#[derive(Debug, Default)]
struct Book {
    looks: VecDeque<Look>,
    /// Looks of the case that had to go.
    overwritten: u64,
    /// When the case began.
    begun: Duration,
    /// When the look under way began.
    looking_since: Option<Duration>,
    /// Whether a look was ever finished.
    looked: bool,
    stop: bool,
    ended: bool,
}

impl Book {
    fn begin(&mut self, now: Duration) {
        self.looks.clear();
        (self.overwritten, self.begun) = (0, now);
    }

    fn write(&mut self, look: Look) {
        (self.looked, self.looking_since) = (true, None);
        // A look that was under way when the case began is not of the case.
        if look.at < self.begun {
            return;
        }
        if self.looks.len() == MOST_LOOKS {
            self.looks.pop_front();
            self.overwritten += 1;
        }
        self.looks.push_back(look);
    }
}

/// The time that the thread goes by.
trait Clock {
    /// Since the lookout started.
    fn now(&self) -> Duration;

    /// Waits until `due`; `false` when the thread is to end.
    fn wait_until(&self, due: Duration, shared: &Shared) -> bool;
}

#[derive(Debug, Clone, Copy)]
struct SystemClock {
    begin: Instant,
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wait_until(&self, due: Duration, shared: &Shared) -> bool {
        !shared.wait(due.saturating_sub(self.now()), |book| !book.stop).stop
    }
}

/// Looks at multiples of `period` until the clock says that it is enough; looks that came too late are left out.
fn keep_looking(shared: &Shared, eyes: &mut Eyes, clock: &impl Clock, period: Duration) {
    let mut due = clock.now();
    loop {
        let at = clock.now();
        shared.lock().looking_since = Some(at);
        let sighting = eyes();
        shared.lock().write(Look { at, took: clock.now().saturating_sub(at), sighting });
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
mod tests;
