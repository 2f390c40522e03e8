//! How good decisions were, against the best and against baselines on the same measurements.
//!
//! Invariant: every strategy is judged on the same true times; nothing is left out because it is inconvenient.

use serde::{Deserialize, Serialize};

use crate::statistics::{self, Interval};

/// A true time with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrueTime {
    /// The measured median.
    pub time_ns: f64,
    /// Its 95 % interval; absent when there were too few samples for one.
    pub interval: Option<Interval>,
    /// The median within each half of the measurement, the halves taken in turn with all other times; absent when it
    /// cannot be divided.
    pub halves_ns: Option<[f64; 2]>,
}

impl TrueTime {
    /// A time that nothing else is known of.
    pub fn bare(time_ns: f64) -> Self {
        Self { time_ns, interval: None, halves_ns: None }
    }
}

/// Time of the chosen over time of the best, minus one, in percent. Never negative.
pub fn regret_pct(chosen_ns: f64, best_ns: f64) -> f64 {
    ((chosen_ns / best_ns - 1.0) * 100.0).max(0.0)
}

/// What one choice cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Position of the best.
    pub best: usize,
    /// Regret of the chosen.
    pub regret_pct: f64,
    /// Cross-validated regret of the chosen, see [`Score::mean_cross_validated_pct`]; absent where a time has no halves.
    pub cross_validated_pct: Option<f64>,
    /// Whether the best is another one that the intervals cannot separate from the chosen.
    pub tie: bool,
    /// Whether it is a tie only since an interval of either is wider than ± 10 %, so that a noisy measurement may hide
    /// a difference.
    pub vague: bool,
}

/// A tie is vague where an interval reaches further than this share of its time.
const VAGUE_HALF_WIDTH: f64 = 0.10;

/// What came of a strategy's choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The choice has a true time.
    Judged(Judgement),
    /// The chosen target failed, or its outputs did, when the choice was checked.
    Failed,
    /// The strategy has no target to choose on this machine, or what it chose could not be judged.
    NotApplicable,
}

/// Judges the choice of `chosen` among `times`; a choice without a true time has failed.
pub fn judge(times: &[Option<TrueTime>], chosen: usize) -> Outcome {
    let Some(own) = times.get(chosen).copied().flatten() else { return Outcome::Failed };
    let best = times
        .iter()
        .enumerate()
        .filter_map(|(index, time)| time.map(|time| (index, time)))
        .min_by(|(_, a), (_, b)| a.time_ns.total_cmp(&b.time_ns));
    let (best, best_time) = best.unwrap_or((chosen, own));
    let overlap = match (own.interval, best_time.interval) {
        (Some(own), Some(best)) => own.overlaps(&best),
        _ => false,
    };
    let wide = |time: TrueTime| {
        let half_width = |interval: Interval| 0.5 * (interval.high - interval.low);
        time.interval.is_some_and(|interval| half_width(interval) > VAGUE_HALF_WIDTH * time.time_ns)
    };
    let regret_pct = regret_pct(own.time_ns, best_time.time_ns);
    let tie = best != chosen && overlap;
    Outcome::Judged(Judgement {
        best,
        regret_pct,
        cross_validated_pct: cross_validated_pct(times, own),
        tie,
        vague: tie && (wide(own) || wide(best_time)),
    })
}

/// Regret of `own` in each half against the one that is fastest in the other half; the mean of both. Below 0 where `own` is
/// the faster one.
fn cross_validated_pct(times: &[Option<TrueTime>], own: TrueTime) -> Option<f64> {
    let own = own.halves_ns?;
    let halves: Vec<[f64; 2]> = times.iter().flatten().map(|time| time.halves_ns).collect::<Option<_>>()?;
    let regret = |judging: usize| {
        let picked = halves.iter().min_by(|a, b| a[1 - judging].total_cmp(&b[1 - judging]))?;
        Some(100.0 * (own[judging] / picked[judging] - 1.0))
    };
    Some(f64::midpoint(regret(0)?, regret(1)?))
}

