//! A straight line through values, robust against spikes.
//!
//! Invariant: a quarter of the values may be anything without moving the slope far.

use super::median;

/// Blocks whose medians stand for the values, so that the number of pairs stays small.
const BLOCKS: usize = 32;

/// Medians of `count` consecutive, nearly equal blocks; fewer where there are fewer values.
pub(super) fn block_medians(values: &[f64], count: usize) -> Vec<f64> {
    let n = values.len();
    let count = count.min(n);
    (0..count).filter_map(|index| median(&values[index * n / count..(index + 1) * n / count])).collect()
}

/// Slopes between all pairs of values, ascending, per step of the index.
///
/// Theil, "A rank-invariant method of linear and polynomial regression analysis", Indagationes Mathematicae 12
/// (1950); Sen, "Estimates of the regression coefficient based on Kendall's tau", Journal of the American
/// Statistical Association 63 (1968).
pub(super) fn pair_slopes(values: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(values.len() * values.len() / 2);
    for (i, first) in values.iter().enumerate() {
        for (j, second) in values.iter().enumerate().skip(i + 1) {
            slopes.push((second - first) / (j - i) as f64);
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes
}

/// The Theil–Sen slope per value, from block medians; 0 where there are fewer than two values.
pub(super) fn median_slope(values: &[f64]) -> f64 {
    let blocks = block_medians(values, BLOCKS);
    let slope = median(&pair_slopes(&blocks)).unwrap_or(0.0);
    slope * blocks.len() as f64 / values.len().max(1) as f64
}
