//! Private copies: for a store that may be read and not written.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use siliconroute_store::{APPLICATION_ID, OpenError, SCHEMA_VERSION, Store, TrialFilter};

use crate::new_store;
use crate::sample_data::{prepare, trial};

/// Every file of a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("the entry can be read");
        (entry.file_name(), fs::read(entry.path()).expect("the file can be read"))
    };
    entries.map(file).collect()
}

fn trials(store: &Store) -> usize {
    store.trial_summaries(&TrialFilter::default()).expect("trials can be read").len()
}

#[test]
fn a_copy_reads_and_writes_and_leaves_the_original_alone() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 5)).unwrap();
    drop(store);
    let before = contents(folder.path());
    let copy = Store::open_copy(&path, 50).unwrap();
    assert_eq!((trials(&copy), copy.path()), (1, path.as_path()));
    copy.record_trial(campaign, target, &trial(&case, 5)).unwrap();
    assert_eq!(trials(&copy), 2);
    assert_eq!(copy.check().unwrap(), Vec::<String>::new());
    drop(copy);
    assert_eq!(trials(&Store::open_copy(&path, 50).unwrap()), 1);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_copy_of_a_store_in_use_holds_what_is_in_the_log() {
    let (folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 5)).unwrap();
    assert_eq!(trials(&Store::open_copy(&folder.path().join("store.db"), 50).unwrap()), 1);
}

#[test]
fn a_missing_or_empty_store_gives_an_empty_copy_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    assert_eq!(trials(&Store::open_copy(&path, 50).unwrap()), 0);
    assert_eq!(trials(&Store::open_empty(&path).unwrap()), 0);
    assert_eq!(contents(folder.path()).len(), 0);
    fs::write(&path, "").unwrap();
    assert_eq!(trials(&Store::open_copy(&path, 50).unwrap()), 0);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn a_copy_of_an_older_store_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../migrations/0001_initial.sql")).unwrap();
    old.execute_batch(include_str!("../fixtures/0001_rows.sql")).unwrap();
    old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let before = contents(folder.path());
    assert_eq!(trials(&Store::open_copy(&path, 50).unwrap()), 2);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn what_is_no_usable_store_is_refused_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    fs::write(&path, [7; 1000]).unwrap();
    assert!(matches!(Store::open_copy(&path, 50), Err(OpenError::NotADatabase { .. })));
    fs::remove_file(&path).unwrap();
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("CREATE TABLE t (a)").unwrap();
    newer.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    newer.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    drop(newer);
    assert!(matches!(Store::open_copy(&path, 50), Err(OpenError::NewerSchema { .. })));
}
