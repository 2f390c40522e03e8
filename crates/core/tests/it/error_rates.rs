//! The error rates that docs/methodology.md states, on fewer replicates than its tables.
//!
//! Invariant: bounds leave three standard errors of the simulation, no more.

use siliconroute_core::statistics::{Replication, StoppingRule};

use crate::experiments::{self, ESTIMATORS, Plan};
use crate::noise::Noise;

const SIGMA: f64 = 0.05;
const PLAN: Plan = Plan { sessions: 8, rounds: 6, block: 5, session_spread: 0.01, slow_sessions: 0.0 };

const INDEPENDENT: [Noise; 4] =
    [Noise::Lognormal { sigma: SIGMA }, Noise::Bimodal, Noise::Spikes { sigma: SIGMA }, Noise::HeavyTail];

fn autoregressive(phi: f64) -> Noise {
    Noise::Autoregressive { phi, sigma: SIGMA }
}

#[track_caller]
fn assert_within(share: f64, low: f64, high: f64, what: &str) {
    assert!((low..=high).contains(&share), "{what}: {share}, not within {low}..={high}");
}

#[test]
fn median_interval_covers_93_to_97_percent() {
    let drift = Noise::Drift { rise: 0.05, sigma: SIGMA };
    for noise in INDEPENDENT.into_iter().chain([drift]) {
        for n in [30, 100] {
            let found = experiments::coverage(noise, n, 2000, 5);
            assert_within(found.corrected, 0.93, 0.97, &format!("{}, n = {n}", noise.name()));
        }
    }
    for (noise, n) in [(autoregressive(0.2), 100), (autoregressive(0.5), 100), (autoregressive(0.9), 400)] {
        let found = experiments::coverage(noise, n, 2000, 5);
        assert_within(found.corrected, 0.93, 0.97, &format!("{}, n = {n}", noise.name()));
        assert!(found.independent < 0.93, "{found:?}");
    }
}

#[test]
fn coverage_is_lost_only_where_a_series_is_short_against_its_states() {
    let covered = |n| experiments::coverage(Noise::States { dwell: 20.0 }, n, 1000, 5).corrected;
    assert!(covered(100) < 0.85 && covered(1000) > 0.92);
}

#[test]
fn strong_drift_makes_the_interval_wide_rather_than_wrong() {
    let found = experiments::coverage(Noise::Drift { rise: 0.15, sigma: SIGMA }, 100, 2000, 5);
    assert_within(found.corrected, 0.97, 1.0, "drift of three standard deviations");
}

#[test]
fn series_too_short_for_their_dependence_say_so() {
    for (noise, n, low) in [(autoregressive(0.9), 60, 0.8), (autoregressive(0.5), 30, 0.5)] {
        let found = experiments::coverage(noise, n, 1000, 5);
        assert!(found.unresolved + found.absent > low, "{}, n = {n}: {found:?}", noise.name());
    }
    let found = experiments::coverage(INDEPENDENT[0], 100, 1000, 5);
    assert!(found.unresolved < 0.02 && found.absent < 0.001, "{found:?}");
}

#[test]
fn block_bootstrap_would_cover_less() {
    let noise = autoregressive(0.5);
    let bootstrap = experiments::bootstrap_coverage(noise, 0.5, 100, 400, 5);
    let ours = experiments::coverage(noise, 100, 400, 5).corrected;
    assert!(bootstrap < 0.92 && ours > bootstrap + 0.02, "{bootstrap} against {ours}");
}

#[test]
fn drift_is_flagged_by_chance_in_at_most_2_percent_and_5_where_samples_depend() {
    for (noise, n, most) in INDEPENDENT.map(|noise| (noise, 60, 0.02)).into_iter().chain([
        (autoregressive(0.5), 60, 0.05),
        (autoregressive(0.9), 60, 0.06),
        (autoregressive(0.9), 300, 0.03),
    ]) {
        let found = experiments::flags(noise, n, 1000, 5);
        assert!(found.drifting <= most, "{}, n = {n}: {found:?}", noise.name());
    }
}

#[test]
fn drift_beyond_the_noise_is_found_with_its_size() {
    for (rise, sigma, n, least) in [(0.10, SIGMA, 60, 0.80), (0.05, 0.01, 30, 0.85), (0.05, SIGMA, 300, 0.80)]
    {
        let found = experiments::flags(Noise::Drift { rise, sigma }, n, 400, 5);
        assert!(
            found.drifting >= least && found.drift_covered >= 0.97,
            "{rise} under {sigma}, n = {n}: {found:?}"
        );
    }
}

#[test]
fn steps_are_found_where_they_are_and_seldom_where_none_is() {
    for noise in INDEPENDENT {
        let found = experiments::flags(noise, 100, 1000, 5);
        assert!(found.changed <= 0.005, "{}: {found:?}", noise.name());
    }
    assert!(experiments::flags(autoregressive(0.9), 100, 1000, 5).changed <= 0.10);
    for (rise, sigma, n, least) in [(0.03, 0.01, 60, 0.90), (0.10, SIGMA, 100, 0.93)] {
        let found = experiments::flags(Noise::Step { rise, sigma }, n, 400, 5);
        assert!(found.found >= least, "{rise} under {sigma}, n = {n}: {found:?}");
    }
    let found = experiments::flags(Noise::Bump { rise: 0.10, sigma: SIGMA }, 300, 200, 5);
    assert!(found.found >= 0.88, "a stretch in the middle: {found:?}");
}

