//! A pool of threads that share the rows of one job after the other with the thread that calls.
//!
//! Invariant: `parallel_for` returns, or panics, only when no thread is in the body any more; that is what lets a body
//! borrow from its caller. The pool stays usable either way.
//!
//! Reading order: `dispatch` (what a call reports), `build`, `handover` (the protocol), `patience`
//! (how long to look), `sync`.

#![expect(unsafe_code, reason = "workers call a body that is borrowed from another thread")]

mod build;
mod dispatch;
mod handover;
mod patience;
mod sync;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use build::{PoolBuilder, PoolError, Spin};
pub use dispatch::{Dispatch, Mode, SerialReason, ThreadTime, Timing};

use crate::policy::{Chunking, Policy};
use handover::{Handover, Inside, Invited};
use patience::LearnedPatience;

thread_local! {
    /// Whether this thread is in a body, of whichever pool.
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
}

/// Persistent threads that work on ranges of rows together with the thread that calls.
///
/// The caller is thread 0 and counts; a pool of one has no worker. Workers wait for the next job by looking a while
/// and then sleeping, see [`Spin`].
///
/// - *Nested*: a call from inside a body, of this pool or of another, runs on the thread that makes it.
/// - *Concurrent*: of several threads that call at once one gets the workers; the others run their rows themselves
///   without waiting. [`Dispatch::mode`] tells which it was.
/// - *Panics*: a panic in a body reaches the caller after all threads have left the body; chunks that nobody had
///   claimed are left out. Of several panics one is passed on.
/// - *Dropping* ends the workers and waits for them.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    serial_below: usize,
}

/// What caller and workers have in common.
#[derive(Debug)]
struct Shared {
    handover: Handover<Job, LearnedPatience>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// How long each thread was in the body, by index; the caller's own place is not used.
    busy: Vec<BusyTime>,
}

/// Written by one worker while it counts in the gate, read by the caller when none counts.
#[derive(Debug)]
#[repr(align(128))]
struct BusyTime(UnsafeCell<Duration>);

// SAFETY: the hand-over orders accesses: a worker writes its own place between entering and leaving, the caller
// accesses it before it publishes and after it has waited.
unsafe impl Sync for BusyTime {}

/// A body whose type is forgotten, and the rows to give it.
#[derive(Debug, Clone, Copy)]
struct Job {
    body: *const (),
    /// Calls `body`, which must be of the type that this function was made for.
    call: unsafe fn(*const (), Range<usize>),
    chunking: Chunking,
    timed: bool,
}

// SAFETY: `body` points to a `Sync` closure, and `call` is a plain function.
unsafe impl Send for Job {}

// With the number of the job it fits one cache line of 64 bytes.
const _: () = assert!(size_of::<Job>() + size_of::<u64>() <= 64, "a job takes one cache line");

impl Job {
    fn new<F: Fn(Range<usize>) + Sync>(body: &F, chunking: Chunking, timed: bool) -> Self {
        /// # Safety
        /// `body` points to an `F` that is alive.
        unsafe fn call<F: Fn(Range<usize>)>(body: *const (), rows: Range<usize>) {
            // SAFETY: the caller promises it.
            (unsafe { &*body.cast::<F>() })(rows);
        }
        Self { body: std::ptr::from_ref(body).cast(), call: call::<F>, chunking, timed }
    }

    fn idle() -> Self {
        Self::new(&|_| (), Policy::Static.chunk(0, NonZeroUsize::MIN), false)
    }

    /// Works on chunk `first` and all that `claim` gives; returns how many belong to another thread's static share.
    ///
    /// # Safety
    /// The body is alive.
    unsafe fn run(
        &self,
        thread: usize,
        threads: usize,
        first: Option<usize>,
        claim: impl Fn() -> usize,
    ) -> usize {
        let share = self.chunking.total().div_ceil(threads).max(1);
        let mut steals = 0;
        let mut next = first.unwrap_or_else(&claim);
        while let Some(rows) = self.chunking.rows(next) {
            steals += usize::from(rows.start / share != thread);
            // SAFETY: the caller promises that the body is alive.
            unsafe { (self.call)(self.body, rows) };
            next = claim();
        }
        steals
    }
}

impl Shared {
    fn new(threads: usize, patience: LearnedPatience) -> Self {
        Self {
            handover: Handover::new(Job::idle(), patience),
            panic: Mutex::new(None),
            busy: (0..threads).map(|_| BusyTime(UnsafeCell::new(Duration::ZERO))).collect(),
        }
    }

    fn work(&self, index: usize, threads: usize, mut patience: LearnedPatience) {
        IN_BODY.set(true);
        let mut seen = 0;
        while let Some(inside) = self.handover.next_job(index, &mut seen, &mut patience) {
            let start = inside.job.timed.then(Instant::now);
            let outcome = catch_unwind(AssertUnwindSafe(|| Self::run_share(&inside, index, threads)));
            if let Some(start) = start {
                // SAFETY: the place is this worker's own, and it counts in the gate until `inside` is dropped.
                unsafe { *self.busy[index].0.get() = start.elapsed() };
            }
            if let Err(payload) = outcome {
                inside.abandon(inside.job.chunking.count());
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            }
        }
    }

    fn run_share(inside: &Inside<'_, Job, LearnedPatience>, index: usize, threads: usize) {
        let job = &inside.job;
        if job.chunking.is_claimed() {
            // SAFETY: the caller's body is alive as long as `inside` is.
            let steals = unsafe { job.run(index, threads, None, || inside.claim()) };
            inside.report_steals(steals);
        } else if let Some(rows) = job.chunking.rows(index) {
            // SAFETY: as above.
            unsafe { (job.call)(job.body, rows) };
        }
    }
}

