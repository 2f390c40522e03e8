//! Which pages of a file are in memory.
//!
//! Invariant: the file's contents are never touched, so nothing is read into memory by looking.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use siliconroute_core::Reading;

/// The part of a file that is looked at in one call; a multiple of every page size.
const WINDOW_BYTES: u64 = 256 << 20;

/// The share of the file at `path` that is in memory.
pub(crate) fn resident_share(path: &Path) -> Reading<f64> {
    match open_regular(path) {
        Ok((file, metadata)) => share(path, &file, &metadata),
        Err(reason) => Reading::Unavailable(reason),
    }
}

/// Opens a file that has pages: a folder has none, and opening a pipe would wait.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), String> {
    let failure = |error: &io::Error| format!("{} cannot be opened: {error}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| failure(&error))?;
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let file = File::open(path).map_err(|error| failure(&error))?;
    Ok((file, metadata))
}

pub(crate) fn share(path: &Path, file: &File, metadata: &Metadata) -> Reading<f64> {
    if metadata.len() == 0 {
        return Reading::Available(0.0);
    }
    if !may_look(path, metadata) {
        // The kernel would show every page as present, so that nobody learns what others read.
        return Reading::unavailable(format!(
            "{}: the system tells which pages are in memory only to those who may write the file",
            path.display()
        ));
    }
    super::page_bytes().and_then(|page| match count(file, metadata.len(), page) {
        Ok(resident) => Reading::Available(resident as f64 / metadata.len().div_ceil(page) as f64),
        Err(error) => {
            Reading::unavailable(format!("{}: the pages in memory cannot be told: {error}", path.display()))
        }
    })
}

/// Whether this process owns the file or may write it.
fn may_look(path: &Path, metadata: &Metadata) -> bool {
    // SAFETY: the call reads the process's user and touches no memory.
    let user = unsafe { libc::geteuid() };
    let Ok(text) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the text ends with a NUL.
    user == 0 || metadata.uid() == user || unsafe { libc::access(text.as_ptr(), libc::W_OK) } == 0
}

/// The number of pages of the file's first `bytes` that are in memory.
fn count(file: &File, bytes: u64, page: u64) -> io::Result<u64> {
    let too_large = || io::Error::other("the file is larger than this system can map");
    let mut resident = 0;
    let mut start = 0;
    while start < bytes {
        let window = WINDOW_BYTES.min(bytes - start);
        let length = usize::try_from(window).map_err(|_too_large| too_large())?;
        let offset = libc::off_t::try_from(start).map_err(|_too_large| too_large())?;
        // SAFETY: a new mapping without access, at a place of the system's choice, hides no memory of this
        // program.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_NONE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = usize::try_from(window.div_ceil(page)).map_err(|_too_large| too_large())?;
        let mut states = vec![0_u8; pages];
        // SAFETY: the mapping has that length, and the states one byte for each of its pages.
        let status = unsafe { libc::mincore(mapping.cast(), length, states.as_mut_ptr().cast()) };
        let failure = (status != 0).then(io::Error::last_os_error);
        // SAFETY: the mapping was made above with that length and is not used again. A failure leaves nothing
        // to do.
        let _unmapped = unsafe { libc::munmap(mapping, length) };
        if let Some(failure) = failure {
            return Err(failure);
        }
        resident += states.iter().filter(|state| **state & 1 != 0).count() as u64;
        start += window;
    }
    Ok(resident)
}
