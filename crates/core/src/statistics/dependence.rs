//! How far the samples of one trial depend on their predecessors.
//!
//! Invariant: dependence is judged on which side of the median samples lie, so neither spikes nor a heavy tail
//! move the answer, and a straight drift is taken out before.

use serde::{Deserialize, Serialize};

use super::trend::median_slope;
use super::{CONFIDENCE, median, student};

/// Samples from which dependence can be told from chance at all.
const FEWEST: usize = 16;
/// Batches of which a variance can still be taken; as few as this need `t = 2.45` in place of 1.96.
const FEWEST_BATCHES: usize = 8;
/// Batches of more than one sample; more of them would only cost time.
const MOST_BATCHES: usize = 512;
/// Lag-one correlation of batches, times the root of their number, that counts as dependence. A fifth of
/// all independent series exceed it by chance, which costs them a little width; a stricter test would let
/// weak dependence pass.
const SUSPICIOUS: f64 = 0.84;
/// Correlation of neighbouring batches that is extrapolated at most.
const STRONGEST: f64 = 0.9;
/// Effective samples under which the inflation of dependent samples cannot be told well enough.
const FEWEST_EFFECTIVE: f64 = 20.0;

/// The dependence between the samples of a trial, as far as it matters for their median.
///
/// The interval of a median counts how many samples lie below it, and the count of dependent samples varies
/// more than that of independent ones. `inflation` is the ratio of the two variances: `1 + 2·Σρₖ` over the
/// autocorrelations of the signs. It is estimated from sums over batches long enough to be nearly
/// uncorrelated (batch means: Schmeiser, "Batch Size Effects in the Analysis of Simulation Output",
/// Operations Research 30, 1982). The batch length doubles until neighbouring batches stop looking
/// correlated, as in Fishman and Yarberry, "An Implementation of the Batch Means Method", INFORMS Journal
/// on Computing 9 (1997), and then once more.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dependence {
    /// Consecutive samples per batch; 1 where nothing speaks against independence.
    pub batch: usize,
    /// Number of batches.
    pub batches: usize,
    /// Variance of the count of samples below the median, over that of independent samples; at least 1.
    pub inflation: f64,
    /// Whether the series is too short against its dependence: an interval then covers less than it says.
    pub unresolved: bool,
}

impl Dependence {
    /// The dependence of `samples` independent ones.
    pub(super) fn none(samples: usize) -> Self {
        Self { batch: 1, batches: samples, inflation: 1.0, unresolved: false }
    }

    /// Number of independent samples that would place the median as well.
    pub fn effective_samples(&self, samples: usize) -> f64 {
        samples as f64 / self.inflation
    }

    /// The factor by which the 95 % interval for independent samples must be widened.
    ///
    /// A variance from few batches is itself uncertain: Student's t takes the place of the normal factor,
    /// with one degree of freedom lost to the median and one to the drift.
    pub(super) fn stretch(&self) -> Option<f64> {
        if self.batch == 1 {
            return Some(1.0);
        }
        let critical = student::critical(CONFIDENCE, self.batches.checked_sub(2)?)?;
        Some(self.inflation.sqrt() * critical / student::NORMAL_95)
    }
}

/// Estimates the dependence of values in the order in which they were taken.
///
/// Fewer than 16 values, or values that are nearly all equal, count as independent. The values must be
/// finite.
pub fn estimate_dependence(values: &[f64]) -> Dependence {
    let n = values.len();
    let independent = Dependence::none(n);
    if n < FEWEST {
        return independent;
    }
    let Some(signs) = signs(values) else { return independent };
    let mut batch = 1;
    let mut settled = false;
    loop {
        let batches = n / batch;
        let found = Batches::of(&signs, batches);
        let correlated = found.correlation * (batches as f64).sqrt() > SUSPICIOUS;
        if batch == 1 && !correlated {
            return independent;
        }
        let room = batches / 2 >= FEWEST_BATCHES;
        if batches <= MOST_BATCHES && (settled || !room) {
            // What the batches still share with their neighbours, as for an autoregression of the first order; the
            // estimate of a correlation from few batches lies low by (1 + 3ρ) ÷ batches (Marriott and Pope, 1954).
            let rest = found.correlation + (1.0 + 3.0 * found.correlation) / batches as f64;
            let rest = rest.clamp(0.0, STRONGEST);
            let inflation = (found.inflation * (1.0 + rest) / (1.0 - rest)).max(1.0);
            let unresolved = (correlated && !room) || n as f64 / inflation < FEWEST_EFFECTIVE;
            return Dependence { batch, batches, inflation, unresolved };
        }
        settled = batch > 1 && !correlated;
        batch *= 2;
    }
}

/// On which side of the median each value lies once a straight drift is taken out: −1, 0 or 1.
///
/// `None` when the values have no median or all lie on it.
fn signs(values: &[f64]) -> Option<Vec<f64>> {
    let slope = median_slope(values);
    let level: Vec<f64> = values.iter().enumerate().map(|(i, value)| value - slope * i as f64).collect();
    let center = median(&level)?;
    let signs: Vec<f64> = level
        .iter()
        .map(|value| {
            if *value > center {
                1.0
            } else if *value < center {
                -1.0
            } else {
                0.0
            }
        })
        .collect();
    signs.iter().any(|sign| *sign != 0.0).then_some(signs)
}

struct Batches {
    inflation: f64,
    correlation: f64,
}

impl Batches {
    /// The variance of the normalised sums over `count` nearly equal batches, and the correlation of
    /// neighbours among them.
    fn of(signs: &[f64], count: usize) -> Self {
        let n = signs.len();
        let center = signs.iter().sum::<f64>() / n as f64;
        let sums: Vec<f64> = (0..count)
            .map(|index| {
                let batch = &signs[index * n / count..(index + 1) * n / count];
                batch.iter().map(|sign| sign - center).sum::<f64>() / (batch.len() as f64).sqrt()
            })
            .collect();
        let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
        let products: f64 = sums.iter().zip(sums.iter().skip(1)).map(|(a, b)| a * b).sum();
        let degrees = count.saturating_sub(2).max(1) as f64;
        Self {
            inflation: squares / degrees,
            correlation: if squares > 0.0 { products / squares } else { 0.0 },
        }
    }
}
