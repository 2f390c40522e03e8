//! Speed of recording trials, of opening a store and of loading what knowledge needs.
//!
//! Invariant: figures are printed, never asserted.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use siliconroute_store::{OpenOptions, Store, TrialFilter};
use tempfile::TempDir;

#[path = "../tests/it/sample_data.rs"]
#[expect(dead_code, reason = "the integration tests use the rest")]
mod sample_data;

fn main() {
    divan::main();
}

/// A store with trials of 100 samples each.
fn filled_store(trials: usize) -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let store =
        Store::open(&folder.path().join("store.db"), &OpenOptions::default()).expect("a new store opens");
    let (campaign, target, cases) = sample_data::prepare(&store);
    for case in cases.iter().cycle().take(trials) {
        let trial = sample_data::trial(case, 100);
        store.record_trial(campaign, target, &trial).expect("a trial can be recorded");
    }
    (folder, store)
}

/// Samples per second, one transaction for each trial of so many samples.
#[divan::bench(args = [30, 100, 1000], sample_count = 50, sample_size = 20)]
fn record_trial(bencher: Bencher<'_, '_>, samples: u32) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let store =
        Store::open(&folder.path().join("store.db"), &OpenOptions::default()).expect("a new store opens");
    let (campaign, target, [case, _]) = sample_data::prepare(&store);
    let trial = sample_data::trial(&case, samples);
    bencher.counter(ItemsCount::new(samples)).bench_local(|| {
        store.record_trial(campaign, target, black_box(&trial)).expect("a trial can be recorded")
    });
}

/// The first thing that every start does.
#[divan::bench]
fn open_store(bencher: Bencher<'_, '_>) {
    let (folder, store) = filled_store(300);
    drop(store);
    let path = folder.path().join("store.db");
    bencher.bench_local(|| Store::open(black_box(&path), &OpenOptions::default()).expect("the store opens"));
}

/// What the first knowledge is built from: open, trials without their samples, fits, cases.
#[divan::bench(args = [300, 3000])]
fn load_trials(bencher: Bencher<'_, '_>, trials: usize) {
    let (_folder, store) = filled_store(trials);
    bencher
        .counter(ItemsCount::new(trials))
        .bench_local(|| store.trial_summaries(&TrialFilter::default()).expect("the trials can be read"));
}
