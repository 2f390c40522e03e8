//! The program's home folder: where the store, packages, models and settings lie.
//!
//! Invariant: everything that the program keeps lies under one root, which the user can move or delete.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use siliconroute_engine::regular_file::open_lock;

use crate::error::ErrorKind;
use crate::space::room_hint;

/// The variable that names the home.
pub const HOME_VARIABLE: &str = "SILICONROUTE_HOME";

/// The home folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The user has no home folder that the system knows of.
    #[error("the system names no home folder for this user")]
    NoHome,
    /// The user's home folder, as the system names it, depends on where the program is started.
    #[error("the home would be `{path}`, since the system names no absolute home folder for this user")]
    Relative {
        /// The folder.
        path: PathBuf,
    },
    /// The variable that names the home is set to nothing.
    #[error("the variable {HOME_VARIABLE} is empty")]
    EmptyVariable,
    /// A file lies where a folder has to be.
    #[error("`{path}` is a file, and the home needs a folder there")]
    FileInTheWay {
        /// The file.
        path: PathBuf,
    },
    /// A folder cannot be made.
    #[error("cannot make the folder `{path}`")]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The lock file cannot be opened.
    #[error("cannot open the lock `{path}`")]
    Lock {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl HomeError {
    /// Sorts why the folder `path` cannot be made.
    fn not_made(path: PathBuf, source: io::Error) -> Self {
        let in_the_way = path.ancestors().find(|place| place.exists()).filter(|place| !place.is_dir());
        match in_the_way.map(Path::to_owned) {
            Some(path) => Self::FileInTheWay { path },
            None => Self::Create { path, source },
        }
    }

    /// The kind of failure: without a home there is no store that could be used.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::EmptyVariable => ErrorKind::Usage,
            Self::NoHome
            | Self::Relative { .. }
            | Self::FileInTheWay { .. }
            | Self::Create { .. }
            | Self::Lock { .. } => ErrorKind::Store,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::EmptyVariable => "unset it, or let it name a folder",
            Self::NoHome | Self::Relative { .. } => "name a folder with --home or SILICONROUTE_HOME",
            Self::FileInTheWay { .. } => {
                "move the file away, or name another folder with --home or SILICONROUTE_HOME"
            }
            Self::Create { source, .. } | Self::Lock { source, .. } => {
                room_hint(source).unwrap_or("choose another folder with --home or SILICONROUTE_HOME")
            }
        }
    }
}

