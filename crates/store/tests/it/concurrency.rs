//! Several processes at once, and processes that end in the middle.

use std::fs;
use std::thread;

use rusqlite::Connection;
use siliconroute_store::{OpenOptions, Store, StoreError, TrialFilter};

use crate::sample_data::{prepare, trial};
use crate::{impatient, new_store};

#[test]
fn many_may_create_the_same_store_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| Store::open(&path, &OpenOptions::default()).unwrap().check().unwrap());
            }
        });
    }
}

#[test]
fn writers_wait_for_one_another() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    let (campaign, target, [case, _]) = prepare(&store);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let own = Store::open(&path, &OpenOptions::default()).unwrap();
                for _ in 0..20 {
                    own.record_trial(campaign, target, &trial(&case, 50)).unwrap();
                }
            });
        }
        for _ in 0..20 {
            store.record_trial(campaign, target, &trial(&case, 50)).unwrap();
        }
    });
    assert_eq!(store.trial_summaries(&TrialFilter::default()).unwrap().len(), 80);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_write_that_waited_in_vain_is_busy() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    let (campaign, target, [case, _]) = prepare(&store);
    let waiting = Store::open(&path, &impatient()).unwrap();
    let owner = Connection::open(&path).unwrap();
    owner.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = waiting.record_trial(campaign, target, &trial(&case, 5));
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    assert_eq!(waiting.trial_summaries(&TrialFilter::default()).unwrap(), [], "readers do not wait");
    owner.execute_batch("ROLLBACK").unwrap();
    waiting.record_trial(campaign, target, &trial(&case, 5)).unwrap();
}

#[test]
fn a_process_that_is_ended_while_writing_leaves_whole_trials() {
    let (folder, store) = new_store();
    let path = folder.path().join("store.db");
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 50)).unwrap();
    let expected = store.trial_summaries(&TrialFilter::default()).unwrap();

    let writer = Connection::open(&path).unwrap();
    // A cache of one page drives rows that are not committed into the log.
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE").unwrap();
    let columns =
        "campaign_id, target_id, case_id, workload, purpose, started_unix_ms, order_seed, input_seed,
        conditions, status, session_create_ns, first_run_ns, warmup_calls, busy_cores, peak_resident_absence,
        placement, outputs";
    writer
        .execute(&format!("INSERT INTO trial ({columns}, samples) SELECT {columns}, 20000 FROM trial"), [])
        .unwrap();
    for sequence in 0..20_000 {
        writer.execute("INSERT INTO sample VALUES (2, ?1, 0, 1, 1000, NULL)", [sequence]).unwrap();
    }

    // The files as they lie there are what a sudden end leaves.
    let copy = tempfile::tempdir().unwrap();
    for name in ["store.db", "store.db-wal"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    assert!(
        fs::metadata(copy.path().join("store.db-wal")).unwrap().len() > 100_000,
        "the log holds the rest"
    );
    let survivor = Store::open(&copy.path().join("store.db"), &impatient()).unwrap();
    assert_eq!(survivor.trial_summaries(&TrialFilter::default()).unwrap(), expected);
    assert_eq!(survivor.check().unwrap(), Vec::<String>::new());

    drop(writer);
    assert_eq!(store.trial_summaries(&TrialFilter::default()).unwrap(), expected);
    store.record_trial(campaign, target, &trial(&case, 50)).unwrap();
}
