//! Compares installed packages with their pins: every byte, or only what changed since that was last done.
//!
//! Invariant: where the table knows the version, its pins count and not the record's, so that a record
//! changed together with a library is noticed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::fetch::{CheckError, hash_file};
use super::pin::MemberPin;
use super::progress::{Progress, Step};
use super::record::{
    RECORD_FILE, Record, RecordError, load_record, name_and_version, package_entries, package_of,
};
use super::seal::{Seal, Stamp, break_seal};
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

/// The outcome for a packages folder, or for one package in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Each installed version, damaged ones too.
    pub reports: Vec<VerifyReport>,
    /// What lies in the packages folder and is no package.
    pub strays: Vec<PathBuf>,
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
    /// The packages folder cannot be listed.
    #[error("cannot verify the packages")]
    List {
        /// What is wrong.
        #[source]
        source: RecordError,
    },
    /// The caller asked to stop.
    #[error("verification was cancelled")]
    Cancelled,
}

/// Reads every file of all installed versions of the package `name`, or of all packages, and compares it with
/// its pin. Takes as long as reading the files does.
///
/// # Errors
/// [`VerifyError`] where there is nothing to verify; what is wrong with one package is no error but part of
/// its report, and what is no package is one of the strays.
pub fn verify(
    root: &Path,
    table: &Table,
    name: Option<&str>,
    progress: &mut dyn Progress,
) -> Result<Verification, VerifyError> {
    let entries = package_entries(root).map_err(|source| VerifyError::List { source })?;
    let mut found = Verification::default();
    for dir in entries.into_iter().filter(|entry| name.is_none() || package_of(entry) == name) {
        progress.step(Step::Checking);
        match load_record(&dir, table) {
            Ok(record) => found.reports.push(verify_one(&dir, table, &record, None, progress)?),
            Err(RecordError::Stray { path, .. }) => found.strays.push(path),
            Err(error) => found.reports.push(without_record(&dir, &error)),
        }
    }
    match name {
        Some(name) if found.reports.is_empty() => Err(VerifyError::NotInstalled { name: name.to_owned() }),
        _ => Ok(found),
    }
}

/// Says whether the package in `dir`, as [`Installed::dir`](super::Installed) names it, is what its pins say.
///
/// Files that are as they were when their bytes were last compared are not read again, so that a package in
/// which nothing changed takes well under a millisecond.
///
/// # Errors
/// [`VerifyError::Cancelled`]; what is wrong with the package is part of the report.
pub fn verify_changes(
    dir: &Path,
    table: &Table,
    progress: &mut dyn Progress,
) -> Result<VerifyReport, VerifyError> {
    match load_record(dir, table) {
        Ok(record) => {
            let seal = Seal::load(dir, pins_of(&record, table).0);
            verify_one(dir, table, &record, seal.as_ref(), progress)
        }
        Err(error) => Ok(without_record(dir, &error)),
    }
}

/// The report of a package whose record is of no use.
fn without_record(dir: &Path, error: &RecordError) -> VerifyReport {
    let (name, version) = name_and_version(dir).unwrap_or_default();
    VerifyReport {
        name: name.to_owned(),
        version: version.to_owned(),
        dir: dir.to_owned(),
        against_table: false,
        members: vec![(RECORD_FILE.to_owned(), MemberState::Unreadable(error.reason()))],
    }
}

/// The pins that count, and whether they are the table's.
fn pins_of<'a>(record: &'a Record, table: &'a Table) -> (&'a [MemberPin], bool) {
    let known = table.packages().iter().find(|p| p.name == record.name && p.version == record.version);
    match known.and_then(|package| package.wheel(record.platform)) {
        Some(wheel) => (&wheel.members, true),
        None => (&record.members, false),
    }
}

/// Compares one package with its pins and keeps its seal, or breaks it. Files that bear the stamp of `seal`
/// are not read.
fn verify_one(
    dir: &Path,
    table: &Table,
    record: &Record,
    seal: Option<&Seal>,
    progress: &dyn Progress,
) -> Result<VerifyReport, VerifyError> {
    let (pins, against_table) = pins_of(record, table);
    let mut members = Vec::new();
    let mut stamps = Vec::new();
    for (path, pin) in pins.iter().flat_map(|pin| pin.paths().map(move |path| (path, pin))) {
        let sealed = seal.and_then(|seal| seal.stamp(path));
        let (state, stamp) = state_of(&dir.join(path), pin, sealed, progress)?;
        stamps.extend(stamp.map(|stamp| (path.to_owned(), stamp)));
        members.push((path.to_owned(), state));
    }
    let expected = |path: &str| path == RECORD_FILE || members.iter().any(|(known, _)| known == path);
    let mut foreign = files_below(dir, 0);
    foreign.retain(|path| !expected(path));
    members.extend(foreign.into_iter().map(|path| (path, MemberState::Unexpected)));
    let report = VerifyReport {
        name: record.name.clone(),
        version: record.version.clone(),
        dir: dir.to_owned(),
        against_table,
        members,
    };
    if report.is_intact() {
        let new = Seal::new(pins, stamps);
        if seal != Some(&new) {
            new.save(dir);
        }
    } else {
        break_seal(dir);
    }
    Ok(report)
}

/// The state of one file, and the stamp under which its bytes are known to be as pinned.
fn state_of(
    path: &Path,
    pin: &MemberPin,
    sealed: Option<Stamp>,
    progress: &dyn Progress,
) -> Result<(MemberState, Option<Stamp>), VerifyError> {
    let unreadable = |error: &io::Error| (MemberState::Unreadable(error.to_string()), None);
    // A link would be read wherever it leads.
    let before = match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() || meta.len() != pin.size_bytes => {
            return Ok((MemberState::Tampered, None));
        }
        Ok(meta) => Stamp::of(&meta),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((MemberState::Missing, None)),
        Err(error) => return Ok(unreadable(&error)),
    };
    if sealed == Some(before) {
        return Ok((MemberState::Intact, sealed));
    }
    before.settle();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(unreadable(&error)),
    };
    match hash_file(&file, progress) {
        Ok((digest, _)) if digest == pin.sha256 => {
            // What changed while it was read may differ from what was read.
            let after = file.metadata().ok().map(|meta| Stamp::of(&meta));
            Ok((MemberState::Intact, after.filter(|after| *after == before)))
        }
        Ok(_) => Ok((MemberState::Tampered, None)),
        Err(CheckError::Cancelled) => Err(VerifyError::Cancelled),
        Err(CheckError::Io(error)) => Ok(unreadable(&error)),
        Err(other) => Ok((MemberState::Unreadable(other.to_string()), None)),
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