#[test]
fn unstable_means_a_spread_of_clearly_over_30_percent() {
    let flagged = |spread, n| experiments::unstable(Noise::lognormal_of_spread(spread), n, 1000, 5);
    assert!(flagged(0.20, 30) <= 0.03 && flagged(0.25, 100) <= 0.03);
    assert!(flagged(0.40, 30) >= 0.82 && flagged(0.40, 100) >= 0.98);
}

#[test]
fn stopping_at_a_precision_keeps_the_coverage() {
    let rule = StoppingRule { most: 1000, ..StoppingRule::default() };
    for (noise, low) in [
        (INDEPENDENT[0], 0.93),
        (INDEPENDENT[1], 0.93),
        (INDEPENDENT[2], 0.93),
        (autoregressive(0.2), 0.915),
        (autoregressive(0.5), 0.915),
    ] {
        let found = experiments::stopping(noise, rule, 1000, 5);
        assert_within(found.covered, low, 0.975, &noise.name());
        assert!(found.precise > 0.98 && found.mean_samples < 250.0, "{}: {found:?}", noise.name());
    }
}

#[test]
fn equal_targets_are_not_separable_in_97_of_100_comparisons() {
    for plan in [PLAN, Plan { session_spread: 0.0, ..PLAN }, Plan { session_spread: 0.03, ..PLAN }] {
        let found = experiments::verdicts(plan, 1.0, 2000, 5);
        assert!(found.slower + found.faster <= 0.03, "{plan:?}: {found:?}");
        assert_within(found.covered, 0.935, 0.97, &format!("{plan:?}"));
    }
}

#[test]
fn a_target_5_percent_slower_is_found_in_97_of_100_comparisons() {
    let found = experiments::verdicts(PLAN, 1.05, 1000, 5);
    assert!(found.slower >= 0.97 && found.faster <= 0.0, "{found:?}");
    assert!(found.half_width < 0.025, "{found:?}");
}

#[test]
fn sessions_are_taken_until_5_percent_are_found_in_9_of_10_comparisons() {
    for (session_spread, most_sessions) in [(0.01, 9.0), (0.02, 12.0), (0.03, 18.0), (0.04, 25.0)] {
        let plan = Plan { session_spread, ..PLAN };
        let of = |ratio| experiments::replicated_verdicts(plan, Replication::default(), ratio, 1000, 5);
        let ((equal, sessions), (slower, _)) = (of(1.0), of(1.05));
        let what = format!("{plan:?}: {equal:?}, {slower:?}");
        assert!(equal.slower + equal.faster <= 0.045 && slower.faster <= 0.0, "{what}");
        assert_within(equal.covered, 0.91, 0.97, &what);
        assert!(slower.slower >= 0.9, "{what}");
        assert!(sessions <= most_sessions, "{what}: {sessions}");
    }
}

#[test]
fn one_session_calls_no_small_difference_and_finds_a_large_one() {
    let plan = Plan { sessions: 1, rounds: 12, session_spread: 0.03, ..PLAN };
    let equal = experiments::verdicts(plan, 1.0, 1000, 5);
    assert!(equal.slower + equal.faster <= 0.01, "{equal:?}");
    let slower = experiments::verdicts(plan, 1.5, 200, 5);
    assert!(slower.slower >= 0.99, "{slower:?}");
}

#[test]
fn campaigns_made_apart_err_no_more_often() {
    let equal = experiments::unpaired_verdicts(PLAN, 1.0, 2000, 5);
    assert!(equal.slower + equal.faster <= 0.03, "{equal:?}");
    let slower = experiments::unpaired_verdicts(PLAN, 1.05, 500, 5);
    assert!(slower.slower >= 0.97, "{slower:?}");
}

#[test]
fn many_pairs_judged_together_err_as_seldom_as_one() {
    let [one_by_one, together] = experiments::wrong_among_many(PLAN, 5, 400, 5);
    assert!(one_by_one > 0.1 && together <= 0.045, "{one_by_one} and {together}");
}

#[test]
fn shortest_session_varies_least_where_sessions_have_states() {
    let noise = Noise::Spikes { sigma: SIGMA };
    let variation = |slow| experiments::estimators(noise, slow, 5, 1000, 5).map(|(_, variation)| variation);
    let (steady, states) = (variation(0.0), variation(0.3));
    let position = |name: &str| ESTIMATORS.iter().position(|it| *it == name).unwrap();
    let (typical, shortest) = (position("median of session medians"), position("shortest session median"));
    assert!(steady[typical] < steady[shortest], "{steady:?}");
    assert!(states[shortest] < states[typical] / 2.0, "{states:?}");
}

#[test]
fn interval_over_sessions_covers_what_it_names() {
    for sessions in [2, 3, 5, 8] {
        let (found, named) = experiments::session_coverage(sessions, 2000, 5);
        assert!((found - named).abs() < 0.035, "{sessions}: {found} against {named}");
    }
}
