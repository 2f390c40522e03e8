//! What of the conditions reaches a decision.

use super::*;

#[test]
fn a_charge_counts_on_battery_alone() {
    let unknown = Reading::unavailable("made up for a test");
    let (mains, battery) = (Reading::Available(PowerSource::Ac), Reading::Available(PowerSource::Battery));
    for (source, percent, expected) in [
        (&battery, Reading::Available(20.0), Some(20.0)),
        (&battery, Reading::unavailable("made up for a test"), None),
        (&mains, Reading::Available(20.0), None),
        (&Reading::unavailable("made up for a test"), Reading::Available(20.0), None),
    ] {
        let glance = Glance { power_source: source.clone(), ..Glance::unavailable("made up for a test") };
        assert_eq!(charge_on_battery(&glance, || percent), expected);
    }
    assert_eq!(cpu_now(&unknown), None);
    assert_eq!(cpu_now(&Reading::Available(81.0)).and_then(|now| now.celsius), Some(81.0));
}

#[test]
fn this_machine_has_a_context() {
    let context = detect_context();
    assert!(!context.ignore_measurements && context.quarantined.is_empty());
    assert!(context.charge_on_battery_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
}

#[test]
fn a_load_that_may_be_less_or_is_ones_own_is_none_by_others() {
    let sample = |source, celsius: Option<f64>| ChipSample {
        busy: Reading::Available(siliconroute_hardware::Busy { percent: 90.0, source }),
        temperature_celsius: Reading::from_option(celsius, "made up for a test"),
        ..ChipSample::unavailable(ChipKey("gpu:1".to_owned()), "made up for a test")
    };
    for (source, is_own, busy) in [
        (BusySource::Counted, false, Some(90.0)),
        (BusySource::DriverAverage, false, Some(90.0)),
        (BusySource::Awake, false, None),
        (BusySource::Counted, true, None),
    ] {
        let now = chip_now(&sample(source, Some(60.0)), is_own).unwrap();
        assert_eq!((now.busy_percent, now.celsius), (busy, Some(60.0)));
        assert_eq!(chip_now(&sample(source, None), is_own).is_some(), busy.is_some());
    }
}

#[test]
fn a_session_counts_on_its_chip_for_as_long_as_it_lives() {
    let (live, chip) = (LiveChips::default(), ChipKey("gpu:1".to_owned()));
    let count = || live.lock().unwrap().get(&chip).copied();
    let one = OnChip::begin(&live, &chip);
    let two = OnChip::begin(&live, &chip);
    assert_eq!(count(), Some(2));
    drop(one);
    assert_eq!(count(), Some(1));
    drop(two);
    assert_eq!(count(), Some(0));
}

/// A sensor that counts: it tells no load the first time, and counts how often it was asked.
struct Counting {
    asked: Arc<std::sync::atomic::AtomicUsize>,
    chip: ChipKey,
}

impl Sensors for Counting {
    fn sample(&mut self) -> Vec<ChipSample> {
        let before = self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let busy = siliconroute_hardware::Busy { percent: 95.0, source: BusySource::Counted };
        let busy = Reading::from_option((before > 0).then_some(busy), "nothing to compare with yet");
        vec![ChipSample { busy, ..ChipSample::unavailable(self.chip.clone(), "made up for a test") }]
    }

    fn process(&mut self, _pid: u32) -> Vec<siliconroute_hardware::ProcessChipUse> {
        Vec::new()
    }
}

#[test]
fn a_look_at_the_chips_is_taken_twice_at_first_and_then_used_for_a_while() {
    let chip = Chip {
        key: ChipKey("gpu:1".to_owned()),
        kind: ChipKind::Gpu,
        vendor: String::new(),
        name: String::new(),
        identity: siliconroute_core::chip::ChipIdentity::default(),
        memory_bytes: None,
        software: false,
        driver: None,
    };
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (counted, key) = (Arc::clone(&asked), chip.key.clone());
    let open: OpenSensors =
        Arc::new(move |_| Box::new(Counting { asked: Arc::clone(&counted), chip: key.clone() }));
    let mut watch = ChipWatch::default();
    let mut load = || {
        let samples = watch.look(std::slice::from_ref(&chip), &open, |_time| ());
        chip_now(&samples[0], false).and_then(|now| now.busy_percent)
    };
    let asks = || asked.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((load(), asks()), (Some(95.0), 2));
    assert_eq!((load(), asks()), (Some(95.0), 2));
}
