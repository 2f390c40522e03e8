//! How a home and its store are opened: to be written, or as a private copy where they can only be read.
//!
//! Invariant: a command that only reads works wherever it may read; whatever it would have remembered goes
//! with it, and what must be kept is refused before any work is done for it.

use std::path::{Path, PathBuf};

use siliconroute_store::{OpenError, OpenOptions, Store};
use tempfile::TempDir;

use crate::error::Error;
use crate::home::{Home, HomeError};
use crate::machine::describe_error;

/// A home with its store.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) home: Home,
    pub(crate) store: Store,
    pub(crate) read_only: Option<ReadOnly>,
}

/// Why nothing in a home is written, and where temporary files go instead.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    reason: String,
    scratch: TempDir,
}

impl ReadOnly {
    pub(crate) fn new(reason: String) -> Result<Self, Error> {
        let scratch =
            tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        Ok(Self { reason, scratch })
    }

    /// Why.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// A folder that goes with the process.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

impl Opened {
    /// Opens the home at `root`; for reading alone if `read_only` says so or it cannot be written.
    ///
    /// # Errors
    /// When the home or the store cannot even be read.
    pub(crate) fn open(root: PathBuf, read_only: bool) -> Result<Self, Error> {
        let home = open_home(root, read_only)?;
        let (store, reason) = open_store(&home, read_only)?;
        let read_only = reason.map(ReadOnly::new).transpose()?;
        Ok(Self { home, store, read_only })
    }
}

/// Opens the home at `root`, and makes nothing there if it is only to be read.
pub(crate) fn open_home(root: PathBuf, read_only: bool) -> Result<Home, HomeError> {
    if read_only { Ok(Home::at(root)) } else { Home::open(root) }
}

/// Opens the store of `home`, or a copy of it and the reason why it can only be read.
pub(crate) fn open_store(home: &Home, read_only: bool) -> Result<(Store, Option<String>), OpenError> {
    let (path, options) = (home.store(), OpenOptions::default());
    let reason = if read_only {
        "the setting `read_only` says so".to_owned()
    } else {
        match Store::open(&path, &options) {
            Ok(store) => return Ok((store, None)),
            Err(error @ OpenError::ReadOnly { .. }) => describe_error(&error),
            Err(error) => return Err(error),
        }
    };
    Store::open_copy(&path, options.busy_timeout_ms).map(|store| (store, Some(reason)))
}
