//! Tests of quantiles, intervals and summaries; golden values from `tests/golden/statistics.py`.

mod comparison;
mod movement;
mod timing;

use crate::Workload;
use proptest::prelude::*;

use super::draws::Draws;
use super::summary::{SAMPLES_FOR_HUNDREDTH, SAMPLES_FOR_TENTH, SAMPLES_FOR_TWENTIETH};
use super::*;

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(error <= 1e-12 * expected.abs().max(1.0), "found {found}, expected {expected}");
}

/// The sample of the golden script.
fn golden_sample(count: u32) -> Vec<f64> {
    (0..count).map(|index| f64::from((index * 37 + 11) % 101 + 100)).collect()
}

fn ascending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[test]
fn quantiles_match_numpy() {
    let sorted = ascending(golden_sample(50));
    let rows = [(0.05, 104.9), (0.1, 109.7), (0.333, 131.634), (0.5, 149.0), (0.9, 188.3), (0.99, 197.51)];
    for (p, expected) in rows {
        assert_close(quantile(&sorted, p).unwrap(), expected);
    }
}

#[test]
fn quantiles_reach_both_ends_and_refuse_what_has_none() {
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.0), Some(1.0));
    assert_eq!(quantile(&[1.0, 2.0, 4.0], 1.0), Some(4.0));
    assert_eq!(quantile(&[3.0], 0.7), Some(3.0));
    assert_eq!(quantile(&[-f64::MAX, f64::MAX], 0.5), Some(0.0));
    assert_eq!(quantile(&[], 0.5), None);
    for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(quantile(&[1.0, 2.0], p), None, "{p}");
    }
}

#[test]
fn median_takes_the_middle_of_unsorted_values() {
    for (values, expected) in [
        (vec![], None),
        (vec![f64::NAN, 1.0], None),
        (vec![5.0], Some(5.0)),
        (vec![9.0, 1.0, 5.0], Some(5.0)),
        (vec![9.0, 1.0, 5.0, 7.0], Some(6.0)),
    ] {
        assert_eq!(median(&values), expected, "{values:?}");
    }
}

#[test]
fn interval_knows_what_it_holds() {
    let interval = Interval { low: 9.0, high: 11.0 };
    assert!(interval.contains(9.0) && interval.contains(11.0) && !interval.contains(11.1));
    assert!(interval.overlaps(&Interval { low: 11.0, high: 12.0 }));
    assert!(!interval.overlaps(&Interval { low: 11.5, high: 12.0 }));
    assert_close(interval.relative_half_width(10.0), 0.1);
    assert_close(Interval { low: 0.0, high: 0.0 }.relative_half_width(0.0), 0.0);
    assert!(interval.relative_half_width(0.0).is_infinite());
}

#[test]
fn median_intervals_match_an_independent_implementation() {
    for (count, confidence, low, high) in [
        (6, 0.95, 114.571_428_571_428_58, 191.428_571_428_571_42),
        (7, 0.95, 118.333_333_333_333_33, 187.666_666_666_666_66),
        (30, 0.95, 131.686_134_496_129_65, 167.085_154_005_160_46),
        (31, 0.95, 129.700_989_428_857_95, 165.299_010_571_142_05),
        (100, 0.95, 139.763_200_616_340_1, 159.236_799_383_659_9),
        (100, 0.99, 136.737_983_466_742_04, 162.262_016_533_257_96),
    ] {
        let interval = median_interval(&golden_sample(count), confidence).unwrap();
        assert!((interval.low - low).abs() < 1e-9 && (interval.high - high).abs() < 1e-9, "{interval:?}");
    }
}

