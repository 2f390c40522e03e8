//! Which of two targets is faster, and by how much, from rounds that took both in turn.
//!
//! Invariant: what differs from session to session counts as one value per session, however many samples a
//! session holds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::signed_rank::{MOST, estimate_paired_center};
use super::trend::block_medians;
use super::{CONFIDENCE, Interval, median, student};

/// Difference up to which a single session has no verdict, since the next session may differ from it by as much:
/// medians of one configuration lie up to a quarter apart between sessions on shared machines.
const SINGLE_SESSION_MARGIN: f64 = 0.10;

/// Chance of a verdict on equal targets. Stricter than the 5 % of the interval, so that of a hundred comparisons of a
/// target with itself at least 95 find nothing with 98 % probability, rather than about half of the time.
pub const SIGNIFICANCE: f64 = 0.02;

/// One round of a campaign: a block of samples of either target, taken right after one another.
#[derive(Clone, Copy, Debug)]
pub struct PairedRound<'a> {
    /// The session that the round belongs to: both targets loaded anew.
    pub session: u32,
    /// The first target's samples.
    pub first: &'a [f64],
    /// The second target's samples.
    pub second: &'a [f64],
}

/// What a comparison speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// For the one session that was measured. What another session would say is unknown.
    OneSession,
    /// For sessions of these targets on this machine.
    Sessions,
}

/// The answer to which of two targets is faster.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The first takes less time.
    Faster {
        /// By how many percent of the second's time.
        percent: f64,
        /// The 95 % interval of `percent`.
        interval: Interval,
    },
    /// The first takes more time.
    Slower {
        /// By how many percent of the second's time.
        percent: f64,
        /// The 95 % interval of `percent`.
        interval: Interval,
    },
    /// The measurements do not tell the two apart: 1 lies in the interval of the ratio, or so close outside of it that
    /// equal targets would give as much in over 2 % of comparisons.
    NotSeparable,
    /// None: the numbers may not be those of the targets that they stand for.
    Withheld,
}

/// Two targets compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Time of the first over time of the second: the center of what the rounds or sessions give. Without an interval it
    /// says little, and may lie on the other side of 1 than the ratio of the medians.
    pub ratio: f64,
    /// The 95 % interval of the ratio; absent where there are too few rounds or sessions for one.
    pub interval: Option<Interval>,
    /// The least and the largest ratio of any round; absent where the two were not measured together. Where the samples of
    /// either are one to a round and all ratios lie on one side of 1, so does the ratio of the medians.
    #[serde(default)]
    pub range: Option<Interval>,
    /// Probability of a ratio at least as far from 1 if the two were equal; absent where nothing can be tested.
    pub p: Option<f64>,
    /// `p` corrected for the number of pairs that were judged together.
    pub adjusted_p: Option<f64>,
    /// What the comparison speaks for.
    pub scope: Scope,
    /// Sessions compared; the lesser number where the two have their own.
    pub sessions: usize,
    /// Rounds compared; 0 where the two were not measured together.
    pub rounds: usize,
    /// Standard deviation of the log ratio between sessions; absent for fewer than two.
    pub session_spread: Option<f64>,
    /// The answer.
    pub verdict: Verdict,
}

