//! Steps in the level of a trial: the moments from which on it ran in another state.
//!
//! Invariant: a step is reported only where it is beyond chance, at least 2 %, and describes its stretch better
//! than a straight drift does.

use serde::{Deserialize, Serialize};

use super::trend::{block_medians, median_slope};
use super::{estimate_dependence, median};

/// Points that the search works on; longer trials are taken as so many block medians.
const MOST_POINTS: usize = 256;
/// Points on either side of a step.
const FEWEST_POINTS: usize = 8;
/// Chance of a step in a stretch without one, for independent values.
const SIGNIFICANCE: f64 = 0.001;
/// Step, as a share of the level before it, under which it does not matter.
const MATERIAL: f64 = 0.02;
/// Steps that are reported at most, the plainest first found.
const MOST_STEPS: usize = 16;

/// A step in the level of a trial.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first sample at the new level, exact to one block of a long trial.
    pub index: usize,
    /// Median of the stretch before, in the unit of the samples.
    pub before: f64,
    /// Median of the stretch after.
    pub after: f64,
}

/// Finds the steps in the level of values, in the order in which they were taken.
///
/// The cumulative sum of centered ranks (Pettitt, "A non-parametric approach to the change-point problem", Applied
/// Statistics 28, 1979) leaves its bridge where the level changes, and ranks are blind to the size of spikes. Its range,
/// rather than its maximum, also sees a stretch in the middle that returns to the level before; the range of a
/// Brownian bridge has the tail `2·(4x² − 1)·exp(−2x²)` (Kuiper, "Tests concerning random points on a circle",
/// Indagationes Mathematicae 22, 1960). For dependent values the variance grows by the inflation of the residuals about
/// the levels. Stretches between steps are searched again (binary segmentation: Scott and Knott, Biometrics 30, 1974;
/// with two ends at once as in Olshen et al., "Circular binary segmentation", Biostatistics 5, 2004).
///
/// Fewer than 16 values have no steps. The values must be finite.
pub fn find_changes(values: &[f64]) -> Vec<ChangePoint> {
    let points = block_medians(values, MOST_POINTS);
    let mut bounds = vec![0, points.len()];
    let mut open = vec![(0, points.len())];
    while let Some((begin, end)) = open.pop() {
        if bounds.len() > MOST_STEPS + 1 {
            break;
        }
        let steps = points.get(begin..end).map(find_steps).unwrap_or_default();
        let mut from = begin;
        for at in steps.iter().map(|at| begin + at) {
            bounds.push(at);
            open.push((from, at));
            from = at;
        }
        if !steps.is_empty() {
            open.push((from, end));
        }
    }
    bounds.sort_unstable();
    let sample = |point: usize| point * values.len() / points.len().max(1);
    let levels: Vec<f64> =
        bounds.windows(2).filter_map(|pair| median(values.get(sample(pair[0])..sample(pair[1]))?)).collect();
    let inner = bounds.iter().skip(1);
    inner
        .zip(levels.windows(2))
        .map(|(&bound, pair)| ChangePoint { index: sample(bound), before: pair[0], after: pair[1] })
        .collect()
}

/// The first points behind the plainest step, or behind the two ends of the plainest stretch.
fn find_steps(points: &[f64]) -> Vec<usize> {
    let n = points.len();
    if n < 2 * FEWEST_POINTS {
        return Vec::new();
    }
    let mut sum = 0.0;
    let bridge = mid_ranks(points).into_iter().zip(1..).map(|(rank, at)| {
        sum += 2.0 * rank - (n + 1) as f64;
        (at, sum)
    });
    let ((mut lowest, mut low), (mut highest, mut high)) = ((0, 0.0), (0, 0.0));
    for (at, value) in bridge {
        if value < low {
            (lowest, low) = (at, value);
        }
        if value > high {
            (highest, high) = (at, value);
        }
    }
    let mut cuts = [lowest.min(highest), lowest.max(highest)].to_vec();
    cuts.retain(|at| (FEWEST_POINTS..=n - FEWEST_POINTS).contains(at));
    if let [first, second] = cuts[..]
        && second - first < FEWEST_POINTS
    {
        return Vec::new();
    }
    let residuals = residuals(points, &cuts);
    let inflation = estimate_dependence(&residuals).inflation;
    let length = n as f64;
    let square = 3.0 * (high - low) * (high - low) / ((length.powi(3) + length * length) * inflation);
    let by_chance = 2.0 * (4.0 * square - 1.0) * (-2.0 * square).exp();
    if square < 1.0 || by_chance > SIGNIFICANCE || total(&residuals) >= distance_from_line(points) {
        return Vec::new();
    }
    let ends: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([n]).collect();
    ends.windows(3).filter(|end| is_step(points, end, inflation)).map(|end| end[1]).collect()
}

/// Whether the points on either side of the middle end lie on different levels, by the test of Mann and Whitney
/// (Annals of Mathematical Statistics 18, 1947) with the bound `2·exp(−z² ÷ 2)` on the normal tail.
fn is_step(points: &[f64], ends: &[usize], inflation: f64) -> bool {
    let (before, after) = (&points[ends[0]..ends[1]], &points[ends[1]..ends[2]]);
    let (Some(low), Some(high)) = (median(before), median(after)) else { return false };
    let (m, n) = (before.len() as f64, after.len() as f64);
    let ranks = mid_ranks(&points[ends[0]..ends[2]]);
    let sum: f64 = ranks.iter().take(before.len()).sum();
    let distance = sum - m * (m + n + 1.0) / 2.0;
    let square = 12.0 * distance * distance / (m * n * (m + n + 1.0) * inflation);
    let material = (high - low).abs() >= MATERIAL * low.abs().min(high.abs()) && (high - low).abs() > 0.0;
    material && 2.0 * (-square / 2.0).exp() <= SIGNIFICANCE
}

/// Distances from the medians of the stretches between cuts.
fn residuals(points: &[f64], cuts: &[usize]) -> Vec<f64> {
    let mut residuals = Vec::with_capacity(points.len());
    let mut from = 0;
    for &to in cuts.iter().chain([&points.len()]) {
        let level = median(&points[from..to]).unwrap_or(0.0);
        residuals.extend(points[from..to].iter().map(|point| point - level));
        from = to;
    }
    residuals
}

/// Sum of the distances from a robust straight line.
fn distance_from_line(points: &[f64]) -> f64 {
    let slope = median_slope(points);
    let level: Vec<f64> = points.iter().enumerate().map(|(i, value)| value - slope * i as f64).collect();
    let center = median(&level).unwrap_or(0.0);
    level.iter().map(|value| (value - center).abs()).sum()
}

fn total(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual.abs()).sum()
}

/// Ranks from 1, equal values sharing the mean of theirs.
pub(super) fn mid_ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut begin = 0;
    for group in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        let end = begin + group.len();
        for &index in group {
            ranks[index] = (begin + end + 1) as f64 / 2.0;
        }
        begin = end;
    }
    ranks
}
