//! Simulations that count how often a statistic is right on noise whose truth is known.
//!
//! Invariant: every experiment takes its seed, so a printed table can be made again to the last digit.

use siliconroute_core::statistics::{
    Comparison, PairedRound, Replication, Step, StopReason, Stopping, StoppingRule, Verdict, compare_paired,
    compare_unpaired, estimate_center, estimate_dependence, estimate_drift, find_changes, join_sessions,
    judge_together, median, median_interval, quantile, summarise,
};

use crate::noise::{Draws, Noise};

/// Counts of replicates, as shares of all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coverage {
    /// The interval that assumes independence holds the true median.
    pub(crate) independent: f64,
    /// Of the intervals that allow for dependence, those that hold the true median.
    pub(crate) corrected: f64,
    /// There was no interval.
    pub(crate) absent: f64,
    /// The series said of itself that it is too short.
    pub(crate) unresolved: f64,
}

pub(crate) fn coverage(noise: Noise, n: usize, replicates: usize, seed: u64) -> Coverage {
    let mut draws = Draws::new(seed);
    let mut counts = [0.0; 4];
    for _ in 0..replicates {
        let series = noise.series(n, &mut draws);
        let truth = noise.true_median();
        let center = estimate_center(&series).unwrap();
        counts[0] += f64::from(median_interval(&series, 0.95).unwrap().contains(truth));
        counts[1] += f64::from(center.interval.is_some_and(|interval| interval.contains(truth)));
        counts[2] += f64::from(center.interval.is_none());
        counts[3] += f64::from(center.dependence.unresolved);
    }
    let all = replicates as f64;
    Coverage {
        independent: counts[0] / all,
        corrected: counts[1] / (all - counts[2]),
        absent: counts[2] / all,
        unresolved: counts[3] / all,
    }
}

/// Coverage of the percentile interval of the stationary bootstrap (Politis and Romano, "The Stationary Bootstrap",
/// Journal of the American Statistical Association 89, 1994) with the mean block length that would be best for
/// the signs of an autoregression `phi` if it were known: the comparison is in its favour.
pub(crate) fn bootstrap_coverage(noise: Noise, phi: f64, n: usize, replicates: usize, seed: u64) -> f64 {
    const RESAMPLES: usize = 199;
    // Politis and White (2004), with G = 2Σk·ρᵏ and D = 2·(Σρᵏ)² for a geometric autocorrelation.
    let (total, weighted) = ((1.0 + phi) / (1.0 - phi), 2.0 * phi / (1.0 - phi).powi(2));
    let block = (weighted * weighted / (total * total) * n as f64).cbrt().max(1.0);
    let mut draws = Draws::new(seed);
    let covered = (0..replicates).filter(|_| {
        let series = noise.series(n, &mut draws);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let mut at = draws.index(n);
                let resample: Vec<f64> = (0..n)
                    .map(|_| {
                        at = if draws.uniform() < 1.0 / block { draws.index(n) } else { (at + 1) % n };
                        series[at]
                    })
                    .collect();
                median(&resample).unwrap()
            })
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        (medians[4]..=medians[RESAMPLES - 5]).contains(&noise.true_median())
    });
    covered.count() as f64 / replicates as f64
}

/// How often a drift or a step is reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flags {
    pub(crate) drifting: f64,
    /// The 99 % interval of the drift holds the true one.
    pub(crate) drift_covered: f64,
    /// At least one step is reported.
    pub(crate) changed: f64,
    /// A step is reported within 5 % of the series of the true one.
    pub(crate) found: f64,
}

pub(crate) fn flags(noise: Noise, n: usize, replicates: usize, seed: u64) -> Flags {
    let mut draws = Draws::new(seed);
    let mut counts = [0.0; 4];
    let (rise, step) = (noise.true_drift(), noise.true_step());
    for _ in 0..replicates {
        let series = noise.series(n, &mut draws);
        let drift = estimate_drift(&series, &estimate_dependence(&series)).unwrap();
        let changes = find_changes(&series);
        counts[0] += f64::from(drift.drifting);
        counts[1] += f64::from(drift.interval.contains(rise));
        counts[2] += f64::from(!changes.is_empty());
        let near = |index: usize| step.is_some_and(|step| (index as f64 / n as f64 - step).abs() <= 0.05);
        counts[3] += f64::from(changes.iter().any(|change| near(change.index)));
    }
    let [drifting, drift_covered, changed, found] = counts.map(|count| count / replicates as f64);
    Flags { drifting, drift_covered, changed, found }
}

/// How often a trial is flagged as unstable.
pub(crate) fn unstable(noise: Noise, n: usize, replicates: usize, seed: u64) -> f64 {
    let mut draws = Draws::new(seed);
    let flagged = (0..replicates).filter(|_| summarise(&noise.series(n, &mut draws)).unwrap().unstable);
    flagged.count() as f64 / replicates as f64
}

/// What becomes of trials that stop themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    /// The interval at the end holds the true median.
    pub(crate) covered: f64,
    /// The trial ended because it was precise.
    pub(crate) precise: f64,
    pub(crate) mean_samples: f64,
}

