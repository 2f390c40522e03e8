//! Simulated sensors: the chip that the script has at work is busy, all others rest.
//!
//! Invariant: what they show follows from the requests that workers got, never from the machine or a clock.

use std::sync::Arc;

use siliconroute::identify::{
    Busy, BusySource, ChipSample, OpenSensors, PowerState, ProcessChipUse, Sensors,
};
use siliconroute_core::{ChipKey, Reading};

use crate::launcher::FakeLauncher;

/// Percent busy of a chip at work and of one at rest.
const BUSY: [f64; 2] = [95.0, 1.0];

/// Sensors of some chips of a simulated machine.
#[derive(Debug)]
pub struct FakeSensors {
    launcher: FakeLauncher,
    chips: Vec<ChipKey>,
}

impl FakeSensors {
    /// Sensors that see `chips` and no other.
    pub fn of(launcher: &FakeLauncher, chips: &[&str]) -> OpenSensors {
        let launcher = launcher.clone();
        let chips: Vec<ChipKey> = chips.iter().map(|key| ChipKey((*key).to_owned())).collect();
        Arc::new(move |_| Box::new(Self { launcher: launcher.clone(), chips: chips.clone() }))
    }
}

impl Sensors for FakeSensors {
    fn sample(&mut self) -> Vec<ChipSample> {
        let working = self.launcher.working_chip();
        let sample = |chip: &ChipKey| {
            let [work, rest] = BUSY;
            let percent = if working.as_ref() == Some(chip) { work } else { rest };
            ChipSample {
                power_state: Reading::Available(PowerState::Awake),
                busy: Reading::Available(Busy { percent, source: BusySource::Counted }),
                ..ChipSample::unavailable(chip.clone(), "a simulated chip has no such sensor")
            }
        };
        self.chips.iter().map(sample).collect()
    }

    fn process(&mut self, _pid: u32) -> Vec<ProcessChipUse> {
        let untold =
            |chip: &ChipKey| ProcessChipUse::unavailable(chip.clone(), "a simulated worker has none");
        self.chips.iter().filter(|chip| **chip != ChipKey::cpu()).map(untold).collect()
    }
}
