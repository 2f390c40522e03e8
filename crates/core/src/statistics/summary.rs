//! The statistics of one trial.
//!
//! Invariant: a summary depends on its samples and their order alone; what describes their distribution does not
//! depend on the order either.

use serde::{Deserialize, Serialize};

use super::center::center_of;
use super::signed_rank::{self, pseudomedian};
use super::{
    Center, ChangePoint, Dependence, Drift, Interval, estimate_drift, find_changes, quantile, sorted_copy,
};
use crate::reading::Reading;
use crate::workload::Workload;

/// Version of the methods of this module; a change of any result raises it.
pub const METHOD_VERSION: u32 = 3;

/// Confidence that two samples lie beyond a quantile before it is reported.
const TAIL_CONFIDENCE: f64 = 0.99;
/// Samples from which the robust spread is described.
const SPREAD_SAMPLES: usize = 10;
/// Robust spread over which a trial is unstable.
const UNSTABLE_SPREAD: f64 = 0.30;
/// Relative half-width of the interval over which a trial is unstable.
const UNSTABLE_HALF_WIDTH: f64 = 0.10;
/// Modified z-score over which a sample is an outlier.
const OUTLIER_SCORE: f64 = 3.5;
/// Φ⁻¹(0.75): a normal distribution's median absolute deviation, in standard deviations.
const NORMAL_MEDIAN_DEVIATION: f64 = 0.674_489_750_196_081_7;
/// √(π/2): a normal distribution's standard deviation, in mean absolute deviations.
const NORMAL_MEAN_DEVIATION: f64 = 1.253_314_137_315_500_1;

pub(super) const SAMPLES_FOR_TENTH: usize = samples_for_tail(0.10);
pub(super) const SAMPLES_FOR_TWENTIETH: usize = samples_for_tail(0.05);
pub(super) const SAMPLES_FOR_HUNDREDTH: usize = samples_for_tail(0.01);

/// The statistics of one trial's samples.
///
/// Quantiles are of type 7 (see [`quantile`]). A quantile with the share `q` beyond it is present from
/// the smallest `n` on for which at least two samples lie beyond the true quantile with 99 %
/// probability, `(1 − q)ⁿ + n·q·(1 − q)ⁿ⁻¹ ≤ 0.01`, so that the quantile is bounded by the data
/// without any assumption about their distribution (Wilks, "Determination of sample sizes for setting
/// tolerance limits", Annals of Mathematical Statistics 12, 1941): 64 samples for p10 and p90, 130 for
/// p05 and p95, 662 for p99.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub samples: usize,
    /// The median.
    pub median_ns: f64,
    /// The arithmetic mean.
    pub mean_ns: f64,
    /// The shortest sample.
    pub min_ns: f64,
    /// The longest sample.
    pub max_ns: f64,
    /// Sample standard deviation (divisor n − 1), from 2 samples.
    pub standard_deviation_ns: Option<f64>,
    /// Standard deviation over mean, from 2 samples and a mean above 0.
    pub coefficient_of_variation: Option<f64>,
    /// The 5 % quantile, from 130 samples.
    pub p05_ns: Option<f64>,
    /// The 10 % quantile, from 64 samples.
    pub p10_ns: Option<f64>,
    /// The 90 % quantile, from 64 samples.
    pub p90_ns: Option<f64>,
    /// The 95 % quantile, from 130 samples.
    pub p95_ns: Option<f64>,
    /// The 99 % quantile, from 662 samples.
    pub p99_ns: Option<f64>,
    /// (p90 − p10) ÷ median, from 10 samples and a median above 0. It describes these samples and
    /// bounds nothing, hence it needs fewer of them than the quantiles themselves.
    pub robust_spread: Option<f64>,
    /// The 95 % confidence interval of the median, from 6 samples, widened where the samples depend on one another
    /// (see [`super::estimate_center`]); absent where their dependence makes it wider than the samples reach.
    pub interval: Option<Interval>,
    /// Samples whose modified z-score is over 3.5. They stay in all statistics.
    pub outliers: usize,
    /// Whether the spread is over 30 %, or the interval wider than ± 10 % of the median or out of reach.
    pub unstable: bool,
    /// The [`METHOD_VERSION`] that computed this.
    pub method: u32,
    /// Standard deviation of a normal distribution with the samples' median absolute deviation, from 2 samples.
    #[serde(default)]
    pub robust_deviation_ns: Option<f64>,
    /// How far the samples depend on one another; absent from summaries of method 1.
    #[serde(default)]
    pub dependence: Option<Dependence>,
    /// The median of the means of all pairs of samples (Hodges and Lehmann, 1963), up to 64 samples.
    #[serde(default)]
    pub pseudomedian_ns: Option<f64>,
    /// Change of the level over the trial, from 16 samples and a median above 0.
    #[serde(default)]
    pub drift: Option<Drift>,
    /// Steps in the level, from 16 samples.
    #[serde(default)]
    pub changes: Vec<ChangePoint>,
}

impl Summary {
    /// What the next inference in `workload` is expected to take.
    ///
    /// Of samples that ran on and on the median. Those that come one by one, after a rest or a start, are few, and often of two
    /// kinds, as threads wake up on one core or on two: their median jumps from one kind to the other, which the
    /// pseudomedian does not.
    pub fn typical_ns(&self, workload: Workload) -> f64 {
        match workload {
            Workload::Sustained => self.median_ns,
            Workload::IdleLoaded | Workload::ColdStart => self.pseudomedian_ns.unwrap_or(self.median_ns),
        }
    }

