//! The times of one configuration, round by round, and what they say beside another's.
//!
//! Invariant: two configurations are compared only within rounds that measured both, one shortly after the other.

use siliconroute_core::statistics::{Interval, median, median_interval, quantile};

use super::Configuration;

/// The quantile of its times that a configuration is scored by.
///
/// Other programs make a run slower and never faster, so the low end shows the machine and the middle shows the
/// machine and whoever else was there; the lowest value alone would be the luckiest one.
const SCORE_QUANTILE: f64 = 0.2;

/// Confidence of the interval of the median paired ratio.
const CONFIDENCE: f64 = 0.95;

/// A configuration with its times.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) configuration: Configuration,
    /// Round and seconds, in order of rounds.
    pub(super) samples: Vec<(u32, f64)>,
    pub(super) dropped: Option<Dropped>,
}

/// Why a configuration is measured no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Dropped {
    Slower { round: u32 },
    Failed { reason: String },
}

impl Entry {
    pub(super) fn new(configuration: Configuration) -> Self {
        Self { configuration, samples: Vec::new(), dropped: None }
    }

    pub(super) fn is_active(&self) -> bool {
        self.dropped.is_none()
    }

    pub(super) fn seconds(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().map(|(_, seconds)| *seconds)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.seconds().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }

    /// The score in seconds; infinite without samples.
    pub(super) fn score(&self) -> f64 {
        quantile(&self.sorted(), SCORE_QUANTILE).unwrap_or(f64::INFINITY)
    }

    pub(super) fn fastest(&self) -> f64 {
        self.seconds().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn median(&self) -> f64 {
        median(&self.seconds().collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
    }

    /// The interval of the median ratio of this configuration's time to `other`'s within one round; `None` from fewer
    /// rounds than such an interval takes.
    pub(super) fn ratio_to(&self, other: &Self) -> Option<Interval> {
        median_interval(&self.ratios_to(other), CONFIDENCE)
    }

    /// The median ratio of this configuration's time to `other`'s within one round; `None` without a common round.
    pub(super) fn median_ratio_to(&self, other: &Self) -> Option<f64> {
        median(&self.ratios_to(other))
    }

    /// The ratios of this configuration's times to `other`'s, for each round that measured both.
    pub(super) fn ratios_to(&self, other: &Self) -> Vec<f64> {
        let mut theirs = other.samples.iter().peekable();
        self.samples
            .iter()
            .filter_map(|(round, seconds)| {
                while theirs.next_if(|(their_round, _)| their_round < round).is_some() {}
                let (_, their_seconds) = theirs.next_if(|(their_round, _)| their_round == round)?;
                Some(seconds / their_seconds)
            })
            .collect()
    }
}
