//! Energy from simulated sensors of known power. Nothing here was read from a machine.

mod simulated;

use super::*;
use simulated::{Sensor, World};

fn estimate_of(world: &World, sensor: Sensor, seed: u64) -> Reading<EnergyEstimate> {
    estimate_energy(&world.run(&[sensor], seed))
}

#[track_caller]
fn reason(reading: &Reading<EnergyEstimate>, part: &str) {
    assert!(matches!(reading, Reading::Unavailable(why) if why.contains(part)), "{reading:?}");
}

/// How often, of `runs`, the interval holds the true value, and how wide it is on average, relative to that.
fn coverage(world: &World, sensor: Sensor, runs: u64) -> (f64, f64) {
    let (mut covered, mut given, mut width) = (0.0, 0.0, 0.0);
    for seed in 0..runs {
        let Reading::Available(estimate) = estimate_of(world, sensor, seed) else { continue };
        let truth = world.true_joules();
        given += 1.0;
        width += (estimate.interval.high - estimate.interval.low) / 2.0 / truth;
        covered += f64::from(u8::from(estimate.interval.contains(truth)));
    }
    assert!(given > 0.95 * runs as f64, "{sensor:?}: only {given} of {runs} runs gave an estimate");
    (covered / given, width / given)
}

#[test]
fn the_interval_holds_the_true_energy_whatever_the_sensor() {
    let usual = World::default();
    let settling = World { rise_s: 1.0, ..usual };
    let alike = World { alike: 0.6, ..usual };
    let rows = [
        ("counter", usual, Sensor::counter(), 0.93),
        ("counter that wraps", usual, Sensor { wraps_at_j: Some(300.0), ..Sensor::counter() }, 0.93),
        ("counter that drops out", usual, Sensor { dropout: 0.3, ..Sensor::counter() }, 0.93),
        ("counter that lags", usual, Sensor { lag_s: 1.5, ..Sensor::counter() }, 0.93),
        ("counter that is renewed rarely", usual, Sensor { renewed_s: 1.7, ..Sensor::counter() }, 0.93),
        ("counter, load that settles", settling, Sensor::counter(), 0.93),
        ("counter, power that wanders", alike, Sensor::counter(), 0.88),
        ("power", usual, Sensor::power(), 0.93),
        ("power in steps", usual, Sensor { step: 0.5, ..Sensor::power() }, 0.93),
        ("power that drops out", usual, Sensor { dropout: 0.2, ..Sensor::power() }, 0.90),
        ("battery", usual, Sensor { renewed_s: 2.0, step: 0.01, ..Sensor::battery() }, 0.93),
    ];
    for (name, world, sensor, least) in rows {
        let (covered, width) = coverage(&world, sensor, 400);
        println!("{name}: covers {:.1} %, half-width {:.1} %", covered * 100.0, width * 100.0);
        assert!(covered >= least, "{name}: {covered}");
        assert!(width < 0.25, "{name}: {width}");
    }
}

#[test]
fn a_load_that_takes_no_more_than_rest_is_not_told_from_it() {
    for sensor in [Sensor::counter(), Sensor::power(), Sensor { renewed_s: 2.0, ..Sensor::battery() }] {
        let world = World { load_watts: World::default().idle_watts, ..World::default() };
        let told = (0..400)
            .filter(|&seed| matches!(estimate_of(&world, sensor, seed), Reading::Available(_)))
            .count();
        println!("{sensor:?}: {told} of 400");
        assert!(told <= 12, "{sensor:?}: {told} of 400");
    }
    let world = World { load_watts: World::default().idle_watts, noise: 0.0, ..World::default() };
    reason(&estimate_of(&world, Sensor::power(), 1), "cannot be told from its 8.00 W at rest");
}

#[test]
fn net_and_gross_differ_by_the_power_at_rest() {
    let world = World { noise: 0.0, ..World::default() };
    let Reading::Available(estimate) = estimate_of(&world, Sensor::counter(), 1) else { panic!() };
    let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
    assert!(close(estimate.joules, world.true_joules()), "{estimate:?}");
    assert!(close(estimate.gross_joules, world.load_watts * world.call_s), "{estimate:?}");
    assert!(close(estimate.idle_watts, 8.0) && close(estimate.load_watts, 28.0), "{estimate:?}");
    // A fifth of the load is for settling.
    assert!(close(estimate.seconds, 24.0) || estimate.seconds < 24.0, "{estimate:?}");
    assert!(close(estimate.calls, estimate.seconds / world.call_s), "{estimate:?}");
}

#[test]
fn the_best_meter_that_can_tell_is_used() {
    let world = World::default();
    let best = |sensors: &[Sensor]| match estimate_energy(&world.run(sensors, 3)) {
        Reading::Available(estimate) => estimate.meter.method,
        Reading::Unavailable(reason) => panic!("{reason}"),
    };
    let blind = Sensor { dropout: 1.0, ..Sensor::counter() };
    assert_eq!(best(&[Sensor::battery(), Sensor::power(), Sensor::counter()]), EnergyMethod::Counter);
    assert_eq!(best(&[Sensor::battery(), Sensor::power(), blind]), EnergyMethod::Power);
    assert_eq!(best(&[Sensor::battery(), blind]), EnergyMethod::Battery);
    let run = world.run(&[blind, Sensor { dropout: 1.0, ..Sensor::battery() }], 3);
    reason(
        &estimate_energy(&run),
        "simulated counter: it told nothing (simulated dropout) at rest; simulated",
    );
    let nothing = EnergyRun { series: Vec::new(), ..run };
    reason(&estimate_energy(&nothing), "no meter was read");
}

