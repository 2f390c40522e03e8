//! What is installed: the record beside each package's files, and the list of them.
//!
//! Invariant: a folder without a readable record whose files have the recorded sizes is not installed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fit::Platform;
use super::pin::{MemberPin, Sha256Digest};
use super::table::{Package, PackageKind, Provider, Table, Wheel, is_package_name};
use crate::regular_file::read_regular;

/// The file name of a record.
pub(super) const RECORD_FILE: &str = "package.json";

/// The version of the record's format that this program writes.
const SCHEMA: u32 = 1;

/// No record is larger, in bytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// How a package came to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstalledFrom {
    /// Fetched by pip or uv.
    Index,
    /// Handed over as a wheel file.
    WheelFile,
}

/// A package in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it is a runtime library or a plugin.
    pub kind: PackageKind,
    /// The platform its libraries are for.
    pub platform: Platform,
    /// The providers it brings here, the main one first.
    pub providers: Vec<Provider>,
    /// Its folder.
    pub dir: PathBuf,
    /// The library to load.
    pub library: PathBuf,
    /// The folder to put on the loader's search path of the worker that loads the library, where its
    /// libraries find each other only so.
    pub search_path: Option<PathBuf>,
    /// The hash of the wheel it came from.
    pub wheel_sha256: Sha256Digest,
    /// When it was installed, in seconds since 1970-01-01 UTC.
    pub installed_at_unix_s: u64,
    /// How it came to the machine.
    pub source: InstalledFrom,
    /// Bytes of its files; those reached by several names count once.
    pub size_bytes: u64,
}

/// Why a folder holds no usable package.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The packages folder itself cannot be read.
    #[error("cannot list the packages folder `{}`", path.display())]
    Root {
        /// The packages folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The record is missing or cannot be read.
    #[error("cannot read the record of `{}`; remove the package and install it again", dir.display())]
    Unreadable {
        /// The package's folder.
        dir: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The record is not what this program writes.
    #[error("the record of `{}` is damaged ({what}); remove the package and install it again", dir.display())]
    Damaged {
        /// The package's folder.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The record was written by a newer program.
    #[error("the record of `{}` has schema {found}, this program reads {SCHEMA}", dir.display())]
    Newer {
        /// The package's folder.
        dir: PathBuf,
        /// The schema found.
        found: u64,
    },
    /// A file is missing or has another size than recorded.
    #[error("`{}` lacks `{member}` in the recorded size; remove the package and install it again", dir.display())]
    Incomplete {
        /// The package's folder.
        dir: PathBuf,
        /// The file's path in it.
        member: String,
    },
    /// It is none of the packages that this program knows or has installed.
    #[error("`{}` is no package ({reason}); remove it", path.display())]
    Stray {
        /// The file or folder.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
}

impl RecordError {
    /// The folder that holds no usable package; `None` where it is all of them, or something else than a package.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Root { .. } | Self::Stray { .. } => None,
            Self::Unreadable { dir, .. }
            | Self::Damaged { dir, .. }
            | Self::Newer { dir, .. }
            | Self::Incomplete { dir, .. } => Some(dir),
        }
    }

    /// What is wrong, without where and what to do about it.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Root { source, .. } | Self::Unreadable { source, .. } => source.to_string(),
            Self::Damaged { what, .. } => what.clone(),
            Self::Newer { found, .. } => format!("it has schema {found}, this program reads {SCHEMA}"),
            Self::Incomplete { member, .. } => format!("`{member}` has not the recorded size"),
            Self::Stray { reason, .. } => reason.clone(),
        }
    }
}

/// The contents of `package.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    schema: u64,
    pub(super) name: String,
    pub(super) version: String,
    kind: PackageKind,
    pub(super) platform: Platform,
    providers: Vec<Provider>,
    library: String,
    needs_search_path: bool,
    pub(super) wheel_sha256: Sha256Digest,
    source: InstalledFrom,
    installed_at_unix_s: u64,
    pub(super) members: Vec<MemberPin>,
}

impl Record {
    pub(super) fn new(
        package: &Package,
        wheel: &Wheel,
        wheel_sha256: Sha256Digest,
        source: InstalledFrom,
        installed_at_unix_s: u64,
    ) -> Self {
        Self {
            schema: u64::from(SCHEMA),
            name: package.name.clone(),
            version: package.version.clone(),
            kind: package.kind,
            platform: wheel.platform,
            providers: package.providers_on(wheel.platform).cloned().collect(),
            library: wheel.library.clone(),
            needs_search_path: wheel.needs_search_path,
            wheel_sha256,
            source,
            installed_at_unix_s,
            members: wheel.members.clone(),
        }
    }

