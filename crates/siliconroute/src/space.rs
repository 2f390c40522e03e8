//! Room on a disk, asked for before something large is written.
//!
//! Invariant: whoever lacks room is told where, how much is needed, how much is free and what to do; nothing
//! half-written stays.

use std::fmt;
use std::io;
use std::path::PathBuf;

use siliconroute_core::Reading;
pub use siliconroute_hardware::let_large_writes_fail;

use crate::wording::binary_size;

/// What stays free in a home beside its models, so that measurements can still be recorded.
///
/// The log beside the store alone grows to 4 MiB before it is moved into the store.
pub(crate) const STORE_RESERVE_BYTES: u64 = 8 << 20;

/// What to do about a full disk in a home.
pub(crate) const HOME_HINT: &str =
    "free some space on that disk, or choose another home with --home or SILICONROUTE_HOME";

/// A disk has too little room for a file.
#[derive(Debug)]
pub struct NoSpace {
    /// The file that was to be written.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub needed_bytes: u64,
    /// What must stay free beside it, in bytes.
    pub reserve_bytes: u64,
    /// What is free on the disk, in bytes.
    pub free_bytes: Reading<u64>,
    /// Whether the file was to lie in the home, and not where the user wanted it.
    pub in_home: bool,
}

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, needed_bytes, reserve_bytes, free_bytes, in_home: _ } = self;
        write!(f, "no space for `{}`: it needs {}", path.display(), binary_size(*needed_bytes))?;
        if *reserve_bytes > 0 {
            write!(f, " and the store beside it {}", binary_size(*reserve_bytes))?;
        }
        match free_bytes {
            Reading::Available(free) => write!(f, ", and {} are free on that disk", binary_size(*free)),
            Reading::Unavailable(reason) => write!(f, ", and how much is free is not known ({reason})"),
        }
    }
}

impl std::error::Error for NoSpace {}

impl NoSpace {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        if self.in_home { HOME_HINT } else { "free some space on that disk, or write to another one" }
    }

    /// Refuses a file where the disk is known to have too little room for it.
    pub(crate) fn check(self) -> Result<(), Self> {
        let enough = |free: &u64| *free >= self.needed_bytes.saturating_add(self.reserve_bytes);
        if self.free_bytes.available().is_none_or(enough) { Ok(()) } else { Err(self) }
    }
}

/// Whether there is no room left, on the disk or in the user's share of it.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a file found no room, on the disk or within the limit on the size of files.
pub(crate) fn lacks_room(error: &io::Error) -> bool {
    room_hint(error).is_some()
}

/// What to do where a file in the home finds no room; `None` where that is not what `error` says.
pub(crate) fn room_hint(error: &io::Error) -> Option<&'static str> {
    if is_disk_full(error) { Some(HOME_HINT) } else { file_limit_hint(error) }
}

/// What to do where a file is larger than the system lets this program write one, however much is free.
pub(crate) fn file_limit_hint(error: &io::Error) -> Option<&'static str> {
    (error.kind() == io::ErrorKind::FileTooLarge).then_some(
        "raise the limit on the size of files (`ulimit -f`), or write to a disk that takes larger ones",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_fits_with_its_reserve_or_is_refused_with_numbers() {
        const MIB: u64 = 1 << 20;
        let path = Path::new("/data/models/a.onnx");
        let check = |free_bytes| {
            let (path, needed_bytes, reserve_bytes) = (path.to_owned(), 64 * MIB, 16 * MIB);
            NoSpace { path, needed_bytes, reserve_bytes, free_bytes, in_home: true }.check()
        };
        check(Reading::Available(80 * MIB)).unwrap();
        check(Reading::unavailable("statvfs failed")).unwrap();
        let message = check(Reading::Available(80 * MIB - 1)).unwrap_err().to_string();
        for part in ["/data/models/a.onnx", "64.0 MiB", "16.0 MiB", "80.0 MiB are free"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
