//! Opens the file: whose it is, which version it has, and how the connection behaves.
//!
//! Invariant: a file that is not accepted is byte for byte what it was before, and nothing was made beside it.
//! File format: <https://www.sqlite.org/fileformat2.html>.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{OpenError, is_full, lacks_index};
use crate::schema::{self, APPLICATION_ID};

/// How a store is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Only read: nothing is created, migrated or written.
    pub read_only: bool,
    /// How long a write waits for another process.
    pub busy_timeout_ms: u32,
}

impl Default for OpenOptions {
    /// For reading and writing, waiting up to 5 s for another process.
    fn default() -> Self {
        Self { read_only: false, busy_timeout_ms: 5_000 }
    }
}

/// Opens `path` at the version that `steps` lead to.
pub(crate) fn open(path: &Path, options: &OpenOptions, steps: &[&str]) -> Result<Connection, OpenError> {
    let supported = steps.len() as u32;
    let sort = |error| OpenError::sort(path, options.busy_timeout_ms, error);
    match read_header(path)? {
        // SQLite itself would only be asked about a file that may be ours: opening a database, even to
        // look at it, may roll a journal back or move a write-ahead log into the file.
        Some(header) => {
            header.refuse_foreign(path, supported)?;
            first_look::refuse_unusable(path, options.busy_timeout_ms, supported)?;
        }
        None if options.read_only => return Err(OpenError::Missing { path: path.to_owned() }),
        None => {}
    }
    let mut connection = connect(path, options)?;
    match identify(&connection, path, supported).map_err(|failure| failure.sorted(sort))? {
        Standing::Current => {}
        Standing::New if options.read_only => return Err(OpenError::Missing { path: path.to_owned() }),
        Standing::Older(found) if options.read_only => {
            return Err(OpenError::OlderSchema { path: path.to_owned(), found, supported });
        }
        Standing::New | Standing::Older(_) => {
            use_write_ahead_log(&connection, options.busy_timeout_ms).map_err(sort)?;
            schema::migrate(&mut connection, steps).map_err(sort)?;
        }
    }
    if !options.read_only {
        // Without shared memory, as on some network drives, SQLite stays with a rollback journal, where
        // NORMAL could lose the whole file in a power cut.
        let safe = use_write_ahead_log(&connection, options.busy_timeout_ms).map_err(sort)?;
        let level = if safe { "NORMAL" } else { "FULL" };
        connection.pragma_update(None, "synchronous", level).map_err(sort)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(sort)?;
    }
    Ok(connection)
}

/// The parts of a database's first 100 bytes that say whose it is.
pub(crate) struct Header {
    magic: bool,
    schema_cookie: u32,
    user_version: u32,
    application_id: u32,
}

/// Reads the header; `None` when there is no file or it is empty.
pub(crate) fn read_header(path: &Path) -> Result<Option<Header>, OpenError> {
    let io_error = |source| OpenError::Io { path: path.to_owned(), source };
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => {}
        // A folder cannot be read, and a pipe might never answer.
        Ok(_) => return Err(io_error(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    }
    let mut bytes = Vec::with_capacity(100);
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut bytes)).map_err(io_error)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
    let magic = bytes.starts_with(b"SQLite format 3\0") && bytes.len() == 100;
    Ok(Some(Header {
        magic,
        schema_cookie: number(40),
        user_version: number(60),
        application_id: number(68),
    }))
}

impl Header {
    /// Refuses what the header alone shows not to be ours or to be too new.
    ///
    /// Id and version may also lie in a write-ahead log that was not yet moved into the file. There they
    /// can only have become ours or newer, so a refusal stands and an acceptance is checked again.
    pub(crate) fn refuse_foreign(&self, path: &Path, supported: u32) -> Result<(), OpenError> {
        let path = path.to_owned();
        if !self.magic {
            let source = "the file does not begin with a database header".into();
            return Err(OpenError::NotADatabase { path, source });
        }
        match self.application_id {
            APPLICATION_ID if self.user_version > supported => {
                Err(OpenError::NewerSchema { path, found: self.user_version, supported })
            }
            APPLICATION_ID => Ok(()),
            // A store that was only begun has no table yet, and the cookie counts changes of the schema.
            0 if self.schema_cookie == 0 => Ok(()),
            found => Err(OpenError::WrongApplication { path, found }),
        }
    }
}

/// Opens a connection and sets how it behaves; the database itself is not looked at yet.
pub(crate) fn connect(path: &Path, options: &OpenOptions) -> Result<Connection, OpenError> {
    let sort = |error| OpenError::sort(path, options.busy_timeout_ms, error);
    let access = if options.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    };
    let access = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, access).map_err(sort)?;
    configure(&connection, options.busy_timeout_ms).map_err(sort)?;
    if !options.read_only && connection.is_readonly("main").map_err(sort)? {
        return Err(OpenError::ReadOnly { path: path.to_owned(), source: None });
    }
    if options.read_only && cannot_share(&connection) && !has_log(path) {
        return Ok(connect_immutable(path, options.busy_timeout_ms)?.unwrap_or(connection));
    }
    Ok(connection)
}