#[test]
fn median_interval_is_absent_where_the_confidence_is_out_of_reach() {
    let five = [1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(median_interval(&five, 0.95), None);
    assert!(median_interval(&five, 0.93).is_some());
    assert_eq!(median_interval(&[], 0.95), None);
    assert_eq!(median_interval(&[1.0], 0.5), None);
    assert_eq!(median_interval(&[1.0, 2.0], 0.4), Some(Interval { low: 1.0, high: 2.0 }));
    assert_eq!(median_interval(&[f64::NAN; 10], 0.95), None);
    for confidence in [0.0, 1.0, -1.0, f64::NAN] {
        assert_eq!(median_interval(&[1.0; 20], confidence), None, "{confidence}");
    }
}

#[test]
fn median_interval_survives_counts_whose_binomial_underflows() {
    let values: Vec<f64> = (0..50_000).map(f64::from).collect();
    let interval = median_interval(&values, 0.95).unwrap();
    // Normal approximation: n/2 ± 1.96·√n/2.
    assert!((interval.low - (25_000.0 - 219.13)).abs() < 2.0, "{interval:?}");
    assert!((interval.high - (25_000.0 + 219.13)).abs() < 2.0, "{interval:?}");
}

type Distribution = (&'static str, f64, fn(&mut Draws) -> f64);

/// Distributions with their true medians.
const DISTRIBUTIONS: [Distribution; 4] = [
    ("lognormal", 1.0, |draws| (0.5 * draws.normal()).exp()),
    // 65 % around 1 and 35 % around 1.5, 0.02 wide: Φ(z) = 0.5 ÷ 0.65 at the median.
    ("bimodal", 1.014_726_330_563_2, |draws| {
        let center = if draws.uniform() < 0.65 { 1.0 } else { 1.5 };
        center + 0.02 * draws.normal()
    }),
    // Pareto with tail index 1: no mean, median 2.
    ("heavy tail", 2.0, |draws| 1.0 / draws.uniform()),
    ("uniform", 0.5, Draws::uniform),
];

#[test]
fn median_interval_covers_the_true_median_as_often_as_it_says() {
    const TRIALS: usize = 4_000;
    let mut draws = Draws::new(7);
    for (name, true_median, draw) in DISTRIBUTIONS {
        for count in [8, 30, 100] {
            let covered = (0..TRIALS)
                .filter(|_| {
                    let values: Vec<f64> = (0..count).map(|_| draw(&mut draws)).collect();
                    median_interval(&values, 0.95).unwrap().contains(true_median)
                })
                .count();
            let share = covered as f64 / TRIALS as f64;
            assert!((0.93..=0.97).contains(&share), "{name}, n = {count}: {share}");
        }
    }
}

#[test]
fn median_interval_agrees_with_brute_force_resampling() {
    const RESAMPLES: usize = 4_000;
    let mut draws = Draws::new(11);
    for (name, _, draw) in DISTRIBUTIONS {
        let sorted = ascending((0..101).map(|_| draw(&mut draws)).collect());
        let medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let resample: Vec<f64> = (0..101).map(|_| sorted[draws.index(101)]).collect();
                median(&resample).unwrap()
            })
            .collect();
        let medians = ascending(medians);
        let interval = median_interval(&sorted, 0.95).unwrap();
        let rank = |value: f64| sorted.iter().filter(|other| **other < value).count();
        for (p, end) in [(0.025, interval.low), (0.975, interval.high)] {
            let distance = rank(quantile(&medians, p).unwrap()).abs_diff(rank(end));
            assert!(distance <= 1, "{name}: {distance} order statistics apart at {p}");
        }
    }
}

/// P(Bin(n, p) ≤ k) by summing the terms.
fn binomial_at_most(k: usize, n: usize, p: f64) -> f64 {
    let term = |i: usize| {
        let choose: f64 = (0..i).map(|j| (n - j) as f64 / (j + 1) as f64).product();
        choose * p.powf(i as f64) * (1.0 - p).powf((n - i) as f64)
    };
    (0..=k).map(term).sum()
}

#[test]
fn percentile_bootstrap_would_cover_less_than_it_says() {
    for (n, expected) in [(3, 0.75), (7, 0.875), (21, 0.922), (31, 0.929)] {
        let below = |rank: usize| 1.0 - binomial_at_most((n - 1) / 2, n, rank as f64 / n as f64);
        let low = (1..=n).find(|rank| below(*rank) >= 0.025).unwrap();
        let high = (1..=n).find(|rank| below(*rank) >= 0.975).unwrap();
        let coverage = binomial_at_most(high - 1, n, 0.5) - binomial_at_most(low - 1, n, 0.5);
        assert!((coverage - expected).abs() < 5e-4, "n = {n}: {coverage}");
    }
}

