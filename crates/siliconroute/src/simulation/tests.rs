//! What the scenarios promise, in short versions, over several seeds.

use std::cell::Cell;

use super::*;
use crate::event::Silent;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// The figures of a short version, for each seed.
fn short(scenario: Scenario) -> Vec<Figures> {
    let plan = Plan { targets: 16, models: 20, measured: 20, runs: 6_000, ..scenario.plan() };
    SEEDS.map(|seed| simulate(scenario, &plan, seed, &|| false).unwrap()).collect()
}

/// Half of the seeds gave no more.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn later_regret(figures: &[Figures]) -> f64 {
    median(figures.iter().map(|figures| figures.phases[2].mean_regret_pct).collect())
}

#[test]
fn one_seed_gives_the_same_figures_again() {
    let figures = || {
        let plan = Plan { models: 10, measured: 10, runs: 1_000, ..Scenario::Failures.plan() };
        let figures = simulate(Scenario::Failures, &plan, 7, &|| false).unwrap();
        serde_json::to_value(Figures { decisions_per_second: 0.0, ..figures }).unwrap()
    };
    assert_eq!(figures(), figures());
}

#[test]
fn after_50_runs_of_a_model_the_choice_is_within_2_percent_of_the_oracle() {
    let scenarios = [
        Scenario::Steady,
        Scenario::SlowDown,
        Scenario::Throttling,
        Scenario::Load,
        Scenario::Sleep,
        Scenario::Failures,
        Scenario::Battery,
        Scenario::WildRuns,
        Scenario::Drift,
    ];
    for scenario in scenarios {
        let figures = short(scenario);
        let regret = later_regret(&figures);
        assert!(regret < 2.0, "{}: {regret} %", scenario.name());
    }
}

#[test]
fn a_target_three_times_slower_is_noticed_within_10_runs() {
    let figures = short(Scenario::SlowDown);
    assert!(figures.iter().any(|figures| figures.reaction.is_some()));
    for reaction in figures.iter().filter_map(|figures| figures.reaction) {
        assert!(reaction.most_runs <= 10.0 && reaction.unnoticed == 0, "{reaction:?}");
    }
    let without =
        median(figures.iter().filter_map(|it| Some(it.without_learning?.mean_regret_pct)).collect());
    let with = median(figures.iter().map(|it| it.all.mean_regret_pct).collect());
    assert!(with < without / 2.0, "{with} % with learning, {without} % without");
}

#[test]
fn exploring_keeps_to_its_share_and_off_the_battery() {
    for scenario in Scenario::ALL.into_iter().filter(|it| *it != Scenario::ManyModels) {
        for figures in short(scenario) {
            assert!(figures.explorations > 0, "{}", scenario.name());
            // The share bounds what is expected; what comes of it may lie a little beyond.
            assert!(figures.exploration_pct < 1.1 * figures.exploration_share_pct, "{figures:?}");
            assert_eq!(figures.explorations_on_battery, 0);
        }
    }
}

#[test]
fn nothing_that_changes_is_seldom_taken_for_a_change() {
    let alarms = median(short(Scenario::Steady).iter().map(|figures| figures.changes_per_10_000).collect());
    assert!(alarms < 10.0, "{alarms} in 10,000 runs");
}

#[test]
fn scenarios_that_were_finished_before_a_stop_keep_their_figures() {
    #[track_caller]
    fn check(runs_until_stop: u64, finished: &[&str]) {
        let short = |scenario: Scenario| {
            (scenario, Plan { models: 5, measured: 5, runs: 200, compare: false, ..scenario.plan() })
        };
        let plans = [Scenario::Steady, Scenario::Failures, Scenario::Drift].map(short);
        let left = Cell::new(runs_until_stop);
        let stop = || left.replace(left.get().saturating_sub(1)) == 0;
        let simulation = Simulation::of_plans(&plans, 1, &stop, &mut Silent);
        let told: Vec<&str> = simulation.scenarios.iter().map(|figures| figures.scenario).collect();
        assert_eq!((told.as_slice(), simulation.interrupted), (finished, finished.len() < plans.len()));
    }
    check(0, &[]);
    check(199, &[]);
    check(200, &["steady"]);
    check(599, &["steady", "failures"]);
    check(600, &["steady", "failures", "drift"]);
}

#[test]
fn scenarios_are_found_by_their_names() {
    for scenario in Scenario::ALL {
        assert_eq!(Scenario::named(scenario.name()), Some(scenario));
    }
    assert_eq!(Scenario::named("none"), None);
}
