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
use crate::settings::Settings;

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
    obstacle: Obstacle,
    scratch: TempDir,
}

/// What stands against writing in a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// What it is.
    pub(crate) reason: String,
    /// What the user can do about it.
    pub(crate) advice: String,
}

impl Obstacle {
    /// The setting, wherever it has its value from; `None` where it allows writing.
    pub(crate) fn of_setting(settings: &Settings) -> Option<Self> {
        let place = settings.place("read_only").filter(|_| settings.read_only)?;
        Some(Self {
            reason: format!("the setting `read_only` ({place}) says so"),
            advice: format!("set `read_only` ({place}) to false"),
        })
    }

    /// The disk or its permissions, where that is what `error` says.
    fn of_system(error: &OpenError) -> Option<Self> {
        let advice = match error {
            OpenError::ReadOnly { .. } => {
                "allow writing to the home, or choose another with --home or SILICONROUTE_HOME"
            }
            OpenError::DiskFull { .. } => {
                "free some space on the home's disk, raise the limit on the size of files (`ulimit -f`) where there is one, or choose another home with --home or SILICONROUTE_HOME"
            }
            _ => return None,
        };
        Some(Self { reason: describe_error(error), advice: advice.to_owned() })
    }
}

impl ReadOnly {
    pub(crate) fn new(obstacle: Obstacle) -> Result<Self, Error> {
        let scratch =
            tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        Ok(Self { obstacle, scratch })
    }

    /// Why.
    pub(crate) fn reason(&self) -> &str {
        &self.obstacle.reason
    }

    /// What the user can do about it.
    pub(crate) fn advice(&self) -> &str {
        &self.obstacle.advice
    }

    /// A folder that goes with the process.
    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }
}

impl Opened {
    /// Opens the home at `root`; for reading alone if the settings say so or it cannot be written.
    ///
    /// # Errors
    /// When the home or the store cannot even be read.
    pub(crate) fn open(root: PathBuf, settings: &Settings) -> Result<Self, Error> {
        let home = open_home(root, settings.read_only)?;
        let (store, obstacle) = open_store(&home, Obstacle::of_setting(settings))?;
        let read_only = obstacle.map(ReadOnly::new).transpose()?;
        Ok(Self { home, store, read_only })
    }
}

/// Opens the home at `root`, and makes nothing there if it is only to be read.
pub(crate) fn open_home(root: PathBuf, read_only: bool) -> Result<Home, HomeError> {
    if read_only { Ok(Home::at(root)) } else { Home::open(root) }
}

/// Opens the store of `home`, or a copy of it and what stands against writing: `obstacle`, or the system.
pub(crate) fn open_store(
    home: &Home,
    obstacle: Option<Obstacle>,
) -> Result<(Store, Option<Obstacle>), OpenError> {
    let (path, options) = (home.store(), OpenOptions::default());
    let obstacle = match obstacle {
        Some(obstacle) => obstacle,
        None => match Store::open(&path, &options) {
            Ok(store) => return Ok((store, None)),
            Err(error) => match Obstacle::of_system(&error) {
                Some(obstacle) => obstacle,
                None => return Err(error),
            },
        },
    };
    Store::open_copy(&path, options.busy_timeout_ms).map(|store| (store, Some(obstacle)))
}
