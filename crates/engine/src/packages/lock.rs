//! The lock on a packages folder, and the leftovers of processes that died holding it.
//!
//! Invariant: whoever holds the lock is the only one that writes into the folder, so anything temporary found
//! under it is nobody's.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::progress::{Progress, Step};

/// The file that is locked; it stays.
const LOCK_FILE: &str = ".lock";
/// What is being unpacked.
pub(super) const TEMPORARY: &str = ".tmp-";
/// What is being deleted.
pub(super) const TRASH: &str = ".trash-";

/// How often a held lock is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Why a packages folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The folder cannot be made or its lock file cannot be used.
    #[error("cannot lock the packages folder `{}`", path.display())]
    Io {
        /// The folder or lock file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The caller asked to stop while another process held the lock.
    #[error("cancelled while another process was installing")]
    Cancelled,
}

/// The exclusive lock on a packages folder, held until dropped; the system drops it for a process that dies.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Makes `root` where it is missing, waits for its lock and removes leftovers.
    pub(super) fn acquire(root: &Path, progress: &mut dyn Progress) -> Result<Self, LockError> {
        let failed = |path: &Path, source| LockError::Io { path: path.to_owned(), source };
        fs::create_dir_all(root).map_err(|source| failed(root, source))?;
        let path = root.join(LOCK_FILE);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.map_err(|source| failed(&path, source))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    if !std::mem::replace(&mut told, true) {
                        progress.step(Step::Waiting);
                    }
                    if progress.is_cancelled() {
                        return Err(LockError::Cancelled);
                    }
                    std::thread::sleep(RETRY);
                }
                Err(TryLockError::Error(source)) => return Err(failed(&path, source)),
            }
        }
        remove_leftovers(root);
        Ok(Self { _file: file })
    }
}

/// Removes what dead processes left; what cannot be removed now is tried again under the next lock.
fn remove_leftovers(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(TEMPORARY) && !name.starts_with(TRASH) {
            continue;
        }
        let folder = entry.path();
        match fs::remove_dir_all(&folder) {
            Ok(()) => tracing::info!(folder = %folder.display(), "removed the leftovers of a dead process"),
            Err(error) => tracing::warn!(folder = %folder.display(), %error, "cannot remove leftovers yet"),
        }
    }
}
