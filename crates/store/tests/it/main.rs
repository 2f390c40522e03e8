//! The store as its users see it.
//!
//! Invariant: every test has its own folder and file.

mod catalogue;
mod chip_figures;
mod concurrency;
mod copies;
mod imports;
mod learned;
mod opening;
mod sample_data;
mod telemetry;
mod trials;
mod tunings;
mod versions;

use siliconroute_store::{OpenOptions, Store};
use tempfile::TempDir;

/// A new store in a folder that goes away with the test.
fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let store =
        Store::open(&folder.path().join("store.db"), &OpenOptions::default()).expect("a new store opens");
    (folder, store)
}

/// Options that wait hardly at all for another process.
fn impatient() -> OpenOptions {
    OpenOptions { read_only: false, busy_timeout_ms: 50 }
}

/// Options to read alone.
fn for_reading() -> OpenOptions {
    OpenOptions { read_only: true, ..impatient() }
}