#[test]
fn what_stands_against_a_meter_is_its_reason() {
    let world = World::default();
    let stuck = Sensor { renewed_s: 1e9, ..Sensor::counter() };
    reason(&estimate_of(&world, stuck, 1), "told 0 new values in 12.0 s");
    let rare = Sensor { renewed_s: 6.0, ..Sensor::counter() };
    reason(&estimate_of(&world, rare, 1), "too few");
    let mut run = world.run(&[Sensor::power()], 1);
    run.series[0].points.retain(|point| !(28.0..39.5).contains(&point.at_s));
    reason(&estimate_energy(&run), "it told nothing for");
    let mut run = world.run(&[Sensor::counter()], 1);
    let middle = run.series[0].points.len() - 8;
    run.series[0].points[middle].value = 0.0;
    reason(&estimate_energy(&run), "went back");
    let mut run = world.run(&[Sensor::counter()], 1);
    run.series[0].points.retain(|point| point.at_s < 30.0);
    reason(&estimate_energy(&run), "its readings span");
    let rising = World { rise_s: 30.0, ..world };
    reason(&estimate_of(&rising, Sensor::counter(), 1), "still changed by");
    let mut idle = world.run(&[Sensor::counter()], 1);
    idle.progress = vec![WorkDone { at_s: 15.0, calls: 0 }, WorkDone { at_s: 45.0, calls: 0 }];
    reason(&estimate_energy(&idle), "no call was done");
}

#[test]
fn no_series_makes_it_panic_or_give_a_figure_that_is_none() {
    let world = World::default();
    let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, f64::MAX];
    for value in odd {
        for method in [EnergyMethod::Counter, EnergyMethod::Power] {
            let mut run = world.run(&[Sensor::counter()], 1);
            run.series[0].meter.method = method;
            for (index, point) in run.series[0].points.iter_mut().enumerate() {
                if index % 3 == 0 {
                    point.value = value;
                }
            }
            if let Reading::Available(estimate) = estimate_energy(&run) {
                assert!(estimate.joules.is_finite(), "{estimate:?}");
            }
            run.series[0].points.iter_mut().for_each(|point| point.at_s = value);
            assert!(matches!(estimate_energy(&run), Reading::Unavailable(_)));
        }
    }
    let mut run = world.run(&[Sensor::counter()], 1);
    run.progress.clear();
    reason(&estimate_energy(&run), "no call was done");
}

#[test]
fn a_counter_is_followed_over_its_turns() {
    #[track_caller]
    fn check(wraps_at: Option<u64>, raws: &[u64], expected: &[Option<u64>]) {
        let mut track = CounterTrack::new(wraps_at);
        let told: Vec<Option<u64>> =
            raws.iter().map(|&raw| track.advance(Reading::Available(raw)).available().copied()).collect();
        assert_eq!(told, expected);
    }
    check(None, &[5, 5, 9], &[Some(0), Some(0), Some(4)]);
    check(Some(100), &[90, 98, 3, 20], &[Some(0), Some(8), Some(13), Some(30)]);
    // A driver that was loaded anew begins at zero without having been full; it counts on from there.
    check(None, &[50, 3, 10], &[Some(0), None, Some(7)]);
    check(Some(1000), &[50, 3, 10], &[Some(0), None, Some(7)]);
    let top = u64::MAX;
    check(Some(top), &[top - 1, 1], &[Some(0), Some(2)]);
    check(Some(10), &[50, 3], &[Some(0), None]);
    let mut track = CounterTrack::new(None);
    track.advance(Reading::Available(1));
    assert!(track.advance(Reading::unavailable("gone")).available().is_none());
    assert_eq!(track.advance(Reading::Available(4)), Reading::Available(3));
}

#[test]
fn runs_and_estimates_are_kept_as_documents() {
    let run = World::default().run(&[Sensor::counter(), Sensor::battery()], 1);
    let text = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<EnergyRun>(&text).unwrap(), run);
    let estimate = estimate_energy(&run);
    let text = serde_json::to_string(&estimate).unwrap();
    assert_eq!(serde_json::from_str::<Reading<EnergyEstimate>>(&text).unwrap(), estimate);
}

#[test]
fn each_scope_has_an_estimate_of_its_own_by_its_best_meter() {
    let world = World::default();
    let told = estimate_by_scope(&world.run(&[Sensor::power(), Sensor::counter(), Sensor::battery()], 1));
    let of: Vec<_> = told.iter().map(|it| (it.meter.scope, it.meter.method)).collect();
    assert_eq!(
        of,
        [(EnergyScope::Package, EnergyMethod::Counter), (EnergyScope::Machine, EnergyMethod::Battery)]
    );
    for estimate in told {
        let off = estimate.joules / world.true_joules() - 1.0;
        assert!(off.abs() < 0.2, "{estimate:?}");
    }
    let idle = World { load_watts: world.idle_watts, ..world };
    assert_eq!(estimate_by_scope(&idle.run(&[Sensor::counter()], 1)), []);
}
