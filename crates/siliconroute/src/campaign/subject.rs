//! One target under measurement: its session and what was measured of it so far.
//!
//! Invariant: a failure ends the subject and keeps its reason; a wish to stop ends nothing that was measured.

use std::time::Duration;

use siliconroute_core::energy::{EnergyRun, NOT_MEASURED};
use siliconroute_core::statistics::{Stopping, StoppingRule};
use siliconroute_core::tensor::Tensor;
use siliconroute_core::trial::{Failure, FailureKind, Measurement, OutputCheck, Placement, Sample};
use siliconroute_core::{ChipKind, Reading};
use siliconroute_engine::onnxruntime::Automatic;
use siliconroute_engine::timing::calls_per_sample;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient, WorkerSession};
use siliconroute_engine::worker::wire::EngineSpec;

use super::energy::SUSTAINED_ALONE;
use super::{CaseToMeasure, OutOfTime, SessionOutputs, Setting, Workers};
use crate::discovery::Found;
use crate::machine::brief;

/// A session under measurement.
pub(super) struct Subject<'a> {
    pub(super) found: &'a Found,
    pub(super) started_unix_ms: i64,
    pub(super) state: Result<Progress, Failure>,
    /// Processor time that the worker used since the subject began; `None` when it does not tell.
    pub(super) cpu_ns: Option<u64>,
    cpu_before_ns: Option<u64>,
}

/// What was measured of a session so far.
pub(super) struct Progress {
    pub(super) create_ns: u64,
    pub(super) first_run_ns: u64,
    pub(super) placement: Reading<Placement>,
    pub(super) outputs: SessionOutputs,
    pub(super) warmup_calls: u64,
    pub(super) calls_per_sample: u32,
    pub(super) samples: Vec<Sample>,
    pub(super) busy: Vec<f64>,
    pub(super) busy_cores: Reading<f64>,
    pub(super) peak_resident_bytes: Reading<u64>,
    pub(super) session_bytes: Reading<u64>,
    pub(super) device_bytes: Reading<u64>,
    pub(super) sampled_ns: u64,
    pub(super) energy: Reading<EnergyRun>,
    /// Decides when the median is known to the precision.
    pub(super) stopping: Stopping,
    /// Samples that the precision asks for beyond those taken.
    pub(super) wanted: u32,
}

impl<'a> Subject<'a> {
    /// Makes the session of `found`, runs it once and warms it up; `None` when its worker cannot be started.
    ///
    /// # Errors
    /// When the setting closes before it would be warm.
    pub(super) fn begin(
        workers: &mut Workers<'_>,
        found: &'a Found,
        test: &CaseToMeasure<'_>,
        setting: &Setting<'_>,
    ) -> Result<Option<Self>, OutOfTime> {
        setting.room_to_begin(found)?;
        let surroundings = setting.surroundings;
        let started_unix_ms = surroundings.unix_ms();
        let deadline = setting.deadline();
        let usage = workers.get(found, deadline).and_then(|worker| worker.usage(deadline));
        let cpu_before_ns = match usage {
            Ok(usage) => usage.cpu_time_ns.available().copied(),
            Err(failure) => {
                let key = &found.target.key;
                workers.drop_worker(key);
                surroundings.notice(format!("{key} is left out: {}", brief(&failure.to_string())));
                return Ok(None);
            }
        };
        let state = workers.get(found, setting.deadline()).and_then(|worker| {
            let (mut progress, _) = Progress::first_run(worker, found, test, setting)?;
            progress.warm_up(worker, found, setting)?;
            Ok(progress)
        });
        Ok(Some(Self { found, started_unix_ms, state, cpu_ns: None, cpu_before_ns }))
    }

    /// A target whose samples come from processes of their own.
    pub(super) fn of_processes(
        found: &'a Found,
        started_unix_ms: i64,
        state: Result<Progress, Failure>,
    ) -> Self {
        Self { found, started_unix_ms, state, cpu_ns: None, cpu_before_ns: None }
    }

