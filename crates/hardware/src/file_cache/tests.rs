//! The cache of the running system, with files of its own.

use super::*;

#[test]
fn a_file_that_was_just_written_or_evicted_has_a_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    std::fs::write(&path, vec![7_u8; 300_000]).unwrap();
    let share = resident_share(&path);
    let evicted = evict_from_file_cache(&path);
    if !cfg!(target_os = "linux") {
        return;
    }
    assert_eq!(share, Reading::Available(1.0));
    let evicted = evicted.available().unwrap().clone();
    assert_eq!((evicted.file_bytes, evicted.resident_before), (300_000, Reading::Available(1.0)));
    // File systems in memory, such as tmpfs, keep everything.
    let after = *evicted.resident_after.available().unwrap();
    assert!((0.0..=1.0).contains(&after));
    assert_eq!(resident_share(&path), Reading::Available(after));
    assert_eq!(std::fs::read(&path).unwrap().len(), 300_000);
    assert_eq!(resident_share(&path), Reading::Available(1.0));
}

#[test]
fn what_is_no_file_is_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let missing = folder.path().join("missing");
    assert!(evict_from_file_cache(&missing).available().is_none());
    assert!(resident_share(&missing).available().is_none());
    if cfg!(unix) {
        assert!(resident_share(folder.path()).available().is_none());
        assert_eq!(resident_share(&empty), Reading::Available(0.0));
    }
}
