//! Measures one case on several targets, side by side, in one of the three workloads.
//!
//! Invariant: all targets of a case are measured in turns whose order is shuffled from a recorded seed, each in a
//! worker of its own; what fails on one of them is recorded and disturbs no other.
//!
//! Reading order: this file, `workers`, `subject`, then the workloads `sustained` (with `energy`) and
//! `throughput`, `idle_loaded`, `cold_start`; `closing` is the end of a budget.

mod closing;
mod cold_start;
mod energy;
mod idle_loaded;
mod order;
mod outputs;
mod subject;
mod sustained;
mod throughput;
mod workers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use siliconroute_core::energy::MeterSeries;
use siliconroute_core::tensor::{NamedTensor, TensorSpec};
use siliconroute_core::trial::{FileCache, Preparation, Purpose, Trial};
use siliconroute_core::{Case, Reading, TargetKey, Workload};
use siliconroute_hardware::Conditions;

use crate::discovery::Found;

pub use closing::{Closing, OutOfTime};
pub use energy::EnergyWindows;
use order::Shuffle;
pub(crate) use outputs::TRUSTED_REFERENCES;
use outputs::{SessionOutputs, check_outputs};
pub use outputs::{all_refuse, is_trusted};
use subject::Subject;
pub use subject::check_placement;
pub use throughput::concurrent_rate;
pub use workers::Workers;

/// How a case is sampled; the defaults are those of the workloads' definitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Least number of warm-up runs.
    pub warmup_calls: u64,
    /// Least time of warm-up runs.
    pub warmup_time: Duration,
    /// Time that warm-up runs may take at most, however many are wanted; for a budget.
    pub warmup_limit: Option<Duration>,
    /// Least number of samples in the sustained workload.
    pub min_samples: u32,
    /// Rounds over which the least number of samples is spread.
    pub rounds: u32,
    /// Half-width of the median's 95 % interval, relative to the median, at which sampling may stop; 0 takes the
    /// least number of samples and no more.
    pub precision: f64,
    /// Time for samples beyond the least number, for each target.
    pub budget: Duration,
    /// Samples are given up beyond this time, even below the least number.
    pub hard_limit: Duration,
    /// How long a worker may be silent.
    pub deadline: Duration,
    /// Exactly so many single-call samples and no more; for benchmarks with a fixed count.
    pub fixed_iterations: Option<u32>,
    /// Rest between the turns of two targets, so that threads which still spin for the last one have gone to sleep.
    pub cool_down: Duration,
    /// Samples of the idle-loaded and the cold-start workload.
    pub repetitions: u32,
    /// Rests before idle-loaded samples; each gives a trial of its own.
    pub rests: Vec<Duration>,
    /// Rest before a cold start.
    pub cold_rest: Duration,
    /// Where the files of a cold start are to lie; each gives a trial of its own.
    pub cold_files: Vec<FileCache>,
    /// Windows in which energy is measured after the samples of the sustained workload; `None` measures none.
    pub energy: Option<EnergyWindows>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            warmup_calls: 5,
            warmup_time: Duration::from_millis(300),
            warmup_limit: None,
            min_samples: 30,
            rounds: 6,
            precision: 0.02,
            budget: Duration::from_millis(400),
            hard_limit: Duration::from_secs(20),
            deadline: Duration::from_mins(1),
            fixed_iterations: None,
            cool_down: Duration::from_millis(10),
            repetitions: 3,
            rests: vec![Duration::from_secs(10)],
            cold_rest: Duration::from_millis(500),
            cold_files: vec![FileCache::Warm],
            energy: None,
        }
    }
}

impl Sampling {
    /// The sampling of one session of a comparison: so many rounds and samples and no more, since what separates
    /// targets is the number of sessions.
    #[must_use]
    pub fn for_comparison(self) -> Self {
        Self { rounds: 6, min_samples: 30, precision: 0.0, ..self }
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
    /// Folder below which each target keeps what its provider compiled.
    pub compile_cache: &'a Path,
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
    /// When no new sample may begin, on the scale of [`Surroundings::elapsed`]; the case's share of a budget.
    pub until: Option<Duration>,
    /// When the whole is over, for a budget that is kept to even if a target is left without any sample.
    pub closing: Option<Closing<'a>>,
    /// What surrounds the measurement.
    pub surroundings: &'a dyn Surroundings,
    /// Targets of which something is suspicious, with what it is.
    pub suspects: &'a BTreeMap<TargetKey, String>,
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting")
            .field("purpose", &self.purpose)
            .field("order_seed", &self.order_seed)
            .finish_non_exhaustive()
    }
}

impl Setting<'_> {
    /// Tells that a budget left room for only so many repetitions.
    fn tell_cut_short(&self, test: &CaseToMeasure<'_>, workload: Workload, repetitions: u32) {
        let (label, wanted) = (test.case.label(), self.sampling.repetitions);
        self.surroundings.notice(format!(
            "{label} {workload}: the budget left room for {repetitions} of {wanted} repetitions"
        ));
    }
}

/// The clocks, the sensors and the user around a measurement.
pub trait Surroundings {
    /// Milliseconds since 1970.
    fn unix_ms(&self) -> i64;

