//! Whether a trial became slower or faster while it was taken.
//!
//! Invariant: a drift is flagged only when it is both beyond chance and large enough to matter.

use serde::{Deserialize, Serialize};

use super::trend::{block_medians, pair_slopes};
use super::{Dependence, Interval, median};

/// Values from which a trend can be told from chance.
const FEWEST: usize = 16;
/// Blocks whose medians the test is made on.
const BLOCKS: usize = 32;
/// Chance of a flag without a trend, for independent values.
const SIGNIFICANCE: f64 = 0.01;
/// Change over the trial, as a share of the median, under which a drift does not matter: the precision
/// that trials are sampled to.
const MATERIAL: f64 = 0.02;

/// The change of the level of a trial from its beginning to its end.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Drift {
    /// Change over the whole trial as a share of the median: 0.05 reads "5 % slower at the end".
    pub relative: f64,
    /// Its 99 % interval, as a share of the median as well.
    pub interval: Interval,
    /// Whether the interval excludes 0 and the change is at least 2 %. Never where the dependence is unresolved: a
    /// short stretch of a slow wave looks like a drift.
    pub drifting: bool,
}

/// Estimates the drift of values in the order in which they were taken.
///
/// The values become medians of at most 32 blocks, no more of them than `dependence` finds nearly
/// uncorrelated batches. Their trend is the Theil–Sen slope with Sen's interval (1968), whose ends are ranks of
/// the sorted slopes; the ranks come from the exact distribution of Kendall's S (Kendall, *Rank Correlation
/// Methods*, 1948), so that the test is the Mann–Kendall test without its normal approximation.
///
/// `None` for fewer than 16 values, or for a median that is not above 0. The values must be finite.
pub fn estimate_drift(values: &[f64], dependence: &Dependence) -> Option<Drift> {
    let center = median(values).filter(|center| *center > 0.0)?;
    if values.len() < FEWEST {
        return None;
    }
    let blocks = block_medians(values, dependence.batches.min(BLOCKS));
    let slopes = pair_slopes(&blocks);
    let rank = lower_rank(blocks.len())?;
    let scale = blocks.len() as f64 / center;
    let relative = median(&slopes)? * scale;
    let low = slopes.get(rank - 1)? * scale;
    let high = slopes.get(slopes.len() - rank)? * scale;
    let beyond_chance = !dependence.unresolved && (low > 0.0 || high < 0.0);
    let drifting = beyond_chance && relative.abs() >= MATERIAL;
    [relative, low, high].iter().all(|value| value.is_finite()).then_some(Drift {
        relative,
        interval: Interval { low, high },
        drifting,
    })
}

/// The rank of the slope that bounds the interval from below, from 1; `None` for too few blocks.
///
/// Of `n·(n − 1) ÷ 2` slopes the number below the true one is distributed as the inversions of a random
/// permutation, so the rank `r` is the largest with `2·P(inversions < r) ≤ SIGNIFICANCE`.
pub(super) fn lower_rank(blocks: usize) -> Option<usize> {
    let mut inversions = vec![1.0];
    for size in 2..=blocks {
        let mut next = vec![0.0; inversions.len() + size - 1];
        for (count, probability) in inversions.iter().enumerate() {
            for cell in next.iter_mut().skip(count).take(size) {
                *cell += probability / size as f64;
            }
        }
        inversions = next;
    }
    let mut below = 0.0;
    let rank = inversions
        .iter()
        .take_while(|probability| {
            below += **probability;
            2.0 * below <= SIGNIFICANCE
        })
        .count();
    (rank >= 1).then_some(rank)
}
