//! Installs and removes engine packages.
//!
//! Invariant: a package appears under its final name by one rename of a folder whose files and record are
//! complete, checked and flushed; a process killed at any moment leaves at most a `.tmp-` or `.trash-` folder.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use super::fetch::{CheckError, FetchError, Fetcher, fetch_wheel, hash_file};
use super::lock::{FolderLock, LockError, TEMPORARY, TRASH};
use super::pin::{MAX_FILE_BYTES, Sha256Digest};
use super::progress::{Progress, Step};
use super::record::{
    Installed, InstalledFrom, RECORD_FILE, Record, RecordError, folder_name, folders_of, load_installed,
};
use super::seal::break_seal;
use super::table::{Package, Wheel};
use super::unpack::{UnpackError, is_disk_full, lacks_room, sync_folder, unpack_members};
use crate::regular_file::open_regular;

/// Where a wheel comes from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// It is fetched, and must be the pinned file.
    Fetch(&'a dyn Fetcher),
    /// The user hands it over. It may be the build for another Python, as long as the files to unpack are the
    /// pinned ones.
    Wheel(&'a Path),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fetch(_) => f.write_str("Fetch"),
            Self::Wheel(path) => f.debug_tuple("Wheel").field(path).finish(),
        }
    }
}

/// Why a package could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The packages folder cannot be locked.
    #[error("cannot install {package}")]
    Lock {
        /// The package and version.
        package: String,
        /// What went wrong.
        #[source]
        source: LockError,
    },
    /// The wheel did not come.
    #[error("cannot fetch {package}")]
    Fetch {
        /// The package and version.
        package: String,
        /// The package's name alone.
        name: String,
        /// What went wrong.
        #[source]
        source: Box<FetchError>,
    },
    /// The wheel handed over cannot be read.
    #[error("cannot read the wheel `{}`", path.display())]
    Wheel {
        /// The file handed over.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The wheel does not hold what is pinned, or it cannot be unpacked.
    #[error("cannot unpack {package} from {wheel}")]
    Unpack {
        /// The package and version.
        package: String,
        /// The wheel that it was to come from: the file handed over, or the name of the one fetched.
        wheel: String,
        /// The name under which the makers published it.
        published: String,
        /// Whether the user handed it over.
        handed_over: bool,
        /// What went wrong.
        #[source]
        source: Box<UnpackError>,
    },
    /// No room left.
    #[error("the disk is full: cannot write `{}`", path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// The packages folder cannot be written.
    #[error("cannot write `{}`", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("installing {package} was cancelled")]
    Cancelled {
        /// The package and version.
        package: String,
    },
}

/// What helps when the disk is full.
const FREE_SPACE: &str =
    "free some space and run again, or choose another home with --home or SILICONROUTE_HOME";

impl InstallError {
    /// Whether the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }

    /// Whether there was no room for a file, on the disk or within the limit on the size of files.
    pub fn lacks_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Io { source, .. } => lacks_room(source),
            Self::Fetch { source, .. } => source.lacks_room(),
            Self::Unpack { source, .. } => source.lacks_room(),
            _ => false,
        }
    }

    /// Whether the file handed over is not the package's wheel, or no wheel at all.
    pub fn is_wrong_file(&self) -> bool {
        match self {
            Self::Wheel { .. } => true,
            Self::Unpack { handed_over, source, .. } => {
                *handed_over && !matches!(**source, UnpackError::DiskFull { .. } | UnpackError::Write { .. })
            }
            _ => false,
        }
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Fetch { name, source, .. } => source.hint().map(|hint| {
                if source.is_cured_by_wheel() {
                    let command = format!("`siliconroute packages install {name} --wheel FILE`");
                    format!("{hint}; or hand over its wheel with {command}")
                } else {
                    hint.to_owned()
                }
            }),
            Self::DiskFull { .. } => Some(FREE_SPACE.to_owned()),
            Self::Unpack { source, .. } if matches!(**source, UnpackError::DiskFull { .. }) => {
                Some(FREE_SPACE.to_owned())
            }
            Self::Unpack { published, .. } => {
                Some(format!("hand over the file {published} as its makers published it"))
            }
            _ => None,
        }
    }

    fn write(path: &Path, source: io::Error) -> Self {
        if is_disk_full(&source) {
            Self::DiskFull { path: path.to_owned() }
        } else {
            Self::Io { path: path.to_owned(), source }
        }
    }
}

