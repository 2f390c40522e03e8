//! What a lookout makes of sensors that dip, change, come late, hang and overflow its ring.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, mpsc};

use siliconroute_core::{ChipKey, Reading};
use siliconroute_hardware::{
    Busy, BusySource, ConditionsProbe, CpuTimes, Limit, PowerSource, PowerState, Roots,
};

use super::*;
use crate::sampler::tests::{LONG, SHORT, blank, look_at};
use crate::sampler::{MOST_LOOKS, PERIOD, Sighting};

/// The looks at a machine of which `set` sets what differs from one look to the next.
fn look_at_each<T: Copy>(values: &[T], set: fn(&mut Sighting, T)) -> Shared {
    let sighting = |value: &T| {
        let mut sighting = blank();
        set(&mut sighting, *value);
        sighting
    };
    look_at(values.iter().map(sighting).collect())
}

fn nothing_known() -> Conditions {
    ConditionsProbe::new(Roots::under(Path::new("/nowhere"))).snapshot()
}

/// What was seen since `begun`, when `first` was the next look.
fn seen_since(shared: &Shared, (begun, first): (Duration, u64), now: Duration) -> Seen {
    let (ring, unknown) = (shared.lock(), nothing_known());
    Seen::of(&CaseView::since(&ring, begun, first), now, PERIOD, None, &unknown, &unknown)
}

/// What was seen, on a machine that tells nothing before and after.
fn seen(shared: &Shared) -> Seen {
    seen_since(shared, (Duration::ZERO, 0), Duration::from_secs(100))
}

#[track_caller]
fn check<T: std::fmt::Debug>(reading: &Reading<T>, reason: &str) {
    assert!(matches!(reading, Reading::Unavailable(why) if why.contains(reason)), "{reading:?}");
}

#[test]
fn a_dip_in_the_clock_between_the_ends_is_seen() {
    let clocks = [3000.0, 3000.0, 1200.0, 3000.0, 2900.0];
    let seen = seen(&look_at_each(&clocks, |it, mhz| it.glance.cpu_mhz = Reading::Available(mhz)));
    let expected = Spread { readings: 5, min: 1200.0, median: 3000.0, max: 3000.0 };
    assert_eq!(seen.cpu_mhz, Reading::Available(expected));
    assert_eq!((seen.snapshots, seen.overwritten, seen.unanswered_s), (5, 0, None));
    check(&seen.cpu_temperature_celsius, "no such sensor");
    check(&seen.chips, "no chip beside the CPU");
}

#[test]
fn a_power_source_that_changes_there_and_back_has_changed() {
    use PowerSource::{Ac, Battery};
    let of = |sources: &[PowerSource]| {
        let shared = look_at_each(sources, |it, source| it.glance.power_source = Reading::Available(source));
        let mains = Conditions { power_source: Reading::Available(Ac), ..nothing_known() };
        let ring = shared.lock();
        let looks = CaseView::since(&ring, Duration::ZERO, 0);
        Seen::of(&looks, Duration::from_secs(9), PERIOD, None, &mains, &mains)
    };
    assert_eq!(of(&[Ac, Battery, Ac]).power_source_changed, Reading::Available(true));
    assert_eq!(of(&[Ac, Ac]).power_source_changed, Reading::Available(false));
    // What the case began and ended with counts.
    assert_eq!(of(&[Battery]).power_source_changed, Reading::Available(true));
    check(&of(&[Ac]).governor_changed, "no governor in");
}

#[test]
fn a_sensor_that_comes_later_counts_from_then_on() {
    let heat = [None, None, Some(60.0), Some(72.0)];
    let shared = look_at_each(&heat, |it, celsius| {
        it.glance.cpu_temperature_celsius = Reading::from_option(celsius, "the module is not loaded");
    });
    let expected = Spread { readings: 2, min: 60.0, median: 66.0, max: 72.0 };
    assert_eq!(seen(&shared).cpu_temperature_celsius, Reading::Available(expected));
}

#[test]
fn the_busy_share_is_that_between_two_looks_and_free_memory_the_least() {
    let busy_ms = [0_u64, 900, 1000];
    let shared = look_at_each(&busy_ms, |it, busy_ms| {
        let ns = |ms: u64| Reading::Available(ms * 1_000_000);
        // Two cores and a second between looks.
        let all_ms = if busy_ms == 0 { 0 } else { 2000 * if busy_ms == 900 { 1 } else { 2 } };
        it.glance.cpu_times = CpuTimes {
            user_ns: ns(busy_ms),
            system_ns: ns(0),
            idle_ns: ns(all_ms - busy_ms),
            steal_ns: ns(0),
        };
        it.glance.free_memory_bytes = Reading::Available(10_000 - busy_ms);
    });
    let Reading::Available(busy) = seen(&shared).busy_share else { panic!("{:?}", seen(&shared)) };
    assert_eq!((busy.readings, busy.min, busy.max), (2, 0.05, 0.45));
    assert_eq!(seen(&shared).least_free_memory_bytes, Reading::Available(9_000));
    check(&seen(&look_at(vec![blank()])).busy_share, "two snapshots");
}

