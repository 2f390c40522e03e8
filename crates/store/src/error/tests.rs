//! The sorting of SQLite's errors.

use super::*;

#[track_caller]
fn check(code: i32, open: &str, operation: &str) {
    let error = || rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
    let name = |debug: String| debug.split([' ', '{']).next().unwrap_or_default().to_owned();
    let opening = OpenError::sort(Path::new("a.db"), 5, error());
    assert_eq!(name(format!("{opening:?}")), open, "code {code}");
    assert!(std::error::Error::source(&opening).is_some());
    let during = Fault::from(error()).during("record a trial", Path::new("a.db"));
    assert_eq!(name(format!("{during:?}")), operation, "code {code}");
    assert!(std::error::Error::source(&during).is_some());
    assert!(during.to_string().starts_with("cannot record a trial"), "{during}");
    assert!(during.to_string().contains("a.db"), "{during}");
    assert!(!during.hint().is_empty());
}

#[test]
fn what_sqlite_says_is_said_once() {
    for message in [None, Some("database or disk is full".to_owned())] {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), message);
        let full = Fault::from(error).during("record a trial", Path::new("a.db"));
        let source = std::error::Error::source(&full).unwrap();
        assert!(source.source().is_none() && !source.to_string().contains("13"), "{source:?}");
    }
}

#[test]
fn errors_are_told_apart_by_what_can_be_done() {
    check(ffi::SQLITE_FULL, "DiskFull", "Full");
    check(ffi::SQLITE_IOERR_SHMSIZE, "DiskFull", "Full");
    check(ffi::SQLITE_IOERR_SHMOPEN, "ReadOnly", "Other");
    check(ffi::SQLITE_BUSY, "Locked", "Busy");
    check(ffi::SQLITE_BUSY_SNAPSHOT, "Locked", "Busy");
    check(ffi::SQLITE_LOCKED, "Locked", "Busy");
    check(ffi::SQLITE_READONLY, "ReadOnly", "ReadOnly");
    check(ffi::SQLITE_READONLY_DIRECTORY, "ReadOnly", "ReadOnly");
    check(ffi::SQLITE_CANTOPEN, "ReadOnly", "Other");
    check(ffi::SQLITE_CORRUPT, "NotADatabase", "Corrupt");
    check(ffi::SQLITE_NOTADB, "NotADatabase", "Corrupt");
    check(ffi::SQLITE_CONSTRAINT, "Other", "Refused");
    check(ffi::SQLITE_IOERR, "Other", "Other");
    check(ffi::SQLITE_NOMEM, "OutOfMemory", "OutOfMemory");
}
