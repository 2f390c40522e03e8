//! How an installation tells its caller where it stands, and hears that it should stop.
//!
//! Invariant: a cancelled operation leaves nothing behind but what was there before.

/// Where an installation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Another process is writing into the same folder; said once for each wait.
    Waiting,
    /// The wheel is on its way.
    Fetching {
        /// Bytes on disk so far.
        done_bytes: u64,
        /// Bytes of the whole wheel.
        total_bytes: u64,
    },
    /// The bytes are compared with the pinned hash.
    Checking,
    /// A member is being written.
    Unpacking {
        /// Its path inside the wheel.
        member: &'a str,
    },
    /// The package is in place.
    Done,
}

/// Receives the steps of an operation and may cancel it.
pub trait Progress {
    /// Takes note of a step; called often while fetching.
    fn step(&mut self, step: Step<'_>);

    /// Says whether the operation should stop; asked at least every 100 ms of waiting.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Ignores every step and never cancels.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&mut self, _: Step<'_>) {}
}
