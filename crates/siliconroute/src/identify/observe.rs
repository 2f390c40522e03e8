//! Keeps a target busy and reads the sensors meanwhile.
//!
//! Invariant: samples at rest come from before the worker is started and after it has ended, samples of the load
//! from nowhere but between its first block and its last.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Failure, FailureKind, Sample};
use siliconroute_core::{Case, Reading, statistics};
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::timing::calls_per_sample;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient, WorkerSession};
use siliconroute_hardware::Observation;

use super::{ChipSample, Identification, Sensors};
use crate::campaign::check_placement;
use crate::discovery::Found;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::inputs;
use crate::models::{Given, KnownModel};
use crate::router::Router;

/// Model and batch of the load that every target gets: 10 GFLOP a call.
const FIXED: (&str, u64) = ("conv-64c-4l", 8);
/// The load of a target that is done with a call of the other in less than [`TOO_SHORT`]: four times the work on
/// inputs of the same size.
const HEAVY: (&str, u64) = ("conv-256c-4l", 2);
/// Calls that are shorter leave the chip waiting for the host between them.
const TOO_SHORT: Duration = Duration::from_millis(5);
/// Calls and time of the samples that the fingerprint is taken from.
const FINGERPRINT: (u32, Duration) = (15, Duration::from_millis(200));
/// Calls and time before them.
const WARM_UP: (u64, Duration) = (2, Duration::from_millis(50));
/// Least time of one sample's calls.
const LEAST_SAMPLE: Duration = Duration::from_millis(10);
/// Samples of the sensors that the load goes on for, beyond its time.
const LEAST_LOOKS: usize = 3;
/// How far beyond its time the load goes on for them.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long everything takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time between two samples of the sensors.
    interval: Duration,
    /// Time in which averages of the drivers' fall back to rest.
    settle: Duration,
    /// Samples at rest before and after.
    rests: (u32, u32),
    /// Time of the load.
    load: Duration,
}

impl Pace {
    /// For a user who waits for the answer: a short load is looked at more often. `averaged` tells whether there are
    /// chips of which drivers tell averages.
    pub(super) fn thorough(load: Duration, averaged: bool) -> Self {
        Self {
            interval: (load / 8).clamp(Duration::from_millis(100), Duration::from_millis(250)),
            settle: if averaged { Duration::from_secs(1) } else { Duration::ZERO },
            rests: (5, 5),
            load,
        }
    }

    /// For the start of a campaign: two seconds.
    pub(super) fn brief() -> Self {
        Self {
            interval: Duration::from_millis(200),
            settle: Duration::from_millis(400),
            rests: (3, 0),
            load: Duration::from_secs(1),
        }
    }
}

/// A model to load targets with.
pub(super) struct Load {
    model: KnownModel,
    pub(super) case: Case,
    values: Vec<NamedTensor>,
}

/// The loads that there are.
pub(super) struct Loads {
    pub(super) fixed: Load,
    heavy: Load,
}

/// What was seen.
pub(super) struct Watched {
    observation: Observation,
    load: String,
    worked: Duration,
    /// Median time of a call of the fixed load, in nanoseconds.
    pub(super) call_ns: f64,
}

impl Load {
    fn remote<'l>(&'l self, threads: &'l ThreadOptions) -> RemoteModel<'l> {
        RemoteModel {
            path: &self.model.path,
            inputs: &self.model.facts.inputs,
            outputs: &self.model.facts.outputs,
            bindings: &self.case.bindings,
            threads,
            compile_cache: None,
        }
    }
}

impl Router {
    pub(super) fn loads(&self, listener: &mut dyn Listener) -> Result<Loads, Error> {
        let mut load = |(name, batch): (&str, u64)| -> Result<Load, Error> {
            let model = self.find_model(name, listener)?;
            let given = Given { batch: Some(batch), ..Given::default() };
            let case = self.models().case(&model, &given)?;
            // Times of inputs made from another seed would be another fingerprint.
            let values = inputs::generate_for(&case.facts, &model.recipes, 0)?;
            Ok(Load { model, case, values })
        };
        Ok(Loads { fixed: load(FIXED)?, heavy: load(HEAVY)? })
    }

    /// Reads the sensors while `found` rests, works and rests again.
    pub(super) fn watch(
        &self,
        found: &Found,
        loads: &Loads,
        sensors: &mut dyn Sensors,
        pace: &Pace,
        listener: &mut dyn Listener,
    ) -> Result<Watched, Error> {
        let mut observation =
            Observation { logical_cores: self.machine.host.logical_cores, ..Observation::default() };
        listener.event(Event::Step(format!("{}: the chips at rest", found.target.key)));
        observation.rest = self.look_at_rest(sensors, pace, pace.rests.0)?;
        listener.event(Event::Step(format!("{}: at work", found.target.key)));
        let worked = self.work(found, loads, sensors, pace, &mut observation);
        // A worker that was ended for the user's sake did not fail.
        self.stop_if_cancelled()?;
        let (load, worked, call_ns) =
            worked.map_err(|failure| Error::Worker { target: found.target.key.to_string(), failure })?;
        if pace.rests.1 > 0 {
            listener.event(Event::Step(format!("{}: the chips at rest again", found.target.key)));
            observation.rest.extend(self.look_at_rest(sensors, pace, pace.rests.1)?);
        }
        Ok(Watched { observation, load, worked, call_ns })
    }