/// The record of a strategy over a set of decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Decisions in which the choice was the best or tied with it.
    pub wins: usize,
    /// Of those, the ones where another target was faster by less than the intervals can tell.
    pub ties: usize,
    /// Of the ties, those where an interval is wider than ± 10 %.
    #[serde(default)]
    pub vague_ties: usize,
    /// Decisions in which the strategy chose a target.
    pub total: usize,
    /// Of those, the ones where the chosen target failed; they are no wins and have no regret.
    pub failed: usize,
    /// Decisions in which the strategy had no target to choose, or one that could not be judged.
    pub not_applicable: usize,
    /// Share of wins.
    pub accuracy_pct: Option<f64>,
    /// Share of choices at most 2 % slower than the best.
    pub within_2_pct: Option<f64>,
    /// Mean regret.
    pub mean_regret_pct: Option<f64>,
    /// Mean cross-validated regret: the best is picked by one half of a measurement, and regret against it is taken in the
    /// other half. Of several noisy times the least is less than any of the targets needs, so that [`Self::mean_regret_pct`]
    /// is more than a choice costs; and half a measurement may miss the best, so that this is less. Absent where a judged
    /// time has no halves.
    #[serde(default)]
    pub mean_cross_validated_pct: Option<f64>,
    /// 90th percentile of regret (type 7).
    pub p90_regret_pct: Option<f64>,
    /// Largest regret.
    pub max_regret_pct: Option<f64>,
}

impl Score {
    /// Sums up what came of a strategy's choices.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let judged: Vec<Judgement> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Judged(judgement) => Some(*judgement),
                Outcome::Failed | Outcome::NotApplicable => None,
            })
            .collect();
        let mut regrets: Vec<f64> = judged.iter().map(|judgement| judgement.regret_pct).collect();
        regrets.sort_by(f64::total_cmp);
        let failed = outcomes.iter().filter(|outcome| **outcome == Outcome::Failed).count();
        let total = judged.len() + failed;
        let ties = judged.iter().filter(|judgement| judgement.tie).count();
        let vague_ties = judged.iter().filter(|judgement| judgement.vague).count();
        let outright =
            judged.iter().filter(|judgement| judgement.regret_pct <= 0.0 && !judgement.tie).count();
        let share = |count: usize| (total > 0).then(|| 100.0 * count as f64 / total as f64);
        let crossed: Option<Vec<f64>> =
            judged.iter().map(|judgement| judgement.cross_validated_pct).collect();
        Self {
            wins: outright + ties,
            ties,
            vague_ties,
            total,
            failed,
            not_applicable: outcomes.len() - total,
            accuracy_pct: share(outright + ties),
            within_2_pct: share(regrets.iter().filter(|&&regret| regret <= 2.0).count()),
            mean_regret_pct: (!regrets.is_empty())
                .then(|| regrets.iter().sum::<f64>() / regrets.len() as f64),
            mean_cross_validated_pct: crossed
                .filter(|it| !it.is_empty())
                .map(|it| it.iter().sum::<f64>() / it.len() as f64),
            p90_regret_pct: statistics::quantile(&regrets, 0.9),
            max_regret_pct: regrets.last().copied(),
        }
    }
}

/// How far predictions lay from the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionScore {
    /// Predictions judged.
    pub total: usize,
    /// Mean absolute error in percent of the true time.
    pub mape_pct: Option<f64>,
    /// Median absolute error in percent of the true time.
    pub median_ape_pct: Option<f64>,
    /// Share of predictions at most 10 % off.
    pub within_10_pct: Option<f64>,
    /// Share of true times inside the predicted 95 % interval.
    pub interval_coverage_pct: Option<f64>,
}