#[test]
fn quantiles_need_two_samples_beyond_them() {
    for (needed, beyond, expected) in
        [(SAMPLES_FOR_TENTH, 0.1, 64), (SAMPLES_FOR_TWENTIETH, 0.05, 130), (SAMPLES_FOR_HUNDREDTH, 0.01, 662)]
    {
        assert_eq!(needed, expected);
        assert!(binomial_at_most(1, needed, beyond) <= 0.01);
        assert!(binomial_at_most(1, needed - 1, beyond) > 0.01);
    }
    let present = |count: u32| {
        let it = summarise(&golden_sample(count)).unwrap();
        [it.p05_ns, it.p10_ns, it.p90_ns, it.p95_ns, it.p99_ns].map(|value| value.is_some())
    };
    assert_eq!(present(63), [false; 5]);
    assert_eq!(present(64), [false, true, true, false, false]);
    assert_eq!(present(130), [true, true, true, true, false]);
    assert_eq!(present(662), [true; 5]);
}

#[test]
fn summary_of_one_sample_claims_nothing_more() {
    let expected = Summary {
        samples: 1,
        median_ns: 5.0,
        mean_ns: 5.0,
        min_ns: 5.0,
        max_ns: 5.0,
        standard_deviation_ns: None,
        coefficient_of_variation: None,
        p05_ns: None,
        p10_ns: None,
        p90_ns: None,
        p95_ns: None,
        p99_ns: None,
        robust_spread: None,
        interval: None,
        outliers: 0,
        unstable: false,
        method: METHOD_VERSION,
        robust_deviation_ns: None,
        dependence: Some(Dependence { batch: 1, batches: 1, inflation: 1.0, unresolved: false }),
        pseudomedian_ns: Some(5.0),
        drift: None,
        changes: Vec::new(),
    };
    assert_eq!(summarise(&[5.0]), Some(expected));
}

#[test]
fn what_is_typical_of_two_kinds_of_samples_is_neither_kind() {
    let typical = |samples: &[f64], workload| summarise(samples).unwrap().typical_ns(workload);
    for workload in [Workload::IdleLoaded, Workload::ColdStart] {
        // Whether three of six samples are slow or three of five: the median of the latter is slow.
        assert_close(typical(&[2.0, 2.0, 2.0, 8.0, 8.0, 8.0], workload), 5.0);
        assert_close(typical(&[2.0, 2.0, 8.0, 8.0, 8.0], workload), 5.0);
        // A wild one is no kind.
        assert_close(typical(&[2.0, 2.0, 2.0, 2.0, 2.0, 90.0], workload), 2.0);
    }
    assert_close(typical(&[2.0, 2.0, 2.0, 2.0, 8.0, 8.0], Workload::Sustained), 2.0);
    assert_eq!(summarise(&[1.0; 65]).unwrap().pseudomedian_ns, None);
}

#[test]
fn summary_of_ten_samples_has_moments_and_spread() {
    let summary = summarise(&[10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]).unwrap();
    assert_close(summary.median_ns, 14.5);
    assert_close(summary.mean_ns, 14.5);
    assert_close(summary.standard_deviation_ns.unwrap(), (82.5_f64 / 9.0).sqrt());
    assert_close(summary.coefficient_of_variation.unwrap(), (82.5_f64 / 9.0).sqrt() / 14.5);
    assert_close(summary.robust_spread.unwrap(), (18.1 - 10.9) / 14.5);
    assert!(summary.unstable && summary.interval.is_some());
    assert_eq!(summarise(&[10.0; 9]).unwrap().robust_spread, None);
}

#[test]
fn summary_refuses_what_is_no_time() {
    for samples in [&[][..], &[1.0, f64::NAN], &[1.0, f64::INFINITY], &[1.0, -1.0], &[f64::MAX, 1.0]] {
        assert_eq!(summarise(samples), None, "{samples:?}");
    }
    let zeros = summarise(&[0.0; 20]).unwrap();
    assert_eq!((zeros.coefficient_of_variation, zeros.robust_spread, zeros.unstable), (None, None, false));
}

