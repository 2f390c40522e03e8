//! Views of made-up looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use siliconroute::identify::Busy;
use siliconroute::sampler::{Glance, Sighting};
use siliconroute_core::ChipKey;
use siliconroute_core::energy::{EnergyScope, Meter};

use super::*;

/// A machine with a CPU and a GPU, which tells next to nothing.
fn look() -> Look {
    let chip = |key: &str| ChipSample {
        power_watts: Reading::Available(12.34),
        ..ChipSample::unavailable(ChipKey(key.to_owned()), "no driver")
    };
    let gpu = ChipSample {
        busy: Reading::Available(Busy { percent: 40.0, source: BusySource::Awake }),
        limits: Reading::Available(vec![Limit::Heat, Limit::Power]),
        ..chip("gpu:1:2@a")
    };
    let sighting = Sighting {
        glance: Glance { free_memory_bytes: Reading::Available(3 << 30), ..Glance::unavailable("no file") },
        details: Reading::unavailable("not asked"),
        chips: Reading::Available(vec![chip("cpu"), gpu]),
        meters: Reading::unavailable("needs the right to read it"),
    };
    let at = Duration::from_millis(1_500);
    Look { number: 3, at, took: Duration::ZERO, sighting: Arc::new(sighting) }
}

fn told() -> Telemetry {
    let mut told = Telemetry::of(&look(), None, 0);
    let meter = |method, name: &str| MeterTelemetry {
        meter: Meter { method, scope: EnergyScope::Machine, name: name.to_owned(), chip: None },
        watts: Reading::Available(8.0),
    };
    let meters = vec![meter(EnergyMethod::Counter, "rapl psys"), meter(EnergyMethod::Power, "power of cpu")];
    told.meters = Reading::Available(meters);
    told.temperatures_celsius = Reading::Available(BTreeMap::from([("nvme".to_owned(), 38.9)]));
    told
}

#[test]
fn a_line_holds_what_is_told_and_a_dash_for_the_rest() {
    assert_eq!(
        line(&told(), &look()),
        "+1.5 s | cpu: 12.3 W | memory: 3.0 GiB | power: – | gpu:1:2@a: at most 40 %, 12.3 W, heat, power | \
         energy: 8.0 W (machine) | temperatures: 39 °C"
    );
}

#[test]
fn sensors_that_share_a_reason_share_a_sentence() {
    let all = absences(&told());
    assert!(all.contains(&"power source, profile: not available: no file".to_owned()), "{all:?}");
    assert!(
        all.contains(
            &"gpu:1:2@a state, clock, temperature, memory in use: not available: no driver".to_owned()
        ),
        "{all:?}"
    );
    let all = absences(&Telemetry::of(&look(), None, 0));
    assert!(all.contains(&"energy all: not available: needs the right to read it".to_owned()), "{all:?}");
}