    /// Loads the record of the package in `dir` and checks that it makes sense.
    pub(super) fn load(dir: &Path) -> Result<Self, RecordError> {
        let damaged = |what: String| RecordError::Damaged { dir: dir.to_owned(), what };
        let unreadable = |source| RecordError::Unreadable { dir: dir.to_owned(), source };
        let text = read_regular(&dir.join(RECORD_FILE), MAX_RECORD_BYTES).map_err(unreadable)?;
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|e| damaged(format!("not JSON: {e}")))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(SCHEMA) => {
                return Err(RecordError::Newer { dir: dir.to_owned(), found });
            }
            Some(_) => {}
            None => return Err(damaged("no schema".to_owned())),
        }
        let record: Self = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
        record.check(dir).map_err(damaged)?;
        Ok(record)
    }

    fn check(&self, dir: &Path) -> Result<(), String> {
        if !is_package_name(&self.name) {
            return Err(format!("`{}` is not a package name", self.name));
        }
        let folder = folder_name(&self.name, &self.version);
        if dir.file_name() != Some(folder.as_ref()) {
            return Err(format!("it belongs into `{folder}`"));
        }
        self.members.iter().try_for_each(MemberPin::check).map_err(|e| e.to_string())?;
        if !self.members.iter().any(|member| member.path == self.library) {
            return Err(format!("`{}` is none of its files", self.library));
        }
        Ok(())
    }

    pub(super) fn installed(&self, dir: &Path) -> Installed {
        let library = dir.join(&self.library);
        Installed {
            name: self.name.clone(),
            version: self.version.clone(),
            kind: self.kind,
            platform: self.platform,
            providers: self.providers.clone(),
            dir: dir.to_owned(),
            search_path: library.parent().filter(|_| self.needs_search_path).map(Path::to_owned),
            library,
            wheel_sha256: self.wheel_sha256,
            installed_at_unix_s: self.installed_at_unix_s,
            source: self.source,
            size_bytes: self.members.iter().map(|m| m.size_bytes).fold(0, u64::saturating_add),
        }
    }
}

/// The name of a package's folder. Package names have no `-`, so it can be taken apart again.
pub(super) fn folder_name(name: &str, version: &str) -> String {
    format!("{name}-{version}")
}

/// Loads what is installed in `dir`, comparing sizes only.
pub(super) fn load_installed(dir: &Path) -> Result<Installed, RecordError> {
    let record = Record::load(dir)?;
    complete(dir, &record)?;
    Ok(record.installed(dir))
}

fn complete(dir: &Path, record: &Record) -> Result<(), RecordError> {
    for member in &record.members {
        let complete = |path: &str| {
            fs::metadata(dir.join(path)).is_ok_and(|m| m.is_file() && m.len() == member.size_bytes)
        };
        if let Some(missing) = member.paths().find(|path| !complete(path)) {
            return Err(RecordError::Incomplete { dir: dir.to_owned(), member: missing.to_owned() });
        }
    }
    Ok(())
}

/// Loads the record of `entry`, something in the packages folder. One without a usable record is a stray
/// unless it bears the very name of a package of the table, which is then damaged.
pub(super) fn load_record(entry: &Path, table: &Table) -> Result<Record, RecordError> {
    let stray = |reason: String| RecordError::Stray { path: entry.to_owned(), reason };
    if !entry.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(stray("it is no folder".to_owned()));
    }
    let Some((name, version)) = name_and_version(entry) else {
        return Err(stray("it is not named as one".to_owned()));
    };
    let known = table.get(name).is_some_and(|package| package.version == version);
    Record::load(entry).map_err(|error| match error {
        RecordError::Unreadable { .. } | RecordError::Damaged { .. } if !known => stray(error.reason()),
        error => error,
    })
}

/// Everything below `root` that is not hidden, sorted; nothing where `root` does not exist.
pub(super) fn package_entries(root: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let failed = |source| RecordError::Root { path: root.to_owned(), source };
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The folders below `root` that are named as the package `name`, sorted.
pub(super) fn folders_of(root: &Path, name: &str) -> Result<Vec<PathBuf>, RecordError> {
    let mut folders = package_entries(root)?;
    folders.retain(|entry| {
        package_of(entry) == Some(name) && entry.symlink_metadata().is_ok_and(|meta| meta.is_dir())
    });
    Ok(folders)
}

/// The name of the package that a folder belongs to, by its own name.
pub(super) fn package_of(folder: &Path) -> Option<&str> {
    name_and_version(folder).map(|(name, _)| name)
}

/// The package's name and version that a folder is named by.
pub(super) fn name_and_version(folder: &Path) -> Option<(&str, &str)> {
    let parts = folder.file_name()?.to_str()?.split_once('-')?;
    is_package_name(parts.0).then_some(parts)
}

/// Lists what is installed below `root`, by folder name. Reads each record and the sizes of its files, no
/// more; [`verify`](super::verify()) compares every byte.
///
/// A damaged package or a stray is an error of its own entry and does not hide the others.
pub fn list_installed(root: &Path, table: &Table) -> Vec<Result<Installed, RecordError>> {
    let load = |entry: &PathBuf| {
        let record = load_record(entry, table)?;
        complete(entry, &record)?;
        Ok(record.installed(entry))
    };
    match package_entries(root) {
        Ok(entries) => entries.iter().map(load).collect(),
        Err(error) => vec![Err(error)],
    }
}

#[cfg(test)]
mod tests;
