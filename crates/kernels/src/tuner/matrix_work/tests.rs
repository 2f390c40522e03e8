//! The real work on the machine that runs the test: that it is done, not how long it takes.

use std::sync::Mutex;

use super::*;
use crate::tuner::figures::MemorySizes;
use crate::tuner::{Bounds, Room, search};

fn nowhere() -> HoldThread {
    Arc::new(|_| Err("threads are not held in this test".to_owned()))
}

fn place(order: &[u32], most_threads: usize) -> Place {
    Place {
        name: "test".to_owned(),
        cpus: None,
        order: order.to_vec(),
        least_threads: 1,
        most_threads,
        marks: Vec::new(),
    }
}

fn configuration(place: usize, threads: usize) -> Configuration {
    Configuration { place, threads: NonZeroUsize::new(threads).unwrap(), policy: Policy::Fixed16 }
}

#[test]
fn a_real_machine_is_searched_and_its_figures_measured() {
    let places = Room::uniform(2).places(16);
    let mut work = MatrixWork::prepare(&places, nowhere()).unwrap();
    let bounds = Bounds { budget: Duration::ZERO, ..Bounds::default() };
    let found = search(&mut work, &places, &bounds).unwrap();
    assert!((1..=2).contains(&found.chosen.threads.get()));
    assert!(found.measured.iter().all(|measured| measured.samples_s.iter().all(|sample| *sample > 0.0)));
    let sizes = MemorySizes { l1: Some(32 << 10), limit: 1 << 20, ..MemorySizes::default() };
    let figures = work.measure_figures(&sizes, &found.chosen);
    assert!(!figures.is_empty());
    assert!(figures.iter().all(|figure| figure.value > 0.0 && figure.samples.len() == 5), "{figures:?}");
}

#[test]
fn the_product_is_that_of_the_matrix() {
    let mut work = MatrixWork::prepare(&[place(&[], 2)], nowhere()).unwrap();
    work.measure(&configuration(0, 2)).unwrap();
    // All rows are alike, since a row is a multiple of the values' period.
    let row: f64 = (0..SIDE).map(|index| f64::from(value(index)) * f64::from(value(index))).sum();
    assert!(work.result.iter().all(|result| (f64::from(*result) - row).abs() < 1e-3 * row.abs()));
}

#[test]
fn each_thread_is_held_on_a_cpu_of_its_own() {
    let calls: Arc<Mutex<Vec<Vec<u32>>>> = Arc::default();
    let seen = Arc::clone(&calls);
    let hold: HoldThread = Arc::new(move |cpus| {
        seen.lock().unwrap().push(cpus.to_vec());
        Ok(())
    });
    let places = [place(&[3], 1), place(&[5, 7], 2)];
    let mut work = MatrixWork::prepare(&places, hold).unwrap();
    // The widest place is prepared first.
    assert_eq!(*calls.lock().unwrap(), [[5], [7]]);
    work.measure(&configuration(0, 1)).unwrap();
    work.measure(&configuration(0, 1)).unwrap();
    assert_eq!(calls.lock().unwrap()[2..], [[3]]);
    work.measure(&configuration(1, 2)).unwrap();
    assert_eq!(calls.lock().unwrap()[3..], [[5]]);
}

#[test]
fn a_thread_that_cannot_be_held_is_a_reason() {
    let refused = MatrixWork::prepare(&[place(&[0], 1)], nowhere()).unwrap_err();
    assert_eq!(refused.reason, "threads are not held in this test");
    let workers: HoldThread = Arc::new(|cpus| if cpus == [0] { Ok(()) } else { Err("no".to_owned()) });
    assert_eq!(MatrixWork::prepare(&[place(&[0, 1], 2)], workers).unwrap_err().reason, "no");
}
