//! The lock on a folder of packages or models, and the leftovers of processes that died holding it.
//!
//! Invariant: whoever holds the lock is the only one that writes into the folder, so anything temporary found
//! under it is nobody's.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::progress::{Progress, Step};
use super::seal::remove_dead_seals;
use super::unpack::lacks_room;
use crate::regular_file::open_lock;

/// The file that is locked; it stays.
const LOCK_FILE: &str = ".lock";
/// How the names of what is being unpacked or written begin, in any folder that a [`FolderLock`] guards.
pub const TEMPORARY: &str = ".tmp-";
/// What is being deleted.
pub(super) const TRASH: &str = ".trash-";

/// How often a held lock is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Why a folder of packages or models could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The folder cannot be made or its lock file cannot be used.
    #[error("cannot lock the folder `{}`", path.display())]
    Io {
        /// The folder or lock file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The caller asked to stop while another process held the lock.
    #[error("cancelled while another process was writing into the folder")]
    Cancelled,
}

impl LockError {
    /// Whether there was no room for the folder or its lock file.
    pub fn lacks_room(&self) -> bool {
        matches!(self, Self::Io { source, .. } if lacks_room(source))
    }
}

/// The exclusive lock on a folder of packages or models, held until dropped; the system drops it for a process
/// that dies.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Makes `root` where it is missing, waits for its lock and removes leftovers.
    ///
    /// # Errors
    /// When the folder or its lock file cannot be used, or the caller wants to stop while another process holds it.
    pub fn acquire(root: &Path, progress: &mut dyn Progress) -> Result<Self, LockError> {
        let failed = |path: &Path, source| LockError::Io { path: path.to_owned(), source };
        fs::create_dir_all(root).map_err(|source| failed(root, source))?;
        let path = root.join(LOCK_FILE);
        let file = open_lock(&path).map_err(|source| failed(&path, source))?;
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
        remove_leftovers_locked(root);
        Ok(Self { _file: file })
    }
}

/// Removes what installations that were cut short have left below `root`, unless one is under way.
pub fn remove_leftovers(root: &Path) {
    if leftovers(root).is_empty() {
        return;
    }
    let locked = open_lock(&root.join(LOCK_FILE)).and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match locked {
        Ok(Some(_held)) => remove_leftovers_locked(root),
        Ok(None) => {}
        Err(error) => tracing::warn!(folder = %root.display(), %error, "cannot lock the packages folder"),
    }
}

/// What is being unpacked or deleted below `root`, by this process or one that died.
fn leftovers(root: &Path) -> Vec<fs::DirEntry> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let temporary = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(TEMPORARY) || name.starts_with(TRASH)
    };
    entries.flatten().filter(temporary).collect()
}

/// Removes what dead processes left; what cannot be removed now is tried again under the next lock.
fn remove_leftovers_locked(root: &Path) {
    for entry in leftovers(root) {
        let path = entry.path();
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match if folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) } {
            Ok(()) => tracing::info!(path = %path.display(), "removed the leftovers of a dead process"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "cannot remove leftovers yet"),
        }
    }
    remove_dead_seals(root);
}