/// Compares two targets by rounds that took both.
///
/// Each round gives one value, `ln(median of first ÷ median of second)`: what the machine does to both in a round
/// (drift, heat, load) cancels, and spikes within a block do not move its median. Rounds of a session give their
/// Hodges–Lehmann center. Sessions differ by more than their rounds do (memory layout, placement of threads), so
/// with two or more of them Student's t is taken over one value per session; its interval holds for whatever
/// spread sessions have. With a single session the signed-rank interval of its rounds speaks for that session alone:
/// the scope says so, and there is a verdict only where all of the interval lies beyond ± 10 %.
///
/// A round is left out when either block has no median above 0. `None` when no round is left.
pub fn compare_paired(rounds: &[PairedRound<'_>]) -> Option<Comparison> {
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for round in rounds {
        if let Some(log_ratio) = log_ratio(round.first, round.second) {
            sessions.entry(round.session).or_default().push(log_ratio);
        }
    }
    let rounds = sessions.values().map(Vec::len).sum();
    let values = || sessions.values().flatten().copied();
    let range = values().reduce(f64::min).zip(values().reduce(f64::max));
    let range = range.map(|(low, high)| Interval { low: low.exp(), high: high.exp() });
    let centers: Vec<_> = sessions
        .values()
        .filter_map(|values| estimate_paired_center(&block_medians(values, MOST), CONFIDENCE))
        .collect();
    if let [only] = centers.as_slice() {
        let (interval, p) = (only.interval, only.interval.map(|_| only.p));
        let found = Comparison::new(only.estimate, interval, p, None, (Scope::OneSession, 1, rounds));
        return Some(Comparison { range, ..found });
    }
    let values: Vec<f64> = centers.iter().map(|center| center.estimate).collect();
    let moments = Moments::of(&values)?;
    let error = moments.deviation? / (moments.count as f64).sqrt();
    let degrees = moments.count - 1;
    let counts = (Scope::Sessions, moments.count, rounds);
    let found = Comparison::from_t(moments.mean, error, degrees, moments.deviation, counts);
    Some(Comparison { range, ..found })
}

/// Compares two targets that were measured apart, by the medians of their sessions.
///
/// Welch's t test of the log medians ("The generalization of Student's problem when several different population
/// variances are involved", Biometrika 34, 1947), its degrees of freedom rounded down. Nothing cancels here: the state
/// of the machine at the two times is part of the difference. With one session on either side the spread between
/// sessions is unknown, so there is a ratio and neither interval nor verdict.
///
/// `None` when either has no session, or a median that is not above 0.
pub fn compare_unpaired(first: &[f64], second: &[f64]) -> Option<Comparison> {
    let (first, second) = (Moments::of(&logs(first)?)?, Moments::of(&logs(second)?)?);
    let difference = first.mean - second.mean;
    let counts = (Scope::Sessions, first.count.min(second.count), 0);
    let (Some(a), Some(b)) = (first.deviation, second.deviation) else {
        let counts = (Scope::OneSession, counts.1, counts.2);
        return Some(Comparison::new(difference, None, None, None, counts));
    };
    let (a, b) = (a * a / first.count as f64, b * b / second.count as f64);
    let divisor = a * a / (first.count - 1) as f64 + b * b / (second.count - 1) as f64;
    let fewest = first.count.min(second.count) - 1;
    let degrees = if divisor > 0.0 { ((a + b) * (a + b) / divisor) as usize } else { fewest };
    let pooled = f64::midpoint(a * first.count as f64, b * second.count as f64).sqrt();
    Some(Comparison::from_t(difference, (a + b).sqrt(), degrees.max(fewest), Some(pooled), counts))
}

/// Judges comparisons that are shown together, so that the chance of any wrong verdict among them stays 2 %.
///
/// Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6 (1979): in
/// ascending order the i-th of m p-values is multiplied by `m − i + 1` and may not fall below the one before. The
/// intervals stay those of single pairs. Those whose verdict is withheld, or that nothing could test, are none of the m and
/// stay as they are.
pub fn judge_together(comparisons: &mut [Comparison]) {
    let mut order: Vec<(f64, &mut Comparison)> = comparisons
        .iter_mut()
        .filter(|comparison| comparison.verdict != Verdict::Withheld)
        .filter_map(|comparison| Some((comparison.p?, comparison)))
        .collect();
    let count = order.len();
    order.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut least: f64 = 0.0;
    for (index, (p, comparison)) in order.into_iter().enumerate() {
        least = least.max(p * (count - index) as f64).min(1.0);
        comparison.adjusted_p = Some(least);
        comparison.verdict = comparison.judge();
    }
}

impl Comparison {
    /// The numbers without a verdict, for samples that may be of another target than they say.
    #[must_use]
    pub fn withheld(self) -> Self {
        Self { verdict: Verdict::Withheld, ..self }
    }

    fn new(
        log_ratio: f64,
        interval: Option<Interval>,
        p: Option<f64>,
        session_spread: Option<f64>,
        (scope, sessions, rounds): (Scope, usize, usize),
    ) -> Self {
        let interval = interval.map(|it| Interval { low: it.low.exp(), high: it.high.exp() });
        let verdict = Verdict::NotSeparable;
        let ratio = log_ratio.exp();
        let (adjusted_p, range) = (p, None);
        let mut found =
            Self { ratio, interval, range, p, adjusted_p, scope, sessions, rounds, session_spread, verdict };
        found.verdict = found.judge();
        found
    }

    fn from_t(
        log_ratio: f64,
        error: f64,
        degrees: usize,
        spread: Option<f64>,
        counts: (Scope, usize, usize),
    ) -> Self {
        let interval = student::critical(CONFIDENCE, degrees).map(|critical| Interval {
            low: log_ratio - critical * error,
            high: log_ratio + critical * error,
        });
        let p = if log_ratio == 0.0 { 1.0 } else { student::two_sided_p(log_ratio / error, degrees) };
        Self::new(log_ratio, interval, Some(p), spread, counts)
    }

    fn judge(&self) -> Verdict {
        let (Some(interval), Some(p)) = (self.interval, self.adjusted_p) else {
            return Verdict::NotSeparable;
        };
        let (chance, margin) = match self.scope {
            Scope::Sessions => (SIGNIFICANCE, 1.0),
            // A single wild round can cost the signed ranks as much as the difference between the two chances; the
            // margin is the stricter demand.
            Scope::OneSession => (1.0 - CONFIDENCE, 1.0 + SINGLE_SESSION_MARGIN),
        };
        if p > chance || (interval.low <= margin && interval.high >= 1.0 / margin) {
            return Verdict::NotSeparable;
        }
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let (low, high) = (percent(interval.low), percent(interval.high));
        if self.ratio < 1.0 {
            let interval = Interval { low: -high, high: -low };
            Verdict::Faster { percent: -percent(self.ratio), interval }
        } else {
            Verdict::Slower { percent: percent(self.ratio), interval: Interval { low, high } }
        }
    }
}

fn log_ratio(first: &[f64], second: &[f64]) -> Option<f64> {
    let ratio = median(first)? / median(second)?;
    (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (value.is_finite() && *value > 0.0).then(|| value.ln())).collect()
}

struct Moments {
    count: usize,
    mean: f64,
    deviation: Option<f64>,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (count >= 2).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Self { count, mean, deviation })
    }
}