pub(crate) fn stopping(noise: Noise, rule: StoppingRule, replicates: usize, seed: u64) -> Stopped {
    let mut draws = Draws::new(seed);
    let (mut covered, mut precise, mut samples) = (0, 0, 0);
    for _ in 0..replicates {
        // One long series that is revealed piece by piece, so that it stays dependent across the looks.
        let series = noise.series(rule.most, &mut draws);
        let mut sampling = Stopping::new(rule);
        let mut taken = 0;
        loop {
            match sampling.next(&series[..taken]) {
                Step::Take(more) => taken += more,
                Step::Stop(reason) => {
                    precise += usize::from(matches!(reason, StopReason::Precise { .. }));
                    break;
                }
            }
        }
        let center = estimate_center(&series[..taken]).unwrap();
        covered += usize::from(center.interval.is_some_and(|it| it.contains(noise.true_median())));
        samples += taken;
    }
    let share = |count: usize| count as f64 / replicates as f64;
    Stopped { covered: share(covered), precise: share(precise), mean_samples: share(samples) }
}

/// A campaign of targets that are measured in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) sessions: u32,
    pub(crate) rounds: u32,
    pub(crate) block: usize,
    /// Standard deviation that a session gives to each target on its own.
    pub(crate) session_spread: f64,
    /// Share of sessions that run a target in a state that is 30 % slower.
    pub(crate) slow_sessions: f64,
}

/// Noise of single samples: 5 % lognormal, and 5 % of them take five times as long.
const WITHIN: Noise = Noise::Spikes { sigma: 0.05 };
/// Standard deviation that a round gives to all targets alike.
const ROUND_SPREAD: f64 = 0.02;
/// Change that all targets share from the first round of a session to the last.
const COMMON_DRIFT: f64 = 0.05;

/// Samples by target, then by round of all sessions.
fn campaign(plan: Plan, times: &[f64], draws: &mut Draws) -> Vec<Vec<Vec<f64>>> {
    let mut targets = vec![Vec::new(); times.len()];
    for _ in 0..plan.sessions {
        let mut own = || {
            // Drawn only where there are such sessions, so that the other plans keep their random numbers.
            let slow = plan.slow_sessions > 0.0 && draws.uniform() < plan.slow_sessions;
            plan.session_spread * draws.normal() + if slow { 1.3_f64.ln() } else { 0.0 }
        };
        let own: Vec<f64> = times.iter().map(|_| own()).collect();
        for round in 0..plan.rounds {
            let common =
                ROUND_SPREAD * draws.normal() + COMMON_DRIFT * f64::from(round) / f64::from(plan.rounds);
            for ((target, time), own) in targets.iter_mut().zip(times).zip(&own) {
                let level = time * (common + own).exp();
                target.push(WITHIN.series(plan.block, draws).iter().map(|sample| level * sample).collect());
            }
        }
    }
    targets
}

fn paired(plan: Plan, first: &[Vec<f64>], second: &[Vec<f64>]) -> Comparison {
    let rounds: Vec<PairedRound<'_>> = first
        .iter()
        .zip(second)
        .zip(0..)
        .map(|((first, second), index)| PairedRound { session: index / plan.rounds, first, second })
        .collect();
    compare_paired(&rounds).unwrap()
}

/// Shares of verdicts on a first target that takes `ratio` times as long as the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdicts {
    pub(crate) slower: f64,
    pub(crate) faster: f64,
    /// The interval holds the true ratio.
    pub(crate) covered: f64,
    /// Median half-width of the interval as a share of the ratio.
    pub(crate) half_width: f64,
}

pub(crate) fn verdicts(plan: Plan, ratio: f64, replicates: usize, seed: u64) -> Verdicts {
    let mut draws = Draws::new(seed);
    let comparisons = (0..replicates).map(|_| {
        let targets = campaign(plan, &[ratio, 1.0], &mut draws);
        paired(plan, &targets[0], &targets[1])
    });
    count_verdicts(comparisons, ratio, replicates)
}

/// The same for comparisons that take as many sessions as their spread asks for; also the mean number of sessions.
pub(crate) fn replicated_verdicts(
    plan: Plan,
    replication: Replication,
    ratio: f64,
    replicates: usize,
    seed: u64,
) -> (Verdicts, f64) {
    let mut draws = Draws::new(seed);
    let plan = Plan { sessions: u32::try_from(replication.most).unwrap(), ..plan };
    let mut taken = 0;
    let comparisons: Vec<Comparison> = (0..replicates)
        .map(|_| {
            let targets = campaign(plan, &[ratio, 1.0], &mut draws);
            let mut sessions = replication.least;
            loop {
                let rounds = sessions * plan.rounds as usize;
                let comparison = paired(plan, &targets[0][..rounds], &targets[1][..rounds]);
                match replication.more(&comparison) {
                    0 => {
                        taken += sessions;
                        return comparison;
                    }
                    more => sessions += more,
                }
            }
        })
        .collect();
    let mean_sessions = taken as f64 / replicates as f64;
    (count_verdicts(comparisons.into_iter(), ratio, replicates), mean_sessions)
}

