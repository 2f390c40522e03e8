//! How the belief follows simulated runs: levels, scatter, wild runs and changes are made up, from fixed seeds.

use super::*;
use crate::statistics::draws::Draws;

const MS: f64 = 1e6;

/// A belief from a prediction of `ms` that may be off by a third.
fn predicted(ms: f64) -> Belief {
    let interval = Interval { low: ms * MS / 1.5, high: ms * MS * 1.5 };
    Belief::from_prediction(ms * MS, interval, 0).unwrap()
}

/// Runs of a target whose time is `ms`, each a second after the other.
fn observe(belief: &mut Belief, draws: &mut Draws, ms: f64, scatter: f64, runs: u64) -> Vec<(u64, Change)> {
    let begin = belief.seen_ns;
    (1..=runs)
        .filter_map(|run| {
            let time_ns = ms * MS * (scatter * draws.normal()).exp();
            belief.observe(time_ns, begin + run * 1_000_000_000).map(|change| (run, change))
        })
        .collect()
}

#[test]
fn the_interval_covers_the_true_time_in_some_95_of_100_or_more() {
    for scatter in [0.03, 0.1, 0.3] {
        let covered = (0..1_000)
            .filter(|&seed| {
                let mut draws = Draws::new(seed);
                // The prediction is off by what its interval says.
                let truth = (1.5_f64.ln() / 1.96 * draws.normal()).exp();
                let mut belief = predicted(1.0);
                observe(&mut belief, &mut draws, truth, scatter, 40);
                belief.interval(belief.seen_ns).contains(truth * MS)
            })
            .count();
        // Runs that scatter less than was assumed before them leave the interval too wide, not too narrow.
        let most = if scatter < 0.1 { 1_000 } else { 990 };
        assert!((910..=most).contains(&covered), "scatter {scatter}: {covered} of 1000");
    }
}

#[test]
fn a_wild_run_moves_the_belief_by_a_bounded_step() {
    let mut draws = Draws::new(1);
    let mut belief = predicted(1.0);
    observe(&mut belief, &mut draws, 1.0, 0.05, 50);
    let before = belief.time_ns();
    assert_eq!(belief.observe(1e6 * MS, belief.seen_ns + 1), None);
    assert!((belief.time_ns() / before - 1.0).abs() < 0.05, "{before} {}", belief.time_ns());
    for time_ns in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let copy = belief.clone();
        assert_eq!(belief.observe(time_ns, belief.seen_ns + 1), None);
        assert_eq!(belief, copy);
    }
}

#[test]
fn three_times_slower_is_noticed_within_10_runs_and_taken_over() {
    for (scatter, factor) in [(0.02, 3.0), (0.1, 3.0), (0.2, 3.0), (0.1, 1.0 / 3.0)] {
        for seed in 0..200 {
            let mut draws = Draws::new(seed);
            let mut belief = predicted(1.0);
            observe(&mut belief, &mut draws, 1.0, scatter, 60);
            let changes = observe(&mut belief, &mut draws, factor, scatter, 20);
            let (run, _) =
                changes.first().unwrap_or_else(|| panic!("scatter {scatter}, seed {seed}: unnoticed"));
            assert!(*run <= 10, "scatter {scatter}, seed {seed}: noticed at run {run}");
            let off = (belief.time_ns() / (factor * MS)).ln().abs();
            assert!(off < 3.0 * scatter, "scatter {scatter}, seed {seed}: off by {off}");
        }
    }
}

#[test]
fn what_does_not_change_hardly_ever_gives_an_alarm() {
    let mut alarms = 0;
    for seed in 0..200 {
        let mut draws = Draws::new(seed);
        let mut belief = predicted(1.0);
        alarms += observe(&mut belief, &mut draws, 1.0, 0.1, 1_000).len();
    }
    assert!(alarms <= 60, "{alarms} alarms in 200,000 runs");
}

#[test]
fn wild_runs_now_and_then_neither_bend_the_level_nor_give_an_alarm() {
    let (mut alarms, mut worst) = (0, 0.0_f64);
    for seed in 0..100 {
        let mut draws = Draws::new(seed);
        let mut belief = predicted(1.0);
        for run in 1..=500_u64 {
            let wild = if draws.uniform() < 0.03 { 4.0 } else { 1.0 };
            let time_ns = MS * wild * (0.05 * draws.normal()).exp();
            alarms += usize::from(belief.observe(time_ns, run * 1_000_000_000).is_some());
        }
        worst = worst.max((belief.time_ns() / MS).ln().abs());
    }
    assert!(alarms <= 100, "{alarms} alarms in 50,000 runs");
    assert!(worst < 0.25, "off by {worst}");
}

#[test]
fn a_first_run_that_may_be_wild_hardly_counts_and_a_second_one_does() {
    let prior = predicted(1.0);
    let mut belief = prior.clone();
    belief.observe(8.0 * MS, 1_000_000_000);
    assert!((belief.time_ns() / MS).ln().abs() < 0.02, "{}", belief.time_ns());
    assert!(belief.deviation(1_000_000_000) > 0.95 * prior.deviation(0));
    let mut wild = belief.clone();
    wild.observe(1.02 * MS, 2_000_000_000);
    assert!((wild.time_ns() / MS).ln().abs() < 0.05 && wild.runs() == 2, "{}", wild.time_ns());
    // A target that takes as long in truth is believed to within the next runs.
    for at in 2..8 {
        belief.observe(8.0 * MS, at * 1_000_000_000);
    }
    assert!(belief.time_ns() > 6.0 * MS, "{}", belief.time_ns());
    // One that is faster than believed is not wild.
    let mut fast = prior.clone();
    fast.observe(0.6 * MS, 1_000_000_000);
    assert!(fast.time_ns() < 0.75 * MS, "{}", fast.time_ns());
}

#[test]
fn what_was_not_seen_for_long_is_believed_less() {
    let mut draws = Draws::new(3);
    let mut belief = predicted(1.0);
    observe(&mut belief, &mut draws, 1.0, 0.05, 50);
    let now = belief.seen_ns;
    let later = now + 30 * DAY_NS as u64;
    assert!(belief.deviation(later) > 0.25 && belief.deviation(now) < 0.05);
    let mut doubted = belief.clone();
    doubted.doubt();
    assert!(doubted.deviation(now) > 0.6);
    assert!(doubted.interval(now).contains(belief.time_ns()));
}

#[test]
fn the_time_from_before_a_change_may_come_back() {
    let mut draws = Draws::new(4);
    let mut belief = predicted(1.0);
    observe(&mut belief, &mut draws, 1.0, 0.05, 50);
    assert_eq!(belief.changed(), None);
    observe(&mut belief, &mut draws, 3.0, 0.05, 20);
    assert!(belief.changed().is_some_and(|(_, runs)| runs >= 10), "{:?}", belief.changed());
    let now = belief.seen_ns();
    assert!(!belief.interval(now).contains(1.0 * MS));
    assert!(belief.interval(now + RETURN_NS as u64).contains(1.15 * MS));
    // And one run then suffices to take it up.
    belief.observe(MS, now + RETURN_NS as u64);
    assert!((belief.time_ns() / MS).ln().abs() < 0.1, "{}", belief.time_ns());
}

#[test]
fn what_is_no_time_makes_no_belief() {
    let interval = Interval { low: 1.0, high: 2.0 };
    for time_ns in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Belief::from_prediction(time_ns, interval, 0), None);
    }
    let pointless = Belief::from_prediction(MS, Interval { low: MS, high: f64::INFINITY }, 0).unwrap();
    assert!(pointless.deviation(0) > 0.6);
}
