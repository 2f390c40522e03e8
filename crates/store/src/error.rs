//! What can go wrong with the store, told apart so that a caller can act on it.
//!
//! Invariant: a message says what and where; the cause is the error's source, the advice is [`OpenError::hint`]
//! or [`StoreError::hint`].

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

/// The underlying error.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A store to be read is not there.
    #[error("there is no store at {}", path.display())]
    Missing {
        /// The file looked for.
        path: PathBuf,
    },
    /// The file is damaged or of another kind.
    #[error("{} is damaged or no SQLite database; it was left untouched", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The file is a database of another program.
    #[error(
        "{} is a database of another application (id {found:#010x}); it was left untouched", path.display()
    )]
    WrongApplication {
        /// The file.
        path: PathBuf,
        /// Its application id; 0 when the other program set none.
        found: u32,
    },
    /// A newer version of this program has written the file.
    #[error(
        "{} has schema version {found}, and this program knows versions up to {supported}; it was left untouched",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest version that this program knows.
        supported: u32,
    },
    /// The file needs a migration, which a read-only store cannot get.
    #[error(
        "{} has schema version {found} and must be brought to {supported} before it can be read", path.display()
    )]
    OlderSchema {
        /// The file.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// The file or its folder cannot be written.
    #[error("{} cannot be written, or its folder cannot", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What SQLite says, where it was asked.
        source: Option<Cause>,
    },
    /// Another process holds the file.
    #[error("{} is locked by another process, after waiting for {waited_ms} ms", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long the lock was waited for.
        waited_ms: u32,
        /// What SQLite says.
        source: Cause,
    },
    /// There is no room for the file to grow.
    #[error("no space is left for {}", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The system gives this program no more memory.
    #[error("memory ran out while {} was opened", path.display())]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The file's name with its folders is longer than SQLite takes.
    #[error("the path {} has {length} bytes, and SQLite takes {most}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// How long its path is, in bytes.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// The file cannot be read at all.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot open {}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
}

impl OpenError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "measure something first, or name the home that holds the store",
            Self::NotADatabase { .. } => {
                "move the file away to start afresh, or restore it from a copy; measurements can be taken again"
            }
            Self::WrongApplication { .. } => "choose another home, or move that file away",
            Self::NewerSchema { .. } => "update this program, or choose another home",
            Self::OlderSchema { .. } => "open it once for writing, which brings it up to date",
            Self::ReadOnly { .. } => "allow writing to the file and its folder, or choose another home",
            Self::Locked { .. } => "wait until the other process is done, or end it",
            Self::DiskFull { .. } => {
                "free some space on that disk, raise the limit on the size of files (`ulimit -f`) where there is one, or choose another home"
            }
            Self::OutOfMemory { .. } => MEMORY_HINT,
            Self::TooLong { .. } => "choose a home with a shorter path with --home or SILICONROUTE_HOME",
            Self::Io { source, .. } if is_out_of_files(source) => {
                "close other programs, or allow this one more open files (`ulimit -n`)"
            }
            Self::Io { .. } => "check that the path is right, that it is a file and that you may read it",
            Self::Other { .. } => {
                "check the disk that holds the file, and whether there is a limit on the size of files (`ulimit -f`)"
            }
        }
    }

    /// Sorts an error of SQLite that came up while opening `path`.
    pub(crate) fn sort(path: &Path, waited_ms: u32, error: rusqlite::Error) -> Self {
        let (code, full, no_index) = (error.sqlite_error_code(), is_full(&error), lacks_index(&error));
        let source = cause(error);
        let owned = path.to_owned();
        match code {
            _ if full => Self::DiskFull { path: owned, source },
            _ if no_index => Self::not_openable(path, source),
            Some(ErrorCode::OutOfMemory) => Self::OutOfMemory { path: owned, source },
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Self::NotADatabase { path: owned, source }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked { path: owned, waited_ms, source }
            }
            // SQLite also says that it cannot open when the files beside a store cannot be made.
            Some(ErrorCode::CannotOpen) => Self::not_openable(path, source),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path: owned, source: Some(source) }
            }
            _ => Self::Other { path: owned, source },
        }
    }

    /// Finds out why SQLite cannot open `path` or a file beside it, of which it says nothing more.
    fn not_openable(path: &Path, source: Cause) -> Self {
        let path = path.to_owned();
        let (length, most) = (path.as_os_str().len(), LONGEST_PATH - LOG_ENDING);
        if cfg!(unix) && length > most {
            return Self::TooLong { path, length, most };
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The file itself must not be opened beside SQLite: closing it would drop the locks of this process.
        match folder.read_dir() {
            Err(source) if source.kind() != io::ErrorKind::PermissionDenied => {
                Self::Io { path: folder.to_owned(), source }
            }
            _ => Self::ReadOnly { path, source: Some(source) },
        }
    }
}