/// Installs `wheel`, one of `package`'s, below `root`; changes nothing where that version is in place with
/// the right sizes, but a wheel handed over must be one of it then too. Waits while another process installs into `root`.
///
/// `now_unix_s` is the time to record, in seconds since 1970-01-01 UTC.
///
/// # Errors
/// [`InstallError`]; what was there before is then as it was, and nothing half-made is left.
pub fn install(
    root: &Path,
    package: &Package,
    wheel: &Wheel,
    source: Source<'_>,
    now_unix_s: u64,
    progress: &mut dyn Progress,
) -> Result<Installed, InstallError> {
    let label = || format!("{} {}", package.name, package.version);
    let target = root.join(folder_name(&package.name, &package.version));
    let unasked = |present: &Option<Installed>| present.is_some() && matches!(source, Source::Fetch(_));
    let present = already_installed(&target, wheel, progress);
    if unasked(&present)
        && let Some(installed) = present
    {
        return Ok(installed);
    }
    let _lock = FolderLock::acquire(root, progress).map_err(|source| match source {
        LockError::Cancelled => InstallError::Cancelled { package: label() },
        source @ LockError::Io { .. } => InstallError::Lock { package: label(), source },
    })?;
    // Whoever held the lock may have installed just this.
    let present = already_installed(&target, wheel, progress);
    if unasked(&present)
        && let Some(installed) = present
    {
        return Ok(installed);
    }
    let temporary = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(root);
    let temporary = temporary.map_err(|source| InstallError::write(root, source))?;
    // A folder inside, because the temporary one is closed to other users.
    let tree = temporary.path().join("tree");
    fs::create_dir(&tree).map_err(|source| InstallError::write(&tree, source))?;

    let (mut file, wheel_sha256, from) = match source {
        Source::Fetch(fetcher) => fetch(fetcher, package, wheel, temporary.path(), progress)?,
        Source::Wheel(path) => open_handed_over(path, &label, progress)?,
    };
    if let Some(installed) = &present
        && [wheel.pin.sha256(), installed.wheel_sha256].contains(&wheel_sha256)
    {
        return Ok(installed.clone());
    }
    file.rewind().map_err(|source| InstallError::write(&tree, source))?;
    unpack_members(file, &wheel.members, &tree, progress).map_err(|error| match error {
        UnpackError::Cancelled => InstallError::Cancelled { package: label() },
        error => InstallError::Unpack {
            package: label(),
            wheel: match source {
                Source::Fetch(_) => wheel.pin.file().to_owned(),
                Source::Wheel(path) => format!("`{}`", path.display()),
            },
            published: wheel.pin.file().to_owned(),
            handed_over: matches!(source, Source::Wheel(_)),
            source: Box::new(error),
        },
    })?;
    if let Some(installed) = present {
        return Ok(installed);
    }
    let record = Record::new(package, wheel, wheel_sha256, from, now_unix_s);
    write_record(&tree, &record)?;
    put_in_place(root, &tree, &target)?;
    drop(temporary);
    progress.step(Step::Done);
    Ok(record.installed(&target))
}

fn already_installed(target: &Path, wheel: &Wheel, progress: &mut dyn Progress) -> Option<Installed> {
    let installed = load_installed(target).ok().filter(|installed| installed.platform == wheel.platform)?;
    progress.step(Step::Done);
    Some(installed)
}

type OpenWheel = (File, Sha256Digest, InstalledFrom);

fn fetch(
    fetcher: &dyn Fetcher,
    package: &Package,
    wheel: &Wheel,
    temporary: &Path,
    progress: &mut dyn Progress,
) -> Result<OpenWheel, InstallError> {
    let label = format!("{} {}", package.name, package.version);
    let dir = temporary.join("wheel");
    fs::create_dir(&dir).map_err(|source| InstallError::write(&dir, source))?;
    let path = fetch_wheel(fetcher, &wheel.pin, &dir, progress).map_err(|source| match source {
        FetchError::Cancelled => InstallError::Cancelled { package: label },
        source => {
            InstallError::Fetch { package: label, name: package.name.clone(), source: Box::new(source) }
        }
    })?;
    let file = File::open(&path).map_err(|source| InstallError::Io { path, source })?;
    Ok((file, wheel.pin.sha256(), InstalledFrom::Index))
}

