//! Typed calls on a worker, each under its deadline.
//!
//! Invariant: an answer of another kind than asked for is a failure, never ignored.

use std::path::Path;
use std::time::Duration;

use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::{NamedTensor, TensorSpec};
use siliconroute_core::trial::{Failure, FailureKind, Placement, Sample};
use siliconroute_core::{Reading, TargetKey};

use super::process::{Launcher, Worker};
use super::wire::{EngineSpec, Idled, PROTOCOL, Request, Response, SpecMessage, Usage};
use crate::session::{Offer, ThreadOptions};
use crate::timing::WarmUp;

/// Calls of one request up to which each may take a whole deadline.
const MOST_PATIENT_CALLS: u32 = 8;

/// A worker with its engine loaded.
pub struct WorkerClient {
    worker: Box<dyn Worker>,
    version: String,
    offers: Vec<Offer>,
    load_ns: u64,
}

impl std::fmt::Debug for WorkerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerClient").field("version", &self.version).finish_non_exhaustive()
    }
}

/// What a session in a worker is made from.
#[derive(Debug, Clone, Copy)]
pub struct RemoteModel<'a> {
    /// The model file.
    pub path: &'a Path,
    /// Its inputs.
    pub inputs: &'a [TensorSpec],
    /// Its outputs.
    pub outputs: &'a [TensorSpec],
    /// Values of the free dimensions.
    pub bindings: &'a Bindings,
    /// How its threads work.
    pub threads: &'a ThreadOptions,
    /// Folder in which the provider keeps what it compiled; one of its own for each target.
    pub compile_cache: Option<&'a Path>,
}

/// A session inside a worker; the next one replaces it.
#[derive(Debug)]
pub struct WorkerSession<'w> {
    client: &'w mut WorkerClient,
    /// How long the session took to make.
    pub create_ns: u64,
    /// Which nodes run where.
    pub placement: Reading<Placement>,
    /// How long a call may take.
    pub deadline: Duration,
}

/// Samples with what was seen of the process meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The timings.
    pub samples: Vec<Sample>,
    /// Processor seconds per second of wall time.
    pub busy_cores: Reading<f64>,
    /// The most memory held so far.
    pub peak_resident_bytes: Reading<u64>,
}

impl WorkerClient {
    /// Starts a worker and loads `engine` in it.
    ///
    /// # Errors
    /// When the worker cannot be started, dies, misses the deadline or refuses the engine.
    pub fn open(launcher: &dyn Launcher, engine: &EngineSpec, deadline: Duration) -> Result<Self, Failure> {
        let mut worker = launcher.launch(engine)?;
        let request = Request::Open { protocol: PROTOCOL, engine: engine.clone() };
        match worker.call(&request, deadline)? {
            Response::Opened { version, offers, load_ns } => Ok(Self { worker, version, offers, load_ns }),
            other => Err(unexpected(other)),
        }
    }

    /// The engine's name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The engine's targets.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// How long the engine's library took to load and its providers to register.
    pub fn load_ns(&self) -> u64 {
        self.load_ns
    }

    /// The system's number of the worker's process, where it has one.
    pub fn process_id(&self) -> Option<u32> {
        self.worker.process_id()
    }

    /// What the process has used so far.
    ///
    /// # Errors
    /// When the worker dies, hangs or outgrows its memory.
    pub fn usage(&mut self, deadline: Duration) -> Result<Usage, Failure> {
        match self.worker.call(&Request::Usage, deadline)? {
            Response::Usage(usage) => Ok(usage),
            other => Err(unexpected(other)),
        }
    }

    /// Loads a model onto `target`, in place of the session that the worker may hold.
    ///
    /// # Errors
    /// When the engine refuses, or the worker dies, hangs or outgrows its memory.
    pub fn create_session(
        &mut self,
        target: &TargetKey,
        model: &RemoteModel<'_>,
        deadline: Duration,
    ) -> Result<WorkerSession<'_>, Failure> {
        let request = Request::Create {
            target: target.clone(),
            model: model.path.to_owned(),
            inputs: model.inputs.iter().map(SpecMessage::from).collect(),
            outputs: model.outputs.iter().map(SpecMessage::from).collect(),
            bindings: model.bindings.clone(),
            threads: model.threads.clone(),
            compile_cache: model.compile_cache.map(Path::to_owned),
        };
        match self.worker.call(&request, deadline)? {
            Response::Created { create_ns, placement } => {
                Ok(WorkerSession { client: self, create_ns, placement, deadline })
            }
            other => Err(unexpected(other)),
        }
    }

    /// Takes up the session again that [`Self::create_session`] made.
    pub fn resume(
        &mut self,
        create_ns: u64,
        placement: Reading<Placement>,
        deadline: Duration,
    ) -> WorkerSession<'_> {
        WorkerSession { client: self, create_ns, placement, deadline }
    }

    /// Ends the session, which frees its memory.
    ///
    /// # Errors
    /// When the worker dies, hangs or outgrows its memory.
    pub fn close_session(&mut self, deadline: Duration) -> Result<(), Failure> {
        done(self.worker.call(&Request::Close, deadline)?)
    }
}

