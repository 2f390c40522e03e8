//! The state of the running machine, as far as decisions take it into account.
//!
//! Invariant: what a sensor does not tell is absent from the context, so that no rule rests on it; nothing is woken to
//! be asked. A context costs a glance at the machine (`cargo bench -p siliconroute --bench measuring -- overhead` times it), and
//! with GPUs or NPUs among the targets a look at their sensors, which is used again for [`FRESH`]; the first look of a
//! router waits [`BASELINE`] where a load is told by counting.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use siliconroute_core::decide::{ChipNow, Context};
use siliconroute_core::{Chip, ChipKey, ChipKind, Reading, TargetKey};
use siliconroute_hardware::{BusySource, ChipSample, Glance, PowerSource, detect_conditions, detect_glance};

use crate::identify::{OpenSensors, Sensors};
use crate::learn::Learned;
use crate::quarantine::Streaks;
use crate::router::Router;

/// How long a look at the chips' sensors counts as now.
pub const FRESH: Duration = Duration::from_secs(1);

/// The time over which a load is counted where there was no look before.
pub const BASELINE: Duration = Duration::from_millis(100);

/// What the machine is like now: battery, free memory, and the temperature of the processor.
pub fn detect_context() -> Context {
    let glance = detect_glance();
    Context {
        charge_on_battery_percent: charge_on_battery(&glance, || detect_conditions().battery_percent),
        power_plan: glance.power_plan(),
        free_memory_bytes: glance.free_memory_bytes.available().copied(),
        chips: cpu_now(&glance.cpu_temperature_celsius).into_iter().collect(),
        ..Context::default()
    }
}

/// The charge, while the machine runs on it; asked for only then.
fn charge_on_battery(glance: &Glance, percent: impl FnOnce() -> Reading<f64>) -> Option<f64> {
    let on_battery = glance.power_source.available() == Some(&PowerSource::Battery);
    if on_battery { percent().available().copied() } else { None }
}

fn cpu_now(celsius: &Reading<f64>) -> Option<ChipNow> {
    let celsius = celsius.available().copied()?;
    Some(ChipNow { chip: ChipKey::cpu(), busy_percent: None, celsius: Some(celsius) })
}

/// What a chip's sensors say for a decision; `None` where that is nothing. A load that is only known not to be more,
/// or that this router's own sessions share in, is no load by others.
fn chip_now(sample: &ChipSample, is_own: bool) -> Option<ChipNow> {
    let busy = sample.busy.available().filter(|busy| !is_own && busy.source != BusySource::Awake);
    let (busy_percent, celsius) = (busy.map(|busy| busy.percent), sample.temperature_celsius.available());
    let told = busy_percent.is_some() || celsius.is_some();
    told.then(|| ChipNow { chip: sample.chip.clone(), busy_percent, celsius: celsius.copied() })
}

/// The sensors of the chips that decisions are about, and what they said last.
#[derive(Default)]
pub(crate) struct ChipWatch {
    /// The chips that the sensors were opened for.
    chips: Vec<ChipKey>,
    sensors: Option<Box<dyn Sensors>>,
    last: Option<(Instant, Vec<ChipSample>)>,
}

impl fmt::Debug for ChipWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChipWatch").field("chips", &self.chips).finish_non_exhaustive()
    }
}

impl ChipWatch {
    /// What the sensors of `chips` say, not older than [`FRESH`].
    fn look(&mut self, chips: &[Chip], open: &OpenSensors, sleep: fn(Duration)) -> &[ChipSample] {
        let keys: Vec<ChipKey> = chips.iter().map(|chip| chip.key.clone()).collect();
        if self.chips != keys {
            *self = Self { chips: keys, ..Self::default() };
        }
        let stale = self.last.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH);
        if stale {
            let sensors = self.sensors.get_or_insert_with(|| open(chips));
            let mut samples = sensors.sample();
            // What is counted needs a look before; a chip that sleeps has no load, and one without a sensor none to wait for.
            if self.last.is_none() && samples.iter().any(|sample| sample.busy.available().is_none()) {
                sleep(BASELINE);
                samples = sensors.sample();
            }
            self.last = Some((Instant::now(), samples));
        }
        self.last.as_ref().map_or(&[], |(_, samples)| samples)
    }
}

/// Sessions of a router that are alive, by chip.
pub(crate) type LiveChips = Arc<Mutex<BTreeMap<ChipKey, usize>>>;

/// Counts a session on a chip for as long as it lives.
#[derive(Debug)]
pub(crate) struct OnChip {
    live: LiveChips,
    chip: ChipKey,
}

impl OnChip {
    pub(crate) fn begin(live: &LiveChips, chip: &ChipKey) -> Self {
        *live.lock().unwrap_or_else(PoisonError::into_inner).entry(chip.clone()).or_default() += 1;
        Self { live: Arc::clone(live), chip: chip.clone() }
    }
}

impl Drop for OnChip {
    fn drop(&mut self) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = live.get_mut(&self.chip) {
            *count = count.saturating_sub(1);
        }
    }
}

/// What serving has shown of the machine: chips with their sensors, sessions alive, targets that failed.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) watch: Mutex<ChipWatch>,
    pub(crate) live: LiveChips,
    pub(crate) failures: Mutex<Streaks>,
}

impl Router {
    /// What the machine is like now, as far as decisions about the targets of `learned` take it into account.
    pub fn context(&self, learned: &Learned) -> Context {
        let mut context = self.state();
        let wanted = |chip: &Chip| {
            let mut targets = learned.knowledge.targets().iter();
            chip.kind != ChipKind::Cpu && !chip.software && targets.any(|it| it.target.chip == chip.key)
        };
        let chips: Vec<Chip> = self.present_chips().into_iter().filter(wanted).collect();
        if !chips.is_empty() {
            let live = self.observed.live.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_own = |chip: &ChipKey| live.get(chip).is_some_and(|sessions| *sessions > 0);
            let mut watch = self.observed.watch.lock().unwrap_or_else(PoisonError::into_inner);
            let samples = watch.look(&chips, &self.sensors, self.sleep);
            context.chips.extend(samples.iter().filter_map(|it| chip_now(it, is_own(&it.chip))));
        }
        let now = (self.clock)();
        let served = self.observed.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = &self.settings.quarantine;
        context.quarantined = learned
            .knowledge
            .indices()
            .filter(|(_, key)| {
                let streaks = [served.get(key), learned.failures.get(key)];
                streaks.into_iter().flatten().any(|streak| rule.holds(streak, now))
            })
            .map(|(index, _)| index)
            .collect();
        context
    }

    /// Takes note that `target` failed while it served.
    pub(crate) fn note_failure(&self, target: &TargetKey) {
        let mut failures = self.observed.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.failed(target, (self.clock)(), &self.settings.quarantine);
    }

    /// Takes note that `target` has answered.
    pub(crate) fn note_answer(&self, target: &TargetKey) {
        self.observed.failures.lock().unwrap_or_else(PoisonError::into_inner).answered(target);
    }
}

#[cfg(test)]
mod tests;
