//! What one call of a pool reports about itself.
//!
//! Invariant: a count is exact, and a time is there only where it was asked for.

use std::time::Duration;

/// How the rows of one call were worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// Chunks that the body was called with.
    pub chunks: usize,
    /// Chunks that another thread worked on than a static split would have given their first row to.
    pub steals: usize,
    /// Whether the rows were shared.
    pub mode: Mode,
    /// Times, where they were asked for.
    pub timing: Option<Timing>,
}

/// Whether the rows of a call were shared among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They were offered to this many threads, the caller included.
    Shared {
        /// Threads for which there was a chunk.
        threads: usize,
    },
    /// The caller worked on all rows, as one chunk.
    Serial(SerialReason),
}

/// Why a call ran on its own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SerialReason {
    /// The pool has one thread.
    OneThread,
    /// There is one chunk, or there are fewer rows than pay for handing them over.
    FewRows,
    /// The call came from inside a body.
    Nested,
    /// Another thread was using the pool.
    PoolTaken,
}

/// Where the time of one call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// From before the job was handed over until all threads were done, in nanoseconds.
    pub wall_ns: u64,
    /// How long the caller, done with its own part, waited for the last worker, in nanoseconds.
    pub barrier_ns: u64,
    /// Each thread's part by its index; the caller is 0.
    pub threads: Vec<ThreadTime>,
}

/// One thread's part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// How long the thread worked on the job, in nanoseconds; 0 for one that did not come.
    pub busy_ns: u64,
    /// The rest of the call's time, in nanoseconds.
    pub idle_ns: u64,
}

impl ThreadTime {
    pub(super) fn new(busy: Duration, wall: Duration) -> Self {
        Self { busy_ns: nanoseconds(busy), idle_ns: nanoseconds(wall.saturating_sub(busy)) }
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
