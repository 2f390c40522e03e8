//! How one thread hands a job to waiting workers and learns that they are done with it.
//!
//! Invariant: a job is read by workers that count in the gate alone, and written only while none counts. Both sides of
//! each decision to sleep are one atomic word, so that no wake-up can be lost: `word` for workers, `gate` for callers.

#![expect(unsafe_code, reason = "the job lies in a cell that the protocol guards")]

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering, Thread, UnsafeCell, current, park, spin_loop,
};

/// Workers that one hand-over can serve.
pub(super) const MOST_WORKERS: usize = 2000;

// The word, from its low bits on: workers that sleep, workers that are invited, number of the job.
const FIELD_BITS: u32 = 12;
const FIELD: u64 = (1 << FIELD_BITS) - 1;
const ANYONE: u64 = FIELD;
const STOP: u64 = FIELD - 1;
const ONE_JOB: u64 = 1 << (2 * FIELD_BITS);

// The gate: workers in the job, and two marks.
const OPEN: u64 = 1 << 63;
const CALLER_SLEEPS: u64 = 1 << 62;
const INSIDE: u64 = CALLER_SLEEPS - 1;

/// Keeps what is written by one side apart from what the other side writes: two lines, since processors fetch pairs.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLines<T>(T);

/// Who works on a job beside its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invited {
    /// The workers `1..=n`, each of which must come.
    First(usize),
    /// Whoever comes while there is something left; at most this many are woken.
    Anyone(usize),
}

/// How a waiting thread divides its time between looking and sleeping.
pub(super) trait Patience {
    /// How often to look in the wait that begins.
    fn looks(&mut self) -> u32;
    /// Notes that looking found what was waited for.
    fn looking_paid(&mut self);
    /// Sleeps, which `sleep` does; `looked` tells whether that was after looking in vain.
    fn sleep(&mut self, looked: bool, sleep: impl FnOnce());
}

/// The one place over which jobs are handed.
#[derive(Debug)]
pub(super) struct Handover<J, P> {
    /// What waiting workers look at: number and job on one line, so that seeing a job costs one transfer.
    job: OwnLines<(AtomicU64, UnsafeCell<J>)>,
    gate: OwnLines<Gate>,
    /// Whether a caller has the turn, and the patience of whoever has it.
    turn: OwnLines<(AtomicBool, UnsafeCell<P>)>,
    /// The caller that sleeps: written by it before it marks the gate, read by the worker that finds the mark.
    sleeper: UnsafeCell<Option<Thread>>,
}

#[derive(Debug)]
struct Gate {
    inside: AtomicU64,
    next_chunk: AtomicUsize,
    steals: AtomicUsize,
}

// SAFETY: the cells are the only parts that are not `Sync`. The gate orders accesses to the job and to the sleeper, and
// the turn those to the patience; all go from thread to thread, hence `Send`.
unsafe impl<J: Copy + Send, P: Send> Sync for Handover<J, P> {}

impl<J: Copy + Send, P: Patience> Handover<J, P> {
    /// Returns a hand-over without a job; `idle` is never given to a worker. Callers wait with `patience`.
    pub(super) fn new(idle: J, patience: P) -> Self {
        let gate =
            Gate { inside: AtomicU64::new(0), next_chunk: AtomicUsize::new(0), steals: AtomicUsize::new(0) };
        Self {
            job: OwnLines((AtomicU64::new(0), UnsafeCell::new(idle))),
            gate: OwnLines(gate),
            turn: OwnLines((AtomicBool::new(false), UnsafeCell::new(patience))),
            sleeper: UnsafeCell::new(None),
        }
    }

