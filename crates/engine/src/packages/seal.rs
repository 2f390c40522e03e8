//! The seal of a verified package: by what a later start knows, without reading them, that files are unchanged.
//!
//! Invariant: a seal only ever spares reading. Where it is missing, damaged, made for other pins or differs from
//! a file, that file's bytes are read and compared with its pin.

use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::pin::{MemberPin, Sha256Digest};

/// The folder of seals below the packages folder; hidden, so that it is taken for no package.
const SEALS: &str = ".verified";

/// The version of the seal's format.
const SCHEMA: u32 = 1;

/// No seal is larger, in bytes.
const MAX_SEAL_BYTES: u64 = 1 << 20;

/// Time in which two changes of a file may carry the same time: most file systems take it from a clock that
/// stands still between the ticks of the system's timer, which are up to 16 ms apart.
const TICK: Duration = Duration::from_millis(20);

/// The same for file systems that keep whole seconds, or every second one.
const COARSE_TICK: Duration = Duration::from_secs(2);

/// What a file system tells of a file that changes whenever its bytes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stamp {
    size_bytes: u64,
    /// When its bytes changed, in nanoseconds since 1970.
    modified_ns: i64,
    /// On Unix, when anything about it changed, which no program can set; elsewhere, when it was made.
    changed_ns: i64,
    /// On Unix, the number of the file, which another file put in its place does not have.
    inode: u64,
}

impl Stamp {
    pub(super) fn of(file: &Metadata) -> Self {
        let modified_ns = file.modified().map_or(0, nanoseconds);
        #[cfg(unix)]
        let (changed_ns, inode) = {
            use std::os::unix::fs::MetadataExt as _;
            (file.ctime().wrapping_mul(1_000_000_000).wrapping_add(file.ctime_nsec()), file.ino())
        };
        #[cfg(not(unix))]
        let (changed_ns, inode) = (file.created().map_or(0, nanoseconds), 0);
        Self { size_bytes: file.len(), modified_ns, changed_ns, inode }
    }

    /// Waits until a change from now on must show in the stamp; no time for a file that is not brand new.
    pub(super) fn settle(self) {
        let newest = self.modified_ns.max(self.changed_ns);
        let tick = if newest % 1_000_000_000 == 0 { COARSE_TICK } else { TICK };
        let age = Duration::from_nanos(nanoseconds(SystemTime::now()).saturating_sub(newest).unsigned_abs());
        std::thread::sleep(tick.saturating_sub(age));
    }
}

/// Nanoseconds since 1970; those before it are negative.
fn nanoseconds(time: SystemTime) -> i64 {
    let clamp = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => clamp(since),
        Err(before) => -clamp(before.duration()),
    }
}

/// The stamps that the files of one package had when their bytes were compared with their pins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seal {
    schema: u32,
    /// Digest of the pins, which another version of the program may have changed.
    pins: Sha256Digest,
    files: Vec<(String, Stamp)>,
}

impl Seal {
    pub(super) fn new(pins: &[MemberPin], files: Vec<(String, Stamp)>) -> Self {
        Self { schema: SCHEMA, pins: digest(pins), files }
    }

    /// Loads the seal of the package in `dir`, if it has one that was made for these pins.
    pub(super) fn load(dir: &Path, pins: &[MemberPin]) -> Option<Self> {
        let mut text = Vec::new();
        fs::File::open(path_of(dir)?).ok()?.take(MAX_SEAL_BYTES).read_to_end(&mut text).ok()?;
        let seal: Self = serde_json::from_slice(&text).ok()?;
        (seal.schema == SCHEMA && seal.pins == digest(pins)).then_some(seal)
    }

    /// The stamp that the file called `path` had.
    pub(super) fn stamp(&self, path: &str) -> Option<Stamp> {
        self.files.iter().find(|(sealed, _)| sealed == path).map(|&(_, stamp)| stamp)
    }

    /// Keeps the seal of the package in `dir`. Without it the next start reads the files again, so a failure
    /// is only logged.
    pub(super) fn save(&self, dir: &Path) {
        let write = || -> io::Result<()> {
            let path = path_of(dir).ok_or(io::ErrorKind::InvalidFilename)?;
            let folder = path.parent().ok_or(io::ErrorKind::InvalidFilename)?;
            fs::create_dir_all(folder)?;
            // A reader must never see half of it.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.persist(&path).map_err(io::Error::from).map(drop)
        };
        if let Err(error) = write() {
            let package = dir.display();
            if is_expected(&error) {
                tracing::debug!(%package, %error, "cannot remember that the package was verified");
            } else {
                tracing::warn!(%package, %error, "cannot remember that the package was verified");
            }
        }
    }
}

/// Forgets that the package in `dir` was verified.
pub(super) fn break_seal(dir: &Path) {
    let Some(path) = path_of(dir) else { return };
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let seal = path.display();
            if is_expected(&error) {
                tracing::debug!(%seal, %error, "cannot remove the seal of a package");
            } else {
                tracing::warn!(%seal, %error, "cannot remove the seal of a package");
            }
        }
        _ => {}
    }
}

/// Removes seals below `root` whose package is gone, and what a killed process left of one.
pub(super) fn remove_dead_seals(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join(SEALS)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let package = name.to_str().and_then(|name| name.strip_suffix(".json"));
        if package.is_none_or(|package| !root.join(package).is_dir())
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::debug!(seal = %entry.path().display(), %error, "cannot remove a dead seal yet");
        }
    }
}

/// Whether the home is one that may only be read, where nothing is remembered.
fn is_expected(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn path_of(dir: &Path) -> Option<PathBuf> {
    Some(dir.parent()?.join(SEALS).join(format!("{}.json", dir.file_name()?.to_str()?)))
}

fn digest(pins: &[MemberPin]) -> Sha256Digest {
    let mut hash = Sha256::new();
    for pin in pins {
        for path in pin.paths() {
            hash.update(path.as_bytes());
            hash.update([0]);
            hash.update(pin.sha256.0);
        }
    }
    Sha256Digest(hash.finalize().into())
}
