//! What a look makes of sensors that fail, come back and hang on batteries. All sensors here are made up.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use siliconroute_core::ChipKind;
use siliconroute_core::chip::ChipIdentity;
use siliconroute_hardware::{Busy, BusySource, PowerState, ProcessChipUse};

use super::*;

fn chip(key: &str) -> Chip {
    Chip {
        key: ChipKey(key.to_owned()),
        kind: if key == "cpu" { ChipKind::Cpu } else { ChipKind::Gpu },
        vendor: "test".to_owned(),
        name: key.to_owned(),
        identity: ChipIdentity::default(),
        memory_bytes: None,
        software: false,
        driver: None,
    }
}

/// What made-up sensors tell, and how often they were opened and read.
#[derive(Default)]
struct Machine {
    broken: AtomicBool,
    opened: AtomicU32,
    read: AtomicU32,
    source: Mutex<Option<PowerSource>>,
}

struct Made(Arc<Machine>, ChipKey);

impl Sensors for Made {
    fn sample(&mut self) -> Vec<ChipSample> {
        self.0.read.fetch_add(1, Ordering::Relaxed);
        let silent = ChipSample::unavailable(self.1.clone(), "the driver is being replaced");
        if self.0.broken.load(Ordering::Relaxed) {
            return vec![silent];
        }
        let busy = Busy { percent: 40.0, source: BusySource::Counted };
        vec![ChipSample {
            busy: Reading::Available(busy),
            power_watts: Reading::Available(21.0),
            power_state: Reading::Available(PowerState::Awake),
            ..silent
        }]
    }

    fn process(&mut self, _pid: u32) -> Vec<ProcessChipUse> {
        Vec::new()
    }
}

impl Meters for Made {
    fn read(&mut self) -> Vec<MeterReading> {
        Vec::new()
    }

    fn absence(&self) -> Option<String> {
        Some("no counter on a made-up machine".to_owned())
    }
}

fn eyes(machine: &Arc<Machine>, metering: bool) -> Eyes {
    let opening = Arc::clone(machine);
    let sensors: OpenSensors = Arc::new(move |chips| {
        opening.opened.fetch_add(1, Ordering::Relaxed);
        Box::new(Made(Arc::clone(&opening), chips[0].key.clone()))
    });
    let (meters, glancing) = (Arc::clone(machine), Arc::clone(machine));
    let glance = move || Glance {
        power_source: Reading::from_option(*glancing.source.lock().unwrap(), "no supply"),
        ..Glance::unavailable("not told")
    };
    let watcher = Watcher {
        conditions: Arc::new(|| {
            let nowhere = siliconroute_hardware::Roots::under(std::path::Path::new("/nowhere"));
            let probe = siliconroute_hardware::ConditionsProbe::new(nowhere);
            Conditions { battery_discharge_watts: Reading::Available(13.0), ..probe.snapshot() }
        }),
        glance: Arc::new(glance),
        sensors,
        meters: Arc::new(move |chips| Box::new(Made(Arc::clone(&meters), chips[0].key.clone()))),
    };
    watcher.eyes(Attention {
        chips: Reading::Available(vec![chip("gpu:a")]),
        energy: Reading::Available(vec![chip("gpu:a")]),
        metering: Arc::new(AtomicBool::new(metering)),
        details: Reading::unavailable("not asked"),
    })
}

fn busy(sighting: &Sighting) -> Reading<f64> {
    sighting.chips.available().unwrap()[0].busy.clone().map(|busy| busy.percent)
}

#[test]
fn a_sensor_that_fails_is_left_alone_for_a_while_and_opened_anew() {
    let machine = Arc::<Machine>::default();
    let mut eyes = eyes(&machine, false);
    let mut look = |second: u64| busy(&eyes(Duration::from_secs(second)));
    assert_eq!(look(0), Reading::Available(40.0));
    machine.broken.store(true, Ordering::Relaxed);
    for second in 1..4 {
        assert_eq!(look(second), Reading::unavailable("the driver is being replaced"));
    }
    assert_eq!((machine.opened.load(Ordering::Relaxed), machine.read.load(Ordering::Relaxed)), (1, 4));
    for second in 4..8 {
        let expected = "the driver is being replaced; it is asked again later";
        assert_eq!(look(second), Reading::unavailable(expected));
    }
    assert_eq!(machine.read.load(Ordering::Relaxed), 4, "it is left alone");
    machine.broken.store(false, Ordering::Relaxed);
    assert_eq!(look(8), Reading::Available(40.0));
    assert_eq!((machine.opened.load(Ordering::Relaxed), machine.read.load(Ordering::Relaxed)), (2, 5));
}

#[test]
fn meters_are_read_in_their_windows_alone() {
    let machine = Arc::<Machine>::default();
    let silent = eyes(&machine, false)(Duration::ZERO).meters;
    assert_eq!(silent, Reading::unavailable("energy is read in its own windows only"));
    let read = eyes(&machine, true)(Duration::ZERO).meters;
    let Reading::Available(read) = read else { panic!("{read:?}") };
    let told: Vec<(&str, &Reading<f64>)> =
        read.iter().map(|it| (it.meter.name.as_str(), &it.value)).collect();
    assert_eq!(
        told,
        [
            ("energy counters", &Reading::unavailable("no counter on a made-up machine")),
            ("power of gpu:a", &Reading::Available(21.0)),
            ("battery", &Reading::unavailable("no supply")),
        ]
    );
}

#[test]
fn a_battery_tells_the_machines_power_only_while_it_feeds_it() {
    let machine = Arc::<Machine>::default();
    let mut eyes = eyes(&machine, true);
    let mut battery = |source| {
        *machine.source.lock().unwrap() = Some(source);
        eyes(Duration::ZERO).meters.available().unwrap().last().unwrap().value.clone()
    };
    assert_eq!(battery(PowerSource::Battery), Reading::Available(13.0));
    let mains = battery(PowerSource::Ac);
    assert!(
        matches!(&mains, Reading::Unavailable(reason) if reason.contains("fed by the mains")),
        "{mains:?}"
    );
}

#[test]
fn the_running_machine_is_seen() {
    let watcher = Watcher::machine(crate::identify::machine_sensors(), machine_meters());
    let mut eyes = watcher.eyes(Attention {
        chips: Reading::unavailable("no chip is asked for"),
        energy: Reading::Available(vec![chip("cpu")]),
        metering: Arc::new(AtomicBool::new(true)),
        details: Reading::Available(()),
    });
    let sighting = eyes(Duration::ZERO);
    assert_eq!(sighting.chips, Reading::unavailable("no chip is asked for"));
    assert!(sighting.details.available().is_some());
    assert_eq!(sighting.meters.available().unwrap().last().unwrap().meter.method, EnergyMethod::Battery);
}