    /// Takes the turn to hand over a job, unless another caller has it.
    pub(super) fn take_turn(&self) -> Option<Turn<'_, J, P>> {
        let taken = self.turn.0.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Turn { handover: self })
    }

    /// Waits, as worker `index` (from 1), for a job to work on; `None` when no more will come.
    ///
    /// `seen` is the worker's own note of the last job it knows of, 0 at first.
    pub(super) fn next_job(
        &self,
        index: usize,
        seen: &mut u64,
        patience: &mut P,
    ) -> Option<Inside<'_, J, P>> {
        let word = &self.job.0.0;
        let most = patience.looks();
        let mut looks = 0;
        loop {
            let now = word.load(Ordering::Acquire);
            if now / ONE_JOB != *seen {
                *seen = now / ONE_JOB;
                let invited = (now >> FIELD_BITS) & FIELD;
                if invited == STOP {
                    return None;
                }
                let counts = if invited == ANYONE { self.enter() } else { index as u64 <= invited };
                if counts {
                    if looks != 0 {
                        patience.looking_paid();
                    }
                    // SAFETY: this worker counts in the gate until `Inside` is dropped, and nobody writes before;
                    // what was written comes before the word or the open gate, which were read with acquire.
                    let job = self.job.0.1.with(|job| unsafe { *job });
                    return Some(Inside { handover: self, job });
                }
            } else if looks < most {
                looks += 1;
                spin_loop();
            } else if word.compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                patience.sleep(looks != 0, || {
                    while word.load(Ordering::Acquire) / ONE_JOB == *seen {
                        park();
                    }
                });
                word.fetch_sub(1, Ordering::AcqRel);
                // What was learned from these looks is learned.
                looks = 0;
            }
        }
    }

    fn enter(&self) -> bool {
        let inside = &self.gate.0.inside;
        // A guess instead of a look: it takes the line for writing at once.
        let mut now = OPEN;
        while now & OPEN != 0 {
            match inside.compare_exchange(now, now + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    fn leave(&self) {
        let before = self.gate.0.inside.fetch_sub(1, Ordering::AcqRel);
        if before == CALLER_SLEEPS | 1 {
            // SAFETY: it was written before the mark, and is not written again until the mark is gone.
            let caller = self.sleeper.with(|place| unsafe { (*place).clone() });
            self.gate.0.inside.store(0, Ordering::Release);
            if let Some(caller) = caller {
                caller.unpark();
            }
        }
    }

    /// Publishes the next word and wakes those of the first `workers` that may sleep.
    fn announce(&self, invited: u64, workers: usize, mut wake: impl FnMut(usize)) {
        let word = &self.job.0.0;
        let now = word.load(Ordering::Relaxed);
        // Only the holder of the turn changes these bits, while workers come and go in the ones below.
        let high = !FIELD;
        let next = (now & high & !(FIELD << FIELD_BITS)).wrapping_add(ONE_JOB) | (invited << FIELD_BITS);
        let before = word.fetch_add(next.wrapping_sub(now & high), Ordering::AcqRel);
        if before & FIELD != 0 {
            (1..=workers).for_each(&mut wake);
        }
    }

    fn close_and_wait(&self, open: bool, patience: &mut P) {
        let inside = &self.gate.0.inside;
        let mut now =
            if open { inside.fetch_and(!OPEN, Ordering::AcqRel) } else { inside.load(Ordering::Acquire) };
        if now & INSIDE == 0 {
            return;
        }
        let most = patience.looks();
        for _ in 0..most {
            spin_loop();
            now = inside.load(Ordering::Acquire);
            if now & INSIDE == 0 {
                patience.looking_paid();
                return;
            }
        }
        patience.sleep(most != 0, || self.sleep_until_empty());
    }

    fn sleep_until_empty(&self) {
        let inside = &self.gate.0.inside;
        // SAFETY: only the holder of the turn sleeps here, and the worker that read the last sleeper has let go of it.
        self.sleeper.with_mut(|place| unsafe { *place = Some(current()) });
        if inside.fetch_or(CALLER_SLEEPS, Ordering::AcqRel) & INSIDE == 0 {
            return;
        }
        // Not before the mark is gone, which the last worker takes away when it has read who sleeps.
        while inside.load(Ordering::Acquire) != 0 {
            park();
        }
    }
}

/// The right to hand over jobs; given back when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a, J, P> {
    handover: &'a Handover<J, P>,
}

impl<J: Copy + Send, P: Patience> Turn<'_, J, P> {
    /// Hands over a job whose first `claimed` chunks are the caller's, and wakes invited workers through `wake`.
    ///
    /// Whatever `job` points to must stay valid until the returned value is dropped.
    pub(super) fn publish(
        &mut self,
        job: J,
        invited: Invited,
        claimed: usize,
        wake: impl FnMut(usize),
    ) -> Published<'_, J, P> {
        let handover = self.handover;
        // SAFETY: the turn is exclusive, and every earlier job was waited for, so no worker counts in the gate.
        handover.job.0.1.with_mut(|place| unsafe { *place = job });
        handover.gate.0.next_chunk.store(claimed, Ordering::Relaxed);
        handover.gate.0.steals.store(0, Ordering::Relaxed);
        let (inside, field, workers) = match invited {
            Invited::First(workers) => (workers as u64, workers as u64, workers),
            Invited::Anyone(workers) => (OPEN, ANYONE, workers),
        };
        handover.gate.0.inside.store(inside, Ordering::Release);
        handover.announce(field, workers, wake);
        Published { handover, open: field == ANYONE }
    }

    /// Tells all `workers` that no more jobs will come.
    pub(super) fn stop(self, workers: usize, wake: impl FnMut(usize)) {
        self.handover.announce(STOP, workers, wake);
    }
}

