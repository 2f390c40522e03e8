//! Dependence, drift and steps on series whose answer is plain; their error rates are in `tests/it`.

use super::*;
use crate::statistics::change::mid_ranks;
use crate::statistics::drift::lower_rank;
use crate::statistics::trend::{block_medians, median_slope};

fn noise(count: usize, seed: u64) -> Vec<f64> {
    let mut draws = Draws::new(seed);
    (0..count).map(|_| 100.0 + draws.normal()).collect()
}

#[test]
fn alternating_states_are_dependent_and_widen_the_interval() {
    let series: Vec<f64> =
        noise(320, 3).iter().enumerate().map(|(i, x)| if i / 20 % 2 == 0 { *x } else { x + 5.0 }).collect();
    let center = estimate_center(&series).unwrap();
    assert!(center.dependence.batch > 1 && center.dependence.inflation > 3.0, "{center:?}");
    let independent = median_interval(&series, CONFIDENCE).unwrap();
    let wide = center.interval.unwrap();
    assert!(wide.low < independent.low && wide.high > independent.high, "{wide:?} and {independent:?}");
}

#[test]
fn independent_samples_have_the_interval_of_order_statistics() {
    let series = noise(200, 2);
    let center = estimate_center(&series).unwrap();
    assert_eq!(center.dependence, Dependence { batch: 1, batches: 200, inflation: 1.0, unresolved: false });
    assert_eq!(center.interval, median_interval(&series, CONFIDENCE));
    assert_close(center.dependence.effective_samples(200), 200.0);
}

#[test]
fn a_straight_drift_is_no_dependence() {
    let series: Vec<f64> = noise(200, 2).iter().zip(0..).map(|(x, i)| x + 0.05 * f64::from(i)).collect();
    assert_eq!(estimate_dependence(&series).batch, 1);
}

#[test]
fn equal_few_or_odd_values_count_as_independent() {
    for values in [vec![], vec![1.0; 5], vec![7.0; 100], vec![f64::NAN; 40], vec![f64::INFINITY; 40]] {
        assert_eq!(estimate_dependence(&values).batch, 1, "{values:?}");
        assert!(find_changes(&values).is_empty());
    }
    assert_eq!(estimate_center(&[f64::NAN; 40]), None);
    assert_eq!(estimate_center(&[]), None);
}

#[test]
fn drift_has_its_size_and_its_sign() {
    for total in [0.10, -0.10] {
        let series: Vec<f64> =
            noise(120, 5).iter().zip(0..).map(|(x, i)| x + 100.0 * total * f64::from(i) / 120.0).collect();
        let drift = estimate_drift(&series, &estimate_dependence(&series)).unwrap();
        assert!(drift.drifting && drift.interval.contains(drift.relative), "{drift:?}");
        assert!((drift.relative - total).abs() < 0.02, "{drift:?}");
    }
}

#[test]
fn drift_too_small_to_matter_is_not_flagged() {
    let series: Vec<f64> = (0..200).map(|i| 100.0 + 0.005 * f64::from(i)).collect();
    let drift = estimate_drift(&series, &estimate_dependence(&series)).unwrap();
    assert!(drift.interval.low > 0.0 && !drift.drifting, "{drift:?}");
}

#[test]
fn drift_takes_16_values_above_0() {
    let independent = estimate_dependence(&[1.0; 15]);
    assert_eq!(estimate_drift(&[1.0; 15], &independent), None);
    assert_eq!(estimate_drift(&[0.0; 40], &estimate_dependence(&[0.0; 40])), None);
    assert_eq!(estimate_drift(&[f64::NAN; 40], &independent), None);
}

#[test]
fn ranks_match_an_independent_count_of_inversions() {
    // Two-sided 1 % is reached at S = 15, 22 and 29 for n = 6, 8 and 10; tests/golden/statistics.py.
    for (blocks, rank) in [(4, None), (5, None), (6, Some(1)), (8, Some(4)), (10, Some(9)), (32, Some(169))] {
        assert_eq!(lower_rank(blocks), rank, "{blocks}");
    }
}

#[test]
fn steps_have_their_place_and_their_levels() {
    let series: Vec<f64> = noise(300, 7)
        .iter()
        .enumerate()
        .map(|(i, x)| x + if (100..220).contains(&i) { 20.0 } else { 0.0 })
        .collect();
    let changes = find_changes(&series);
    assert_eq!(changes.len(), 2, "{changes:?}");
    for (change, index, before, after) in [(changes[0], 100, 100.0, 120.0), (changes[1], 220, 120.0, 100.0)] {
        assert!(change.index.abs_diff(index) <= 2, "{change:?}");
        assert!((change.before - before).abs() < 1.0 && (change.after - after).abs() < 1.0, "{change:?}");
    }
}

#[test]
fn a_straight_line_is_no_step() {
    let series: Vec<f64> = (0..300).map(|i| 100.0 + f64::from(i) + f64::from(i * 37 % 11)).collect();
    assert_eq!(find_changes(&series), []);
}

#[test]
fn equal_values_share_their_rank() {
    assert_eq!(mid_ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
    assert_eq!(mid_ranks(&[]), [0.0; 0]);
}

#[test]
fn slope_survives_a_fifth_of_spikes() {
    let series: Vec<f64> =
        (0..50).map(|i| if i % 5 == 2 { 1e6 } else { 10.0 + 0.5 * f64::from(i) }).collect();
    assert!((median_slope(&series) - 0.5).abs() < 0.1, "{}", median_slope(&series));
    assert_eq!(block_medians(&[1.0, 2.0, 3.0, 10.0], 2), [1.5, 6.5]);
    assert_close(median_slope(&[]), 0.0);
}

proptest! {
    #[test]
    fn any_bits_have_a_dependence_a_drift_and_steps_without_a_panic(
        values in prop::collection::vec(any::<f64>(), 0..80),
    ) {
        let dependence = estimate_dependence(&values);
        prop_assert!(dependence.inflation >= 1.0);
        let _drift = estimate_drift(&values, &dependence);
        for change in find_changes(&values) {
            prop_assert!(change.index < values.len());
        }
        let _center = estimate_center(&values);
    }
}
