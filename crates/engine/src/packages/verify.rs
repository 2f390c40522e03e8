//! Compares every byte of an installed package with its pins.
//!
//! Invariant: where the table knows the version, its pins count and not the record's, so that a record
//! changed together with a library is noticed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::fetch::{CheckError, hash_file};
use super::pin::MemberPin;
use super::progress::{Progress, Step};
use super::record::{RECORD_FILE, Record, RecordError, package_folders, package_of};
use super::table::Table;

/// What is true of one file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberState {
    /// It is as pinned.
    Intact,
    /// It is not there.
    Missing,
    /// Its bytes differ.
    Tampered,
    /// It does not belong to the package.
    Unexpected,
    /// It cannot be read, for the reason given.
    Unreadable(String),
}

impl std::fmt::Display for MemberState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Intact => f.write_str("intact"),
            Self::Missing => f.write_str("missing"),
            Self::Tampered => f.write_str("its bytes differ"),
            Self::Unexpected => f.write_str("does not belong to the package"),
            Self::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
        }
    }
}

/// The outcome for one installed version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// The package's name.
    pub name: String,
    /// The version in this folder.
    pub version: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Whether the files were compared with the program's own table; otherwise, for a version that the table
    /// does not know, with the record written at installation.
    pub against_table: bool,
    /// Each file by its path in the folder.
    pub members: Vec<(String, MemberState)>,
}

impl VerifyReport {
    /// Whether every file is as pinned and none is foreign.
    pub fn is_intact(&self) -> bool {
        self.members.iter().all(|(_, state)| *state == MemberState::Intact)
    }
}

/// Why a package could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No version of it is installed.
    #[error("package `{name}` is not installed")]
    NotInstalled {
        /// The name asked for.
        name: String,
    },
    /// Its record cannot be used.
    #[error("package `{name}` cannot be verified")]
    Record {
        /// The name asked for.
        name: String,
        /// What is wrong.
        #[source]
        source: RecordError,
    },
    /// The caller asked to stop.
    #[error("verification was cancelled")]
    Cancelled,
}

/// Reads every file of all installed versions of the package `name` and compares it with its pin. Takes as
/// long as reading the files does.
///
/// # Errors
/// [`VerifyError`] where there is nothing to verify; a file that differs is no error but part of the report.
pub fn verify(
    root: &Path,
    table: &Table,
    name: &str,
    progress: &mut dyn Progress,
) -> Result<Vec<VerifyReport>, VerifyError> {
    let record_error = |source| VerifyError::Record { name: name.to_owned(), source };
    let folders = package_folders(root).map_err(record_error)?;
    let mut reports = Vec::new();
    for dir in folders.iter().filter(|folder| package_of(folder) == Some(name)) {
        let record = Record::load(dir).map_err(record_error)?;
        progress.step(Step::Checking);
        reports.push(verify_one(dir, table, &record, progress)?);
    }
    if reports.is_empty() { Err(VerifyError::NotInstalled { name: name.to_owned() }) } else { Ok(reports) }
}

fn verify_one(
    dir: &Path,
    table: &Table,
    record: &Record,
    progress: &dyn Progress,
) -> Result<VerifyReport, VerifyError> {
    let known = table.packages().iter().find(|p| p.name == record.name && p.version == record.version);
    let pinned = known.and_then(|package| package.wheel(record.platform)).map(|wheel| &wheel.members);
    let pins = pinned.unwrap_or(&record.members);
    let mut members = Vec::new();
    for (path, pin) in pins.iter().flat_map(|pin| pin.paths().map(move |path| (path, pin))) {
        members.push((path.to_owned(), state_of(&dir.join(path), pin, progress)?));
    }
    let expected = |path: &str| path == RECORD_FILE || members.iter().any(|(known, _)| known == path);
    let mut foreign = files_below(dir, 0);
    foreign.retain(|path| !expected(path));
    members.extend(foreign.into_iter().map(|path| (path, MemberState::Unexpected)));
    Ok(VerifyReport {
        name: record.name.clone(),
        version: record.version.clone(),
        dir: dir.to_owned(),
        against_table: pinned.is_some(),
        members,
    })
}

fn state_of(path: &Path, pin: &MemberPin, progress: &dyn Progress) -> Result<MemberState, VerifyError> {
    let unreadable = |error: &io::Error| MemberState::Unreadable(error.to_string());
    // A link would be read wherever it leads.
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() || meta.len() != pin.size_bytes => return Ok(MemberState::Tampered),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(MemberState::Missing),
        Err(error) => return Ok(unreadable(&error)),
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(unreadable(&error)),
    };
    match hash_file(file, progress) {
        Ok((digest, _)) if digest == pin.sha256 => Ok(MemberState::Intact),
        Ok(_) => Ok(MemberState::Tampered),
        Err(CheckError::Cancelled) => Err(VerifyError::Cancelled),
        Err(CheckError::Io(error)) => Ok(unreadable(&error)),
        Err(other) => Ok(MemberState::Unreadable(other.to_string())),
    }
}

/// Relative paths of everything below `dir` that is no folder, with `/` between the parts; links are not
/// followed.
fn files_below(dir: &Path, depth: usize) -> Vec<String> {
    const DEEPEST: usize = 16;
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else { return files };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && depth < DEEPEST {
            files.extend(files_below(&entry.path(), depth + 1).iter().map(|below| format!("{name}/{below}")));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests;
