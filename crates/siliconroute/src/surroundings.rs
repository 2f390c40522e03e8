//! The running machine around a measurement: clocks, sensors, the file cache, the user's wish to stop.
//!
//! Invariant: what a sensor does not tell stands in the conditions with its reason.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siliconroute_core::energy::MeterSeries;
use siliconroute_core::{ChipKey, Reading, TargetKey};
use siliconroute_hardware::{
    Conditions, FileCache, Interference, TimerFacts, evict_from_file_cache, timer_facts,
};
use siliconroute_store::CampaignId;

use crate::campaign::{Circumstances, Sampling, Surroundings};
use crate::discovery::Found;
use crate::lookout::{Lookout, Seen};
use crate::machine::describe_error;
use crate::metering::meter_series;
use crate::router::Router;
use crate::settings::Origin;
use crate::telemetry::Recorder;

/// A file counts as dropped from the file cache with no more than this share of it kept.
const MOST_KEPT: f64 = 0.02;

/// Longest sleep between two looks at whether the user wants to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks beyond the one under way until a meter has had the time to tell something.
const LOOKS_FOR_POWER: u64 = 2;
/// How long is waited for them at most, however slow the pace.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The machine that the router runs on.
pub(crate) struct Machinery<'r> {
    router: &'r Router,
    begin: Instant,
    notices: RefCell<Vec<String>>,
    timer: TimerFacts,
    lookout: Lookout,
    /// Tells the sampler whether to read meters of energy.
    metering: Arc<AtomicBool>,
    /// Chips whose energy no meter tells, with the reason.
    unmetered: RefCell<BTreeMap<ChipKey, String>>,
    recorder: RefCell<Recorder>,
}

/// A trial's conditions as they are stored.
#[derive(Debug, Serialize)]
struct StoredConditions<'a> {
    schema: &'static str,
    before: &'a Conditions,
    after: &'a Conditions,
    /// What else happened while the case was measured.
    meanwhile: Meanwhile,
    /// The clock that the samples were taken with.
    timer: TimerFacts,
    /// The targets that took turns.
    side_by_side: &'a [TargetKey],
    interrupted: bool,
    program: Program,
    /// Settings that are not the default, by key.
    settings: BTreeMap<&'static str, &'a str>,
    sampling: SamplingRecord,
}

/// What else happened, and what was seen of the machine in between.
#[derive(Debug, Serialize, Deserialize)]
struct Meanwhile {
    #[serde(flatten)]
    interference: Interference,
    /// Since version 3 of the document.
    #[serde(default = "not_recorded")]
    seen: Reading<Seen>,
}

fn not_recorded() -> Reading<Seen> {
    Reading::unavailable("not recorded")
}

#[derive(Debug, Serialize)]
struct Program {
    version: &'static str,
    commit: Option<&'static str>,
}

/// The settings of the measurement, times in seconds.
#[derive(Debug, Serialize)]
pub(crate) struct SamplingRecord {
    warmup_calls: u64,
    warmup_s: f64,
    min_samples: u32,
    rounds: u32,
    precision: f64,
    budget_s: f64,
    fixed_iterations: Option<u32>,
    cool_down_s: f64,
    repetitions: u32,
    /// Rest and load of the windows of energy, where energy is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_s: Option<[f64; 2]>,
}

impl SamplingRecord {
    pub(crate) fn of(sampling: &Sampling) -> Self {
        Self {
            warmup_calls: sampling.warmup_calls,
            warmup_s: sampling.warmup_time.as_secs_f64(),
            min_samples: sampling.min_samples,
            rounds: sampling.rounds,
            precision: sampling.precision,
            budget_s: sampling.budget.as_secs_f64(),
            fixed_iterations: sampling.fixed_iterations,
            cool_down_s: sampling.cool_down.as_secs_f64(),
            repetitions: sampling.repetitions,
            energy_s: sampling.energy.map(|windows| [windows.idle.as_secs_f64(), windows.load.as_secs_f64()]),
        }
    }
}

impl Router {
    /// Waits; returns early when the user wants to stop.
    pub(crate) fn rest(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() && !self.is_cancelled() {
            let part = left.min(LOOK_EVERY);
            (self.sleep)(part);
            left -= part;
        }
    }
}

fn changed_settings(router: &Router) -> BTreeMap<&'static str, &str> {
    let shown = router.settings.shown().iter().filter(|shown| shown.origin != Origin::Default);
    shown.map(|shown| (shown.key, shown.value.as_str())).collect()
}

impl<'r> Machinery<'r> {
    /// `metering` is what the eyes of the lookout look at, and `started_unix_ms` when it started.
    pub(crate) fn new(
        router: &'r Router,
        begin: Instant,
        lookout: Lookout,
        metering: Arc<AtomicBool>,
        started_unix_ms: i64,
    ) -> Self {
        Self {
            router,
            begin,
            notices: RefCell::default(),
            timer: timer_facts(),
            lookout,
            metering,
            unmetered: RefCell::default(),
            recorder: RefCell::new(Recorder::new(started_unix_ms)),
        }
    }

