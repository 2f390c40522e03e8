//! What the hand-over needs of the standard library, in one place.
//!
//! Invariant: `handover` takes its primitives from its parent's `sync` alone, so that the tests can compile the same
//! source against a model checker's primitives.

use std::cell;

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::thread::{Thread, current, park};

/// A cell that is accessed inside of closures, as a model checker wants it.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
