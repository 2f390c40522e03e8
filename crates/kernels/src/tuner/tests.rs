//! The search on simulated machines: whether it is right, and the same each time.
//!
//! Invariant: seeds are fixed, so that a test that passes always passes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::simulated::{Design, Simulated};
use super::*;

const RUNS: u64 = 40;

/// Regrets in percent, ascending, and the share of runs that chose the usual configuration or declared a tie with it.
struct Outcome {
    regrets: Vec<f64>,
    same: f64,
    usual: Configuration,
}

fn repeat(machine: &Simulated) -> Outcome {
    let (_, least) = machine.best();
    let found: Vec<Found> = (0..RUNS)
        .map(|seed| search(&mut machine.at(seed), &machine.places, &Bounds::default()).unwrap())
        .collect();
    let mut regrets: Vec<f64> =
        found.iter().map(|found| (machine.truth(&found.chosen) / least - 1.0) * 100.0).collect();
    regrets.sort_by(f64::total_cmp);
    let mut counts: HashMap<Configuration, usize> = HashMap::new();
    for found in &found {
        *counts.entry(found.chosen).or_default() += 1;
    }
    let (usual, _) =
        counts.into_iter().max_by_key(|(configuration, count)| (*count, *configuration)).unwrap();
    let same = found.iter().filter(|found| found.tied.contains(&usual)).count() as f64 / RUNS as f64;
    Outcome { regrets, same, usual }
}

fn at(regrets: &[f64], share: f64) -> f64 {
    regrets[((regrets.len() - 1) as f64 * share).round() as usize]
}

/// Quiet and with one core kept busy; gives what is chosen on the quiet machine.
#[track_caller]
fn check_machine(name: &str, machine: &Simulated) -> Configuration {
    let quiet = repeat(machine);
    let mut busy = machine.clone();
    busy.loaded = Some(0.6);
    let loaded = repeat(&busy);
    assert!(at(&quiet.regrets, 0.5) <= 2.0, "{name}, quiet");
    assert!(at(&quiet.regrets, 0.95) <= 5.0, "{name}, quiet");
    assert!(at(&loaded.regrets, 0.95) <= 10.0, "{name}, loaded");
    assert!(quiet.same >= 0.9, "{name}, quiet");
    assert!(loaded.same >= 0.9, "{name}, loaded");
    quiet.usual
}

fn two_cores() -> Simulated {
    Simulated::new(&[Design::new(CoreKind::Uniform, 2, 28.0)], 54.0)
}

fn hybrid_laptop() -> Simulated {
    let performance = Design { threads_per_core: 2, ..Design::new(CoreKind::Performance, 6, 17.0) };
    Simulated::new(&[performance, Design::new(CoreKind::Efficiency, 8, 8.0)], 62.0)
}

fn thin_laptop() -> Simulated {
    Simulated::new(
        &[
            Design::new(CoreKind::Performance, 2, 18.0),
            Design::new(CoreKind::Efficiency, 8, 9.0),
            Design::new(CoreKind::LowPower, 2, 5.0),
        ],
        70.0,
    )
}

fn big_little() -> Simulated {
    Simulated::new(
        &[Design::new(CoreKind::Performance, 4, 4.5), Design::new(CoreKind::Efficiency, 4, 1.6)],
        10.5,
    )
}

fn twelve_cores() -> Simulated {
    Simulated::new(&[Design::new(CoreKind::Uniform, 12, 14.0)], 46.0)
}

fn two_sockets() -> Simulated {
    let socket = |package| Design { package, ..Design::new(CoreKind::Uniform, 16, 12.0) };
    Simulated::new(&[socket(0), socket(1)], 80.0)
}

#[test]
fn two_equal_cores_get_two_threads() {
    assert_eq!(check_machine("two cores", &two_cores()).threads.get(), 2);
}

#[test]
fn a_hybrid_laptop_gets_its_performance_cores() {
    let machine = hybrid_laptop();
    let chosen = check_machine("6P+8E", &machine);
    assert_eq!(machine.places[chosen.place].name, "performance");
    assert!((4..=6).contains(&chosen.threads.get()), "{chosen:?}");
}

#[test]
fn a_thin_laptop_gets_efficiency_cores_too_but_never_low_power_ones_alone() {
    let machine = thin_laptop();
    let chosen = check_machine("2P+8E+2LPE", &machine);
    assert!(machine.places.iter().all(|place| place.name != "low power"));
    assert!(chosen.threads.get() > 2, "{chosen:?}");
}

