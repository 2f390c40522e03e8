//! Opening: whose file it is, which version it has, whether it can be used.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use siliconroute_store::{APPLICATION_ID, OpenError, OpenOptions, SCHEMA_VERSION, Store, TrialFilter};

use crate::sample_data::{prepare, trial};
use crate::{for_reading, impatient, new_store};

fn failure(path: &Path, options: &OpenOptions) -> OpenError {
    let error = Store::open(path, options).expect_err("the file must be refused");
    assert!(!error.hint().is_empty() && !error.hint().contains('\n'));
    assert!(
        error.to_string().contains(path.file_name().and_then(|name| name.to_str()).expect("a name")),
        "{error}"
    );
    error
}

/// All files of a folder with their bytes, but for those of the index of a log, which whoever reads it writes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let file = |path: PathBuf| {
        let is_index = path.to_string_lossy().ends_with("-shm");
        let bytes = if is_index { Vec::new() } else { fs::read(&path).expect("the file can be read") };
        (path, bytes)
    };
    entries.map(|entry| file(entry.expect("an entry").path())).collect()
}

/// Opens `path` in all ways, expects a refusal and its folder as it was.
#[track_caller]
fn check_refused(path: &Path, expected: impl Fn(&OpenError) -> bool) {
    let folder = path.parent().expect("a folder");
    let before = files(folder);
    for options in [impatient(), for_reading()] {
        let error = failure(path, &options);
        assert!(expected(&error), "{error:?}");
        assert_eq!(files(folder), before, "the folder was changed");
    }
    let error = Store::open_copy(path, 50).expect_err("the file must be refused");
    assert!(expected(&error), "{error:?}");
    assert_eq!(files(folder), before, "the folder was changed");
}

/// A database at rest whose application id and version are set.
fn database(path: &Path, application_id: u32, version: u32) {
    let other = Connection::open(path).expect("a database can be made");
    other.execute_batch("CREATE TABLE t (a)").expect("a table can be made");
    other.pragma_update(None, "application_id", application_id).expect("the id can be set");
    other.pragma_update(None, "user_version", version).expect("the version can be set");
}

#[test]
fn a_new_store_is_empty_and_marked() {
    let (folder, store) = new_store();
    assert_eq!(store.trial_summaries(&TrialFilter::default()).unwrap(), []);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    drop(store);
    let bytes = fs::read(folder.path().join("store.db")).unwrap();
    assert_eq!(bytes[68..72], APPLICATION_ID.to_be_bytes());
    assert_eq!(bytes[60..64], SCHEMA_VERSION.to_be_bytes());
}

#[test]
fn an_empty_file_counts_as_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, "").unwrap();
    assert!(matches!(failure(&path, &for_reading()), OpenError::Missing { .. }));
    Store::open(&path, &impatient()).unwrap();
}

#[test]
fn a_store_that_was_only_begun_counts_as_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 0);
    assert!(matches!(failure(&path, &for_reading()), OpenError::Missing { .. }));
    Store::open(&path, &impatient()).unwrap();
}

#[test]
fn reading_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(failure(&folder.path().join("store.db"), &for_reading()), OpenError::Missing { .. }));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_read_only_store_reads_and_refuses_to_write() {
    let (folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 5)).unwrap();
    let reader = Store::open(&folder.path().join("store.db"), &for_reading()).unwrap();
    assert_eq!(
        reader.trial_summaries(&TrialFilter::default()).unwrap(),
        store.trial_summaries(&TrialFilter::default()).unwrap()
    );
    let refused = reader.record_trial(campaign, target, &trial(&case, 5));
    assert!(matches!(refused, Err(siliconroute_store::StoreError::ReadOnly { .. })), "{refused:?}");
}

#[test]
fn refuses_a_newer_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    database(&path, APPLICATION_ID, SCHEMA_VERSION + 1);
    check_refused(&path, |error| {
        matches!(error, OpenError::NewerSchema { found, supported, .. }
            if (*found, *supported) == (SCHEMA_VERSION + 1, SCHEMA_VERSION))
    });
}

#[test]
fn refuses_a_newer_schema_that_lies_in_the_log() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    drop(store);
    // The connection stays open, so the change is not moved from the log into the file.
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    check_refused(&path, |error| matches!(error, OpenError::NewerSchema { .. }));
}

#[test]
fn refuses_databases_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    for (name, application_id, version) in
        [("marked.db", 0x1234, 1), ("plain.db", 0, 0), ("versioned.db", 0, 1)]
    {
        let path = folder.path().join(name);
        database(&path, application_id, version);
        check_refused(
            &path,
            |error| matches!(error, OpenError::WrongApplication { found, .. } if *found == application_id),
        );
    }
}

#[test]
fn refuses_files_that_are_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let noise: Vec<u8> = (0..10_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut pretender = b"SQLite format 3\0".to_vec();
    pretender.extend_from_slice(&noise);
    // Where a version and an application id would lie.
    pretender[40..72].fill(0);
    for bytes in [&b"x"[..], b"SQLite format 3\0", &noise, &pretender] {
        fs::write(&path, bytes).unwrap();
        check_refused(&path, |error| matches!(error, OpenError::NotADatabase { .. }));
    }
}

