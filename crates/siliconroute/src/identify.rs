//! Which chip answers to a target: a load, the sensors beside it, and what the two say of the target's name.
//!
//! Invariant: a target is contradicted on evidence only; what sensors cannot tell stands against nobody.
//!
//! Reading order: this file, `observe` (the load and the sensors), `summary` (what they saw), `fingerprint`
//! (how long the load takes on each adapter), `suspects` (the start of a campaign).

mod fingerprint;
mod observe;
mod summary;
mod suspects;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use siliconroute_core::{Chip, ChipKey, ChipKind, TargetKey};

pub use siliconroute_hardware::{
    Busy, BusySource, ChipSample, Evidence, Limit, PowerState, ProcessChipUse, Verdict,
};
use siliconroute_hardware::{ChipSensors, Observation, identify_chip};

pub use summary::{ChipSummary, Level};
pub(crate) use suspects::Checked;

use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::router::Router;
use observe::Pace;

/// Reads what the machine's chips do.
pub trait Sensors: Send {
    /// Reads every chip once; what is counted is counted since the sample before.
    fn sample(&mut self) -> Vec<ChipSample>;

    /// Reads what the process numbered `pid` has on each chip but the CPU.
    fn process(&mut self, pid: u32) -> Vec<ProcessChipUse>;
}

impl Sensors for ChipSensors {
    fn sample(&mut self) -> Vec<ChipSample> {
        ChipSensors::sample(self)
    }

    fn process(&mut self, pid: u32) -> Vec<ProcessChipUse> {
        ChipSensors::process(self, pid)
    }
}

/// Opens the sensors of some chips.
pub type OpenSensors = Arc<dyn Fn(&[Chip]) -> Box<dyn Sensors> + Send + Sync>;

/// The sensors of the running machine.
pub fn machine_sensors() -> OpenSensors {
    Arc::new(|chips| Box::new(ChipSensors::detect(chips)))
}

/// Whether the chip that answered is the one that the target names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "answer", content = "reason")]
pub enum Agreement {
    /// It is.
    Agrees,
    /// Another chip did the work.
    Contradicts,
    /// The sensors cannot tell, for this reason.
    CannotTell(String),
}

/// What was seen while a target worked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Identification {
    /// The target.
    pub target: TargetKey,
    /// The chip that its key names.
    pub expected: ChipKey,
    /// Whether that one answered.
    pub agrees: Agreement,
    /// Which chip answered.
    pub verdict: Verdict,
    /// The model and batch that it worked on.
    pub load: String,
    /// How long it worked, in seconds.
    pub worked_s: f64,
    /// What each chip's sensors said.
    pub chips: Vec<ChipSummary>,
}

impl Identification {
    fn of(
        target: TargetKey,
        expected: ChipKey,
        imitated: bool,
        load: String,
        worked: Duration,
        seen: &Observation,
    ) -> Self {
        let verdict = identify_chip(seen);
        let agrees = if imitated {
            let reason = format!("a software driver imitates {expected} on the CPU, so it has no sensors");
            Agreement::CannotTell(reason)
        } else {
            agreement(&expected, &verdict, &seen_chips(seen))
        };
        let chips = summary::summaries(seen);
        Self { target, expected, agrees, verdict, load, worked_s: worked.as_secs_f64(), chips }
    }
}

fn seen_chips(seen: &Observation) -> BTreeSet<&ChipKey> {
    seen.load.iter().flatten().map(|sample| &sample.chip).collect()
}

/// Compares the verdict with the chip that the target names.
///
/// Only work that was counted speaks against a target: that another chip awoke shows that it was opened, and
/// chips in one package share a power meter.
fn agreement(expected: &ChipKey, verdict: &Verdict, seen: &BTreeSet<&ChipKey>) -> Agreement {
    let cannot_tell = |reason: String| Agreement::CannotTell(reason);
    match verdict {
        Verdict::Answered { chip, .. } if chip == expected => Agreement::Agrees,
        Verdict::Answered { chip, .. } if !seen.contains(expected) => {
            // The engine and the system may call one chip by two names.
            cannot_tell(format!("{chip} answered, and the sensors know no chip {expected}"))
        }
        Verdict::Answered { chip, unseen, .. } if unseen.contains(expected) => {
            cannot_tell(format!("{chip} worked, and no sensor tells whether {expected} did"))
        }
        Verdict::Answered { evidence: Evidence::ProcessWork | Evidence::Load, .. } => Agreement::Contradicts,
        Verdict::Answered { chip, evidence: Evidence::Power, .. } => cannot_tell(format!(
            "{expected} was not seen to work; the power of {chip} rose, which may be that of a neighbour"
        )),
        Verdict::Answered { chip, evidence: Evidence::Awoke, .. } => cannot_tell(format!(
            "{expected} was not seen to work; {chip} awoke, which shows no more than that it was opened"
        )),
        Verdict::Ambiguous { reason, .. } | Verdict::NoSensor { reason } => cannot_tell(reason.clone()),
    }
}

/// The longest load that makes sense, in seconds.
const LONGEST_LOAD_S: f64 = 600.0;
/// The shortest load in which the sensors are read often enough.
const SHORTEST_LOAD_S: f64 = 0.5;

impl Router {
    /// Loads the target called `target` for some seconds and sees which chip answers.
    ///
    /// The machine should have nothing else to do meanwhile. Waits while another program measures in this home.
    ///
    /// # Errors
    /// When there is no such target, `seconds` is no time from 0.5 to 600, the target fails, or the user stops.
    pub fn identify(
        &self,
        target: &str,
        seconds: f64,
        listener: &mut dyn Listener,
    ) -> Result<Identification, Error> {
        if !(SHORTEST_LOAD_S..=LONGEST_LOAD_S).contains(&seconds) {
            let text = format!("a load takes {SHORTEST_LOAD_S} to {LONGEST_LOAD_S} seconds, not {seconds}");
            return Err(Error::Usage(text));
        }
        let targets = self.targets(listener)?;
        let found = targets.resolve(target)?;
        // Where nothing can be written, nobody measures.
        let _turn = match self.read_only {
            None => Some(self.lock_measuring(listener)?),
            Some(_) => None,
        };
        listener.event(Event::Begin { stage: Stage::Identifying, steps: None });
        let loads = self.loads(listener)?;
        let chips = self.present_chips();
        let mut sensors = (self.sensors)(&chips);
        // The processor's own counters tell of no time but that between two looks.
        let averaged = chips.iter().any(|chip| chip.kind != ChipKind::Cpu);
        let pace = Pace::thorough(Duration::from_secs_f64(seconds), averaged);
        let watched = self.watch(&found, &loads, sensors.as_mut(), &pace, listener)?;
        listener.event(Event::End(String::new()));
        Ok(self.identification(&found, watched))
    }

    pub(crate) fn present_chips(&self) -> Vec<Chip> {
        self.machine.chips.iter().filter_map(|finding| finding.chip.available().cloned()).collect()
    }

    fn is_imitated(&self, key: &ChipKey) -> bool {
        self.present_chips().iter().any(|chip| chip.key == *key && chip.software)
    }
}

#[cfg(test)]
mod tests;
