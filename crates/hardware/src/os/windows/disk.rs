//! Free space on a disk.
//!
//! Invariant: the quota of the user counts, not what the disk as a whole has left.

use std::path::Path;

use siliconroute_core::Reading;
use windows::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
use windows::core::HSTRING;

/// The bytes that this user may still write on the disk that holds the folder `path`.
pub(crate) fn free_space_bytes(path: &Path) -> Reading<u64> {
    let mut bytes = 0_u64;
    // The name of a share must end in a backslash, and that of a folder may.
    let name = HSTRING::from(path.join("").as_path());
    // SAFETY: the name ends in NUL, and one number is written.
    let asked = unsafe { GetDiskFreeSpaceExW(&name, Some(&raw mut bytes), None, None) };
    match asked {
        Ok(()) => Reading::Available(bytes),
        Err(error) => Reading::unavailable(format!("GetDiskFreeSpaceExW failed: {error}")),
    }
}