#[test]
fn refuses_a_store_that_was_cut_off() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    prepare(&store);
    drop(store);
    let whole = fs::read(&path).unwrap();
    for length in [50, 100, 511, 4096, 5000, whole.len() / 2, whole.len() - 4096] {
        fs::write(&path, &whole[..length]).unwrap();
        check_refused(&path, |error| matches!(error, OpenError::NotADatabase { .. }));
    }
}

/// A store and its log as a program that was killed leaves them, without the index that went with the system.
fn store_with_log(into: &Path) -> io::Result<PathBuf> {
    let (folder, store) = new_store();
    prepare(&store);
    let path = into.join("store.db");
    for ending in ["", "-wal"] {
        let from = folder.path().join(format!("store.db{ending}"));
        assert!(fs::metadata(&from)?.len() > 0);
        fs::copy(from, into.join(format!("store.db{ending}")))?;
    }
    Ok(path)
}

#[test]
fn what_is_refused_for_its_log_is_left_with_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_with_log(folder.path()).unwrap();
    let (whole, log) = (fs::read(&path).unwrap(), folder.path().join("store.db-wal"));
    // A log that is damaged from its first frame on, so that nothing stands in for what the file lacks.
    let mut damaged = fs::read(&log).unwrap();
    damaged[32..].fill(0x55);
    fs::write(&log, damaged).unwrap();
    fs::write(&path, &whole[..100]).unwrap();
    check_refused(&path, |error| matches!(error, OpenError::NotADatabase { .. }));
    // A newer version that only the log tells of.
    let elsewhere = tempfile::tempdir().unwrap();
    let newer = elsewhere.path().join("store.db");
    drop(Store::open(&newer, &impatient()).unwrap());
    let writer = Connection::open(&newer).unwrap();
    writer.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    fs::copy(&newer, &path).unwrap();
    fs::copy(elsewhere.path().join("store.db-wal"), &log).unwrap();
    check_refused(&path, |error| matches!(error, OpenError::NewerSchema { .. }));
}

#[test]
fn a_store_whose_program_was_killed_is_read_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = store_with_log(folder.path()).unwrap();
    let before = files(folder.path());
    assert!(!Store::open_copy(&path, 50).unwrap().cases().unwrap().is_empty());
    assert_eq!(files(folder.path()), before, "reading made something");
    assert!(!Store::open(&path, &impatient()).unwrap().cases().unwrap().is_empty());
    assert_eq!(files(folder.path()).len(), 1, "a store that was closed has nothing beside it");
}

#[test]
fn a_journal_beside_a_damaged_file_is_not_rolled_back() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    drop(store);
    let mut damaged = fs::read(&path).unwrap();
    // A rollback journal belongs to a file that says so at 18 and 19.
    damaged[18..20].fill(1);
    damaged.truncate(4096);
    fs::write(&path, &damaged).unwrap();
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    journal.resize(512, 0);
    fs::write(folder.path().join("store.db-journal"), journal).unwrap();
    check_refused(&path, |error| matches!(error, OpenError::NotADatabase { .. }));
}

#[test]
fn damage_inside_never_panics() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 500)).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        let start = page * 4096 + if page == 0 { 100 } else { 0 };
        for (i, byte) in damaged[start..(page + 1) * 4096].iter_mut().enumerate() {
            *byte = (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[1];
        }
        fs::write(&path, damaged).unwrap();
        let opened = Store::open(&path, &impatient());
        let noticed = opened.map_or(true, |store| {
            let trials = store.trial_summaries(&TrialFilter::default());
            trials.is_err() | store.samples(siliconroute_store::TrialId(1)).is_err() | store.cases().is_err()
                || store.check().map_or(true, |findings| !findings.is_empty())
        });
        found += usize::from(noticed);
    }
    assert_eq!(found, whole.len() / 4096, "some damage was not noticed");
}

#[test]
fn refuses_a_folder_and_a_missing_folder() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(failure(folder.path(), &impatient()), OpenError::Io { .. }));
    let missing = Store::open(&folder.path().join("none/store.db"), &impatient()).unwrap_err();
    assert!(matches!(&missing, OpenError::Io { path, .. } if path.ends_with("none")), "{missing:?}");
}

#[test]
#[cfg(unix)]
fn refuses_a_file_or_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        // The super-user may write whatever the permissions say.
        return;
    }
    assert!(matches!(failure(&path, &impatient()), OpenError::ReadOnly { .. }));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    assert!(matches!(failure(&folder.path().join("new.db"), &impatient()), OpenError::ReadOnly { .. }));
    let reader = Store::open(&path, &for_reading());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(failure(&path, &impatient()), OpenError::ReadOnly { .. }));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(reader.unwrap().chips().unwrap(), []);
}

#[test]
fn waits_for_a_lock_and_says_so() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    drop(store);
    let owner = Connection::open(&path).unwrap();
    owner.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
    owner.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for options in [impatient(), for_reading()] {
        let locked = failure(&path, &options);
        assert!(matches!(locked, OpenError::Locked { waited_ms: 50, .. }), "{locked:?}");
    }
    drop(owner);
    Store::open(&path, &impatient()).unwrap();
}