/// Opens a file that nobody changes meanwhile, without locks and side files; `None` where its name is no Unicode.
pub(crate) fn connect_immutable(path: &Path, busy_timeout_ms: u32) -> Result<Option<Connection>, OpenError> {
    let sort = |error| OpenError::sort(path, busy_timeout_ms, error);
    let Some(uri) = immutable_uri(path) else { return Ok(None) };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(sort)?;
    configure(&connection, busy_timeout_ms).map_err(sort)?;
    Ok(Some(connection))
}

/// Settings of the connection, none of which reads the file.
pub(crate) fn configure(connection: &Connection, busy_timeout_ms: u32) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(busy_timeout_ms.into()))?;
    // Closing would move a write-ahead log into a file that may yet be refused.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    // A store may come from elsewhere: its schema must not reach beyond its tables.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Else `INSERT OR REPLACE` would delete a sample without asking the trigger that forbids it.
    connection.execute_batch("PRAGMA recursive_triggers = ON; PRAGMA cell_size_check = ON;")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Whether a read fails because the files beside the database cannot be made, as on a disk that is read-only or full.
fn cannot_share(connection: &Connection) -> bool {
    let probe = schema::version(connection);
    probe.is_err_and(|error| {
        let refused = matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
        refused || is_full(&error) || lacks_index(&error)
    })
}

/// Whether a log or journal with content lies beside the database, so that the file alone is not all of it.
pub(crate) fn has_log(path: &Path) -> bool {
    [WRITE_AHEAD_LOG, ROLLBACK_JOURNAL]
        .iter()
        .any(|ending| beside(path, ending).metadata().is_ok_and(|metadata| metadata.len() > 0))
}

/// What the names of the files beside a database end in: <https://www.sqlite.org/tempfiles.html>.
pub(crate) const WRITE_AHEAD_LOG: &str = "-wal";
pub(crate) const ROLLBACK_JOURNAL: &str = "-journal";
pub(crate) const LOG_INDEX: &str = "-shm";

/// The file beside a database whose name ends in `ending`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The URI under which SQLite reads a file that nobody can change, without locks and side files.
fn immutable_uri(path: &Path) -> Option<String> {
    let absolute = std::path::absolute(path).ok()?;
    Some(immutable_uri_of(absolute.to_str()?, cfg!(windows)))
}

fn immutable_uri_of(absolute: &str, windows: bool) -> String {
    // SQLite would take a share's server for the host of the URI; between backslashes it looks for none.
    let on_share = windows && absolute.starts_with(r"\\");
    let mut uri = String::from("file:");
    if !on_share && !absolute.starts_with('/') {
        uri.push_str("///");
    }
    for character in absolute.chars() {
        match character {
            '\\' if windows && !on_share => uri.push('/'),
            '%' => uri.push_str("%25"),
            '?' => uri.push_str("%3F"),
            '#' => uri.push_str("%23"),
            other => uri.push(other),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// How a file stands to the version asked for.
pub(crate) enum Standing {
    New,
    Older(u32),
    Current,
}

/// A refusal, or a failure of SQLite that is still to be sorted.
pub(crate) enum IdentifyFailure {
    Refused(OpenError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for IdentifyFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl IdentifyFailure {
    pub(crate) fn sorted(self, sort: impl Fn(rusqlite::Error) -> OpenError) -> OpenError {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Sqlite(error) => sort(error),
        }
    }
}

/// Asks SQLite whose database this is and which version it has.
pub(crate) fn identify(
    connection: &Connection,
    path: &Path,
    supported: u32,
) -> Result<Standing, IdentifyFailure> {
    // One snapshot, since another process may be creating the store just now.
    let snapshot = connection.unchecked_transaction()?;
    // Reads the whole schema, which a damaged file rarely survives, and which every query needs anyway.
    let tables: i64 = snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let found = schema::application_id(&snapshot)?;
    let version = schema::version(&snapshot)?;
    snapshot.finish()?;
    let path = path.to_owned();
    match (found, u32::try_from(version)) {
        (APPLICATION_ID, Ok(found)) if found > supported => {
            Err(IdentifyFailure::Refused(OpenError::NewerSchema { path, found, supported }))
        }
        (APPLICATION_ID, Ok(found)) if found == supported => Ok(Standing::Current),
        (APPLICATION_ID, Ok(found)) if found > 0 => Ok(Standing::Older(found)),
        (APPLICATION_ID, _) => {
            let source = format!("the schema version is {version}").into();
            Err(IdentifyFailure::Refused(OpenError::NotADatabase { path, source }))
        }
        (0, Ok(0)) if tables == 0 => Ok(Standing::New),
        (found, _) => Err(IdentifyFailure::Refused(OpenError::WrongApplication { path, found })),
    }
}

/// Makes sure that the file uses a write-ahead log; `false` where its disk does not allow that.
///
/// The change needs the file alone for a moment and does not always wait for others by itself.
fn use_write_ahead_log(connection: &Connection, busy_timeout_ms: u32) -> rusqlite::Result<bool> {
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(true);
    }
    let deadline = Instant::now() + Duration::from_millis(busy_timeout_ms.into());
    loop {
        let changed =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match changed {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
            Ok(mode) => return Ok(mode == "wal"),
        }
    }
}

mod first_look;
#[cfg(test)]
mod tests;
