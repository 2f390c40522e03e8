//! Rates: growth over time, and every way in which there is none.

use super::*;

const SHORTEST: Duration = Duration::from_millis(20);

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_rate_needs_two_values_and_time_between_them() {
    let mut counter = Counter::default();
    let mut read = |ms, value| counter.per_second(at(ms), Reading::Available(value), SHORTEST, None);
    assert_eq!(read(0, 100), Reading::unavailable(FIRST_SAMPLE));
    assert_eq!(read(1000, 600), Reading::Available(500.0));
    assert!(matches!(read(1010, 700), Reading::Unavailable(reason) if reason.contains("less than 20 ms")));
    // The value that came too soon was not lost.
    assert_eq!(read(2000, 1100), Reading::Available(500.0));
    assert_eq!(read(3000, 1000), Reading::unavailable("the counter went back"));
    assert_eq!(read(4000, 1000), Reading::Available(0.0));
}

#[test]
fn a_counter_may_start_again_once() {
    let mut counter = Counter::default();
    let mut read = |ms, value| counter.per_second(at(ms), Reading::Available(value), SHORTEST, Some(1000));
    read(0, 900);
    assert_eq!(read(1000, 100), Reading::Available(200.0));
    let mut beyond = Counter::default();
    beyond.per_second(at(0), Reading::Available(u64::MAX), SHORTEST, Some(1000));
    let reading = beyond.per_second(at(1000), Reading::Available(5), SHORTEST, Some(1000));
    assert_eq!(reading, Reading::unavailable("the counter went back"));
}

#[test]
fn a_missing_value_keeps_its_reason_and_the_earlier_value() {
    let mut counter = Counter::default();
    counter.per_second(at(0), Reading::Available(0), SHORTEST, None);
    let missing = counter.per_second(at(500), Reading::unavailable("gone"), SHORTEST, None);
    assert_eq!(missing, Reading::unavailable("gone"));
    assert_eq!(
        counter.per_second(at(1000), Reading::Available(10), SHORTEST, None),
        Reading::Available(10.0)
    );
}