impl Pool {
    /// Starts to describe a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::default()
    }

    /// The number of threads, the caller included.
    pub fn threads(&self) -> NonZeroUsize {
        NonZeroUsize::MIN.saturating_add(self.workers.len())
    }

    /// Sets the number of rows below which a call runs on the calling thread alone.
    pub fn set_serial_below(&mut self, rows: usize) {
        self.serial_below = rows;
    }

    /// Calls `body` with ranges that cover `0..rows` once, cut by `policy`, on all threads; returns what happened.
    ///
    /// # Panics
    /// If the body does, with its payload.
    pub fn parallel_for<F: Fn(Range<usize>) + Sync>(
        &self,
        rows: usize,
        policy: Policy,
        body: &F,
    ) -> Dispatch {
        self.dispatch(Job::new(body, policy.chunk(rows, self.threads()), false))
    }

    /// Does what [`parallel_for`](Self::parallel_for) does, and tells how long each thread worked and waited.
    ///
    /// That takes two readings of the clock on each thread.
    ///
    /// # Panics
    /// If the body does, with its payload.
    pub fn parallel_for_timed<F: Fn(Range<usize>) + Sync>(
        &self,
        rows: usize,
        policy: Policy,
        body: &F,
    ) -> Dispatch {
        self.dispatch(Job::new(body, policy.chunk(rows, self.threads()), true))
    }

    /// The job's body must be alive until this returns; both callers borrow it for longer.
    fn dispatch(&self, job: Job) -> Dispatch {
        let rows = job.chunking.total();
        let chunks = job.chunking.count();
        if IN_BODY.get() {
            return run_serially(&job, SerialReason::Nested);
        }
        if self.workers.is_empty() {
            return run_serially(&job, SerialReason::OneThread);
        }
        if chunks <= 1 || rows < self.serial_below {
            return run_serially(&job, SerialReason::FewRows);
        }
        let Some(mut turn) = self.shared.handover.take_turn() else {
            return run_serially(&job, SerialReason::PoolTaken);
        };
        let start = job.timed.then(|| self.reset_times());
        let threads = self.threads().get();
        let helpers = (chunks - 1).min(self.workers.len());
        let invited =
            if job.chunking.is_claimed() { Invited::Anyone(helpers) } else { Invited::First(helpers) };
        let wake = |index: usize| {
            if let Some(worker) = self.workers.get(index - 1) {
                worker.thread().unpark();
            }
        };
        let published = turn.publish(job, invited, 1, wake);
        IN_BODY.set(true);
        let own = catch_unwind(AssertUnwindSafe(|| {
            let claim = || if job.chunking.is_claimed() { published.claim() } else { chunks };
            // SAFETY: the body outlives this function.
            unsafe { job.run(0, threads, Some(0), claim) }
        }));
        IN_BODY.set(false);
        if own.is_err() {
            published.abandon(chunks);
        }
        let waits_since = job.timed.then(Instant::now);
        let reported = published.wait();
        let timing = start.zip(waits_since).map(|(start, waits_since)| self.timing(start, waits_since));
        let panicked = self.take_panic();
        drop(turn);
        match (own, panicked) {
            (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
            (Ok(steals), None) => Dispatch {
                chunks,
                steals: steals + reported,
                mode: Mode::Shared { threads: helpers + 1 },
                timing,
            },
        }
    }

    fn reset_times(&self) -> Instant {
        for place in &self.shared.busy {
            // SAFETY: this thread has the turn and has not published, so no worker counts in the gate.
            unsafe { *place.0.get() = Duration::ZERO };
        }
        Instant::now()
    }

    fn timing(&self, start: Instant, waits_since: Instant) -> Timing {
        let end = Instant::now();
        let wall = end - start;
        let barrier = end - waits_since;
        let mut threads: Vec<_> = self
            .shared
            .busy
            .iter()
            // SAFETY: this thread has the turn and has waited, so no worker counts in the gate.
            .map(|place| ThreadTime::new(unsafe { *place.0.get() }, wall))
            .collect();
        threads[0] = ThreadTime::new(waits_since - start, wall);
        Timing { wall_ns: dispatch::nanoseconds(wall), barrier_ns: dispatch::nanoseconds(barrier), threads }
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut self.workers);
        // Nobody else can have the turn, since nobody else can have the pool.
        if let Some(turn) = self.shared.handover.take_turn() {
            turn.stop(workers.len(), |index| workers[index - 1].thread().unpark());
        }
        for worker in workers {
            // A worker catches what its bodies throw, so there is nothing to pass on.
            drop(worker.join());
        }
    }
}

/// Gives the body all rows as one chunk.
fn run_serially(job: &Job, reason: SerialReason) -> Dispatch {
    /// Puts the mark back, also when the body panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_BODY.set(self.0);
        }
    }
    let rows = job.chunking.total();
    let start = job.timed.then(Instant::now);
    if rows != 0 {
        let _restore = Restore(IN_BODY.replace(true));
        // SAFETY: the callers' callers borrow the body.
        unsafe { (job.call)(job.body, 0..rows) };
    }
    let timing = start.map(|start| {
        let wall = start.elapsed();
        let nanoseconds = dispatch::nanoseconds(wall);
        Timing { wall_ns: nanoseconds, barrier_ns: 0, threads: vec![ThreadTime::new(wall, wall)] }
    });
    Dispatch { chunks: usize::from(rows != 0), steals: 0, mode: Mode::Serial(reason), timing }
}
