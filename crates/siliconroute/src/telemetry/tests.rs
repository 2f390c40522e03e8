//! Looks as they are told and stored, of made-up machines.

use siliconroute_core::ChipKey;
use siliconroute_core::energy::EnergyScope;
use siliconroute_hardware::{CpuTimes, MeterReading};
use siliconroute_store::OpenOptions;

use super::*;
use crate::sampler::tests::{LONG, SHORT, blank};
use crate::sampler::{Eyes, Sighting};

fn look(number: u64, sighting: Sighting) -> Look {
    let at = Duration::from_secs(2 * number);
    Look { number, at, took: Duration::from_millis(3), sighting: Arc::new(sighting) }
}

fn counter(joules: Reading<f64>) -> MeterReading {
    let meter = Meter {
        method: EnergyMethod::Counter,
        scope: EnergyScope::Package,
        name: "simulated".to_owned(),
        chip: Some(ChipKey::cpu()),
    };
    MeterReading { meter, value: joules }
}

fn at_work(busy_ms: u64, joules: Reading<f64>) -> Sighting {
    let mut sighting = blank();
    let ns = |ms: u64| Reading::Available(ms * 1_000_000);
    sighting.glance.cpu_times =
        CpuTimes { user_ns: ns(busy_ms), system_ns: ns(0), idle_ns: ns(10_000 - busy_ms), steal_ns: ns(0) };
    sighting.glance.free_memory_bytes = Reading::Available(1 << 30);
    sighting.meters = Reading::Available(vec![counter(joules)]);
    sighting
}

fn watts(told: &Telemetry) -> Reading<f64> {
    told.meters.available().unwrap()[0].watts.clone()
}

#[track_caller]
fn reason<T: std::fmt::Debug>(reading: &Reading<T>, part: &str) {
    assert!(matches!(reading, Reading::Unavailable(why) if why.contains(part)), "{reading:?}");
}

#[test]
fn what_takes_two_looks_is_made_of_two() {
    let first = look(0, at_work(1_000, Reading::Available(5.0)));
    let second = look(1, at_work(1_000, Reading::Available(65.0)));
    let told = Telemetry::of(&first, None, 1_000);
    reason(&told.cpu.busy_percent, "needs two");
    reason(&watts(&told), "needs two");
    let told = Telemetry::of(&second, Some(&first), 1_000);
    assert_eq!((told.taken_unix_ms, told.took_ms), (3_000, 3.0));
    assert_eq!(watts(&told), Reading::Available(30.0));
    reason(&told.cpu.busy_percent, "no CPU time has passed");
    let anew = look(2, at_work(1_500, Reading::Available(1.0)));
    reason(&watts(&Telemetry::of(&anew, Some(&second), 0)), "began anew");
    let gone = look(2, at_work(1_500, Reading::unavailable("gone")));
    reason(&watts(&Telemetry::of(&gone, Some(&second), 0)), "gone");
    reason(&told.power.battery_percent, "not asked");
}

#[test]
fn values_and_reasons_are_stored_apart() {
    let (document, absences) = Telemetry::of(&look(0, at_work(1, Reading::Available(2.0))), None, 7).split();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["free_memory_bytes"], 1 << 30);
    assert_eq!(document["taken_unix_ms"], 7);
    assert_eq!(document["meters"][0]["name"], "simulated");
    assert!(document["cpu"].get("clock_mhz").is_none(), "{document}");
    let absences: Value = serde_json::from_str(&absences).unwrap();
    assert_eq!(absences["cpu/clock_mhz"], "no such sensor");
    assert_eq!(absences["chips"], "there is no chip beside the CPU");
    assert!(absences["meters/0/watts"].as_str().unwrap().contains("needs two"), "{absences}");
    assert!(absences.get("free_memory_bytes").is_none());
}

fn sampler() -> Sampler {
    let eyes: Eyes = Box::new(|_now| blank());
    Sampler::start_with(eyes, SHORT, LONG)
}

#[test]
fn looks_are_stored_once_and_reasons_that_repeat_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store.db"), &OpenOptions::default()).unwrap();
    let (sampler, mut recorder) = (sampler(), Recorder::new(1_000));
    assert!(sampler.wait_for(4, LONG));
    let first = recorder.write(&sampler, &store, None).unwrap();
    assert!(first >= 5);
    assert!(sampler.wait_for(first as u64 + 2, LONG));
    let second = recorder.write(&sampler, &store, None).unwrap();
    let stored = store.telemetry(None, 0, 10_000).unwrap();
    assert_eq!((stored.len(), recorder.lost()), (first + second, 0));
    assert!(stored.is_sorted_by_key(|it| it.look.taken_unix_ms));
    // The first look alone has no share of the processor's time; from then on the reasons are the same.
    let reasons: std::collections::BTreeSet<&str> =
        stored.iter().map(|it| it.look.absences.as_str()).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(stored[1].campaign, None);
}

#[test]
fn a_store_that_cannot_be_written_keeps_no_look_waiting_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(Store::open(&path, &OpenOptions::default()).unwrap());
    let locked = Store::open(&path, &OpenOptions { read_only: true, busy_timeout_ms: 1 }).unwrap();
    let (sampler, mut recorder) = (sampler(), Recorder::new(0));
    assert!(sampler.wait_for(2, LONG));
    recorder.write(&sampler, &locked, None).unwrap_err();
    let then = sampler.looks_taken();
    assert!(sampler.wait_for(then + 3, LONG), "looking goes on");
    let store = Store::open(&path, &OpenOptions::default()).unwrap();
    let written = recorder.write(&sampler, &store, None).unwrap();
    assert!(written as u64 >= then + 3);
    assert_eq!((store.telemetry(None, 0, 10_000).unwrap().len(), recorder.lost()), (written, 0));
}
