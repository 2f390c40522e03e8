//! The order in which targets take their turns.
//!
//! Invariant: the same seed gives the same sequence of orders.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A reproducible sequence of orders.
pub(super) struct Shuffle(Xoshiro256PlusPlus);

impl Shuffle {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The numbers below `count` in the next order (Fisher and Yates).
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = (self.0.next_u64() % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
        order
    }
}
