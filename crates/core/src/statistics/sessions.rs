//! One configuration over several sessions.
//!
//! Invariant: a spread or an interval between sessions comes from sessions, never from the samples within one.

use serde::{Deserialize, Serialize};

use super::interval::sorted_median_interval;
use super::{CONFIDENCE, Interval, quantile, sorted_copy};

/// The time of a configuration over its sessions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionEstimate {
    /// Median of the sessions' medians, in their unit.
    pub median: f64,
    /// Where the median of all sessions that could be made lies; absent for a single session.
    pub interval: Option<Interval>,
    /// The confidence of `interval`: 0.95 from 6 sessions on. The range of fewer has `1 − 2¹⁻ⁿ`, which is 50 % for
    /// two, 75 % for three, 87.5 % for four, 93.75 % for five.
    pub confidence: Option<f64>,
    /// The shortest of the sessions' medians: what the target can do in its fast state.
    pub shortest: f64,
    /// Standard deviation between sessions as a share of their mean; absent for a single session, of which the
    /// session spread is unknown.
    pub spread: Option<f64>,
    /// Number of sessions.
    pub sessions: usize,
}

/// Joins the medians of the sessions of one configuration.
///
/// The median of medians is what a user may expect of the next session. It is not the estimator that varies least:
/// where sessions settle in a fast or a slow state, the shortest of the medians repeats better, and says what the
/// target can do rather than what it does (docs/methodology.md has both in numbers).
///
/// `None` when there are none, or when one is not a positive, finite number.
pub fn join_sessions(medians: &[f64]) -> Option<SessionEstimate> {
    if medians.iter().any(|median| !median.is_finite() || *median <= 0.0) {
        return None;
    }
    let sorted = sorted_copy(medians)?;
    let median = quantile(&sorted, 0.5)?;
    let sessions = sorted.len();
    let range = Interval { low: *sorted.first()?, high: *sorted.last()? };
    let (interval, confidence) = match sorted_median_interval(&sorted, CONFIDENCE, 1.0) {
        Some(interval) => (Some(interval), Some(CONFIDENCE)),
        None if sessions >= 2 => (Some(range), Some(1.0 - 0.5_f64.powf((sessions - 1) as f64))),
        None => (None, None),
    };
    let mean = sorted.iter().sum::<f64>() / sessions as f64;
    let spread = (sessions >= 2).then(|| {
        let squares: f64 = sorted.iter().map(|value| (value / mean - 1.0).powi(2)).sum();
        (squares / (sessions - 1) as f64).sqrt()
    });
    Some(SessionEstimate { median, interval, confidence, shortest: range.low, spread, sessions })
}

/// How far the sessions of one target differ, over all configurations that have several.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionSpread {
    /// Standard deviation between sessions of one configuration, as a share of its time.
    pub spread: f64,
    /// Configurations with two sessions or more.
    pub configurations: usize,
    /// Their sessions.
    pub sessions: usize,
}

/// Pools the spreads of several configurations: their variances weighted by degrees of freedom, so that two sessions of
/// one count as much as any other two.
///
/// `None` when none of them has several sessions.
pub fn pool_session_spreads(estimates: &[SessionEstimate]) -> Option<SessionSpread> {
    let (mut squares, mut degrees, mut configurations, mut sessions) = (0.0, 0, 0, 0);
    for estimate in estimates {
        let Some(spread) = estimate.spread else { continue };
        let freedom = estimate.sessions - 1;
        squares += spread * spread * freedom as f64;
        degrees += freedom;
        configurations += 1;
        sessions += estimate.sessions;
    }
    let spread = (degrees > 0).then(|| (squares / degrees as f64).sqrt())?;
    Some(SessionSpread { spread, configurations, sessions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_pooled_by_their_sessions() {
        let of = |medians: &[f64]| join_sessions(medians).unwrap();
        // 10 % of three sessions and none of two: variances weighted two to one.
        let pooled = pool_session_spreads(&[of(&[0.9, 1.0, 1.1]), of(&[5.0, 5.0]), of(&[7.0])]).unwrap();
        assert!((pooled.spread - (0.01_f64 * 2.0 / 3.0).sqrt()).abs() < 1e-12, "{pooled:?}");
        assert_eq!((pooled.configurations, pooled.sessions), (2, 5));
        assert_eq!(pool_session_spreads(&[of(&[7.0])]), None);
    }
}