#[test]
fn chips_are_summed_up_one_by_one() {
    let chip = ChipKey("gpu:1:1@a".to_owned());
    let sample = |percent: f64, limits: Vec<Limit>| ChipSample {
        power_state: Reading::Available(PowerState::Awake),
        busy: Reading::Available(Busy { percent, source: BusySource::Counted }),
        clock_mhz: Reading::Available(1000.0 + percent),
        limits: Reading::Available(limits),
        ..ChipSample::unavailable(chip.clone(), "not told")
    };
    let sighting = |sample: ChipSample| Sighting { chips: Reading::Available(vec![sample]), ..blank() };
    let shared = look_at(vec![
        sighting(sample(90.0, Vec::new())),
        sighting(ChipSample::unavailable(chip.clone(), "asleep")),
        sighting(sample(50.0, vec![Limit::Heat])),
    ]);
    let Reading::Available(chips) = seen(&shared).chips else { panic!("{:?}", seen(&shared)) };
    let seen = &chips[&chip];
    let spread = |min: f64, max: f64| Spread { readings: 2, min, median: f64::midpoint(min, max), max };
    assert_eq!(seen.busy_percent, Reading::Available(spread(50.0, 90.0)));
    assert_eq!(seen.clock_mhz, Reading::Available(spread(1050.0, 1090.0)));
    assert_eq!(seen.limits, Reading::Available(BTreeSet::from([Limit::Heat])));
    check(&seen.power_watts, "not told");
}

#[test]
fn a_case_shorter_than_one_period_says_so() {
    let shared = look_at(vec![blank(), blank()]);
    let begun = Duration::from_millis(2_300);
    let seen = seen_since(&shared, (begun, 2), begun + PERIOD / 4);
    assert_eq!((seen.snapshots, seen.period_s), (0, 1.0));
    check(&seen.cpu_mhz, "shorter than one period: the case took 0.25 s of 1 s");
    check(&seen.power_source_changed, "shorter than one period");
    check(&seen.busy_share, "shorter than one period");
    check(&seen.chips, "shorter than one period");
}

#[test]
fn a_look_that_began_before_the_case_is_not_of_it() {
    let shared = look_at(vec![blank(), blank(), blank()]);
    shared.lock().looking_since = Some(PERIOD * 3);
    assert_eq!(first_look(&shared), 4);
    shared.lock().looking_since = None;
    assert_eq!(first_look(&shared), 3);
    let ring = shared.lock();
    let looks = CaseView::since(&ring, PERIOD / 2, 0);
    assert_eq!(looks.looks.iter().map(|look| look.at).collect::<Vec<_>>(), [PERIOD, PERIOD * 2]);
    assert_eq!(CaseView::since(&ring, Duration::ZERO, 2).looks.len(), 1);
}

#[test]
fn a_full_ring_keeps_the_latest_and_counts_what_went() {
    let clocks: Vec<f64> = (0..MOST_LOOKS + 5).map(|number| number as f64).collect();
    let shared = look_at_each(&clocks, |it, mhz| it.glance.cpu_mhz = Reading::Available(mhz));
    let of = seen(&shared);
    assert_eq!((of.snapshots, of.overwritten), (MOST_LOOKS, 5));
    assert!(matches!(of.cpu_mhz, Reading::Available(Spread { min: 5.0, .. })), "{:?}", of.cpu_mhz);
    let next = first_look(&shared);
    let later = seen_since(&shared, (Duration::from_secs(5000), next), Duration::from_secs(5000));
    assert_eq!((later.snapshots, later.overwritten), (0, 0));
}

#[test]
fn a_sensor_that_hangs_is_told_and_let_go() {
    for answers in [0, 1] {
        let (entered, at_work) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let mut looks = 0;
        let eyes: Eyes = Box::new(move |_now| {
            looks += 1;
            if looks > answers {
                entered.send(()).unwrap();
                let _released_or_gone = released.recv();
            }
            blank()
        });
        let mut lookout = Lookout::over(Sampler::start_with(eyes, SHORT, SHORT));
        at_work.recv().unwrap();
        lookout.begin();
        let unknown = nothing_known();
        let seen = loop {
            let seen = lookout.seen(&unknown, &unknown);
            if seen.unanswered_s.is_some() {
                break seen;
            }
            std::thread::yield_now();
        };
        assert_eq!(seen.snapshots, 0);
        check(&seen.cpu_mhz, "a sensor has not answered for");
        let shared = Arc::clone(&lookout.sampler.shared);
        assert!(lookout.stop().unwrap_err().contains("has not answered"));
        assert!(!shared.lock().ended);
        // It ends as soon as the sensor answers after all.
        drop(release);
        assert!(shared.wait(LONG, |ring| !ring.ended).ended);
    }
}

#[test]
fn a_look_that_panics_ends_the_looking_alone() {
    let eyes: Eyes = Box::new(|_now| panic!("a fault of the test's"));
    let mut lookout = Lookout::over(Sampler::start_with(eyes, LONG, LONG));
    let unknown = nothing_known();
    assert!(lookout.sampler.shared.wait(LONG, |ring| !ring.ended).ended);
    check(&lookout.seen(&unknown, &unknown).cpu_mhz, "the thread that looks has ended");
    assert!(lookout.stop().unwrap_err().contains("fault of this program"));
}
