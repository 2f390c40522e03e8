//! Measures one case on several targets in interleaved rounds.
//!
//! Invariant: all targets of a case are measured side by side in an order shuffled from a recorded
//! seed, each in a worker of its own; what fails on one of them is recorded and disturbs no other.

mod outputs;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use siliconroute_core::statistics;
use siliconroute_core::tensor::{NamedTensor, TensorSpec};
use siliconroute_core::trial::{
    Failure, FailureKind, Measurement, OutputCheck, Placement, Purpose, Sample, Trial,
};
use siliconroute_core::{Case, ChipKind, Reading, TargetKey, Workload};
use siliconroute_engine::timing::calls_per_sample;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient, WorkerSession};
use siliconroute_engine::worker::process::Launcher;
use siliconroute_engine::worker::wire::EngineSpec;

use crate::discovery::Found;

pub use outputs::is_trusted;
use outputs::{SessionOutputs, check_outputs};

/// How a case is sampled; the defaults are those of the sustained workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Least number of warm-up runs.
    pub warmup_calls: u64,
    /// Least time of warm-up runs.
    pub warmup_time: Duration,
    /// Least number of samples.
    pub min_samples: u32,
    /// Rounds over which the least number of samples is spread.
    pub rounds: u32,
    /// Half-width of the median's 95 % interval, relative to the median, at which sampling may stop.
    pub precision: f64,
    /// Time for samples beyond the least number.
    pub budget: Duration,
    /// Samples are given up beyond this time, even below the least number.
    pub hard_limit: Duration,
    /// How long a worker may be silent.
    pub deadline: Duration,
    /// Exactly so many single-call samples and no more; for benchmarks with a fixed count.
    pub fixed_iterations: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            warmup_calls: 5,
            warmup_time: Duration::from_millis(300),
            min_samples: 30,
            rounds: 3,
            precision: 0.02,
            budget: Duration::from_millis(400),
            hard_limit: Duration::from_secs(20),
            deadline: Duration::from_mins(1),
            fixed_iterations: None,
        }
    }
}

/// A case with all that is needed to run it.
#[derive(Debug, Clone, Copy)]
pub struct CaseToMeasure<'a> {
    /// The case.
    pub case: &'a Case,
    /// The model file.
    pub path: &'a Path,
    /// The model's inputs.
    pub inputs: &'a [TensorSpec],
    /// The model's outputs.
    pub outputs: &'a [TensorSpec],
    /// Input values.
    pub values: &'a [NamedTensor],
    /// The seed that they were made from.
    pub input_seed: u64,
    /// Whether the model's weights are constant, so that its outputs prove little.
    pub constant_weights: bool,
}

/// Workers by target, kept alive from case to case.
pub struct Workers<'l> {
    launcher: &'l dyn Launcher,
    open: HashMap<TargetKey, WorkerClient>,
}

impl std::fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("open", &self.open.keys()).finish_non_exhaustive()
    }
}

impl<'l> Workers<'l> {
    /// No worker yet; `launcher` starts them when they are needed.
    pub fn new(launcher: &'l dyn Launcher) -> Self {
        Self { launcher, open: HashMap::new() }
    }

    /// The worker of `found`, started if it is not running.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn get(&mut self, found: &Found, deadline: Duration) -> Result<&mut WorkerClient, Failure> {
        let key = &found.target.key;
        if !self.open.contains_key(key) {
            let worker = WorkerClient::open(self.launcher, &found.engine, deadline)?;
            self.open.insert(key.clone(), worker);
        }
        self.open.get_mut(key).ok_or_else(|| Failure::new(FailureKind::Crashed, "the worker is gone"))
    }

    /// Forgets the worker of `key`, which ends it.
    pub fn drop_worker(&mut self, key: &TargetKey) {
        self.open.remove(key);
    }
}

/// Everything about a campaign that is the same for all its trials.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Why the trials are made.
    pub purpose: Purpose,
    /// How they are sampled.
    pub sampling: &'a Sampling,
    /// Seed of the order of targets.
    pub order_seed: u64,
    /// Milliseconds since 1970.
    pub clock: &'a dyn Fn() -> i64,
    /// The conditions now, as a JSON document.
    pub conditions: &'a dyn Fn() -> String,
    /// Whether the user wants to stop.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told of a target whose worker cannot be started.
    pub lost: &'a dyn Fn(&TargetKey, &Failure),
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting")
            .field("purpose", &self.purpose)
            .field("order_seed", &self.order_seed)
            .finish()
    }
}

/// A session under measurement.
struct Subject<'a> {
    found: &'a Found,
    started_unix_ms: i64,
    conditions: String,
    state: Result<Progress, Failure>,
}