    /// Time since some fixed moment.
    fn elapsed(&self) -> Duration;

    /// Waits; returns early when the user wants to stop.
    fn rest(&self, time: Duration);

    /// How long a sample must last for the clock to be good enough.
    fn least_sample(&self) -> Duration;

    /// The conditions before the first session of a case, from which on it counts what is seen of the machine.
    fn begin(&self) -> Conditions {
        self.conditions()
    }

    /// The conditions now.
    fn conditions(&self) -> Conditions;

    /// The trials' conditions document, from what was seen before and after the case was measured.
    fn describe(&self, circumstances: &Circumstances<'_>) -> String;

    /// Drops files from the system's file cache, as far as it lets a program do that.
    ///
    /// # Errors
    /// Why it cannot be done or was not.
    fn drop_from_file_cache(&self, files: &[PathBuf]) -> Result<(), String>;

    /// Begins to read meters of energy, until [`Self::end_metering`]; a reason where none tells that of `found`.
    fn begin_metering(&self, _found: &Found) -> Reading<()> {
        Reading::unavailable("nothing here reads a meter")
    }

    /// Leaves the meters alone.
    fn end_metering(&self) {}

    /// The time now, on the scale of the meters' readings.
    fn metered_now(&self) -> Duration {
        self.elapsed()
    }

    /// What the meters of `found` read from `begin` to `end`, in seconds since `begin`.
    fn meter_series(&self, _found: &Found, _begin: Duration, _end: Duration) -> Reading<Vec<MeterSeries>> {
        Reading::unavailable("nothing here reads a meter")
    }

    /// Whether the user wants to stop.
    fn is_cancelled(&self) -> bool;

    /// Something that the user should know.
    fn notice(&self, text: String);
}

/// What is known of the circumstances of the trials of one case.
#[derive(Debug)]
pub struct Circumstances<'a> {
    /// Conditions before the first session was made.
    pub before: &'a Conditions,
    /// Conditions after the last sample.
    pub after: &'a Conditions,
    /// Processor time that all workers of the case used in between; `None` when one of them does not tell.
    pub workers_cpu_ns: Option<u64>,
    /// The targets that were measured side by side.
    pub side_by_side: &'a [TargetKey],
    /// How the case was sampled.
    pub sampling: &'a Sampling,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
}

/// Measures `test` on all `targets` in `workload`: one trial for each target and preparation.
///
/// The reference for the outputs is the most trusted one of `targets` that runs the case; without one,
/// outputs are not compared. A target whose worker cannot be started gives no trial: that is a failure of the
/// machine and says nothing of the model. When the user stops, targets that were sampled give what there is.
///
/// # Errors
/// [`OutOfTime`] when the setting closes before each target has its trial.
pub fn measure_case(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    workload: Workload,
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let trials = match workload {
        Workload::Sustained => {
            let (crowds, single): (Vec<&Found>, Vec<&Found>) =
                targets.iter().copied().partition(|found| found.base().1.concurrency.is_some());
            let mut trials = sustained::measure(workers, test, &single, setting)?;
            trials.extend(throughput::measure(workers, test, &crowds, setting)?);
            trials
        }
        Workload::IdleLoaded => idle_loaded::measure(workers, test, targets, setting)?,
        Workload::ColdStart => cold_start::measure(workers, test, targets, setting)?,
    };
    setting.complete(trials, targets)
}

/// Makes the trials of subjects that were measured side by side.
fn finish(
    mut subjects: Vec<Subject<'_>>,
    test: &CaseToMeasure<'_>,
    (workload, preparation): (Workload, Preparation),
    before: &Conditions,
    setting: &Setting<'_>,
) -> Vec<Trial> {
    let surroundings = setting.surroundings;
    let side_by_side: Vec<TargetKey> = subjects.iter().map(|s| s.found.target.key.clone()).collect();
    let conditions = surroundings.describe(&Circumstances {
        before,
        after: &surroundings.conditions(),
        workers_cpu_ns: subjects.iter().map(|subject| subject.cpu_ns).sum(),
        side_by_side: &side_by_side,
        sampling: setting.sampling,
        interrupted: surroundings.is_cancelled(),
    });
    if surroundings.is_cancelled() {
        subjects.retain(Subject::has_samples);
    }
    let reference = TRUSTED_REFERENCES.iter().find_map(|trusted| {
        let key = |subject: &Subject<'_>| subject.found.target.key.clone();
        // Settings of threads change no engine; still, the one without is the first to be believed.
        let plain = subjects.iter().position(|subject| key(subject).as_str() == *trusted);
        let place = plain.or_else(|| subjects.iter().position(|subject| key(subject).base() == *trusted))?;
        let subject = &mut subjects[place];
        let progress = subject.state.as_mut().ok()?;
        Some((subject.found.target.key.clone(), std::mem::take(&mut progress.outputs)))
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
                suspect: setting.suspects.get(&key).cloned(),
                target: key,
                case: test.case.id,
                workload,
                preparation,
                purpose: setting.purpose,
                started_unix_ms: subject.started_unix_ms,
                order_seed: setting.order_seed,
                input_seed: test.input_seed,
                conditions: conditions.clone(),
                outcome,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
