//! The figures that are printed, and how far values vary.
//!
//! Invariant: a ratio stands with its median, its range and the number of values behind it.

use std::fmt;

use siliconroute_core::statistics;

/// Ratios of one kind.
pub(crate) struct Ratios<'v>(pub(crate) &'v [f64]);

impl fmt::Display for Ratios<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(median) = statistics::median(self.0) else { return f.write_str("none") };
        let (low, high) = range(self.0);
        write!(f, "{median:.3} ({low:.3}–{high:.3}, n = {})", self.0.len())
    }
}

/// How far values of one configuration lie apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variation {
    /// (Largest − smallest) ÷ median.
    pub(crate) range: f64,
    /// Standard deviation ÷ mean.
    pub(crate) coefficient: f64,
}

impl Variation {
    /// `None` for fewer than two values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let joined = statistics::join_sessions(values)?;
        let (low, high) = range(values);
        Some(Self { range: (high - low) / joined.median, coefficient: joined.spread? })
    }
}

pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}

/// The load of the machine over the last minute, where the system tells it, so that a reader knows how quiet it was.
pub(crate) fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ')
        .next()
        .filter(|word| !word.is_empty())
        .map_or_else(|| "load not known".to_owned(), |load| format!("load {load}"))
}
