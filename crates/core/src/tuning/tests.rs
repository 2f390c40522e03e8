//! Searches on simulated processors, none of which is measured: equal cores, unlike cores, a busy core, noise.

mod simulated;

use simulated::Simulated;

use super::*;
use crate::target::Cores;

/// Seeds of each simulated processor.
const SEEDS: u64 = 40;

/// The time of what the search found over that of the best of all combinations, and the time that the search took over
/// that of the sweep.
fn regret_and_cost(machine: &Simulated, seed: u64) -> (f64, f64, CpuSettings) {
    let space = machine.space();
    let mut arena = machine.arena(seed);
    let found = search(&mut arena, &space, TuningGoal::Fastest).unwrap().unwrap();
    assert!(arena.open.is_empty(), "{:?} were left open", arena.open);
    let mut swept = machine.arena(seed);
    sweep(&mut swept, &space, 10).unwrap();
    let best = space.every().iter().map(|it| machine.true_ns(it)).fold(f64::INFINITY, f64::min);
    (machine.true_ns(&found.best) / best, arena.spent_ns / swept.spent_ns, found.best)
}

/// In at least 95 of 100 searches the result is within 5 % of the best, in at most a quarter of the sweep's time.
#[track_caller]
fn check(machine: &Simulated) {
    let mut good = 0;
    let mut seen = Vec::new();
    for seed in 0..SEEDS {
        let (regret, cost, best) = regret_and_cost(machine, seed);
        assert!(cost <= 0.25, "seed {seed}: {cost:.2} of the sweep's time");
        good += u64::from(regret <= 1.05);
        seen.push(format!("{regret:.3} {best:?}"));
    }
    assert!(good * 100 >= SEEDS * 95, "{good} of {SEEDS}: {seen:#?}");
}

/// The time of the defaults over that of what one search finds.
fn gain(machine: &Simulated) -> f64 {
    let (_, _, best) = regret_and_cost(machine, 1);
    machine.true_ns(&CpuSettings::default()) / machine.true_ns(&best)
}

#[test]
fn on_equal_cores_the_search_is_near_the_best() {
    for cores in [2, 4, 12] {
        check(&Simulated::equal(cores));
        check(&Simulated::equal(cores).tiny());
    }
}

#[test]
fn on_six_fast_and_eight_slow_cores_it_finds_the_large_gain() {
    let machine = Simulated::hybrid((6, 1.0), (8, 0.45));
    check(&machine);
    assert!(gain(&machine) > 1.25, "{}", gain(&machine));
    check(&machine.tiny());
}

#[test]
fn on_four_big_and_four_little_cores_it_finds_the_large_gain() {
    let machine = Simulated::hybrid((4, 1.0), (4, 0.3));
    check(&machine);
    assert!(gain(&machine) > 1.5, "{}", gain(&machine));
}

#[test]
fn a_core_that_another_program_keeps_busy_is_worked_around() {
    for cores in [2, 4, 8] {
        let machine = Simulated::equal(cores).busy_core(0.5);
        check(&machine);
        assert!(gain(&machine) > 1.2, "{cores}: {}", gain(&machine));
    }
}

#[test]
fn costly_blocks_that_pay_only_when_they_are_few_are_found() {
    let machine = Simulated::equal(2).busy_core(0.5).costly_blocks(50e3);
    check(&machine);
    assert!(gain(&machine) > 1.1, "{}", gain(&machine));
}

#[test]
fn noise_of_a_few_percent_does_not_mislead_it() {
    check(&Simulated::equal(4).noisy(0.04));
    check(&Simulated::hybrid((6, 1.0), (8, 0.45)).noisy(0.04));
}

#[test]
fn without_a_difference_the_defaults_stay() {
    for noise in [0.005, 0.02, 0.03] {
        let machine = Simulated::equal(2).noisy(noise).memory_bound();
        let stayed = (0..SEEDS).filter(|seed| regret_and_cost(&machine, *seed).2.is_default()).count();
        assert!(stayed * 100 >= SEEDS as usize * 90, "noise {noise}: {stayed} of {SEEDS}");
    }
}

