//! Gets a pinned wheel onto this machine with the pip or uv that is there.
//!
//! Invariant: no index is named here; where wheels come from is the user's pip configuration alone, and what
//! came is compared with the pin before anything else touches it.
//!
//! Children in reading order: `program` (which pip), `child` (running it), `complaint` (reading its errors).

mod child;
mod complaint;
mod program;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use self::child::{RunError, run};
use self::complaint::{Complaint, read_complaint};
use self::program::{PipProgram, candidates};
use super::pin::{Sha256Digest, WheelPin};
use super::progress::{Progress, Step};
use super::unpack::{is_disk_full, lacks_room};
use crate::regular_file::open_regular;

/// How long a candidate may take to state its version; `uv` may have to fetch pip first.
const PROBE_DEADLINE: Duration = Duration::from_mins(1);
/// How long one download may take unless the caller sets another deadline.
const FETCH_DEADLINE: Duration = Duration::from_mins(45);

/// Why a file is not the wheel that is meant.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Its size differs.
    #[error("{file} has {found} bytes instead of {expected}")]
    WrongSize {
        /// The wheel's name.
        file: String,
        /// The pinned size in bytes.
        expected: u64,
        /// The size found.
        found: u64,
    },
    /// Its bytes differ.
    #[error("{file} has sha256 {found} instead of {expected}; do not use it")]
    WrongHash {
        /// The wheel's name.
        file: String,
        /// The pinned hash.
        expected: Sha256Digest,
        /// The hash found.
        found: Sha256Digest,
    },
    /// It cannot be read.
    #[error("the file cannot be read")]
    Io(#[source] io::Error),
    /// The caller asked to stop.
    #[error("checking was cancelled")]
    Cancelled,
}

/// Why a wheel could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no pip and no uv, or none of them works.
    #[error("no working pip or uv was found (tried: {})", tried.join("; "))]
    NoFetcher {
        /// What was tried, with the reason why it does not work where it exists.
        tried: Vec<String>,
    },
    /// The package index cannot be reached.
    #[error("the package index cannot be reached by {program}: {reason}")]
    Unreachable {
        /// The program that tried.
        program: String,
        /// Its own words.
        reason: String,
    },
    /// The index is reached but has no such wheel.
    #[error("the package index offers no {file}: {reason}")]
    NotOffered {
        /// The wheel's name.
        file: String,
        /// The program's own words.
        reason: String,
    },
    /// The program failed otherwise.
    #[error("{program} failed: {reason}")]
    Failed {
        /// The program that failed.
        program: String,
        /// Its own words.
        reason: String,
    },
    /// The program claims success, but the wheel is not there.
    #[error("{program} delivered {found:?} instead of {expected}")]
    NotDelivered {
        /// The program.
        program: String,
        /// The wheel's name.
        expected: String,
        /// The names of the files that came.
        found: Vec<String>,
    },
    /// What came is not the pinned wheel.
    #[error("the fetched wheel is not the expected one")]
    Check(#[source] CheckError),
    /// The program did not end in time and was ended.
    #[error("{program} took longer than {} s", deadline.as_secs())]
    TimedOut {
        /// The program.
        program: String,
        /// The limit it ran under.
        deadline: Duration,
    },
    /// No room left.
    #[error("the disk is full: {file} needs {size_bytes} bytes in `{}`, and once more while it arrives", dir.display())]
    DiskFull {
        /// The wheel's name.
        file: String,
        /// Its size.
        size_bytes: u64,
        /// The folder it was to go into.
        dir: PathBuf,
    },
    /// The folder for the wheel cannot be used, or the program cannot be started.
    #[error("cannot use `{}`", path.display())]
    Io {
        /// The folder or program.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("fetching was cancelled")]
    Cancelled,
}

impl FetchError {
    /// What the user can do about it, where there is something, whatever the wheel is for.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoFetcher { .. } => Some("install Python with pip, or uv"),
            Self::Unreachable { .. } => Some("run again when the network is back"),
            Self::NotOffered { .. } => Some("check the index that pip is configured for"),
            Self::DiskFull { .. } => Some("free some space and run again"),
            Self::Check(CheckError::WrongHash { .. } | CheckError::WrongSize { .. }) => {
                Some("the package index serves other files than this program was made with")
            }
            _ => None,
        }
    }

    /// Whether there was no room for a file, on the disk or within the limit on the size of files.
    pub fn lacks_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Io { source, .. } => lacks_room(source),
            _ => false,
        }
    }

    /// Whether a user who has the wheel from elsewhere could hand it over instead.
    pub fn is_cured_by_wheel(&self) -> bool {
        matches!(self, Self::NoFetcher { .. } | Self::Unreachable { .. } | Self::NotOffered { .. })
    }
}