    /// The moment `at` on the scale of [`Surroundings::elapsed`].
    pub(crate) fn elapsed_at(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.begin)
    }

    /// Brings what was seen so far into the store, between two jobs; what cannot be written now waits.
    pub(crate) fn record(&self, campaign: CampaignId) {
        let mut recorder = self.recorder.borrow_mut();
        if let Err(error) = recorder.write(self.lookout.sampler(), &self.router.store, Some(campaign)) {
            tracing::info!("what the sensors told waits to be stored: {}", describe_error(&error));
        }
    }

    /// [`Self::record`] for the last time.
    pub(crate) fn record_rest(&self, campaign: CampaignId) {
        let mut recorder = self.recorder.borrow_mut();
        let written = recorder.write(self.lookout.sampler(), &self.router.store, Some(campaign));
        let lost = recorder.lost();
        match written {
            Ok(_) if lost == 0 => {}
            Ok(_) => self.note(format!("{lost} looks at the sensors were not stored in time")),
            Err(error) => {
                self.note(format!("what the sensors told is not in the store: {}", describe_error(&error)));
            }
        }
    }

    /// Ends the looking; a sensor that hangs is told in a notice.
    pub(crate) fn stop_looking(&mut self) {
        if let Err(reason) = self.lookout.stop() {
            self.note(reason);
        }
    }

    pub(crate) fn note(&self, text: String) {
        self.notices.borrow_mut().push(text);
    }

    pub(crate) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }
}

impl Surroundings for Machinery<'_> {
    fn unix_ms(&self) -> i64 {
        (self.router.clock)()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn rest(&self, time: Duration) {
        self.router.rest(time);
    }

    fn least_sample(&self) -> Duration {
        self.timer.least_sample()
    }

    fn begin(&self) -> Conditions {
        let conditions = self.conditions();
        self.lookout.begin();
        conditions
    }

    fn conditions(&self) -> Conditions {
        siliconroute_hardware::detect_conditions()
    }

    fn describe(&self, circumstances: &Circumstances<'_>) -> String {
        let Circumstances { before, after, workers_cpu_ns, side_by_side, sampling, interrupted } =
            circumstances;
        let own_cpu_ns =
            Reading::from_option(*workers_cpu_ns, "a worker ended before it told its processor time");
        let meanwhile = Meanwhile {
            interference: Interference::between(before, after, &own_cpu_ns),
            seen: Reading::Available(self.lookout.seen(before, after)),
        };
        let stored = StoredConditions {
            schema: "siliconroute.conditions/3",
            before,
            after,
            meanwhile,
            timer: self.timer,
            side_by_side,
            interrupted: *interrupted,
            program: Program { version: crate::VERSION, commit: crate::COMMIT },
            settings: changed_settings(self.router),
            sampling: SamplingRecord::of(sampling),
        };
        serde_json::to_string(&stored).expect("conditions have only text keys")
    }

    fn drop_from_file_cache(&self, files: &[PathBuf]) -> Result<(), String> {
        for path in files {
            let kept = match evict_from_file_cache(path) {
                Reading::Available(FileCache { resident_after: Reading::Available(kept), .. }) => kept,
                Reading::Available(FileCache { resident_after: Reading::Unavailable(reason), .. })
                | Reading::Unavailable(reason) => return Err(reason),
            };
            if kept > MOST_KEPT {
                let percent = kept * 100.0;
                return Err(format!(
                    "{percent:.0} % of `{}` stay, since a program has it mapped",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    fn begin_metering(&self, found: &Found) -> Reading<()> {
        let chip = self.router.chip_of(found);
        if let Some(reason) = self.unmetered.borrow().get(&chip.key) {
            return Reading::unavailable(reason.clone());
        }
        self.metering.store(true, Ordering::Relaxed);
        let sampler = self.lookout.sampler();
        // The look under way began without the meters, and what is made of two readings takes two looks.
        let (begin, next) = (sampler.now(), sampler.looks_taken());
        let patience = (sampler.period() * 3).min(LONGEST_WAIT) + Duration::from_secs(2);
        sampler.wait_for(next + LOOKS_FOR_POWER, patience);
        let read = self.meter_series(found, begin, sampler.now());
        if let Reading::Unavailable(reason) = &read {
            self.unmetered.borrow_mut().insert(chip.key, reason.clone());
        }
        read.map(|_| ())
    }

    fn end_metering(&self) {
        self.metering.store(false, Ordering::Relaxed);
    }

    fn metered_now(&self) -> Duration {
        self.lookout.sampler().now()
    }

    fn meter_series(&self, found: &Found, begin: Duration, end: Duration) -> Reading<Vec<MeterSeries>> {
        let looks = self.lookout.sampler().looks_from(0, usize::MAX);
        meter_series(&looks, &self.router.chip_of(found), begin, end)
    }

    fn is_cancelled(&self) -> bool {
        self.router.is_cancelled()
    }

    fn notice(&self, text: String) {
        self.note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_the_second_version_still_reads() {
        // As version 2 wrote it: the looks of the thread in between were not there.
        let text = r#"{
            "elapsed_ns": {"available": 2000000000}, "steal_share": {"available": 0.0},
            "other_busy_cores": {"available": 0.1}, "taken_share": {"available": 0.06},
            "disturbed": {"available": true}, "throttle_events": {"unavailable": "no counter"},
            "throttled_ms": {"unavailable": "no counter"}, "clock_change_mhz": {"available": -100.0},
            "temperature_change_celsius": {"available": 3.0}, "power_source_changed": {"available": false},
            "battery_change_percent": {"unavailable": "no battery"}
        }"#;
        let meanwhile: Meanwhile = serde_json::from_str(text).unwrap();
        assert_eq!(meanwhile.interference.disturbed, Reading::Available(true));
        assert_eq!(meanwhile.seen, not_recorded());
        let again: Meanwhile = serde_json::from_value(serde_json::to_value(&meanwhile).unwrap()).unwrap();
        assert_eq!((again.interference, again.seen), (meanwhile.interference, meanwhile.seen));
    }
}
