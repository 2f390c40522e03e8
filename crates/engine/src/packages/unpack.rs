//! Takes named files out of a wheel.
//!
//! Invariant: a file that stays on disk has the pinned size and hash, and lies below the folder given; the
//! archive's own idea of paths is used for look-up only.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use super::pin::{InvalidPin, MemberPin, Sha256Digest};
use super::progress::{Progress, Step};

/// Why a wheel could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive is damaged or no archive at all.
    #[error("the file is not a readable wheel")]
    NotAWheel(#[source] ZipError),
    /// The pin itself is unusable.
    #[error("a file to unpack is pinned wrongly")]
    Pin(#[source] InvalidPin),
    /// The wheel lacks a file.
    #[error("the wheel has no file `{member}`")]
    Missing {
        /// The path looked for.
        member: String,
    },
    /// A link or folder stands where a file is expected, or the file is encrypted.
    #[error("`{member}` in the wheel is not a plain file")]
    NotAFile {
        /// The path looked for.
        member: String,
    },
    /// The file has another size than pinned.
    #[error("`{member}` in the wheel has {found} bytes instead of {expected}")]
    WrongSize {
        /// The path of the file.
        member: String,
        /// The pinned size.
        expected: u64,
        /// The size that the wheel declares, or at which it went on beyond the pinned one.
        found: u64,
    },
    /// The file has other bytes than pinned.
    #[error("`{member}` in the wheel has sha256 {found} instead of {expected}")]
    WrongHash {
        /// The path of the file.
        member: String,
        /// The pinned hash.
        expected: Sha256Digest,
        /// The hash found.
        found: Sha256Digest,
    },
    /// The compressed data cannot be read.
    #[error("`{member}` in the wheel cannot be read")]
    Read {
        /// The path of the file.
        member: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// No room left.
    #[error("the disk is full: `{}` needs {size_bytes} bytes", path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
        /// Its whole size.
        size_bytes: u64,
    },
    /// Writing failed for another reason.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file being written.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("unpacking was cancelled")]
    Cancelled,
}

/// Unpacks `members` out of the wheel into the folder `into`, which must exist and be empty of them, and
/// flushes everything to disk.
///
/// On an error some files may have been written: the caller removes the folder.
///
/// # Errors
/// [`UnpackError`] for the first file that is missing, differs from its pin or cannot be written.
pub fn unpack_members<R: Read + Seek>(
    wheel: R,
    members: &[MemberPin],
    into: &Path,
    progress: &mut dyn Progress,
) -> Result<(), UnpackError> {
    members.iter().try_for_each(MemberPin::check).map_err(UnpackError::Pin)?;
    let mut archive = ZipArchive::new(wheel).map_err(UnpackError::NotAWheel)?;
    let mut folders = BTreeSet::from([into.to_owned()]);
    for member in members {
        progress.step(Step::Unpacking { member: &member.path });
        let target = prepare(into, &member.path, &mut folders)?;
        unpack_one(&mut archive, member, &target, progress)?;
        for also in &member.also {
            let link = prepare(into, also, &mut folders)?;
            // Not every file system has hard links.
            fs::hard_link(&target, &link)
                .or_else(|_| fs::copy(&target, &link).map(drop))
                .map_err(|source| write_error(&link, member.size_bytes, source))?;
        }
    }
    folders.iter().rev().try_for_each(|folder| {
        sync_folder(folder).map_err(|source| UnpackError::Write { path: folder.clone(), source })
    })
}

/// Makes the folders above `path` and returns where it goes.
fn prepare(into: &Path, path: &str, folders: &mut BTreeSet<PathBuf>) -> Result<PathBuf, UnpackError> {
    let target: PathBuf = into.iter().chain(path.split('/').map(AsRef::as_ref)).collect();
    for folder in target.ancestors().skip(1).take_while(|folder| *folder != into) {
        folders.insert(folder.to_owned());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|source| write_error(parent, 0, source))?;
    }
    Ok(target)
}

fn unpack_one<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    member: &MemberPin,
    target: &Path,
    progress: &dyn Progress,
) -> Result<(), UnpackError> {
    let name = || member.path.clone();
    let entry = archive.by_name(&member.path).map_err(|error| match error {
        ZipError::FileNotFound => UnpackError::Missing { member: name() },
        ZipError::InvalidPassword => UnpackError::NotAFile { member: name() },
        other => UnpackError::Read { member: name(), source: other.into() },
    })?;
    if !entry.is_file() || entry.is_symlink() || entry.encrypted() {
        return Err(UnpackError::NotAFile { member: name() });
    }
    if entry.size() != member.size_bytes {
        return Err(UnpackError::WrongSize {
            member: name(),
            expected: member.size_bytes,
            found: entry.size(),
        });
    }
    let file = OpenOptions::new().write(true).create_new(true).open(target);
    let mut file = file.map_err(|source| write_error(target, member.size_bytes, source))?;
    copy_checked(entry, &mut file, member, target, progress)?;
    file.sync_all().map_err(|source| write_error(target, member.size_bytes, source))
}

/// Copies one member to `file` and compares it with its pin; never writes more than the pinned size.
fn copy_checked(
    entry: impl Read,
    file: &mut impl Write,
    member: &MemberPin,
    target: &Path,
    progress: &dyn Progress,
) -> Result<(), UnpackError> {
    let mut hash = Sha256::new();
    let mut copied = 0;
    // One byte more than pinned shows that the declared size was a lie.
    let mut entry = entry.take(member.size_bytes.saturating_add(1));
    let mut buffer = vec![0; 128 << 10];
    loop {
        if progress.is_cancelled() {
            return Err(UnpackError::Cancelled);
        }
        let read = match entry.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => return Err(UnpackError::Read { member: member.path.clone(), source }),
        };
        copied += read as u64;
        if copied > member.size_bytes {
            break;
        }
        hash.update(&buffer[..read]);
        file.write_all(&buffer[..read]).map_err(|source| write_error(target, member.size_bytes, source))?;
    }
    if copied != member.size_bytes {
        let (expected, found) = (member.size_bytes, copied);
        return Err(UnpackError::WrongSize { member: member.path.clone(), expected, found });
    }
    let found = Sha256Digest(hash.finalize().into());
    if found != member.sha256 {
        let expected = member.sha256;
        return Err(UnpackError::WrongHash { member: member.path.clone(), expected, found });
    }
    Ok(())
}

fn write_error(path: &Path, size_bytes: u64, source: io::Error) -> UnpackError {
    if is_disk_full(&source) {
        UnpackError::DiskFull { path: path.to_owned(), size_bytes }
    } else {
        UnpackError::Write { path: path.to_owned(), source }
    }
}

impl UnpackError {
    /// Whether there was no room for a file, on the disk or within the limit on the size of files.
    pub fn lacks_room(&self) -> bool {
        match self {
            Self::DiskFull { .. } => true,
            Self::Write { source, .. } => lacks_room(source),
            _ => false,
        }
    }
}

/// Whether a file found no room, on the disk or within the limit on the size of files.
pub(super) fn lacks_room(error: &io::Error) -> bool {
    is_disk_full(error) || error.kind() == io::ErrorKind::FileTooLarge
}

/// Whether there is no room left, on the disk or in the user's share of it.
pub(super) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes the entries of a folder survive a power cut, where the system lets folders be flushed.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests;