/// The same for targets measured in campaigns of their own.
pub(crate) fn unpaired_verdicts(plan: Plan, ratio: f64, replicates: usize, seed: u64) -> Verdicts {
    let mut draws = Draws::new(seed);
    let comparisons = (0..replicates).map(|_| {
        let mut medians = |time: f64| -> Vec<f64> {
            let target = campaign(plan, &[time], &mut draws).remove(0);
            target.chunks(plan.rounds as usize).map(|session| median(&session.concat()).unwrap()).collect()
        };
        let first = medians(ratio);
        compare_unpaired(&first, &medians(1.0)).unwrap()
    });
    count_verdicts(comparisons, ratio, replicates)
}

fn count_verdicts(comparisons: impl Iterator<Item = Comparison>, ratio: f64, replicates: usize) -> Verdicts {
    let (mut counts, mut widths) = ([0.0; 3], Vec::new());
    for comparison in comparisons {
        counts[0] += f64::from(matches!(comparison.verdict, Verdict::Slower { .. }));
        counts[1] += f64::from(matches!(comparison.verdict, Verdict::Faster { .. }));
        counts[2] += f64::from(comparison.interval.is_some_and(|interval| interval.contains(ratio)));
        widths.extend(comparison.interval.map(|interval| interval.relative_half_width(comparison.ratio)));
    }
    let [slower, faster, covered] = counts.map(|count| count / replicates as f64);
    Verdicts { slower, faster, covered, half_width: median(&widths).unwrap_or(f64::INFINITY) }
}

/// Shares of campaigns of equal targets with any wrong verdict: judged pair by pair, and together.
pub(crate) fn wrong_among_many(plan: Plan, targets: usize, replicates: usize, seed: u64) -> [f64; 2] {
    let mut draws = Draws::new(seed);
    let mut wrong = [0.0; 2];
    for _ in 0..replicates {
        let measured = campaign(plan, &vec![1.0; targets], &mut draws);
        let mut pairs = Vec::new();
        for (index, first) in measured.iter().enumerate() {
            pairs.extend(measured.iter().skip(index + 1).map(|second| paired(plan, first, second)));
        }
        let any = |pairs: &[Comparison]| pairs.iter().any(|pair| pair.verdict != Verdict::NotSeparable);
        wrong[0] += f64::from(any(&pairs));
        judge_together(&mut pairs);
        wrong[1] += f64::from(any(&pairs));
    }
    wrong.map(|count| count / replicates as f64)
}

/// Estimators of one configuration's time over its sessions.
pub(crate) const ESTIMATORS: [&str; 5] = [
    "median of session medians",
    "mean of session medians",
    "shortest session median",
    "median over sessions of the shortest round median",
    "median over sessions of the lower quartile of round medians",
];

/// Mean and coefficient of variation of each of [`ESTIMATORS`] under sessions of 6 rounds of 5 samples.
///
/// `slow_sessions` is the share of sessions that are 30 % slower as a whole; within sessions the `noise` applies.
pub(crate) fn estimators(
    noise: Noise,
    slow_sessions: f64,
    sessions: usize,
    replicates: usize,
    seed: u64,
) -> [(f64, f64); 5] {
    let mut draws = Draws::new(seed);
    let mut found: [Vec<f64>; 5] = Default::default();
    for _ in 0..replicates {
        let mut per_session: [Vec<f64>; 3] = Default::default();
        for _ in 0..sessions {
            let level =
                if draws.uniform() < slow_sessions { 1.3 } else { 1.0 } * (0.01 * draws.normal()).exp();
            let samples: Vec<f64> =
                noise.series(30, &mut draws).iter().map(|sample| level * sample).collect();
            let mut rounds: Vec<f64> = samples.chunks(5).map(|round| median(round).unwrap()).collect();
            rounds.sort_unstable_by(f64::total_cmp);
            per_session[0].push(median(&samples).unwrap());
            per_session[1].push(rounds[0]);
            per_session[2].push(quantile(&rounds, 0.25).unwrap());
        }
        let [medians, shortest, quartiles] = &per_session;
        found[0].push(join_sessions(medians).unwrap().median);
        found[1].push(medians.iter().sum::<f64>() / sessions as f64);
        found[2].push(medians.iter().copied().fold(f64::INFINITY, f64::min));
        found[3].push(median(shortest).unwrap());
        found[4].push(median(quartiles).unwrap());
    }
    found.map(|values| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt() / mean)
    })
}

/// How often the interval over sessions holds the true median, and the confidence that it names.
pub(crate) fn session_coverage(sessions: usize, replicates: usize, seed: u64) -> (f64, f64) {
    let mut draws = Draws::new(seed);
    let (mut covered, mut confidence) = (0, 0.0);
    for _ in 0..replicates {
        let medians = Noise::Lognormal { sigma: 0.1 }.series(sessions, &mut draws);
        let joined = join_sessions(&medians).unwrap();
        covered += usize::from(joined.interval.unwrap().contains(1.0));
        confidence = joined.confidence.unwrap();
    }
    (covered as f64 / replicates as f64, confidence)
}
