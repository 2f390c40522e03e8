//! Free space, to be asked for before something large is written.
//!
//! Invariant: a disk that cannot be asked is a reason, so nobody takes it for a full or an empty one; a share whose
//! server is gone costs ten seconds, once.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siliconroute_core::Reading;

use crate::guard::Watched;

/// A disk that sleeps takes seconds to start.
const TIME_LIMIT: Duration = Duration::from_secs(10);
static DISK: Mutex<Watched<()>> = Mutex::new(Watched::new("the disk", TIME_LIMIT, || ()));

/// The bytes that this user may still write on the disk that holds the folder `path`.
pub fn free_space_bytes(path: &Path) -> Reading<u64> {
    let path = path.to_owned();
    let mut disk = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    disk.ask(move |()| crate::os::free_space_bytes(&path)).and_then(|bytes| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_a_disk_and_a_missing_one_is_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_space_bytes(folder.path()).available().is_some());
        assert!(free_space_bytes(&folder.path().join("none")).available().is_none());
        assert!(free_space_bytes(Path::new("nul\0")).available().is_none());
    }
}