#[test]
fn for_the_battery_threads_sleep_where_that_costs_little() {
    let machine = Simulated::equal(4);
    let mut arena = machine.arena(3);
    let found = search(&mut arena, &machine.space(), TuningGoal::Battery).unwrap().unwrap();
    let fastest = search(&mut machine.arena(3), &machine.space(), TuningGoal::Fastest).unwrap().unwrap();
    let cost = |settings: &CpuSettings| machine.cpu_ns(settings) + machine.idle_ns(settings);
    assert!(cost(&found.best) < cost(&fastest.best), "{:?}", found.best);
    assert!(machine.true_ns(&found.best) <= machine.true_ns(&fastest.best) * 1.07);
    assert!(found.tried(&found.best).unwrap().idle_cpu_ns.is_some());
}

#[test]
fn a_single_thread_has_nothing_beside_it_that_could_sleep() {
    let space = Simulated::equal(4).space();
    let one = CpuSettings { threads: Some(1), ..CpuSettings::default() };
    assert_eq!(space.thriftier(&one), []);
    assert_eq!(space.single_changes(&one), []);
}

#[test]
fn for_the_battery_nothing_changes_where_processor_time_is_not_told() {
    let mut machine = Simulated::equal(4);
    machine.tells_cpu = false;
    let of = |goal| search(&mut machine.arena(3), &machine.space(), goal).unwrap().unwrap().best;
    assert_eq!(of(TuningGoal::Battery), of(TuningGoal::Fastest));
}

#[test]
fn a_number_of_threads_without_effect_is_never_taken() {
    let mut machine = Simulated::equal(4).tiny();
    machine.ignores_threads = true;
    let found = search(&mut machine.arena(1), &machine.space(), TuningGoal::Fastest).unwrap().unwrap();
    let one = CpuSettings { threads: Some(1), ..CpuSettings::default() };
    let tried = found.tried(&one).unwrap();
    assert!(matches!(&tried.fate, Fate::Refused(why) if why.contains("no effect")), "{tried:?}");
    assert_ne!(found.best, one);
}

#[test]
fn refused_settings_are_told_and_refused_defaults_end_the_search() {
    let mut machine = Simulated::equal(4);
    machine.refuses = |settings| settings.spin.is_some();
    let found = search(&mut machine.arena(1), &machine.space(), TuningGoal::Fastest).unwrap().unwrap();
    assert!(found.tried.iter().any(|tried| matches!(tried.fate, Fate::Refused(_))));
    assert_eq!(found.best.spin, None);
    machine.refuses = |_| true;
    let refused = search(&mut machine.arena(1), &machine.space(), TuningGoal::Fastest).unwrap();
    assert_eq!(refused.unwrap_err(), "no");
}

#[test]
fn little_room_gives_the_same_result_in_more_contests() {
    let mut machine = Simulated::hybrid((4, 1.0), (4, 0.3));
    machine.room = 2;
    check_regret(&machine);
}

#[track_caller]
fn check_regret(machine: &Simulated) {
    let mut arena = machine.arena(5);
    let found = search(&mut arena, &machine.space(), TuningGoal::Fastest).unwrap().unwrap();
    assert!(arena.most_open <= 2, "{} sessions at once", arena.most_open);
    let best = machine.space().every().iter().map(|it| machine.true_ns(it)).fold(f64::INFINITY, f64::min);
    assert!(machine.true_ns(&found.best) <= best * 1.05, "{:?}", found.best);
}

#[test]
fn every_combination_is_one_that_a_session_takes() {
    let space = Simulated::hybrid((6, 1.0), (8, 0.45)).space();
    let every = space.every();
    assert!(every[0].is_default() && every.len() > 200, "{}", every.len());
    for settings in &every {
        let alone = settings.threads == Some(1);
        assert!(!alone || settings.count() == 1, "{settings:?}");
        assert!(settings.cores.is_none() || settings.threads.is_some(), "{settings:?}");
    }
    assert!(every.iter().any(|it| it.cores == Some(Cores::Performance) && it.threads == Some(6)));
    let only_threads = Space { knobs: Knobs { spin_and_blocks: false, cores: false }, ..space };
    assert_eq!(only_threads.every().len(), 15);
}
