//! Two simple pools to compare with: one sleeps by parking as soon as there is nothing to do, one waits at a
//! condition variable.
//!
//! Invariant: a call returns when every thread has called the body once; nothing else is promised.

#![expect(unsafe_code, reason = "workers call a body that is borrowed from another thread")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};

type Body = dyn Fn(usize) + Sync;

/// A body of a call that is under way, or none at the end.
#[derive(Clone, Copy)]
struct Borrowed(Option<&'static Body>);

impl Borrowed {
    fn new(body: &Body) -> Self {
        // SAFETY: only the lifetime changes; the call that lends the body outlasts its use.
        Self(Some(unsafe { std::mem::transmute::<&Body, &'static Body>(body) }))
    }

    /// Calls the body; false at the end.
    fn call(self, index: usize) -> bool {
        self.0.map(|body| body(index)).is_some()
    }
}

/// Threads that park until the number of the job changes.
pub(crate) struct ParkPool {
    shared: Arc<Parked>,
    workers: Vec<JoinHandle<()>>,
}

struct Parked {
    number: AtomicU64,
    left: AtomicUsize,
    job: UnsafeCell<(Borrowed, Option<Thread>)>,
}

// SAFETY: the job is written while no worker is in one, and read after its number was; a body is `Sync`.
unsafe impl Sync for Parked {}

impl ParkPool {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Parked {
            number: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            job: UnsafeCell::new((Borrowed(None), None)),
        });
        let work = |index| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for number in 1.. {
                    while shared.number.load(Ordering::Acquire) < number {
                        thread::park();
                    }
                    // SAFETY: the number was read with acquire, and its job stays until this worker is done.
                    let (body, caller) = unsafe { &*shared.job.get() }.clone();
                    let goes_on = body.call(index);
                    if shared.left.fetch_sub(1, Ordering::AcqRel) == 1
                        && let Some(caller) = caller
                    {
                        caller.unpark();
                    }
                    if !goes_on {
                        break;
                    }
                }
            })
        };
        let workers = (1..threads).map(work).collect();
        Self { shared, workers }
    }

    pub(crate) fn call(&self, body: &Body) {
        self.publish(Borrowed::new(body));
        body(0);
        while self.shared.left.load(Ordering::Acquire) != 0 {
            thread::park();
        }
    }

    fn publish(&self, body: Borrowed) {
        // SAFETY: there is one caller, and it has waited for all workers.
        unsafe { *self.shared.job.get() = (body, Some(thread::current())) };
        self.shared.left.store(self.workers.len(), Ordering::Relaxed);
        self.shared.number.fetch_add(1, Ordering::AcqRel);
        for worker in &self.workers {
            worker.thread().unpark();
        }
    }
}

impl Drop for ParkPool {
    fn drop(&mut self) {
        self.publish(Borrowed(None));
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}

/// Threads that wait at a condition variable, as does their caller.
pub(crate) struct ConditionPool {
    shared: Arc<Conditioned>,
    workers: Vec<JoinHandle<()>>,
}

struct Conditioned {
    state: Mutex<State>,
    posted: Condvar,
    done: Condvar,
}

struct State {
    number: u64,
    left: usize,
    body: Borrowed,
}

impl ConditionPool {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Conditioned {
            state: Mutex::new(State { number: 0, left: 0, body: Borrowed(None) }),
            posted: Condvar::new(),
            done: Condvar::new(),
        });
        let work = |index| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for number in 1.. {
                    let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                    let state = shared.posted.wait_while(state, |state| state.number < number);
                    let body = state.unwrap_or_else(PoisonError::into_inner).body;
                    let goes_on = body.call(index);
                    let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.left -= 1;
                    if state.left == 0 {
                        shared.done.notify_one();
                    }
                    if !goes_on {
                        break;
                    }
                }
            })
        };
        let workers = (1..threads).map(work).collect();
        Self { shared, workers }
    }

    pub(crate) fn call(&self, body: &Body) {
        self.publish(Borrowed::new(body));
        body(0);
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.done.wait_while(state, |state| state.left != 0));
    }

    fn publish(&self, body: Borrowed) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.number += 1;
        state.left = self.workers.len();
        state.body = body;
        drop(state);
        self.shared.posted.notify_all();
    }
}

impl Drop for ConditionPool {
    fn drop(&mut self) {
        self.publish(Borrowed(None));
        self.workers.drain(..).for_each(|worker| drop(worker.join()));
    }
}
