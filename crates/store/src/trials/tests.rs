//! A disk without space, which needs the connection itself.

use super::*;
use crate::sample_data::{prepare, trial};
use crate::{OpenOptions, TrialFilter};

#[test]
fn a_full_disk_keeps_nothing_of_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store.db"), &OpenOptions::default()).unwrap();
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 10)).unwrap();
    let pages: i64 = store.lock().pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    store.lock().pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();

    let full = store.record_trial(campaign, target, &trial(&case, 50_000));
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!(store.trial_summaries(&TrialFilter::default()).unwrap().len(), 1);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());

    store.lock().pragma_update_and_check(None, "max_page_count", 1_000_000, |_| Ok(())).unwrap();
    store.record_trial(campaign, target, &trial(&case, 50_000)).unwrap();
}