fn open_handed_over(
    path: &Path,
    label: &dyn Fn() -> String,
    progress: &mut dyn Progress,
) -> Result<OpenWheel, InstallError> {
    progress.step(Step::Checking);
    let failed = |source| InstallError::Wheel { path: path.to_owned(), source };
    let (file, meta) = open_regular(path).map_err(failed)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a file of a possible size")));
    }
    match hash_file(&file, progress) {
        Ok((digest, _)) => Ok((file, digest, InstalledFrom::WheelFile)),
        Err(CheckError::Cancelled) => Err(InstallError::Cancelled { package: label() }),
        Err(CheckError::Io(source)) => Err(failed(source)),
        Err(other) => Err(failed(io::Error::other(other))),
    }
}

fn write_record(tree: &Path, record: &Record) -> Result<(), InstallError> {
    let path = tree.join(RECORD_FILE);
    let text = serde_json::to_vec_pretty(record).expect("a record has text keys only");
    let mut file = File::create_new(&path).map_err(|source| InstallError::write(&path, source))?;
    file.write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| sync_folder(tree))
        .map_err(|source| InstallError::write(&path, source))
}

/// Moves the finished folder to its final name, out of the way of a damaged one.
fn put_in_place(root: &Path, tree: &Path, target: &Path) -> Result<(), InstallError> {
    let trash = if target.symlink_metadata().is_ok() { Some(move_to_trash(root, target)?) } else { None };
    rename_patiently(tree, target).map_err(|source| InstallError::write(target, source))?;
    sync_folder(root).map_err(|source| InstallError::write(root, source))?;
    drop(trash);
    Ok(())
}

/// Moves a folder below `root` into a trash folder, which is deleted when dropped.
fn move_to_trash(root: &Path, folder: &Path) -> Result<tempfile::TempDir, InstallError> {
    let trash = tempfile::Builder::new().prefix(TRASH).tempdir_in(root);
    let trash = trash.map_err(|source| InstallError::write(root, source))?;
    rename_patiently(folder, &trash.path().join("folder"))
        .map_err(|source| InstallError::write(folder, source))?;
    Ok(trash)
}

/// Renames a folder. On Windows a virus scanner may hold a fresh library open for a moment.
fn rename_patiently(from: &Path, to: &Path) -> io::Result<()> {
    let mut attempts = if cfg!(windows) { 20 } else { 1 };
    loop {
        attempts -= 1;
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && attempts > 0 => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            outcome => return outcome,
        }
    }
}

/// Why a package could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// No version of it is installed.
    #[error("package `{name}` is not installed")]
    NotInstalled {
        /// The name asked for.
        name: String,
    },
    /// The packages folder cannot be locked.
    #[error("cannot remove `{name}`")]
    Lock {
        /// The name asked for.
        name: String,
        /// What went wrong.
        #[source]
        source: LockError,
    },
    /// The packages folder cannot be read.
    #[error("cannot remove `{name}`")]
    List {
        /// The name asked for.
        name: String,
        /// What went wrong.
        #[source]
        source: RecordError,
    },
    /// The folder cannot be moved away; on Windows that is so while a program uses its libraries.
    #[error("cannot remove `{}`; end the programs that use it and run again", path.display())]
    InUse {
        /// The package's folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: Box<InstallError>,
    },
}

impl RemoveError {
    /// Whether the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Lock { source: LockError::Cancelled, .. })
    }
}

/// Removes all installed versions of the package `name`, damaged ones too, and returns their folders.
///
/// # Errors
/// [`RemoveError`]; a folder is either whole or gone.
pub fn remove(root: &Path, name: &str, progress: &mut dyn Progress) -> Result<Vec<PathBuf>, RemoveError> {
    let installed = || -> Result<Vec<PathBuf>, RemoveError> {
        let of_package =
            folders_of(root, name).map_err(|source| RemoveError::List { name: name.to_owned(), source })?;
        if of_package.is_empty() {
            Err(RemoveError::NotInstalled { name: name.to_owned() })
        } else {
            Ok(of_package)
        }
    };
    // Asked before locking too, so that a wrong name makes no folder.
    installed()?;
    let _lock = FolderLock::acquire(root, progress)
        .map_err(|source| RemoveError::Lock { name: name.to_owned(), source })?;
    let folders = installed()?;
    for folder in &folders {
        let trash = move_to_trash(root, folder)
            .map_err(|source| RemoveError::InUse { path: folder.clone(), source: Box::new(source) })?;
        drop(trash);
        break_seal(folder);
    }
    Ok(folders)
}

#[cfg(test)]
mod tests;