    pub(super) fn identification(&self, found: &Found, watched: Watched) -> Identification {
        let expected = found.target.chip.clone();
        let imitated = self.is_imitated(&expected);
        let Watched { observation, load, worked, .. } = watched;
        Identification::of(found.target.key.clone(), expected, imitated, load, worked, &observation)
    }

    fn look_at_rest(
        &self,
        sensors: &mut dyn Sensors,
        pace: &Pace,
        count: u32,
    ) -> Result<Vec<Vec<ChipSample>>, Error> {
        self.rest(pace.settle);
        // What is counted is counted from here.
        sensors.sample();
        let mut samples = Vec::new();
        for _ in 0..count {
            self.rest(pace.interval);
            self.stop_if_cancelled()?;
            samples.push(sensors.sample());
        }
        Ok(samples)
    }

    /// The load that was taken, how long it ran, and the fingerprint.
    fn work(
        &self,
        found: &Found,
        loads: &Loads,
        sensors: &mut dyn Sensors,
        pace: &Pace,
        observation: &mut Observation,
    ) -> Result<(String, Duration, f64), Failure> {
        let deadline = self.worker_deadline();
        let (base, _) = found.base();
        let threads = found.threads();
        let mut worker = WorkerClient::open(self.launcher.as_ref(), &found.engine, deadline)?;
        let process = worker.process_id();
        let mut load = &loads.fixed;
        let mut begin = |load: &Load| -> Result<f64, Failure> {
            let mut session = worker.create_session(&base, &load.remote(&threads), deadline)?;
            check_placement(&found.engine, &session.placement)?;
            session.set_inputs(load.values.clone())?;
            session.warm_up(WARM_UP.0, WARM_UP.1)?;
            let (count, budget) = FINGERPRINT;
            let sampled = session.sample(0, 1, count, budget)?;
            let times: Vec<f64> = sampled.samples.iter().map(Sample::per_call_ns).collect();
            statistics::median(&times)
                .ok_or_else(|| Failure::new(FailureKind::Crashed, "the worker took no sample"))
        };
        let fingerprint_ns = begin(load)?;
        let mut call_ns = fingerprint_ns;
        if call_ns < TOO_SHORT.as_nanos() as f64 {
            load = &loads.heavy;
            call_ns = begin(load)?;
        }
        let mut session = worker.resume(0, Reading::unavailable("not asked for"), deadline);
        let before = process.map(|pid| (sensors.process(pid), Instant::now()));
        sensors.sample();
        let calls = calls_per_sample(call_ns as u64, LEAST_SAMPLE);
        let (samples, worked) = self.load_and_look(&mut session, calls, sensors, pace);
        let worked = worked?;
        observation.load = samples;
        observation.process = before.zip(process).map(|((before, since), pid)| {
            let after = sensors.process(pid);
            (before, after, since.elapsed())
        });
        worker.close_session(deadline)?;
        Ok((load.case.label(), worked, fingerprint_ns))
    }

    /// Runs blocks of calls until the time is over and the sensors were read often enough.
    fn load_and_look(
        &self,
        session: &mut WorkerSession<'_>,
        calls: u32,
        sensors: &mut dyn Sensors,
        pace: &Pace,
    ) -> (Vec<Vec<ChipSample>>, Result<Duration, Failure>) {
        let (working, looks) = (AtomicBool::new(true), AtomicUsize::new(0));
        let (sleep, interval) = (self.sleep, pace.interval);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut samples = Vec::new();
                loop {
                    sleep(interval);
                    if !working.load(Ordering::Acquire) {
                        return samples;
                    }
                    samples.push(sensors.sample());
                    looks.fetch_add(1, Ordering::Release);
                }
            });
            let begin = Instant::now();
            let mut worked = Duration::ZERO;
            let result = loop {
                let block = match session.sample(0, calls, u32::MAX, interval) {
                    Ok(block) => block,
                    Err(failure) => break Err(failure),
                };
                // Simulated work takes no time of the clock's.
                worked += Duration::from_nanos(block.samples.iter().map(|sample| sample.total_ns).sum());
                let elapsed = begin.elapsed().max(worked);
                let looked = looks.load(Ordering::Acquire) >= LEAST_LOOKS;
                if elapsed >= pace.load && (looked || begin.elapsed() >= pace.load + LONGEST_WAIT) {
                    break Ok(worked);
                }
            };
            working.store(false, Ordering::Release);
            let samples = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (samples, result)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_load_is_looked_at_more_often_and_averages_get_time_to_settle() {
        for (load_ms, averaged, interval_ms, settle_ms) in [
            (500, false, 100, 0),
            (1_200, true, 150, 1_000),
            (5_000, true, 250, 1_000),
            (600_000, false, 250, 0),
        ] {
            let pace = Pace::thorough(Duration::from_millis(load_ms), averaged);
            let expected = (Duration::from_millis(interval_ms), Duration::from_millis(settle_ms));
            assert_eq!((pace.interval, pace.settle), expected, "{load_ms} ms");
        }
    }
}
