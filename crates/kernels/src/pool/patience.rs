//! How long a thread looks before it sleeps, learned from what its looking was good for.
//!
//! Invariant: on a machine with a core for each thread looking pays and goes on. Where threads share a core, a thread
//! that looks keeps the one it waits for from running: each look then fails, and the wait is over soon after the thread
//! goes to sleep. That is how it is told from work that simply takes long.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::handover::Patience;

/// Sleep from which on a wait says nothing about looking: there was no work, or long work.
const LONG: Duration = Duration::from_millis(1);
/// Waits without looking after the first vain look, doubled by each that follows.
const FEWEST_BLIND: u32 = 4;
/// At the most; a vain look costs some tens of microseconds, so that all of them cost a few hundredths of the waits.
const MOST_BLIND: u32 = 512;

/// The patience of one waiting thread.
#[derive(Debug, Clone)]
pub(super) struct LearnedPatience {
    most_looks: u32,
    /// Waits without looking that follow the next vain look; 0 when the last look was not vain.
    next_blind: u32,
    /// Waits without looking that are left.
    blind: u32,
}

impl LearnedPatience {
    /// Returns the patience of a thread that looks at most so often; 0 never looks.
    pub(super) fn new(most_looks: u32) -> Self {
        Self { most_looks, next_blind: 0, blind: 0 }
    }

    fn learn(&mut self, looked: bool, slept: Duration) {
        if slept >= LONG {
            // What was true before may have changed meanwhile.
            self.blind = 0;
        } else if looked {
            self.next_blind = (self.next_blind * 2).clamp(FEWEST_BLIND, MOST_BLIND);
            self.blind = self.next_blind;
        }
    }
}

impl Patience for LearnedPatience {
    fn looks(&mut self) -> u32 {
        if self.blind == 0 {
            return self.most_looks;
        }
        self.blind -= 1;
        0
    }

    fn looking_paid(&mut self) {
        self.next_blind = 0;
    }

    fn sleep(&mut self, looked: bool, sleep: impl FnOnce()) {
        if self.most_looks == 0 {
            return sleep();
        }
        let start = Instant::now();
        sleep();
        self.learn(looked, start.elapsed());
    }
}