/// The home folder with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The folder that the environment names as home, else the one that the system means for it.
    ///
    /// # Errors
    /// When the variable is empty, or unset where the system names no home folder either.
    pub fn root_from_environment() -> Result<PathBuf, HomeError> {
        match std::env::var_os(HOME_VARIABLE) {
            Some(empty) if empty.is_empty() => Err(HomeError::EmptyVariable),
            Some(root) => Ok(std::path::absolute(&root).unwrap_or_else(|_no_folder| root.into())),
            None => Self::default_root(),
        }
    }

    /// The folder that the system means for a program's local data.
    ///
    /// # Errors
    /// When the system names no home folder.
    pub fn default_root() -> Result<PathBuf, HomeError> {
        use etcetera::BaseStrategy as _;
        let strategy =
            etcetera::base_strategy::choose_native_strategy().map_err(|_absent| HomeError::NoHome)?;
        // On Windows the data folder roams between machines; measurements belong to one machine.
        let base = if cfg!(windows) { strategy.cache_dir() } else { strategy.data_dir() };
        let root = base.join("siliconroute");
        // Elsewhere it would be another home in every folder that the program is started from.
        if root.is_absolute() { Ok(root) } else { Err(HomeError::Relative { path: root }) }
    }

    /// What is to be said about a variable that should move [`Self::default_root`] and cannot.
    pub fn ignored_variable() -> Option<String> {
        // <https://specifications.freedesktop.org/basedir-spec/latest/>, which these two do not follow.
        if cfg!(any(windows, target_os = "macos")) || std::env::var_os(HOME_VARIABLE).is_some() {
            None
        } else {
            ignored_if_relative("XDG_DATA_HOME", std::env::var_os("XDG_DATA_HOME"))
        }
    }

    /// The home at `root`, of which nothing is made or looked at.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Opens `root` as home and makes its folders; those of a home that can only be read are left out.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn open(root: PathBuf) -> Result<Self, HomeError> {
        let home = Self::at(root);
        let was_there = home.root.is_dir();
        for path in [home.root.clone(), home.packages(), home.models(), home.cache()] {
            match std::fs::create_dir_all(&path) {
                Ok(()) => {}
                Err(error) if was_there && is_read_only(&error) => {}
                Err(source) => return Err(HomeError::not_made(path, source)),
            }
        }
        Ok(home)
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database of all measurements.
    pub fn store(&self) -> PathBuf {
        self.root.join("store.sqlite")
    }

    /// Installed engine packages.
    pub fn packages(&self) -> PathBuf {
        self.root.join("packages")
    }

    /// Fetched and generated models.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Files that can be made again at any time.
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The tuning of each machine that uses this home, in a file of its own.
    pub fn runtime(&self) -> PathBuf {
        self.root.join("runtime")
    }

    /// The settings file under `root`; it need not exist.
    pub fn settings_file(root: &Path) -> PathBuf {
        root.join("config.toml")
    }

    /// Takes the lock that keeps two measuring programs from disturbing each other.
    ///
    /// `waiting` is called once when another program holds it, and then again and again until it says
    /// `false`, which gives up.
    ///
    /// # Errors
    /// When the lock file cannot be opened or locked.
    pub fn lock_measuring(
        &self,
        mut waiting: impl FnMut() -> bool,
    ) -> Result<Option<MeasuringLock>, HomeError> {
        let path = self.root.join("measuring.lock");
        let fail = |source| HomeError::Lock { path: path.clone(), source };
        let file = open_lock(&path).map_err(fail)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(MeasuringLock { _file: file })),
                Err(TryLockError::WouldBlock) if waiting() => {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(source)) => return Err(fail(source)),
            }
        }
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

/// The specification of the variable wants a relative path to be ignored; that is never done in silence.
fn ignored_if_relative(variable: &str, value: Option<OsString>) -> Option<String> {
    let path = PathBuf::from(value.filter(|value| !value.is_empty())?);
    let ignored = || format!("{variable} is ignored, since `{}` is no absolute path", path.display());
    (!path.is_absolute()).then(ignored)
}

/// Held while this program measures; ends with the process, however it ends.
#[derive(Debug)]
pub struct MeasuringLock {
    _file: File,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_measures_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path().join("home")).unwrap();
        let held = home.lock_measuring(|| false).unwrap();
        assert!(held.is_some());
        let mut asked = 0;
        let second = home.lock_measuring(|| {
            asked += 1;
            asked < 3
        });
        assert!(second.unwrap().is_none());
        assert_eq!(asked, 3);
        drop(held);
        assert!(home.lock_measuring(|| false).unwrap().is_some());
    }

    #[test]
    fn a_relative_base_folder_is_ignored_and_told() {
        #[track_caller]
        fn check(value: Option<&str>, told: bool) {
            let said = ignored_if_relative("XDG_DATA_HOME", value.map(OsString::from));
            assert_eq!(said.is_some(), told, "{said:?}");
        }
        check(None, false);
        check(Some(""), false);
        check(Some(if cfg!(windows) { "C:\\data" } else { "/data" }), false);
        check(Some("data"), true);
        check(Some("./data"), true);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home");
        std::fs::write(&path, "in the way").unwrap();
        for home in [path.clone(), path.join("inner")] {
            let error = Home::open(home).unwrap_err();
            assert!(matches!(&error, HomeError::FileInTheWay { path: named } if *named == path), "{error:?}");
        }
    }
}