/// What to do where the system gives no more memory.
const MEMORY_HINT: &str =
    "close other programs, or raise the limit on this program's memory (`ulimit -v`) where there is one";

/// How long a path SQLite takes on Unix (`MAX_PATHNAME` of its file layer there), that of the journal included.
const LONGEST_PATH: usize = 512;

/// What the longest name of a file beside a store adds to its path: `-journal`.
const LOG_ENDING: usize = 8;

/// What SQLite says, once: its message and that of the code behind it say the same.
fn cause(error: rusqlite::Error) -> Cause {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.into(),
        rusqlite::Error::SqliteFailure(failure, None) => ffi::code_to_str(failure.extended_code).into(),
        other => other.into(),
    }
}

/// Whether the system has no file handle left for this process or for all.
fn is_out_of_files(error: &io::Error) -> bool {
    // There is no kind for it; the numbers are EMFILE and ENFILE, and ERROR_TOO_MANY_OPEN_FILES.
    let numbers: &[i32] = if cfg!(windows) { &[4] } else { &[23, 24] };
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

/// Whether the index of the log beside a store could not be made.
pub(crate) fn lacks_index(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|failure| failure.extended_code == ffi::SQLITE_IOERR_SHMOPEN)
}

/// Whether a file found no room to grow; the index of a log that lies beside the store has a code of its own for that.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|failure| failure.extended_code);
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || extended == Some(ffi::SQLITE_IOERR_SHMSIZE)
}

/// Why an operation on an open store failed. Nothing of a failed write is kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room for the file to grow.
    #[error("cannot {operation}: no space is left for the store {}", path.display())]
    Full {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// Another process held the store for longer than the busy timeout.
    #[error("cannot {operation}: the store {} is locked by another process", path.display())]
    Busy {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The store was opened for reading alone, or its file became read-only.
    #[error("cannot {operation}: the store {} is read-only", path.display())]
    ReadOnly {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The file is damaged, or holds a value that this program cannot read.
    #[error("cannot {operation}: the store {} is damaged", path.display())]
    Corrupt {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Cause,
    },
    /// The system gives this program no more memory.
    #[error("cannot {operation} in the store {}: memory ran out", path.display())]
    OutOfMemory {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The data break a rule of the schema, such as a reference to something never recorded.
    #[error("cannot {operation}: the data do not fit the store {}", path.display())]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The rule.
        source: Cause,
    },
    /// Anything else, such as a disk that fails.
    #[error("cannot {operation} in the store {}", path.display())]
    Other {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
}

impl StoreError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Full { .. } => {
                "free some space on the disk that holds the store, raise the limit on the size of files (`ulimit -f`) where there is one, or choose another home with --home or SILICONROUTE_HOME"
            }
            Self::OutOfMemory { .. } => MEMORY_HINT,
            Self::Busy { .. } => "wait until the other process is done, or end it",
            Self::ReadOnly { .. } => "allow writing to the store's file and folder, or choose another home",
            Self::Corrupt { .. } => {
                "restore the store from a copy, or move it away to start afresh; measurements can be taken again"
            }
            Self::Refused { .. } => "this is a fault of the program; please report it",
            Self::Other { .. } => {
                "check the disk that holds the store, and whether there is a limit on the size of files (`ulimit -f`)"
            }
        }
    }
}

/// A failure inside an operation, before the operation's name is added.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Refused(String),
    Corrupt(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// Sorts the failure by what a caller can do about it.
    pub(crate) fn during(self, operation: &'static str, path: &Path) -> StoreError {
        let path = path.to_owned();
        let error = match self {
            Self::Refused(reason) => return StoreError::Refused { operation, path, source: reason.into() },
            Self::Corrupt(reason) => return StoreError::Corrupt { operation, path, source: reason.into() },
            Self::Sqlite(error) => error,
        };
        let unreadable = matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
        );
        let unwritable = matches!(error, rusqlite::Error::ToSqlConversionFailure(_));
        let (code, full) = (error.sqlite_error_code(), is_full(&error));
        let source = cause(error);
        match code {
            _ if unreadable => StoreError::Corrupt { operation, path, source },
            _ if unwritable => StoreError::Refused { operation, path, source },
            _ if full => StoreError::Full { operation, path, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Busy { operation, path, source }
            }
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { operation, path, source },
            Some(ErrorCode::OutOfMemory) => StoreError::OutOfMemory { operation, path, source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Corrupt { operation, path, source }
            }
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                StoreError::Refused { operation, path, source }
            }
            _ => StoreError::Other { operation, path, source },
        }
    }
}

#[cfg(test)]
mod tests;