impl WorkerSession<'_> {
    /// Checks and sets the inputs.
    ///
    /// # Errors
    /// When they do not fit, or the worker fails.
    pub fn set_inputs(&mut self, inputs: Vec<NamedTensor>) -> Result<(), Failure> {
        done(self.call(&Request::SetInputs(inputs), Duration::ZERO)?)
    }

    /// Runs one inference; gives its time in nanoseconds.
    ///
    /// # Errors
    /// When the engine or the worker fails.
    pub fn run(&mut self) -> Result<u64, Failure> {
        match self.call(&Request::Run, Duration::ZERO)? {
            Response::Ran { run_ns } => Ok(run_ns),
            other => Err(unexpected(other)),
        }
    }

    /// Copies the outputs of the last run.
    ///
    /// # Errors
    /// When there was no run, or the worker fails.
    pub fn outputs(&mut self) -> Result<Vec<NamedTensor>, Failure> {
        Ok(self.timed_outputs()?.0)
    }

    /// Copies the outputs of the last run; also gives how long the engine took to hand them out, in nanoseconds.
    ///
    /// # Errors
    /// As [`Self::outputs`].
    pub fn timed_outputs(&mut self) -> Result<(Vec<NamedTensor>, u64), Failure> {
        match self.call(&Request::Outputs, Duration::ZERO)? {
            Response::Outputs { outputs, copy_ns } => Ok((outputs, copy_ns)),
            other => Err(unexpected(other)),
        }
    }

    /// Runs until both limits are reached.
    ///
    /// # Errors
    /// When the engine or the worker fails.
    pub fn warm_up(&mut self, min_calls: u64, min_time: Duration) -> Result<WarmUp, Failure> {
        let request = Request::WarmUp { min_calls, min_ns: nanoseconds(min_time) };
        // Each call may take as long as a single one.
        let calls = u32::try_from(min_calls).unwrap_or(u32::MAX).min(MOST_PATIENT_CALLS);
        match self.call(&request, min_time + self.deadline * calls)? {
            Response::WarmedUp(warm_up) => Ok(warm_up),
            other => Err(unexpected(other)),
        }
    }

    /// Takes up to `count` samples of `calls` calls each, no new one after `budget`.
    ///
    /// # Errors
    /// When the engine or the worker fails.
    pub fn sample(
        &mut self,
        round: u32,
        calls: u32,
        count: u32,
        budget: Duration,
    ) -> Result<Sampled, Failure> {
        let request = Request::Sample { round, calls, count, budget_ns: nanoseconds(budget) };
        match self.call(&request, budget)? {
            Response::Sampled { samples, busy_cores, peak_resident_bytes } => {
                Ok(Sampled { samples, busy_cores, peak_resident_bytes })
            }
            other => Err(unexpected(other)),
        }
    }

    /// Runs one inference and then does nothing for `window`; gives what the process used of the processor meanwhile.
    ///
    /// # Errors
    /// When the engine or the worker fails.
    pub fn idle(&mut self, window: Duration) -> Result<Idled, Failure> {
        match self.call(&Request::Idle { window_ns: nanoseconds(window) }, window)? {
            Response::Idled(idled) => Ok(idled),
            other => Err(unexpected(other)),
        }
    }

    fn call(&mut self, request: &Request, extra: Duration) -> Result<Response, Failure> {
        self.client.worker.call(request, self.deadline + extra)
    }
}

fn done(response: Response) -> Result<(), Failure> {
    match response {
        Response::Done => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// Turns a refusal into a failure; anything else is an answer to another question.
fn unexpected(response: Response) -> Failure {
    match response {
        Response::Refused(reason) => Failure::new(FailureKind::Refused, reason),
        _ => Failure::new(FailureKind::Crashed, "the worker gave the answer to another request"),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