#[test]
fn outliers_are_counted_with_and_without_spread() {
    let mut samples: Vec<f64> = (0..30).map(|index| 100.0 + f64::from(index % 5)).collect();
    assert_eq!(summarise(&samples).unwrap().outliers, 0);
    samples.extend([200.0, 20.0]);
    assert_eq!(summarise(&samples).unwrap().outliers, 2);
    let mut equal = vec![100.0; 30];
    assert_eq!(summarise(&equal).unwrap().outliers, 0);
    equal.push(101.0);
    assert_eq!(summarise(&equal).unwrap().outliers, 1);
}

#[test]
fn unstable_means_a_wide_spread_or_a_wide_interval() {
    let steady: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index % 7)).collect();
    assert!(!summarise(&steady).unwrap().unstable);
    let wide: Vec<f64> = (0..40).map(|index| 100.0 + f64::from(index % 7) * 10.0).collect();
    assert!(summarise(&wide).unwrap().unstable);
    let few = [100.0, 100.0, 100.0, 100.0, 160.0, 160.0];
    let summary = summarise(&few).unwrap();
    assert!(summary.robust_spread.is_none() && summary.unstable);
}

#[test]
fn summary_survives_json() {
    let summary = summarise(&[1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 2.0]).unwrap();
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
}

#[test]
fn summary_of_an_earlier_method_is_still_read() {
    let text = r#"{"samples":1,"median_ns":5.0,"mean_ns":5.0,"min_ns":5.0,"max_ns":5.0,"standard_deviation_ns":null,
        "coefficient_of_variation":null,"p05_ns":null,"p10_ns":null,"p90_ns":null,"p95_ns":null,"p99_ns":null,
        "robust_spread":null,"interval":null,"outliers":0,"unstable":false,"method":1}"#;
    let summary: Summary = serde_json::from_str(text).unwrap();
    assert_eq!((summary.method, summary.dependence, summary.drift, summary.changes), (1, None, None, vec![]));
}

#[test]
fn absent_quantiles_say_how_many_samples_they_take() {
    let tails = summarise(&golden_sample(70)).unwrap().tails();
    assert!(tails[2].1.available().is_some());
    assert_eq!(tails[4].0, "p99");
    assert_eq!(tails[4].1.to_string(), "not available: p99 takes 662 samples, there are 70");
}

#[test]
fn robust_deviation_ignores_a_spike() {
    let mut samples: Vec<f64> = (0..41).map(|index| 100.0 + f64::from(index % 5)).collect();
    samples.push(1e6);
    let summary = summarise(&samples).unwrap();
    assert_close(summary.robust_deviation_ns.unwrap(), 1.482_602_218_505_602);
    assert_eq!(summary.outliers, 1);
    assert!(summary.max_ns > 9e5);
}

/// What a summary says of the distribution, whatever the order of the samples.
fn without_order(summary: &Summary) -> Summary {
    Summary {
        interval: None,
        unstable: false,
        dependence: None,
        drift: None,
        changes: Vec::new(),
        ..summary.clone()
    }
}

proptest! {
    #[test]
    fn summary_follows_the_unit_and_describes_the_distribution_without_the_order(
        samples in prop::collection::vec(0.0_f64..1e9, 1..200), shift in 0_usize..200,
    ) {
        let summary = summarise(&samples).unwrap();
        let mut rotated = samples.clone();
        rotated.rotate_left(shift % samples.len());
        prop_assert_eq!(without_order(&summarise(&rotated).unwrap()), without_order(&summary));
        let doubled: Vec<f64> = samples.iter().map(|sample| sample * 2.0).collect();
        let doubled = summarise(&doubled).unwrap();
        prop_assert!((doubled.median_ns - summary.median_ns * 2.0).abs() <= f64::EPSILON * doubled.median_ns);
        prop_assert_eq!(doubled.robust_spread, summary.robust_spread);
        prop_assert_eq!(doubled.outliers, summary.outliers);
        if let Some(interval) = summary.interval {
            prop_assert!(interval.contains(summary.median_ns));
            prop_assert!(summary.min_ns <= interval.low && interval.high <= summary.max_ns);
        }
    }

    #[test]
    fn any_bits_are_summarised_or_refused(samples in prop::collection::vec(any::<f64>(), 0..50)) {
        if let Some(summary) = summarise(&samples) {
            prop_assert!(summary.mean_ns.is_finite());
        }
        let _interval = median_interval(&samples, 0.95);
    }
}