impl<J, P> Drop for Turn<'_, J, P> {
    fn drop(&mut self) {
        self.handover.turn.0.0.store(false, Ordering::Release);
    }
}

/// A job that workers may be working on; dropping it waits for them.
#[derive(Debug)]
pub(super) struct Published<'a, J: Copy + Send, P: Patience> {
    handover: &'a Handover<J, P>,
    open: bool,
}

impl<J: Copy + Send, P: Patience> Published<'_, J, P> {
    /// Claims the next chunk for the caller.
    pub(super) fn claim(&self) -> usize {
        self.handover.gate.0.next_chunk.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves no chunk before `count` to be claimed.
    pub(super) fn abandon(&self, count: usize) {
        self.handover.gate.0.next_chunk.fetch_max(count, Ordering::Relaxed);
    }

    /// Waits for the workers, and returns how many chunks they reported as stolen.
    pub(super) fn wait(self) -> usize {
        let handover = self.handover;
        drop(self);
        handover.gate.0.steals.load(Ordering::Relaxed)
    }
}

impl<J: Copy + Send, P: Patience> Drop for Published<'_, J, P> {
    fn drop(&mut self) {
        self.handover.turn.0.1.with_mut(|patience| {
            // SAFETY: the turn, which this borrows, is exclusive.
            self.handover.close_and_wait(self.open, unsafe { &mut *patience });
        });
    }
}

/// A worker's share in a job; the caller waits until it is dropped.
#[derive(Debug)]
pub(super) struct Inside<'a, J: Copy + Send, P: Patience> {
    handover: &'a Handover<J, P>,
    /// What was published.
    pub(super) job: J,
}

impl<J: Copy + Send, P: Patience> Inside<'_, J, P> {
    /// Claims the next chunk for this worker.
    pub(super) fn claim(&self) -> usize {
        self.handover.gate.0.next_chunk.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves no chunk before `count` to be claimed.
    pub(super) fn abandon(&self, count: usize) {
        self.handover.gate.0.next_chunk.fetch_max(count, Ordering::Relaxed);
    }

    /// Reports chunks that this worker took from another's share.
    pub(super) fn report_steals(&self, steals: usize) {
        if steals != 0 {
            self.handover.gate.0.steals.fetch_add(steals, Ordering::Relaxed);
        }
    }
}

impl<J: Copy + Send, P: Patience> Drop for Inside<'_, J, P> {
    fn drop(&mut self) {
        self.handover.leave();
    }
}
