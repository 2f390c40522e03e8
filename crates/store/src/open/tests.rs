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
fn a_relative_name_that_cannot_be_created_blames_the_working_folder() {
    let error =
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), None);
    let sorted = cannot_create(Path::new("store.db"), error).unwrap();
    assert!(matches!(sorted, OpenError::ReadOnly { .. }), "{sorted:?}");
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