/// Something that delivers wheels: pip, or a stand-in in tests.
pub trait Fetcher: Send + Sync {
    /// Puts the wheel into the folder `dir`, which exists, and returns its path. Need not check the bytes:
    /// [`fetch_wheel`] does.
    ///
    /// # Errors
    /// [`FetchError`] with the reason why it did not come.
    fn fetch(&self, wheel: &WheelPin, dir: &Path, progress: &mut dyn Progress)
    -> Result<PathBuf, FetchError>;
}

/// Fetches a wheel into `dir`, which must exist, and compares it with its pin.
///
/// # Errors
/// [`FetchError`]; after an error the folder may hold parts of the wheel, and the caller removes it.
pub fn fetch_wheel(
    fetcher: &dyn Fetcher,
    wheel: &WheelPin,
    dir: &Path,
    progress: &mut dyn Progress,
) -> Result<PathBuf, FetchError> {
    let path = fetcher.fetch(wheel, dir, progress)?;
    check_wheel(&path, wheel, progress).map_err(|error| match error {
        CheckError::Cancelled => FetchError::Cancelled,
        other => FetchError::Check(other),
    })?;
    Ok(path)
}

/// Compares the file at `path` with the pin of the wheel it should be.
///
/// # Errors
/// [`CheckError`] where it differs or cannot be read.
pub fn check_wheel(path: &Path, wheel: &WheelPin, progress: &mut dyn Progress) -> Result<(), CheckError> {
    progress.step(Step::Checking);
    let (file, metadata) = open_regular(path).map_err(CheckError::Io)?;
    let size = metadata.len();
    let name = || wheel.file().to_owned();
    if size != wheel.size_bytes() {
        return Err(CheckError::WrongSize { file: name(), expected: wheel.size_bytes(), found: size });
    }
    let (found, _) = hash_file(file, progress)?;
    if found != wheel.sha256() {
        return Err(CheckError::WrongHash { file: name(), expected: wheel.sha256(), found });
    }
    Ok(())
}

/// The digest of all that `file` yields, and how many bytes that was.
///
/// # Errors
/// When it cannot be read, or the caller stops.
pub fn hash_file(mut file: impl Read, progress: &dyn Progress) -> Result<(Sha256Digest, u64), CheckError> {
    let mut hash = Sha256::new();
    let mut total = 0;
    let mut buffer = vec![0; 256 << 10];
    loop {
        if progress.is_cancelled() {
            return Err(CheckError::Cancelled);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok((Sha256Digest(hash.finalize().into()), total)),
            Ok(read) => {
                hash.update(&buffer[..read]);
                total += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CheckError::Io(error)),
        }
    }
}

/// Fetches with `pip download`, by whichever program on the search path can: `pip`, `pip3`, a Python with
/// pip, or `uv`, which runs a pip of its own because it has no download command.
#[derive(Debug, Clone)]
pub struct PipFetcher {
    search_path: OsString,
    program: Option<PathBuf>,
    deadline: Duration,
}

impl PipFetcher {
    /// Looks for the program in the folders of `search_path`, the value of the `PATH` variable.
    pub fn new(search_path: &OsStr) -> Self {
        Self { search_path: search_path.to_owned(), program: None, deadline: FETCH_DEADLINE }
    }

