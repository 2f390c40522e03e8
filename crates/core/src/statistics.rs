//! Quantiles, intervals and summaries of timing samples.
//!
//! Invariant: every statistic is derived from raw samples by the method that [`METHOD_VERSION`]
//! names, and one that the samples cannot support is absent rather than guessed.
//!
//! Reading order: `interval`, `dependence`, `center`, `trend`, `drift`, `change`, `summary`, `stopping`, `student`,
//! `signed_rank`, `comparison`, `replication`, `sessions`. What each holds in simulation: docs/methodology.md.

mod center;
mod change;
mod comparison;
mod dependence;
pub(crate) mod draws;
mod drift;
mod interval;
mod replication;
mod sessions;
mod signed_rank;
mod stopping;
pub(crate) mod student;
mod summary;
#[cfg(test)]
mod tests;
mod trend;

pub use center::{Center, estimate_center};
pub use change::{ChangePoint, find_changes};
pub use comparison::{
    Comparison, PairedRound, SIGNIFICANCE, Scope, Verdict, compare_paired, compare_unpaired, judge_together,
};
pub use dependence::{Dependence, estimate_dependence};
pub use draws::Draws;
pub use drift::{Drift, estimate_drift};
pub use interval::{Interval, median_interval};
pub use replication::Replication;
pub use sessions::{SessionEstimate, SessionSpread, join_sessions, pool_session_spreads};
pub use stopping::{Step, StopReason, Stopping, StoppingRule};
pub use summary::{METHOD_VERSION, Summary, summarise};

/// Confidence of every interval that does not name another.
pub const CONFIDENCE: f64 = 0.95;

/// Computes the `p`-quantile of ascending values by linear interpolation between order statistics.
///
/// With `h = (n − 1)·p`, the value lies between the order statistics of ranks `⌊h⌋` and `⌊h⌋ + 1`
/// (from zero): type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American
/// Statistician 50 (1996). The unit is that of the values.
///
/// `None` when there are no values, or when `p` is not within `0..=1`. The values must be sorted and
/// free of NaN.
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "quantile() needs ascending values without NaN");
    let last = sorted.len().checked_sub(1)?;
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    let position = last as f64 * p;
    let below = position.floor() as usize;
    let low = *sorted.get(below)?;
    let high = sorted.get(below + 1).copied().unwrap_or(low);
    Some(interpolate(low, high, position - position.floor()))
}

/// Computes the median: the middle value, or the mean of the two middle values.
///
/// `None` when there are no values or when one of them is NaN.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted_copy(values)?, 0.5)
}

/// The values in ascending order; `None` when one of them is NaN.
fn sorted_copy(values: &[f64]) -> Option<Vec<f64>> {
    if values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// The point `share` of the way from `low` to `high`, exact at both ends and where they are equal.
fn interpolate(low: f64, high: f64, share: f64) -> f64 {
    if share <= 0.0 {
        return low;
    }
    let distance = high - low;
    if distance == 0.0 {
        low
    } else if distance.is_finite() {
        (low + share * distance).min(high)
    } else {
        (1.0 - share) * low + share * high
    }
}
