//! Free space, to be asked for before something large is written.
//!
//! Invariant: a disk that cannot be asked is a reason, so nobody takes it for a full or an empty one.

use std::path::Path;

use siliconroute_core::Reading;

/// The bytes that this user may still write on the disk that holds the folder `path`.
pub fn free_space_bytes(path: &Path) -> Reading<u64> {
    crate::os::free_space_bytes(path)
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
