//! The center of few paired differences, robust against wild ones.
//!
//! Invariant: the interval and the p-value come from one exact distribution, so they never disagree.

use super::{Interval, median};

/// Differences that the exact distribution is computed for; more are joined to groups first.
pub(super) const MOST: usize = 64;

/// The Hodges–Lehmann estimate with its interval.
pub(super) struct PairedCenter {
    pub(super) estimate: f64,
    pub(super) interval: Option<Interval>,
    pub(super) p: f64,
}

/// Estimates the center of at most [`MOST`] differences and tests it against 0.
///
/// The estimate is the median of the means of all pairs (Walsh averages): Hodges and Lehmann, "Estimates of
/// location based on rank tests", Annals of Mathematical Statistics 34 (1963). Interval and p-value invert the
/// signed-rank test of Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1 (1945), with its
/// exact distribution, which for differences symmetric about their center depends on nothing else.
///
/// The interval is absent where the differences are too few for the confidence (95 % takes 6).
pub(super) fn estimate_paired_center(differences: &[f64], confidence: f64) -> Option<PairedCenter> {
    let walsh = walsh_averages(differences);
    let estimate = median(&walsh)?;
    let distribution = rank_sums(differences.len());
    // Of the Walsh averages the number above the true center is distributed as the positive rank sum.
    let mut below = 0.0;
    let rank = distribution
        .iter()
        .take_while(|probability| {
            below += **probability;
            2.0 * below <= 1.0 - confidence
        })
        .count();
    let end = |index: usize| walsh.get(index).copied();
    let interval = rank
        .checked_sub(1)
        .and_then(|index| Some(Interval { low: end(index)?, high: end(walsh.len() - 1 - index)? }));
    let below = walsh.iter().filter(|value| **value < 0.0).count();
    let above = walsh.iter().filter(|value| **value > 0.0).count();
    // Averages of exactly 0 count for both sides, so that ties never make a difference.
    let least = walsh.len() - below.max(above);
    let p = (2.0 * distribution.iter().take(least + 1).sum::<f64>()).min(1.0);
    Some(PairedCenter { estimate, interval, p })
}

/// The median of the means of all pairs of `values`, each with itself too; `None` where there are none.
pub(super) fn pseudomedian(values: &[f64]) -> Option<f64> {
    median(&walsh_averages(values))
}

fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, first) in values.iter().enumerate() {
        averages.extend(values.iter().skip(i).map(|second| f64::midpoint(*first, *second)));
    }
    averages.sort_unstable_by(f64::total_cmp);
    averages
}

/// The probabilities of the positive rank sums of `count` differences, from 0 up.
fn rank_sums(count: usize) -> Vec<f64> {
    let mut sums = vec![1.0];
    for rank in 1..=count {
        let mut next = vec![0.0; sums.len() + rank];
        for (sum, probability) in sums.iter().enumerate() {
            next[sum] += probability / 2.0;
            next[sum + rank] += probability / 2.0;
        }
        sums = next;
    }
    sums
}
