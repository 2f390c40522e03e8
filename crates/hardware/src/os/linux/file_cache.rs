//! Putting a file out of the page cache.
//!
//! Invariant: what the kernel was asked for and what is left are two readings.

use std::os::fd::AsRawFd as _;
use std::path::Path;

use siliconroute_core::Reading;

use crate::file_cache::FileCache;
use crate::os::unix::file_pages::{open_regular, share};

pub(crate) fn evict_from_file_cache(path: &Path) -> Reading<FileCache> {
    let (file, metadata) = match open_regular(path) {
        Ok(opened) => opened,
        Err(reason) => return Reading::Unavailable(reason),
    };
    let resident_before = share(path, &file, &metadata);
    // A page that was changed and not yet written stays.
    if let Err(error) = file.sync_data() {
        return Reading::unavailable(format!("{} cannot be written to its disk: {error}", path.display()));
    }
    // SAFETY: the descriptor is open; the call touches no memory of this program.
    let status = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if status != 0 {
        let error = std::io::Error::from_raw_os_error(status);
        return Reading::unavailable(format!("{} cannot be dropped from memory: {error}", path.display()));
    }
    Reading::Available(FileCache {
        file_bytes: metadata.len(),
        resident_before,
        resident_after: share(path, &file, &metadata),
    })
}
