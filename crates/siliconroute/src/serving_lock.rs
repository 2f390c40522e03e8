//! Locks of programs that serve, a file for each, by which others see whether one is still there.
//!
//! Invariant: who holds a lock is never taken for gone. Its file is locked before anyone can know its name, and a lock that cannot be
//! looked at counts as held.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use siliconroute_engine::regular_file::open_regular;
use tempfile::NamedTempFile;

use crate::home::{Home, HomeError};

/// Held while this program serves; ends with the process, however it ends.
#[derive(Debug)]
pub(crate) struct ServingLock(NamedTempFile);

impl ServingLock {
    /// The name by which [`Home::is_serving`] knows it.
    pub(crate) fn name(&self) -> &str {
        let name = self.0.path().file_name().and_then(OsStr::to_str);
        name.expect("the name was made of ASCII")
    }
}

impl Home {
    fn serving(&self) -> PathBuf {
        self.root().join("serving")
    }

    /// Takes a lock of its own for a program that begins to serve.
    ///
    /// # Errors
    /// When its file cannot be made or locked.
    pub(crate) fn lock_serving(&self) -> Result<ServingLock, HomeError> {
        let folder = self.serving();
        let made = std::fs::create_dir_all(&folder).and_then(|()| {
            let file = tempfile::Builder::new().prefix("").suffix(".lock").tempfile_in(&folder)?;
            file.as_file().lock()?;
            Ok(file)
        });
        made.map(ServingLock).map_err(|source| HomeError::Lock { path: folder, source })
    }

    /// Whether the lock called `name` is held, as far as that can be told.
    pub(crate) fn is_serving(&self, name: &str) -> bool {
        let Some(path) = self.serving_file(name) else { return false };
        match open_regular(&path) {
            Ok((file, _)) => is_held(&file),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes what a program that is gone has left of its lock.
    pub(crate) fn remove_serving(&self, name: &str) {
        let Some(path) = self.serving_file(name) else { return };
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!("{} stays: {error}", path.display());
        }
    }

    /// The file of a lock, which no name from a store leads out of its folder.
    fn serving_file(&self, name: &str) -> Option<PathBuf> {
        (Path::new(name).file_name() == Some(OsStr::new(name))).then(|| self.serving().join(name))
    }
}

/// Others that look at the same moment do not disturb.
fn is_held(file: &File) -> bool {
    !matches!(file.try_lock_shared(), Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_owner_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path().join("home")).unwrap();
        let (one, other) = (home.lock_serving().unwrap(), home.lock_serving().unwrap());
        let (name, left) = (one.name().to_owned(), other.name().to_owned());
        assert!(home.is_serving(&name) && home.is_serving(&left));
        drop(one);
        assert!(!home.is_serving(&name) && home.is_serving(&left));
        // What a program that was killed leaves: its file, and nobody who holds it.
        let (file, path) = other.0.keep().unwrap();
        assert!(path.exists() && home.is_serving(&left));
        drop(file);
        assert!(!home.is_serving(&left) && path.exists());
        home.remove_serving(&left);
        assert!(!path.exists());
        home.remove_serving(&left);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path().join("home")).unwrap();
        let outside = folder.path().join("home").join("config.toml");
        std::fs::write(&outside, "").unwrap();
        std::fs::create_dir(home.serving()).unwrap();
        for name in ["", ".", "..", "../config.toml", "a/../../config.toml", "/etc/hosts"] {
            assert!(!home.is_serving(name), "{name}");
            home.remove_serving(name);
        }
        assert!(outside.exists());
    }
}
