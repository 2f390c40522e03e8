//! Simulated counters of energy: each target draws a known power while it works, and the rest draws another.
//!
//! Invariant: what they tell follows from the time that paced targets have worked, and their names say that they are
//! simulated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siliconroute::sampler::{MeterReading, Meters, OpenMeters};
use siliconroute_core::energy::{EnergyMethod, EnergyScope, Meter};
use siliconroute_core::{ChipKey, Reading, TargetKey};

use crate::launcher::FakeLauncher;

/// A simulated counter.
#[derive(Debug, Clone)]
pub struct FakeMeter {
    /// What it counts of.
    pub scope: EnergyScope,
    /// The chip; `None` for the whole machine.
    pub chip: Option<ChipKey>,
    /// Watts at rest.
    pub rest_watts: f64,
    /// Watts beyond that while a target works; targets that are not named draw none from what it counts.
    pub net_watts: Vec<(TargetKey, f64)>,
}

/// Simulated counters of one machine.
#[derive(Debug)]
pub struct FakeMeters {
    launcher: FakeLauncher,
    meters: Vec<FakeMeter>,
    since: Instant,
}

impl FakeMeters {
    /// Meters that see the paced targets of `launcher` at work.
    pub fn of(launcher: &FakeLauncher, meters: Vec<FakeMeter>) -> OpenMeters {
        let launcher = launcher.clone();
        Arc::new(move |_| {
            Box::new(Self { launcher: launcher.clone(), meters: meters.clone(), since: Instant::now() })
        })
    }
}

impl Meters for FakeMeters {
    fn read(&mut self) -> Vec<MeterReading> {
        let (rest_s, worked) = (self.since.elapsed().as_secs_f64(), self.launcher.worked());
        let reading = |one: &FakeMeter| {
            let of_target = |(target, watts): &(TargetKey, f64)| {
                watts * worked.get(target).map_or(0.0, Duration::as_secs_f64)
            };
            let joules = one.rest_watts * rest_s + one.net_watts.iter().map(of_target).sum::<f64>();
            let meter = Meter {
                method: EnergyMethod::Counter,
                scope: one.scope,
                name: format!("simulated {}", one.scope),
                chip: one.chip.clone(),
            };
            MeterReading { meter, value: Reading::Available(joules) }
        };
        self.meters.iter().map(reading).collect()
    }

    fn absence(&self) -> Option<String> {
        self.meters.is_empty().then(|| "a simulated machine without a counter".to_owned())
    }
}