impl PredictionScore {
    /// Judges pairs of prediction (time, interval) and true time.
    pub fn of(pairs: &[(f64, Interval, f64)]) -> Self {
        let errors: Vec<f64> =
            pairs.iter().map(|(predicted, _, truth)| 100.0 * (predicted / truth - 1.0).abs()).collect();
        let total = pairs.len();
        let share = |count: usize| (total > 0).then(|| 100.0 * count as f64 / total as f64);
        Self {
            total,
            mape_pct: (total > 0).then(|| errors.iter().sum::<f64>() / total as f64),
            median_ape_pct: statistics::median(&errors),
            within_10_pct: share(errors.iter().filter(|&&error| error <= 10.0).count()),
            interval_coverage_pct: share(
                pairs.iter().filter(|(_, interval, truth)| interval.contains(*truth)).count(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ms: f64, spread: f64) -> TrueTime {
        let interval = Interval { low: (ms - spread) * 1e6, high: (ms + spread) * 1e6 };
        TrueTime { interval: Some(interval), ..TrueTime::bare(ms * 1e6) }
    }

    fn judged(times: &[Option<TrueTime>], chosen: usize) -> Judgement {
        match judge(times, chosen) {
            Outcome::Judged(judgement) => judgement,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn regret_is_relative_to_the_best() {
        let judgement = judged(&[Some(time(3.0, 0.1)), Some(time(2.0, 0.1)), None], 0);
        assert_eq!((judgement.best, judgement.tie), (1, false));
        assert!((judgement.regret_pct - 50.0).abs() < 1e-9);
    }

    #[test]
    fn overlapping_intervals_are_a_tie() {
        let judgement = judged(&[Some(time(2.1, 0.2)), Some(time(2.0, 0.2))], 0);
        assert!(judgement.tie && !judgement.vague);
        let score = Score::of(&[Outcome::Judged(judgement)]);
        assert_eq!((score.wins, score.ties, score.vague_ties, score.total), (1, 1, 0, 1));
        let noisy = judged(&[Some(time(2.5, 0.6)), Some(time(2.0, 0.1))], 0);
        assert!(noisy.tie && noisy.vague);
        assert_eq!(Score::of(&[Outcome::Judged(noisy)]).vague_ties, 1);
    }

    #[test]
    fn chance_that_made_another_target_look_best_is_no_cross_validated_regret() {
        let halves = |whole: f64, one: f64, two: f64| {
            Some(TrueTime { halves_ns: Some([one, two]), ..TrueTime::bare(whole) })
        };
        // The second looks best on the whole, and in the half that the first one does not.
        let judgement = judged(&[halves(11.0, 10.0, 12.0), halves(10.0, 12.0, 8.0)], 0);
        assert!((judgement.regret_pct - 10.0).abs() < 1e-9);
        // By the first half the first is picked, against which it loses nothing in the second; by the second half the
        // second one, which takes 12 where the first takes 10.
        let expected = f64::midpoint(0.0, 100.0 * (10.0 / 12.0 - 1.0));
        assert!((judgement.cross_validated_pct.unwrap() - expected).abs() < 1e-9);
        // What is slower in both halves is slower.
        let judgement = judged(&[halves(15.0, 15.0, 15.0), halves(10.0, 10.0, 10.0)], 0);
        assert!((judgement.cross_validated_pct.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(Score::of(&[Outcome::Judged(judgement)]).mean_cross_validated_pct, Some(50.0));
        let judgement = judged(&[halves(1.0, 1.0, 1.0), Some(time(2.0, 0.1))], 0);
        assert_eq!(judgement.cross_validated_pct, None);
        assert_eq!(Score::of(&[Outcome::Judged(judgement)]).mean_cross_validated_pct, None);
    }

    #[test]
    fn without_an_interval_there_is_no_tie() {
        let vague = TrueTime { interval: None, ..time(2.1, 0.2) };
        assert!(!judged(&[Some(vague), Some(time(2.0, 0.2))], 0).tie);
    }

    #[test]
    fn a_choice_that_failed_counts_as_lost() {
        assert_eq!(judge(&[None, Some(time(2.0, 0.1))], 0), Outcome::Failed);
        let won = judge(&[Some(time(2.0, 0.1))], 0);
        let score = Score::of(&[won, Outcome::Failed, Outcome::NotApplicable]);
        assert_eq!((score.wins, score.total, score.failed, score.not_applicable), (1, 2, 1, 1));
        assert_eq!((score.accuracy_pct, score.mean_regret_pct), (Some(50.0), Some(0.0)));
    }
}
