//! Tests of what a thread learns from its waits.
//!
//! Invariant: times are made up; no test sleeps.

use std::time::Duration;

use super::{LearnedPatience, MOST_BLIND};
use crate::pool::handover::Patience as _;

const SHORT: Duration = Duration::from_micros(3);
const LONG: Duration = Duration::from_millis(2);

/// One wait whose looking, if it comes to that, is in vain.
fn vain_wait(patience: &mut LearnedPatience, slept: Duration) -> bool {
    let looked = patience.looks() != 0;
    patience.learn(looked, slept);
    looked
}

fn looks_in(waits: u32, patience: &mut LearnedPatience, slept: Duration) -> usize {
    (0..waits).filter(|_| vain_wait(patience, slept)).count()
}

#[test]
fn looking_goes_on_where_it_pays() {
    let mut patience = LearnedPatience::new(100);
    for _ in 0..1000 {
        assert_eq!(patience.looks(), 100);
        patience.looking_paid();
    }
}

#[test]
fn vain_looks_become_rare() {
    let mut patience = LearnedPatience::new(100);
    assert!(looks_in(2000, &mut patience, SHORT) <= 12);
    assert!(looks_in(10 * MOST_BLIND, &mut patience, SHORT) <= 10);
}

#[test]
fn a_look_that_pays_brings_looking_back() {
    let mut patience = LearnedPatience::new(100);
    looks_in(3000, &mut patience, SHORT);
    while patience.looks() == 0 {}
    patience.looking_paid();
    assert_eq!(patience.looks(), 100);
    // And one vain look is not yet a rule.
    patience.learn(true, SHORT);
    assert!((0..5).any(|_| patience.looks() != 0));
}

#[test]
fn long_sleep_says_nothing_against_looking() {
    let mut patience = LearnedPatience::new(100);
    assert_eq!(looks_in(50, &mut patience, LONG), 50);
    looks_in(3000, &mut patience, SHORT);
    vain_wait(&mut patience, LONG);
    assert_eq!(patience.looks(), 100);
}

#[test]
fn who_never_looks_never_does() {
    let mut patience = LearnedPatience::new(0);
    assert_eq!(looks_in(100, &mut patience, LONG), 0);
}