/// What was measured of a session so far.
struct Progress {
    create_ns: u64,
    first_run_ns: u64,
    placement: Reading<Placement>,
    outputs: SessionOutputs,
    warmup_calls: u64,
    calls_per_sample: u32,
    samples: Vec<Sample>,
    busy: Vec<f64>,
    busy_cores: Reading<f64>,
    peak_resident_bytes: Reading<u64>,
    sampled_ns: u64,
}

/// Measures `test` on all `targets` in the sustained workload, one trial each.
///
/// The reference for the outputs is the first trusted one of `targets` that runs the case; without one,
/// outputs are not compared. A target whose worker cannot be started gives no trial: that is a failure of the
/// machine and says nothing of the model.
pub fn measure_case(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Vec<Trial> {
    let mut order = Shuffle::new(setting.order_seed);
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for &index in &order.shuffled(targets.len()) {
        let found = targets[index];
        let (started_unix_ms, conditions) = ((setting.clock)(), (setting.conditions)());
        if let Err(failure) = workers.get(found, setting.sampling.deadline) {
            (setting.lost)(&found.target.key, &failure);
            continue;
        }
        let state = start(workers, found, test, setting.sampling);
        subjects.push(Subject { found, started_unix_ms, conditions, state });
    }
    let mut round = 0;
    while !(setting.cancelled)() && subjects.iter().any(|subject| subject.wants_more(setting.sampling, round))
    {
        for index in order.shuffled(subjects.len()) {
            let subject = &mut subjects[index];
            if subject.wants_more(setting.sampling, round) && !(setting.cancelled)() {
                subject.sample(workers, setting.sampling, round);
            }
        }
        round += 1;
    }
    for subject in &mut subjects {
        subject.keep_last_outputs(workers, setting.sampling.deadline);
        end_session(workers, subject, setting.sampling.deadline);
    }
    if (setting.cancelled)() {
        return Vec::new();
    }
    finish(subjects, test, targets, setting)
}

/// Makes the session, runs it once, checks its placement and warms it up.
fn start(
    workers: &mut Workers<'_>,
    found: &Found,
    test: &CaseToMeasure<'_>,
    sampling: &Sampling,
) -> Result<Progress, Failure> {
    let worker = workers.get(found, sampling.deadline)?;
    let model = RemoteModel {
        path: test.path,
        inputs: test.inputs,
        outputs: test.outputs,
        bindings: &test.case.bindings,
        threads: None,
    };
    let mut session = worker.create_session(&found.target.key, &model, sampling.deadline)?;
    let (create_ns, placement) = (session.create_ns, session.placement.clone());
    check_placement(&found.engine, &placement)?;
    session.set_inputs(test.values.to_vec())?;
    let first_run_ns = session.run()?;
    let first = session.outputs()?.into_iter().map(|output| output.tensor).collect();
    let warm_up = session.warm_up(sampling.warmup_calls, sampling.warmup_time)?;
    let least = match found.target.chip_kind {
        ChipKind::Cpu => Duration::from_millis(1),
        ChipKind::Gpu | ChipKind::Npu => Duration::from_millis(5),
    };
    let calls_per_sample = match sampling.fixed_iterations {
        Some(_) => 1,
        None => calls_per_sample(warm_up.fastest_ns, least),
    };
    Ok(Progress {
        create_ns,
        first_run_ns,
        placement,
        outputs: SessionOutputs { first, last: Vec::new() },
        warmup_calls: warm_up.calls,
        calls_per_sample,
        samples: Vec::new(),
        busy: Vec::new(),
        busy_cores: Reading::unavailable("no sample was taken"),
        peak_resident_bytes: Reading::unavailable("no sample was taken"),
        sampled_ns: 0,
    })
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

impl Subject<'_> {
    fn wants_more(&self, sampling: &Sampling, round: u32) -> bool {
        let Ok(progress) = &self.state else { return false };
        let taken = progress.samples.len();
        if let Some(iterations) = sampling.fixed_iterations {
            return taken < iterations as usize;
        }
        let spent = Duration::from_nanos(progress.sampled_ns);
        if spent >= sampling.hard_limit && taken > 0 {
            return false;
        }
        if round < sampling.rounds || taken < sampling.min_samples as usize {
            return true;
        }
        spent < sampling.budget && !progress.is_precise(sampling.precision)
    }

    fn sample(&mut self, workers: &mut Workers<'_>, sampling: &Sampling, round: u32) {
        let Ok(progress) = &mut self.state else { return };
        let result = workers.get(self.found, sampling.deadline).and_then(|worker| {
            let mut session =
                worker.resume(progress.create_ns, progress.placement.clone(), sampling.deadline);
            progress.sample_block(&mut session, sampling, round)
        });
        if let Err(failure) = result {
            self.state = Err(failure);
        }
    }

    /// Copies what the last call of the session computed.
    fn keep_last_outputs(&mut self, workers: &mut Workers<'_>, deadline: Duration) {
        let Ok(progress) = &mut self.state else { return };
        let last = workers.get(self.found, deadline).and_then(|worker| {
            worker.resume(progress.create_ns, progress.placement.clone(), deadline).outputs()
        });
        match last {
            Ok(last) => progress.outputs.last = last.into_iter().map(|output| output.tensor).collect(),
            Err(failure) => self.state = Err(failure),
        }
    }
}

impl Progress {
    fn is_precise(&self, precision: f64) -> bool {
        let times: Vec<f64> = self.samples.iter().map(Sample::per_call_ns).collect();
        let (Some(median), Some(interval)) =
            (statistics::median(&times), statistics::median_interval(&times, 0.95))
        else {
            return false;
        };
        interval.relative_half_width(median) <= precision
    }

    /// One block of samples, after a short warm-up that refills what the other targets evicted.
    fn sample_block(
        &mut self,
        session: &mut WorkerSession<'_>,
        sampling: &Sampling,
        round: u32,
    ) -> Result<(), Failure> {
        let rewarm = session.warm_up(2, Duration::from_millis(10))?;
        self.warmup_calls += rewarm.calls;
        let wanted = sampling.fixed_iterations.unwrap_or(sampling.min_samples);
        let block = wanted.div_ceil(sampling.rounds.max(1)).max(1);
        let count = match sampling.fixed_iterations {
            Some(iterations) => block.min(iterations - self.samples.len() as u32),
            None => block,
        };
        let left = sampling.hard_limit.saturating_sub(Duration::from_nanos(self.sampled_ns));
        let sampled = session.sample(round, self.calls_per_sample, count, left)?;
        self.sampled_ns += sampled.samples.iter().map(|sample| sample.total_ns).sum::<u64>();
        self.samples.extend(sampled.samples);
        if let Reading::Available(busy) = sampled.busy_cores {
            self.busy.push(busy);
            self.busy_cores = Reading::from_option(statistics::median(&self.busy), "no sample was taken");
        } else {
            self.busy_cores = sampled.busy_cores;
        }
        self.peak_resident_bytes = sampled.peak_resident_bytes;
        Ok(())
    }
}

/// Frees a session's memory; a worker that is in no known state is ended instead.
fn end_session(workers: &mut Workers<'_>, subject: &Subject<'_>, deadline: Duration) {
    let key = &subject.found.target.key;
    let healthy = match &subject.state {
        Ok(_) => true,
        Err(failure) => matches!(failure.kind, FailureKind::Refused | FailureKind::FellBack),
    };
    let closed =
        healthy && workers.get(subject.found, deadline).and_then(|w| w.close_session(deadline)).is_ok();
    if !closed {
        workers.drop_worker(key);
    }
}

fn finish(
    mut subjects: Vec<Subject<'_>>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Vec<Trial> {
    let reference = targets.iter().filter(|found| is_trusted(&found.target.key)).find_map(|found| {
        let subject = subjects.iter_mut().find(|subject| subject.found.target.key == found.target.key)?;
        let progress = subject.state.as_mut().ok()?;
        Some((found.target.key.clone(), std::mem::take(&mut progress.outputs)))
    });
    subjects
        .into_iter()
        .map(|subject| {
            let key = subject.found.target.key.clone();
            let outcome = subject.state.map(|progress| {
                let outputs =
                    check_outputs(&key, &progress.outputs, reference.as_ref(), test.constant_weights);
                progress.into_measurement(outputs)
            });
            Trial {
                target: key,
                case: test.case.id,
                workload: Workload::Sustained,
                purpose: setting.purpose,
                started_unix_ms: subject.started_unix_ms,
                order_seed: setting.order_seed,
                input_seed: test.input_seed,
                conditions: subject.conditions,
                outcome,
            }
        })
        .collect()
}

impl Progress {
    fn into_measurement(self, outputs: OutputCheck) -> Measurement {
        Measurement {
            session_create_ns: self.create_ns,
            first_run_ns: self.first_run_ns,
            warmup_calls: self.warmup_calls,
            samples: self.samples,
            busy_cores: self.busy_cores,
            peak_resident_bytes: self.peak_resident_bytes,
            placement: self.placement,
            outputs,
        }
    }
}

/// A reproducible sequence of orders.
struct Shuffle(Xoshiro256PlusPlus);

impl Shuffle {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The numbers below `count` in the next order (Fisher and Yates).
    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = (self.0.next_u64() % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
        order
    }
}

#[cfg(test)]
mod tests;
