//! When a trial ends, how its samples are made up, and what its sessions say together.

use super::*;

fn rule() -> StoppingRule {
    StoppingRule { precision: 0.02, least: 40, most: 500 }
}

#[test]
fn looks_come_at_growing_numbers_of_samples_up_to_the_limit() {
    let mut draws = Draws::new(4);
    let wild: Vec<f64> = (0..500).map(|_| 1.0 / draws.uniform()).collect();
    let mut sampling = Sampling::new(rule());
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
    let mut sampling = Sampling::new(rule());
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
    let mut sampling = Sampling::new(rule());
    assert_eq!(sampling.next(&states), Step::Take(20));
}

#[test]
fn stopping_survives_odd_rules_and_samples() {
    let mut sampling = Sampling::new(StoppingRule { precision: f64::NAN, least: 0, most: 0 });
    assert_eq!(sampling.next(&[]), Step::Take(1));
    assert_eq!(sampling.next(&[1.0]), Step::Stop(StopReason::SampleLimit { half_width: None }));
    let mut sampling = Sampling::new(StoppingRule { precision: 0.1, least: 10, most: 20 });
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

#[test]
fn repetition_keeps_the_clock_under_half_a_percent() {
    let timer = Timer { resolution_ns: 1.0, overhead_ns: 24.0 };
    for (call_ns, least_ns, calls) in
        [(100.0, 0.0, 50), (5_000.0, 0.0, 1), (5_000_000.0, 0.0, 1), (100.0, 1e6, 10_000), (3e6, 1e6, 1)]
    {
        let found = timer.repetition(call_ns, least_ns).unwrap();
        assert_eq!(found.calls, calls, "{call_ns}");
        assert!(found.clock_share <= 0.005 && found.clock_share > 0.0, "{found:?}");
    }
    let coarse = Timer { resolution_ns: 15_625_000.0, overhead_ns: 20.0 };
    assert_eq!(coarse.repetition(1e6, 0.0).unwrap().calls, 3126);
    assert_eq!(timer.repetition(1e-12, 0.0).unwrap().calls, u32::MAX);
    for call_ns in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(timer.repetition(call_ns, 0.0), None, "{call_ns}");
    }
}

#[test]
fn clock_is_judged_by_readings_right_after_one_another() {
    let timer = Timer::from_differences(&[0.0, 42.0, 41.0, 0.0, 42.0, 0.0, 0.0, 83.0, 0.0]).unwrap();
    assert_eq!(timer, Timer { resolution_ns: 41.0, overhead_ns: 0.0 });
    let timer = Timer::from_differences(&[22.0, 21.0, 23.0, 22.0, 950.0]).unwrap();
    assert_eq!(timer, Timer { resolution_ns: 21.0, overhead_ns: 22.0 });
    for differences in [&[][..], &[0.0, 0.0], &[f64::NAN], &[f64::INFINITY], &[-3.0]] {
        assert_eq!(Timer::from_differences(differences), None, "{differences:?}");
    }
}

#[test]
fn time_of_a_call_has_the_bounds_of_the_clock() {
    let timer = Timer { resolution_ns: 100.0, overhead_ns: 50.0 };
    let found = timer.per_call(10_000.0, 10);
    assert_eq!((found.value_ns, found.bounds), (1000.0, Interval { low: 985.0, high: 1010.0 }));
    assert_eq!(timer.per_call(100.0, 0).bounds, Interval { low: 0.0, high: 200.0 });
}