#[test]
fn a_big_little_board_gets_its_big_cores() {
    let machine = big_little();
    let chosen = check_machine("4+4", &machine);
    assert_eq!(machine.places[chosen.place].name, "performance");
}

#[test]
fn a_dozen_equal_cores_get_no_more_threads_than_the_memory_feeds() {
    let chosen = check_machine("12", &twelve_cores());
    assert!((3..=5).contains(&chosen.threads.get()), "{chosen:?}");
}

#[test]
fn two_sockets_are_used_together() {
    let machine = two_sockets();
    let chosen = check_machine("2 sockets", &machine);
    assert_eq!(machine.places[chosen.place].name, "all");
}

#[test]
fn a_container_gets_no_more_threads_than_its_quota() {
    let machine = twelve_cores().with_quota(3.0);
    assert_eq!(check_machine("3 CPUs by quota", &machine).threads.get(), 3);
    let found = search(&mut machine.at(1), &machine.places, &Bounds::default()).unwrap();
    assert!(found.measured.iter().all(|measured| measured.configuration.threads.get() <= 3));
}

#[test]
fn an_affinity_mask_bounds_places_and_counts() {
    // One performance core with both of its CPUs, and two efficiency cores.
    let machine = hybrid_laptop().masked(&[0, 1, 12, 13]);
    check_machine("a mask", &machine);
    for place in &machine.places {
        assert!(place.most_threads <= 4, "{place:?}");
        assert!(place.cpus.iter().flatten().all(|cpu| [0, 1, 12, 13].contains(cpu)), "{place:?}");
    }
}

/// A machine that takes a fixed time for each run, and cannot do some of them.
struct Fixed {
    seconds: fn(&Configuration) -> Result<f64, Unmeasurable>,
    runs: u32,
    spent: Duration,
}

impl Fixed {
    fn new(seconds: fn(&Configuration) -> Result<f64, Unmeasurable>) -> Self {
        Self { seconds, runs: 0, spent: Duration::ZERO }
    }
}

impl Machine for Fixed {
    fn measure(&mut self, configuration: &Configuration) -> Result<f64, Unmeasurable> {
        self.runs += 1;
        let seconds = (self.seconds)(configuration)?;
        self.spent += Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(seconds)
    }

    fn spent(&self) -> Duration {
        self.spent
    }
}

fn refusal() -> Unmeasurable {
    Unmeasurable { reason: "no thread can be started".to_owned() }
}

#[test]
fn a_configuration_that_cannot_be_measured_is_left_out_and_told() {
    let places = Room::uniform(2).places(16);
    let mut machine = Fixed::new(|c| if c.threads.get() == 1 { Ok(2e-3) } else { Err(refusal()) });
    let found = search(&mut machine, &places, &Bounds::default()).unwrap();
    assert_eq!((found.chosen.threads.get(), found.chosen.policy), (1, Policy::Static));
    let failures: Vec<_> = found.measured.iter().filter_map(|measured| measured.failure.as_deref()).collect();
    assert_eq!(failures, ["no thread can be started"]);
}

#[test]
fn nothing_measured_is_an_error_with_the_first_reason() {
    let places = Room::uniform(2).places(16);
    let mut machine = Fixed::new(|_| Err(refusal()));
    let error = search(&mut machine, &places, &Bounds::default()).unwrap_err();
    assert_eq!((error.tried, error.first), (2, refusal()));
    for absurd in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let time = match absurd {
            value if value.is_nan() => Fixed::new(|_| Ok(f64::NAN)),
            f64::INFINITY => Fixed::new(|_| Ok(f64::INFINITY)),
            value if value < 0.0 => Fixed::new(|_| Ok(-1.0)),
            _ => Fixed::new(|_| Ok(0.0)),
        };
        let mut machine = time;
        search(&mut machine, &places, &Bounds::default()).unwrap_err();
    }
    search(&mut Fixed::new(|_| Ok(1e-3)), &[], &Bounds::default()).unwrap_err();
}

#[test]
fn one_cpu_is_measured_and_settled() {
    let places = Room::uniform(1).places(16);
    let found = search(&mut Fixed::new(|_| Ok(1e-3)), &places, &Bounds::default()).unwrap();
    assert!(found.settled);
    assert_eq!((found.measured.len(), found.tied.len()), (1, 1));
}

