//! A private copy of a store, for those who may read it and not write it.
//!
//! Invariant: the original, its folder and the files beside it stay byte for byte what they were; what is
//! written to the copy goes with it.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use tempfile::TempDir;

use crate::error::OpenError;
use crate::open::{
    LOG_INDEX, OpenOptions, ROLLBACK_JOURNAL, Standing, WRITE_AHEAD_LOG, beside, configure, connect,
    connect_immutable, has_log, identify, read_header,
};
use crate::schema;

/// Pages up to so many KiB stay in memory; a larger copy goes on in a temporary file.
const MEMORY_KIB: i64 = 64 << 10;

/// How often an original that changes while it is read is read anew.
const ATTEMPTS: u32 = 3;

/// Opens a copy of the store at `path`, brought to the version that `steps` lead to; an empty one if there is none.
pub(crate) fn open_copy(path: &Path, busy_timeout_ms: u32, steps: &[&str]) -> Result<Connection, OpenError> {
    let sort = |error| OpenError::sort(path, busy_timeout_ms, error);
    for _ in 0..ATTEMPTS {
        let before = stamps(path);
        let mut copy = open_nothing(path)?;
        if let Some(original) = open_original(path, busy_timeout_ms, steps.len() as u32)? {
            let done = Backup::new(&original.connection, &mut copy).and_then(|backup| backup.step(-1));
            if done.map_err(sort)? != StepResult::Done {
                continue;
            }
        }
        // At rest the original is read as if nobody could change it, so it is made sure that nobody has.
        if stamps(path) != before {
            continue;
        }
        schema::migrate(&mut copy, steps).map_err(sort)?;
        return Ok(copy);
    }
    let source = "it changed again and again while it was read".into();
    Err(OpenError::Locked { path: path.to_owned(), waited_ms: busy_timeout_ms, source })
}

/// Opens a store of no measurements that stands in for the one at `path`.
pub(crate) fn open_empty(path: &Path, steps: &[&str]) -> Result<Connection, OpenError> {
    let mut connection = open_nothing(path)?;
    schema::migrate(&mut connection, steps).map_err(|error| OpenError::sort(path, 0, error))?;
    Ok(connection)
}

/// A database that ends with its connection: in memory, and in a nameless temporary file where it grows large.
fn open_nothing(path: &Path) -> Result<Connection, OpenError> {
    let sort = |error| OpenError::sort(path, 0, error);
    let connection = Connection::open("").map_err(sort)?;
    configure(&connection, 0).map_err(sort)?;
    connection.pragma_update(None, "cache_size", -MEMORY_KIB).map_err(sort)?;
    Ok(connection)
}

/// A store that is open for reading. The connection is closed before its folder goes.
pub(crate) struct Original {
    pub(crate) connection: Connection,
    _folder: Option<TempDir>,
}

/// Opens the store at `path` for reading; `None` where it holds nothing yet.
fn open_original(path: &Path, busy_timeout_ms: u32, supported: u32) -> Result<Option<Original>, OpenError> {
    let Some(header) = read_header(path)? else { return Ok(None) };
    header.refuse_foreign(path, supported)?;
    let reading = OpenOptions { read_only: true, busy_timeout_ms };
    let found = match open_beside_nothing(path, busy_timeout_ms)? {
        Some(original) => {
            accept(&original.connection, path, busy_timeout_ms, supported).map(|it| (it, original))
        }
        None => connect(path, &reading).and_then(|connection| {
            let original = Original { connection, _folder: None };
            accept(&original.connection, path, busy_timeout_ms, supported).map(|it| (it, original))
        }),
    };
    let (standing, original) = match found {
        // The log can only be read with an index beside it, which nobody may make there.
        Err(OpenError::ReadOnly { .. }) if has_log(path) => {
            let original = open_elsewhere(path, busy_timeout_ms)?;
            (accept(&original.connection, path, busy_timeout_ms, supported)?, original)
        }
        found => found?,
    };
    Ok(if let Standing::New = standing { None } else { Some(original) })
}

/// Opens the store at `path` for reading without making anything beside it; `None` where others are at work on it, who
/// have made already what would be made.
///
/// Even to read a store at rest, SQLite would make files beside it, and so it would for a log whose writer is gone.
pub(crate) fn open_beside_nothing(path: &Path, busy_timeout_ms: u32) -> Result<Option<Original>, OpenError> {
    match (has_log(path), beside(path, LOG_INDEX).exists()) {
        (false, false) => {
            let at_rest = connect_immutable(path, busy_timeout_ms)?;
            Ok(at_rest.map(|connection| Original { connection, _folder: None }))
        }
        (true, false) => open_elsewhere(path, busy_timeout_ms).map(Some),
        (_, true) => Ok(None),
    }
}

fn accept(
    connection: &Connection,
    path: &Path,
    busy_timeout_ms: u32,
    supported: u32,
) -> Result<Standing, OpenError> {
    let sort = |error| OpenError::sort(path, busy_timeout_ms, error);
    identify(connection, path, supported).map_err(|failure| failure.sorted(sort))
}

/// Opens database and log where an index can be made: in a temporary folder.
fn open_elsewhere(path: &Path, busy_timeout_ms: u32) -> Result<Original, OpenError> {
    let unreadable = |source| OpenError::Io { path: path.to_owned(), source };
    let folder = tempfile::tempdir().map_err(unreadable)?;
    let database = folder.path().join("store");
    fs::copy(path, &database).map_err(unreadable)?;
    for ending in [WRITE_AHEAD_LOG, ROLLBACK_JOURNAL] {
        let log = beside(path, ending);
        if log.exists() {
            fs::copy(log, beside(&database, ending)).map_err(unreadable)?;
        }
    }
    let connection = connect(&database, &OpenOptions { read_only: false, busy_timeout_ms })?;
    Ok(Original { connection, _folder: Some(folder) })
}

/// Size and time of change of a database and its logs.
pub(crate) fn stamps(path: &Path) -> [Option<(u64, Option<SystemTime>)>; 3] {
    [path.to_owned(), beside(path, WRITE_AHEAD_LOG), beside(path, ROLLBACK_JOURNAL)].map(|file| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.len(), metadata.modified().ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, schema::MIGRATIONS};

    #[test]
    fn a_log_without_its_index_is_read_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = Store::open(&path, &OpenOptions::default()).unwrap();
        writer.close_abandoned_campaigns().unwrap();
        let log = beside(&path, WRITE_AHEAD_LOG);
        assert!(has_log(&path) && fs::metadata(&log).unwrap().len() > 0);
        let original = open_elsewhere(&path, 50).unwrap();
        let standing = accept(&original.connection, &path, 50, MIGRATIONS.len() as u32).unwrap();
        assert!(matches!(standing, Standing::Current));
        assert_eq!(schema::version(&original.connection).unwrap(), i64::from(crate::SCHEMA_VERSION));
    }
}