    /// The quantiles beside the median, each with its name, or with the reason why it is absent.
    pub fn tails(&self) -> [(&'static str, Reading<f64>); 5] {
        [
            ("p05", self.p05_ns, SAMPLES_FOR_TWENTIETH),
            ("p10", self.p10_ns, SAMPLES_FOR_TENTH),
            ("p90", self.p90_ns, SAMPLES_FOR_TENTH),
            ("p95", self.p95_ns, SAMPLES_FOR_TWENTIETH),
            ("p99", self.p99_ns, SAMPLES_FOR_HUNDREDTH),
        ]
        .map(|(name, value, needed)| {
            let reason = format!("{name} takes {needed} samples, there are {}", self.samples);
            (name, Reading::from_option(value, &reason))
        })
    }
}

/// Summarises the samples of one trial, in nanoseconds.
///
/// `None` when there are none, when one is negative or not finite, or when they are so large that
/// their variance overflows.
pub fn summarise(samples_ns: &[f64]) -> Option<Summary> {
    if samples_ns.iter().any(|sample| !sample.is_finite() || *sample < 0.0) {
        return None;
    }
    let sorted = sorted_copy(samples_ns)?;
    let (&min_ns, &max_ns) = (sorted.first()?, sorted.last()?);
    let count = sorted.len();
    let median_ns = quantile(&sorted, 0.5)?;
    let mean_ns = sorted.iter().sum::<f64>() / count as f64;
    let standard_deviation_ns = (count >= 2).then(|| {
        let squares: f64 = sorted.iter().map(|sample| (sample - mean_ns).powi(2)).sum();
        (squares / (count - 1) as f64).sqrt()
    });
    if !mean_ns.is_finite() || standard_deviation_ns.is_some_and(|deviation| !deviation.is_finite()) {
        return None;
    }
    let from = |needed: usize, p: f64| if count >= needed { quantile(&sorted, p) } else { None };
    let robust_spread = match (from(SPREAD_SAMPLES, 0.10), from(SPREAD_SAMPLES, 0.90)) {
        (Some(low), Some(high)) => relative(high - low, median_ns),
        _ => None,
    };
    let Center { interval, dependence, .. } = center_of(&sorted, samples_ns)?;
    let unstable = robust_spread.is_some_and(|spread| spread > UNSTABLE_SPREAD)
        || interval
            .map_or(dependence.inflation > 1.0, |it| it.relative_half_width(median_ns) > UNSTABLE_HALF_WIDTH);
    let deviations = ascending_deviations(&sorted, median_ns);
    Some(Summary {
        samples: count,
        median_ns,
        mean_ns,
        min_ns,
        max_ns,
        standard_deviation_ns,
        coefficient_of_variation: standard_deviation_ns.and_then(|deviation| relative(deviation, mean_ns)),
        p05_ns: from(SAMPLES_FOR_TWENTIETH, 0.05),
        p10_ns: from(SAMPLES_FOR_TENTH, 0.10),
        p90_ns: from(SAMPLES_FOR_TENTH, 0.90),
        p95_ns: from(SAMPLES_FOR_TWENTIETH, 0.95),
        p99_ns: from(SAMPLES_FOR_HUNDREDTH, 0.99),
        robust_spread,
        interval,
        outliers: count_outliers(&deviations),
        unstable,
        method: METHOD_VERSION,
        robust_deviation_ns: if count >= 2 { median_deviation(&deviations) } else { None },
        dependence: Some(dependence),
        pseudomedian_ns: if count <= signed_rank::MOST { pseudomedian(&sorted) } else { None },
        drift: estimate_drift(samples_ns, &dependence),
        changes: find_changes(samples_ns),
    })
}

/// `value ÷ base` where that is a finite number.
fn relative(value: f64, base: f64) -> Option<f64> {
    Some(value / base).filter(|ratio| ratio.is_finite())
}

/// Counts the samples whose modified z-score, `0.6745·|x − median| ÷ MAD`, is over 3.5.
///
/// Iglewicz and Hoaglin, *How to Detect and Handle Outliers* (1993). Where more than half of the
/// samples are equal the MAD is 0, and `|x − median| ÷ (1.2533 · mean absolute deviation)` takes over.
fn count_outliers(deviations: &[f64]) -> usize {
    let scale = median_deviation(deviations).filter(|deviation| *deviation > 0.0).unwrap_or_else(|| {
        NORMAL_MEAN_DEVIATION * deviations.iter().sum::<f64>() / deviations.len().max(1) as f64
    });
    deviations.iter().filter(|deviation| **deviation > OUTLIER_SCORE * scale).count()
}

/// The distances from the median, ascending.
fn ascending_deviations(sorted: &[f64], median: f64) -> Vec<f64> {
    let mut deviations: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    deviations
}

/// The median absolute deviation, scaled to the standard deviation of a normal distribution.
fn median_deviation(deviations: &[f64]) -> Option<f64> {
    Some(quantile(deviations, 0.5)? / NORMAL_MEDIAN_DEVIATION)
}

/// The smallest number of samples of which two lie beyond a quantile with [`TAIL_CONFIDENCE`], where
/// `beyond` is the share of the distribution there.
const fn samples_for_tail(beyond: f64) -> usize {
    let within = 1.0 - beyond;
    let mut samples = 2;
    let mut power = within;
    while power * (within + samples as f64 * beyond) > 1.0 - TAIL_CONFIDENCE {
        power *= within;
        samples += 1;
    }
    samples
}
