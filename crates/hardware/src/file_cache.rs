//! The system's cache of file contents: how much of a file is in it, and putting a file out of it.
//!
//! A cold start from a cached file and one from the disk differ by the disk's speed, so a trial has to know
//! which of them it was. Invariant: a share is what the system tells, never what it was asked to do.

use std::path::Path;

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

/// What was done to a file's place in the cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileCache {
    /// The file's length.
    pub file_bytes: u64,
    /// The share of it that was in memory before, 0 to 1; 0 for an empty file.
    pub resident_before: Reading<f64>,
    /// The share that is still in memory: what other programs, or this one, have mapped stays.
    pub resident_after: Reading<f64>,
}

/// The share of the file at `path` that is in memory, 0 to 1; 0 for an empty file.
pub fn resident_share(path: &Path) -> Reading<f64> {
    crate::os::resident_share(path)
}

/// Asks the system to drop the file at `path` from its cache, after writing what was changed.
///
/// Linux drops every page that no program has mapped. Windows drops them when nobody has the file open or
/// mapped, and tells no share. macOS lets only administrators do it, and for all files at once.
pub fn evict_from_file_cache(path: &Path) -> Reading<FileCache> {
    crate::os::evict_from_file_cache(path)
}

#[cfg(test)]
mod tests;
