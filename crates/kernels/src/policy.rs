//! How a range of rows is cut into chunks for the threads of a pool.
//!
//! Invariant: for every policy, number of rows and number of threads, the chunks cover each row exactly once.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A rule that cuts rows into chunks.
///
/// A static rule gives each thread one chunk of its own; the others let threads claim chunks from one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Policy {
    /// One chunk for each thread, of ⌈rows ÷ threads⌉ rows; nothing is claimed.
    Static,
    /// Chunks of 8 rows.
    Fixed8,
    /// Chunks of 16 rows.
    Fixed16,
    /// Chunks of 32 rows.
    Fixed32,
    /// Chunks of max(1, rows ÷ (2 · threads)) rows.
    Proportional2,
    /// Chunks of max(1, rows ÷ (4 · threads)) rows.
    Proportional4,
    /// Chunks of max(16, rows ÷ (4 · threads)) rows.
    Adaptive,
}

impl Policy {
    /// All policies, in the order of their definition.
    pub const ALL: [Self; 7] = [
        Self::Static,
        Self::Fixed8,
        Self::Fixed16,
        Self::Fixed32,
        Self::Proportional2,
        Self::Proportional4,
        Self::Adaptive,
    ];

    /// The name, as it stands in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "Static",
            Self::Fixed8 => "Fixed8",
            Self::Fixed16 => "Fixed16",
            Self::Fixed32 => "Fixed32",
            Self::Proportional2 => "Proportional2",
            Self::Proportional4 => "Proportional4",
            Self::Adaptive => "Adaptive",
        }
    }

    /// Cuts `rows` for `threads`.
    pub fn chunk(self, rows: usize, threads: NonZeroUsize) -> Chunking {
        let threads = threads.get();
        let size = match self {
            Self::Static => rows.div_ceil(threads),
            Self::Fixed8 => 8,
            Self::Fixed16 => 16,
            Self::Fixed32 => 32,
            Self::Proportional2 => rows / threads.saturating_mul(2),
            Self::Proportional4 => rows / threads.saturating_mul(4),
            Self::Adaptive => (rows / threads.saturating_mul(4)).max(16),
        };
        Chunking { rows, size: size.max(1), claimed: self != Self::Static }
    }
}

/// Rows cut into chunks of one size; the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    rows: usize,
    size: usize,
    claimed: bool,
}

impl Chunking {
    /// How many chunks there are.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.size)
    }

    /// How many rows there are in all chunks together.
    pub fn total(&self) -> usize {
        self.rows
    }

    /// Rows of a whole chunk.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether threads claim chunks; otherwise chunk `i` belongs to thread `i`.
    pub fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// The rows of chunk `index`; none beyond the last chunk.
    pub fn rows(&self, index: usize) -> Option<Range<usize>> {
        let start = index.checked_mul(self.size).filter(|start| *start < self.rows)?;
        Some(start..self.rows.min(start.saturating_add(self.size)))
    }
}