    /// About how long one inference takes; 0 of a subject that has failed.
    pub(super) fn call_time(&self) -> Duration {
        let Ok(progress) = &self.state else { return Duration::ZERO };
        let last = progress.samples.last().map_or(progress.first_run_ns as f64, Sample::per_call_ns);
        Duration::from_nanos(last as u64)
    }

    pub(super) fn has_samples(&self) -> bool {
        self.state.as_ref().is_ok_and(|progress| !progress.samples.is_empty())
    }

    /// Does something with the running session; a failure ends the subject unless the user wants to stop.
    pub(super) fn with_session(
        &mut self,
        workers: &mut Workers<'_>,
        setting: &Setting<'_>,
        work: impl FnOnce(&mut Progress, &mut WorkerSession<'_>) -> Result<(), Failure>,
    ) {
        let Ok(progress) = &mut self.state else { return };
        let deadline = setting.sampling.deadline;
        let result = workers.get(self.found, deadline).and_then(|worker| {
            let mut session = worker.resume(progress.create_ns, progress.placement.clone(), deadline);
            work(progress, &mut session)
        });
        if let Err(failure) = result
            && !setting.surroundings.is_cancelled()
        {
            self.state = Err(failure);
        }
    }

    /// Copies the last outputs, asks the worker what it used, and frees the session's memory.
    ///
    /// A worker that is in no known state is ended instead.
    pub(super) fn end(&mut self, workers: &mut Workers<'_>, setting: &Setting<'_>) {
        self.with_session(workers, setting, |progress, session| {
            progress.outputs.last = session.outputs()?.into_iter().map(|output| output.tensor).collect();
            Ok(())
        });
        let deadline = setting.sampling.deadline;
        let healthy = match &self.state {
            Ok(_) => !setting.surroundings.is_cancelled(),
            Err(failure) => matches!(failure.kind, FailureKind::Refused | FailureKind::FellBack),
        };
        let closed = healthy
            && workers
                .get(self.found, deadline)
                .and_then(|worker| {
                    let used = worker.usage(deadline)?.cpu_time_ns;
                    self.cpu_ns =
                        used.available().zip(self.cpu_before_ns).map(|(now, then)| now.saturating_sub(then));
                    worker.close_session(deadline)
                })
                .is_ok();
        if !closed {
            workers.drop_worker(&self.found.target.key);
        }
    }
}

impl Progress {
    /// Makes a session and runs it once; also gives how long its outputs took to copy, in nanoseconds.
    pub(super) fn first_run(
        worker: &mut WorkerClient,
        found: &Found,
        test: &CaseToMeasure<'_>,
        setting: &Setting<'_>,
    ) -> Result<(Self, u64), Failure> {
        let (sampling, deadline) = (setting.sampling, setting.deadline());
        let resident_before = worker.usage(deadline)?.resident_bytes;
        let (base, settings) = found.base();
        let compile_cache = settings.compile_cache.then(|| compile_cache(test, found));
        let model = RemoteModel {
            path: test.path,
            inputs: test.inputs,
            outputs: test.outputs,
            bindings: &test.case.bindings,
            threads: &found.threads(),
            compile_cache: compile_cache.as_deref(),
        };
        let mut session = worker.create_session(&base, &model, deadline)?;
        let (create_ns, placement) = (session.create_ns, session.placement.clone());
        // What leaves the device to others proves where it runs and is asked for no place.
        if Automatic::of(&found.target.key).is_none() {
            check_placement(&found.engine, &placement)?;
        }
        session.set_inputs(test.values.to_vec())?;
        let first_run_ns = session.run()?;
        let (outputs, copy_ns) = session.timed_outputs()?;
        let first: Vec<Tensor> = outputs.into_iter().map(|output| output.tensor).collect();
        let usage = worker.usage(deadline)?;
        let progress = Self {
            create_ns,
            first_run_ns,
            placement,
            outputs: SessionOutputs { last: first.clone(), first },
            warmup_calls: 0,
            calls_per_sample: 1,
            samples: Vec::new(),
            busy: Vec::new(),
            busy_cores: Reading::unavailable("no samples were taken in a row"),
            session_bytes: grown(&resident_before, &usage.resident_bytes),
            peak_resident_bytes: usage.peak_resident_bytes,
            device_bytes: usage.device_bytes,
            sampled_ns: 0,
            energy: Reading::unavailable(match sampling.energy {
                None => NOT_MEASURED,
                Some(_) => SUSTAINED_ALONE,
            }),
            stopping: Stopping::new(StoppingRule {
                precision: sampling.precision,
                least: sampling.min_samples as usize,
                ..StoppingRule::default()
            }),
            wanted: 1,
        };
        Ok((progress, copy_ns))
    }

