//! What a lookout makes of sensors that dip, change, come late, hang and overflow its ring.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use siliconroute_core::ChipKey;
use siliconroute_hardware::{
    Busy, BusySource, ConditionsProbe, CpuTimes, Limit, PowerSource, PowerState, Roots,
};

use super::*;

/// A clock that jumps from look to look.
struct Jumping {
    now_ms: Arc<AtomicU64>,
    looks: std::cell::Cell<usize>,
}

impl Clock for Jumping {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::Relaxed))
    }

    fn wait_until(&self, due: Duration, _shared: &Shared) -> bool {
        self.looks.set(self.looks.get() - 1);
        self.now_ms.fetch_max(u64::try_from(due.as_millis()).unwrap(), Ordering::Relaxed);
        self.looks.get() > 0
    }
}

fn blank() -> Sighting {
    Sighting {
        glance: Glance::unavailable("no such sensor"),
        chips: Reading::unavailable("there is no chip beside the CPU"),
    }
}

/// The looks at `sightings`, one in each period.
fn look_at(sightings: Vec<Sighting>) -> Shared {
    let looks = std::cell::Cell::new(sightings.len());
    let mut sightings = sightings.into_iter();
    let mut eyes: Eyes = Box::new(move || sightings.next().unwrap());
    let shared = Shared::default();
    keep_looking(&shared, &mut eyes, &Jumping { now_ms: Arc::default(), looks }, PERIOD);
    shared
}

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

/// What was seen, on a machine that tells nothing before and after.
fn seen(shared: &Shared) -> Seen {
    let (book, unknown) = (shared.lock(), nothing_known());
    Seen::of(&book, Duration::from_secs(100), PERIOD, None, &unknown, &unknown)
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
        let book = shared.lock();
        Seen::of(&book, Duration::from_secs(9), PERIOD, None, &mains, &mains)
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
    let (unknown, begun) = (nothing_known(), Duration::from_millis(2_300));
    shared.lock().begin(begun);
    let seen = Seen::of(&shared.lock(), begun + PERIOD / 4, PERIOD, None, &unknown, &unknown);
    assert_eq!((seen.snapshots, seen.period_s), (0, 1.0));
    check(&seen.cpu_mhz, "shorter than one period: the case took 0.25 s of 1 s");
    check(&seen.power_source_changed, "shorter than one period");
    check(&seen.busy_share, "shorter than one period");
    check(&seen.chips, "shorter than one period");
}

#[test]
fn a_look_that_began_before_the_case_is_not_of_it() {
    let mut book = Book::default();
    book.begin(PERIOD);
    for at in [PERIOD / 2, PERIOD * 2] {
        book.write(Look { at, took: PERIOD, sighting: blank() });
    }
    assert_eq!(book.looks.iter().map(|look| look.at).collect::<Vec<_>>(), [PERIOD * 2]);
}

#[test]
fn a_full_ring_keeps_the_latest_and_counts_what_went() {
    let clocks: Vec<f64> = (0..MOST_LOOKS + 5).map(|number| number as f64).collect();
    let shared = look_at_each(&clocks, |it, mhz| it.glance.cpu_mhz = Reading::Available(mhz));
    let of = seen(&shared);
    assert_eq!((of.snapshots, of.overwritten), (MOST_LOOKS, 5));
    assert!(matches!(of.cpu_mhz, Reading::Available(Spread { min: 5.0, .. })), "{:?}", of.cpu_mhz);
    shared.lock().begin(Duration::from_secs(5000));
    assert_eq!((seen(&shared).snapshots, seen(&shared).overwritten), (0, 0));
}

#[test]
fn looks_keep_their_pace_and_are_not_made_up_for() {
    let now_ms = Arc::new(AtomicU64::new(0));
    let (own, mut number) = (Arc::clone(&now_ms), 0);
    let mut eyes: Eyes = Box::new(move || {
        // The second look takes two and a half periods, all others a tenth.
        number += 1;
        own.fetch_add(if number == 2 { 2_500 } else { 100 }, Ordering::Relaxed);
        blank()
    });
    let shared = Shared::default();
    keep_looking(&shared, &mut eyes, &Jumping { now_ms, looks: 4.into() }, PERIOD);
    let at: Vec<u128> = shared.lock().looks.iter().map(|look| look.at.as_millis()).collect();
    assert_eq!(at, [0, 1_000, 4_000, 5_000]);
    let Reading::Available(took) = seen(&shared).snapshot_ms else { panic!("{:?}", seen(&shared)) };
    assert_eq!((took.median, took.max), (100.0, 2_500.0));
}

/// A minute, within which a machine under load does everything that is waited for here.
const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_sensor_that_hangs_is_told_and_let_go() {
    for answers in [0, 1] {
        let (entered, at_work) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let mut looks = 0;
        let eyes: Eyes = Box::new(move || {
            looks += 1;
            if looks > answers {
                entered.send(()).unwrap();
                let _released_or_gone = released.recv();
            }
            blank()
        });
        let mut lookout = Lookout::start_with(eyes, SHORT, SHORT);
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
        let shared = Arc::clone(&lookout.shared);
        assert!(lookout.stop().unwrap_err().contains("has not answered"));
        assert!(!shared.lock().ended);
        // It ends as soon as the sensor answers after all.
        drop(release);
        assert!(shared.wait(LONG, |book| !book.ended).ended);
    }
}

#[test]
fn the_thread_ends_with_the_lookout() {
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let eyes: Eyes = Box::new(move || {
        std::hint::black_box(&held);
        blank()
    });
    let lookout = Lookout::start_with(eyes, LONG, LONG);
    assert!(lookout.shared.lock().looked, "the first look is waited for");
    assert_eq!(Arc::strong_count(&token), 2);
    drop(lookout);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_look_that_panics_ends_the_looking_alone() {
    let eyes: Eyes = Box::new(|| panic!("a fault of the test's"));
    let mut lookout = Lookout::start_with(eyes, LONG, LONG);
    let unknown = nothing_known();
    assert!(shared_ended(&lookout));
    check(&lookout.seen(&unknown, &unknown).cpu_mhz, "the thread that looks has ended");
    assert!(lookout.stop().unwrap_err().contains("fault of this program"));
}

fn shared_ended(lookout: &Lookout) -> bool {
    lookout.shared.wait(LONG, |book| !book.ended).ended
}

#[test]
fn the_running_machine_is_seen() {
    let chips = Reading::unavailable("no chip is asked for");
    let lookout = Lookout::start(machine_eyes(chips, crate::identify::machine_sensors()), LONG);
    let book = lookout.shared.lock();
    assert_eq!(book.looks.len(), 1);
    check(&book.looks[0].sighting.chips, "no chip is asked for");
}
