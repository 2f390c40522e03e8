//! When a trial ends, and what its sessions say together.

use super::*;

fn rule() -> StoppingRule {
    StoppingRule { precision: 0.02, least: 40, most: 500 }
}

#[test]
fn looks_come_at_growing_numbers_of_samples_up_to_the_limit() {
    let mut draws = Draws::new(4);
    let wild: Vec<f64> = (0..500).map(|_| 1.0 / draws.uniform()).collect();
    let mut sampling = Stopping::new(rule());
    let (mut taken, mut looks) = (0, Vec::new());
    let reason = loop {
        match sampling.next(&wild[..taken]) {
            Step::Take(more) => taken += more,
            Step::Stop(reason) => break reason,
        }
        looks.push(taken);
    };
    assert_eq!(looks, [40, 60, 90, 135, 203, 305, 458, 500]);
    assert!(
        matches!(reason, StopReason::SampleLimit { half_width: Some(width) } if width > 0.02),
        "{reason:?}"
    );
}

#[test]
fn a_precise_trial_takes_a_quarter_more_and_stops() {
    let steady: Vec<f64> = (0..100).map(|index| 100.0 + f64::from(index * 37 % 11) / 10.0).collect();
    let mut sampling = Stopping::new(rule());
    assert_eq!(sampling.next(&[]), Step::Take(40));
    assert_eq!(sampling.next(&steady[..39]), Step::Take(1));
    assert_eq!(sampling.next(&steady[..40]), Step::Take(10));
    assert_eq!(sampling.next(&steady[..45]), Step::Take(5));
    assert!(
        matches!(sampling.next(&steady[..50]), Step::Stop(StopReason::Precise { half_width }) if half_width < 0.02)
    );
}

#[test]
fn a_trial_too_short_for_its_dependence_goes_on() {
    // Two states of 20 samples, 1 % apart: precise by its width, but of few stretches.
    let states: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i / 20 % 2) + f64::from(i % 3) / 10.0).collect();
    assert!(estimate_dependence(&states).unresolved);
    let mut sampling = Stopping::new(rule());
    assert_eq!(sampling.next(&states), Step::Take(20));
}

#[test]
fn stopping_survives_odd_rules_and_samples() {
    let mut sampling = Stopping::new(StoppingRule { precision: f64::NAN, least: 0, most: 0 });
    assert_eq!(sampling.next(&[]), Step::Take(1));
    assert_eq!(sampling.next(&[1.0]), Step::Stop(StopReason::SampleLimit { half_width: None }));
    let mut sampling = Stopping::new(StoppingRule { precision: 0.1, least: 10, most: 20 });
    assert_eq!(sampling.next(&[f64::NAN; 10]), Step::Take(5));
    assert_eq!(sampling.next(&[0.0; 30]), Step::Stop(StopReason::SampleLimit { half_width: Some(0.0) }));
}

#[test]
fn sessions_give_their_median_spread_and_reach() {
    let joined = join_sessions(&[10.0, 12.0, 11.0]).unwrap();
    assert_eq!((joined.median, joined.shortest, joined.sessions), (11.0, 10.0, 3));
    assert_eq!(joined.interval, Some(Interval { low: 10.0, high: 12.0 }));
    assert_eq!(joined.confidence, Some(0.75));
    assert_close(joined.spread.unwrap(), 1.0 / 11.0);
    let many = join_sessions(&[10.0, 12.0, 11.0, 13.0, 9.0, 11.5]).unwrap();
    assert_eq!(many.confidence, Some(CONFIDENCE));
    assert_eq!(many.interval, median_interval(&[10.0, 12.0, 11.0, 13.0, 9.0, 11.5], CONFIDENCE));
}

#[test]
fn one_session_knows_no_session_spread() {
    let joined = join_sessions(&[10.0]).unwrap();
    assert_eq!((joined.interval, joined.confidence, joined.spread), (None, None, None));
    for medians in [&[][..], &[0.0], &[1.0, f64::NAN], &[1.0, -2.0], &[f64::INFINITY]] {
        assert_eq!(join_sessions(medians), None, "{medians:?}");
    }
}