#[test]
fn equal_times_tie_and_go_to_the_fewest_threads_and_the_simplest_policy() {
    let places = Room::uniform(4).places(16);
    let found = search(&mut Fixed::new(|_| Ok(1e-4)), &places, &Bounds::default()).unwrap();
    assert!(found.settled);
    assert_eq!((found.chosen.threads.get(), found.chosen.policy), (1, Policy::Static));
    let counts: Vec<usize> = found.tied.iter().map(|tied| tied.threads.get()).collect();
    assert_eq!(counts, [1, 2, 3, 4]);
}

#[test]
fn a_slow_machine_is_measured_thrice_and_no_longer() {
    let places = Room::uniform(2).places(16);
    let mut machine =
        Fixed::new(|c| Ok(if c.threads.get() == 1 { 0.2 } else { 0.1 + 0.001 * f64::from(c.policy as u8) }));
    let found = search(&mut machine, &places, &Bounds::default()).unwrap();
    let samples: Vec<usize> = found.measured.iter().map(|measured| measured.samples_s.len()).collect();
    assert_eq!(samples.iter().filter(|count| **count > 6).count(), 0, "{samples:?}");
    assert_eq!(found.chosen.threads.get(), 2);
    assert!(!found.settled);
}

#[test]
fn the_budget_bounds_the_search() {
    // Where there are many places and counts, three rounds of those near the best take longer than the budget.
    for (machine, limit_ms) in [(two_cores(), 150), (twelve_cores(), 250), (hybrid_laptop(), 300)] {
        let mut machine = machine.at(3);
        let places = machine.places.clone();
        search(&mut machine, &places, &Bounds::default()).unwrap();
        assert!(machine.spent() < Duration::from_millis(limit_ms), "{:?}", machine.spent());
    }
}

#[test]
fn all_policies_are_measured_at_the_count_that_is_chosen() {
    let machine = twelve_cores();
    let found = search(&mut machine.at(5), &machine.places, &Bounds::default()).unwrap();
    for policy in Policy::ALL {
        let wanted = Configuration { policy, ..found.chosen };
        assert!(found.measured.iter().any(|measured| measured.configuration == wanted), "{policy:?}");
    }
}

#[test]
fn threads_take_every_core_before_any_core_twice_and_packages_in_turn() {
    let machine = hybrid_laptop();
    let together = &machine.places.last().unwrap().order;
    assert_eq!(together[..8], [0, 2, 4, 6, 8, 10, 12, 13]);
    assert_eq!(together[14..], [1, 3, 5, 7, 9, 11]);
    assert_eq!(two_sockets().places[1].order[..4], [0, 16, 1, 17]);
    assert!(Room::uniform(4).places(16)[0].order.is_empty(), "nothing says that threads can be held");
}

fn any_room() -> impl Strategy<Value = Room> {
    let core = (0_u32..3, proptest::collection::vec(0_u32..64, 0..3));
    let kind = prop_oneof![
        Just(CoreKind::Performance),
        Just(CoreKind::Efficiency),
        Just(CoreKind::LowPower),
        Just(CoreKind::Uniform)
    ];
    let cluster = (kind, proptest::collection::vec(core, 0..9)).prop_map(|(kind, cores)| Cluster {
        kind,
        cores: cores.into_iter().map(|(package, cpus)| Core { package, cpus }).collect(),
    });
    let quota = proptest::option::of(prop_oneof![Just(f64::NAN), Just(-1.0), Just(0.3), 0.5..40.0]);
    (proptest::collection::vec(cluster, 0..4), quota, any::<bool>())
        .prop_map(|(clusters, quota_cpus, holds_threads)| Room { clusters, quota_cpus, holds_threads })
}

proptest! {
    #[test]
    fn places_stay_within_what_the_process_may_use(room in any_room(), cap in 0_usize..40) {
        let places = room.places(cap);
        prop_assert!(!places.is_empty());
        let most = room.most_threads(cap);
        for place in &places {
            prop_assert!(place.most_threads <= most && place.least_threads <= place.most_threads, "{place:?}");
            prop_assert!(place.least_threads >= 1);
            let counts = place.first_counts();
            prop_assert!(counts.is_sorted());
            prop_assert!(counts.iter().all(|c| (place.least_threads..=place.most_threads).contains(c)), "{counts:?}");
            prop_assert_eq!(counts.first(), Some(&place.least_threads));
            prop_assert_eq!(counts.last(), Some(&place.most_threads));
            let all = place.order.iter().all(|cpu| room.cpus().contains(cpu));
            prop_assert!(all && (place.order.is_empty() || place.order.len() >= place.most_threads), "{place:?}");
            if let Some(held) = &place.cpus {
                prop_assert!(room.holds_threads && held.len() >= place.most_threads);
            }
        }
    }
}