    /// Uses this program and no other: a pip, a Python or a uv, told apart by its name.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Ends a download that takes longer than `deadline`.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The first program that can state its version.
    fn find_program(&self, scratch: &Path, progress: &dyn Progress) -> Result<PipProgram, FetchError> {
        let mut tried = Vec::new();
        for candidate in candidates(&self.search_path, self.program.as_deref()) {
            let mut command = candidate.command(&self.search_path, scratch);
            command.arg("--version");
            let deadline = PROBE_DEADLINE.min(self.deadline);
            let reason = match run(&mut command, deadline, &mut || progress.is_cancelled()) {
                Ok(outcome) if outcome.success => return Ok(candidate),
                Ok(outcome) => match read_complaint(&outcome.messages) {
                    Complaint::Unreachable(reason) => {
                        return Err(FetchError::Unreachable { program: candidate.label(), reason });
                    }
                    other => other.reason().to_owned(),
                },
                Err(RunError::Cancelled) => return Err(FetchError::Cancelled),
                Err(RunError::TimedOut) => "gives no answer".to_owned(),
                Err(RunError::Io(error)) => error.to_string(),
            };
            tracing::debug!(program = candidate.label(), reason, "passed over");
            tried.push(format!("{}: {reason}", candidate.label()));
        }
        if tried.is_empty() {
            tried.push("nothing called pip, python or uv is on the search path".to_owned());
        }
        Err(FetchError::NoFetcher { tried })
    }
}

impl Fetcher for PipFetcher {
    fn fetch(
        &self,
        wheel: &WheelPin,
        dir: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        let io_error = |path: &Path, source: io::Error| {
            if is_disk_full(&source) {
                disk_full(wheel, dir)
            } else {
                FetchError::Io { path: path.to_owned(), source }
            }
        };
        let (scratch, download) = (dir.join("scratch"), dir.join("download"));
        for folder in [&scratch, &download] {
            fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
        }
        progress.step(Step::Fetching { done_bytes: 0, total_bytes: wheel.size_bytes() });
        let program = self.find_program(&scratch, progress)?;
        let mut command = program.command(&self.search_path, &scratch);
        command
            .args([
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--disable-pip-version-check",
                "--no-input",
            ])
            // The cache would take the room of the wheel a second time.
            .args(["--no-cache-dir", "--progress-bar", "off", "--retries", "2"])
            .args(wheel.tags().pip_options())
            .arg("-d")
            .arg(&download)
            .arg(format!("{}=={}", wheel.distribution(), wheel.version()));
        tracing::info!(program = program.label(), wheel = wheel.file(), "fetching");
        let outcome = run(&mut command, self.deadline, &mut || {
            let done_bytes = largest_file_bytes(dir, 0).min(wheel.size_bytes());
            progress.step(Step::Fetching { done_bytes, total_bytes: wheel.size_bytes() });
            progress.is_cancelled()
        });
        let label = program.label();
        match outcome {
            Ok(outcome) if outcome.success => {}
            Ok(outcome) => {
                tracing::debug!(messages = outcome.messages, "{label} failed");
                return Err(read_complaint(&outcome.messages).into_error(label, wheel, dir));
            }
            Err(RunError::Cancelled) => return Err(FetchError::Cancelled),
            Err(RunError::TimedOut) => {
                return Err(FetchError::TimedOut { program: label, deadline: self.deadline });
            }
            Err(RunError::Io(source)) => return Err(io_error(program.path(), source)),
        }
        let path = download.join(wheel.file());
        if path.is_file() {
            return Ok(path);
        }
        let entries = fs::read_dir(&download).map_err(|source| io_error(&download, source))?;
        let found = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        Err(FetchError::NotDelivered { program: label, expected: wheel.file().to_owned(), found })
    }
}

fn disk_full(wheel: &WheelPin, dir: &Path) -> FetchError {
    FetchError::DiskFull {
        file: wheel.file().to_owned(),
        size_bytes: wheel.size_bytes(),
        dir: dir.to_owned(),
    }
}

/// The size of the largest file below `dir`: pip downloads under a name of its own and copies in the end, so
/// the largest is the wheel on its way.
fn largest_file_bytes(dir: &Path, depth: usize) -> u64 {
    const DEEPEST: usize = 4;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() && depth < DEEPEST => largest_file_bytes(&entry.path(), depth + 1),
        Ok(meta) if meta.is_file() => meta.len(),
        _ => 0,
    };
    entries.flatten().map(size).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