    /// Warms the session up and finds how many calls a sample takes.
    pub(super) fn warm_up(
        &mut self,
        worker: &mut WorkerClient,
        found: &Found,
        setting: &Setting<'_>,
    ) -> Result<(), Failure> {
        let sampling = setting.sampling;
        let mut session = worker.resume(self.create_ns, self.placement.clone(), setting.deadline());
        let calls = match sampling.warmup_limit {
            // The first run is the slowest, so that many fit for certain.
            Some(limit) => sampling.warmup_calls.min(fitting(limit, self.first_run_ns)),
            None => sampling.warmup_calls,
        };
        let warm_up = session.warm_up(calls, sampling.warmup_time)?;
        self.warmup_calls += warm_up.calls;
        if sampling.fixed_iterations.is_none() {
            let least = match found.target.chip_kind {
                ChipKind::Cpu => Duration::from_millis(1),
                ChipKind::Gpu | ChipKind::Npu => Duration::from_millis(5),
            };
            let least = least.max(setting.surroundings.least_sample());
            self.calls_per_sample = calls_per_sample(warm_up.fastest_ns, least);
        }
        Ok(())
    }

    pub(super) fn into_measurement(self, outputs: OutputCheck) -> Measurement {
        Measurement {
            session_create_ns: self.create_ns,
            first_run_ns: self.first_run_ns,
            warmup_calls: self.warmup_calls,
            samples: self.samples,
            busy_cores: self.busy_cores,
            peak_resident_bytes: self.peak_resident_bytes,
            session_bytes: self.session_bytes,
            device_bytes: self.device_bytes,
            placement: self.placement,
            outputs,
            energy: self.energy,
        }
    }
}

/// The folder in which the target keeps what its provider compiled.
fn compile_cache(test: &CaseToMeasure<'_>, found: &Found) -> std::path::PathBuf {
    // A target's key holds characters that are none of a file name's.
    let name: String = found
        .target
        .key
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '=') { c } else { '_' })
        .collect();
    test.compile_cache.join(name).join(test.case.id.to_string())
}

/// How many calls of `call_ns` fit into `time`.
fn fitting(time: Duration, call_ns: u64) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / call_ns.max(1)
}

/// By how much resident memory grew.
fn grown(before: &Reading<u64>, after: &Reading<u64>) -> Reading<u64> {
    match (before, after) {
        (Reading::Available(before), Reading::Available(after)) => {
            Reading::Available(after.saturating_sub(*before))
        }
        (Reading::Unavailable(reason), _) | (_, Reading::Unavailable(reason)) => {
            Reading::Unavailable(reason.clone())
        }
    }
}

/// Refuses a session whose nodes ran elsewhere, or of which that cannot be told.
///
/// # Errors
/// [`FailureKind::FellBack`] with what is known of the placement.
pub fn check_placement(engine: &EngineSpec, placement: &Reading<Placement>) -> Result<(), Failure> {
    match placement {
        Reading::Available(placement) if placement.is_full_fallback() => {
            Err(Failure::new(FailureKind::FellBack, placement.to_string()))
        }
        Reading::Unavailable(reason) if *engine != EngineSpec::Rten => {
            let detail = format!("where its nodes run cannot be proven: {reason}");
            Err(Failure::new(FailureKind::FellBack, detail))
        }
        Reading::Available(_) | Reading::Unavailable(_) => Ok(()),
    }
}
