//! Paths, older stores and files that nobody can change.

use super::*;
use crate::schema::MIGRATIONS;

const NEXT: &str = "ALTER TABLE host ADD COLUMN note TEXT;";

#[test]
fn an_older_store_is_brought_up_to_date_unless_it_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    open(&path, &OpenOptions::default(), MIGRATIONS).unwrap();
    let steps: Vec<&str> = MIGRATIONS.iter().copied().chain([NEXT]).collect();
    let reading = OpenOptions { read_only: true, ..OpenOptions::default() };
    let older = open(&path, &reading, &steps);
    assert!(matches!(older, Err(OpenError::OlderSchema { .. })), "{older:?}");
    let connection = open(&path, &OpenOptions::default(), &steps).unwrap();
    connection.prepare("SELECT note FROM host").unwrap();
    drop(connection);
    let newer = open(&path, &OpenOptions::default(), MIGRATIONS);
    assert!(matches!(newer, Err(OpenError::NewerSchema { .. })), "{newer:?}");
}

#[test]
fn a_step_that_fails_leaves_the_older_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    open(&path, &OpenOptions::default(), MIGRATIONS).unwrap();
    let steps: Vec<&str> = MIGRATIONS.iter().copied().chain(["CREATE TABLE host (x);"]).collect();
    assert!(matches!(open(&path, &OpenOptions::default(), &steps), Err(OpenError::Other { .. })));
    open(&path, &OpenOptions::default(), MIGRATIONS).unwrap();
}

#[test]
fn the_immutable_uri_reaches_odd_names() {
    let folder = tempfile::tempdir().unwrap();
    let odd = if cfg!(windows) { "a %41 #b ö.db" } else { "a %41 #b?mode=rw ö.db" };
    let path = folder.path().join(odd);
    open(&path, &OpenOptions::default(), MIGRATIONS).unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(immutable_uri(&path).unwrap(), flags).unwrap();
    assert_eq!(schema::application_id(&connection).unwrap(), APPLICATION_ID);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "no side files");
}

#[test]
fn a_store_that_cannot_be_opened_is_blamed_on_what_stands_in_the_way() {
    let sort = |path: &Path| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        OpenError::sort(path, 0, rusqlite::Error::SqliteFailure(code, None))
    };
    let here = sort(Path::new("store.db"));
    assert!(matches!(here, OpenError::ReadOnly { .. }), "{here:?}");
    let gone = sort(Path::new("no-such-folder/store.db"));
    assert!(matches!(&gone, OpenError::Io { path, .. } if path == Path::new("no-such-folder")), "{gone:?}");
}

#[cfg(unix)]
#[test]
fn a_path_that_is_too_long_for_sqlite_is_told_with_the_limit() {
    let root = tempfile::tempdir().unwrap();
    // SQLite compares the path that links lead to.
    let root = root.path().canonicalize().unwrap();
    let open_at = |length: usize| {
        let rest = length - root.as_os_str().len() - "/".len() - "/store.db".len();
        let folder = root.join(format!("{}/{}", "a".repeat(rest / 2), "b".repeat(rest - rest / 2 - 1)));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        assert_eq!(path.as_os_str().len(), length);
        open(&path, &OpenOptions::default(), MIGRATIONS)
    };
    let error = open_at(505).unwrap_err();
    let OpenError::TooLong { length: 505, most, .. } = error else { panic!("{error:?}") };
    open_at(most).unwrap();
}

#[test]
fn a_store_at_rest_is_safe_and_fast() {
    let folder = tempfile::tempdir().unwrap();
    let connection = open(&folder.path().join("store.db"), &OpenOptions::default(), MIGRATIONS).unwrap();
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((number("synchronous"), number("foreign_keys"), number("busy_timeout")), (1, 1, 5_000));
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn uris_keep_the_path_whole() {
    #[track_caller]
    fn check(path: &str, windows: bool, expected: &str) {
        assert_eq!(immutable_uri_of(path, windows), format!("{expected}?immutable=1"));
    }
    check("/var/a b/100%?#.sqlite", false, "file:/var/a b/100%25%3F%23.sqlite");
    check(r"C:\Users\Ada\store.sqlite", true, "file:///C:/Users/Ada/store.sqlite");
    check(r"\\server\share\store.sqlite", true, r"file:\\server\share\store.sqlite");
    check(r"\\?\UNC\server\share\store.sqlite", true, r"file:\\%3F\UNC\server\share\store.sqlite");
}
