//! Ways to make one number of the samples of a session.
//!
//! Invariant: an estimator sees the samples of its own session and nothing else.

use std::collections::BTreeMap;

use siliconroute_core::statistics;
use siliconroute_core::trial::Sample;

/// An estimator with its name.
pub(crate) type Estimator = (&'static str, fn(&[Sample]) -> Option<f64>);

pub(crate) const ESTIMATORS: [Estimator; 8] = [
    ("median", |samples| statistics::median(&times(samples))),
    ("mean", |samples| Some(mean(&times(samples)))),
    ("p25", |samples| at(samples, 0.25)),
    ("p10", |samples| at(samples, 0.10)),
    ("p05", |samples| at(samples, 0.05)),
    ("minimum", |samples| at(samples, 0.0)),
    ("shortest round median", |samples| at_of(&round_medians(samples), 0.0)),
    ("median of round minima", |samples| statistics::median(&by_round(samples, |times| at_of(times, 0.0)))),
];

fn times(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(Sample::per_call_ns).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn at(samples: &[Sample], p: f64) -> Option<f64> {
    at_of(&times(samples), p)
}

fn at_of(values: &[f64], p: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    statistics::quantile(&sorted, p)
}

fn round_medians(samples: &[Sample]) -> Vec<f64> {
    by_round(samples, statistics::median)
}

fn by_round(samples: &[Sample], value: fn(&[f64]) -> Option<f64>) -> Vec<f64> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        rounds.entry(sample.round).or_default().push(sample.per_call_ns());
    }
    rounds.values().filter_map(|times| value(times)).collect()
}
