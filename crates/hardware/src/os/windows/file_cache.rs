//! Putting a file out of the system's cache.
//!
//! Invariant: no share is told, since Windows tells none of a file that is not mapped here.

use std::fs::OpenOptions;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::Path;

use siliconroute_core::Reading;
use windows::Win32::Storage::FileSystem::FILE_FLAG_NO_BUFFERING;

use crate::file_cache::FileCache;

const UNTOLD: &str = "Windows does not tell which part of a file is in memory";

pub(crate) fn resident_share(_path: &Path) -> Reading<f64> {
    Reading::unavailable(UNTOLD)
}

/// Opens the file without the cache, for which Windows writes out and drops what it has cached of it, unless
/// the file is open with the cache or mapped elsewhere.
pub(crate) fn evict_from_file_cache(path: &Path) -> Reading<FileCache> {
    let opened = OpenOptions::new().read(true).custom_flags(FILE_FLAG_NO_BUFFERING.0).open(path);
    match opened.and_then(|file| file.metadata()) {
        Ok(metadata) => Reading::Available(FileCache {
            file_bytes: metadata.len(),
            resident_before: Reading::unavailable(UNTOLD),
            resident_after: Reading::unavailable(UNTOLD),
        }),
        Err(error) => Reading::unavailable(format!("{} cannot be opened: {error}", path.display())),
    }
}
