//! The median of one trial with an interval that allows for dependence.
//!
//! Invariant: for samples that show no dependence the interval is exactly that of `median_interval`.

use serde::{Deserialize, Serialize};

use super::interval::sorted_median_interval;
use super::{CONFIDENCE, Dependence, Interval, estimate_dependence, quantile, sorted_copy};

/// Where the median of a trial lies.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Center {
    /// The median of the samples, in their unit.
    pub median: f64,
    /// Its 95 % interval; absent where the samples cannot reach the confidence.
    pub interval: Option<Interval>,
    /// How far the samples depend on one another.
    pub dependence: Dependence,
}

/// Estimates the median of values in the order in which they were taken, with its 95 % interval.
///
/// The interval is that of [`super::median_interval`] with the distance of its ranks from the middle stretched by
/// `√inflation · t ÷ 1.96` (see [`Dependence`]): dependent samples place the median as well as `n ÷ inflation`
/// independent ones. It holds from about 20 times the inflation on; `dependence.unresolved` says where it does not.
///
/// `None` when there are no values or when one of them is NaN.
pub fn estimate_center(values: &[f64]) -> Option<Center> {
    center_of(&sorted_copy(values)?, values)
}

// Why no block bootstrap (Künsch 1989; Politis and Romano 1994): it inherits the faults of the bootstrap of a median
// (see `interval`), needs the same estimate of the dependence for its block length, has no t in it for how
// uncertain that estimate is, and covers less in every dependent row of docs/error-rates.md.
pub(super) fn center_of(sorted: &[f64], values: &[f64]) -> Option<Center> {
    let median = quantile(sorted, 0.5)?;
    let dependence = estimate_dependence(values);
    let interval =
        dependence.stretch().and_then(|stretch| sorted_median_interval(sorted, CONFIDENCE, stretch));
    Some(Center { median, interval, dependence })
}
