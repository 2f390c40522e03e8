//! Inside the worker: answers requests until the parent goes away.
//!
//! Invariant: the worker ends when its standard input closes, so that no worker outlives a killed parent.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use siliconroute_core::Reading;
use siliconroute_core::tensor::TensorSpec;

use super::wire::{EngineSpec, PROTOCOL, Request, Response, Usage, WireError, read_message, write_message};
use crate::onnxruntime::OrtEngine;
use crate::rten::RtenEngine;
use crate::session::{Engine, Session, SessionRequest};
use crate::timing;

/// Readings of the worker's own process, given from outside since this crate reads no sensors.
#[derive(Debug, Clone, Copy)]
pub struct Probes {
    /// Processor time used so far.
    pub cpu_time_ns: fn() -> Reading<u64>,
    /// The most memory held so far.
    pub peak_resident_bytes: fn() -> Reading<u64>,
    /// Memory held now.
    pub resident_bytes: fn() -> Reading<u64>,
    /// Memory of chips other than the processor held now.
    pub device_bytes: fn() -> Reading<u64>,
}

/// Loads the engine that `spec` describes.
///
/// # Errors
/// What the runtime library says when it cannot be loaded.
pub fn load_engine(spec: &EngineSpec) -> Result<Box<dyn Engine>, crate::onnxruntime::LoadError> {
    Ok(match spec {
        EngineSpec::Rten => Box::new(RtenEngine),
        EngineSpec::OnnxRuntime { library, version, plugins, built_in, cpu, .. } => {
            Box::new(OrtEngine::load(library, version, plugins, built_in, *cpu)?)
        }
    })
}

/// Answers requests from `reader` on `writer` until the parent goes away.
///
/// `gone` is called from the reading thread as soon as that happens, even while an inference runs;
/// it is expected to end the process.
///
/// # Errors
/// When the pipe fails or holds what is no request.
pub fn serve(
    mut reader: impl Read + Send + 'static,
    mut writer: impl Write,
    probes: Probes,
    gone: fn(),
) -> Result<(), WireError> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || {
            loop {
                let message = read_message::<Request>(&mut reader);
                if matches!(message, Err(WireError::Closed)) {
                    gone();
                }
                let over = message.is_err();
                if sender.send(message).is_err() || over {
                    return;
                }
            }
        })
        .map_err(WireError::Io)?;
    let mut state = State::new(probes);
    while let Ok(request) = receiver.recv() {
        let response = state.answer(request?);
        write_message(&mut writer, &response)?;
    }
    Ok(())
}

/// The engine and the session of a worker.
pub struct State {
    // The session goes before the engine whose library it runs in.
    session: Option<Box<dyn Session>>,
    engine: Option<Box<dyn Engine>>,
    probes: Probes,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("session", &self.session.is_some()).finish_non_exhaustive()
    }
}

impl State {
    /// A worker that has loaded nothing yet.
    pub fn new(probes: Probes) -> Self {
        Self { session: None, engine: None, probes }
    }

    /// A worker with an engine of the caller's; tests give fakes.
    pub fn with_engine(engine: Box<dyn Engine>, probes: Probes) -> Self {
        Self { session: None, engine: Some(engine), probes }
    }

    /// Answers one request.
    pub fn answer(&mut self, request: Request) -> Response {
        self.try_answer(request).unwrap_or_else(Response::Refused)
    }

    fn try_answer(&mut self, request: Request) -> Result<Response, String> {
        match request {
            Request::Open { protocol, engine } => self.open(protocol, &engine),
            Request::Create { target, model, inputs, outputs, bindings, threads, compile_cache } => {
                self.session = None;
                let inputs: Vec<TensorSpec> = inputs.into_iter().map(TensorSpec::from).collect();
                let outputs: Vec<TensorSpec> = outputs.into_iter().map(TensorSpec::from).collect();
                let engine = self.engine.as_ref().ok_or("no engine is open")?;
                let request = SessionRequest {
                    model: &model,
                    inputs: &inputs,
                    outputs: &outputs,
                    bindings: &bindings,
                    threads,
                    compile_cache: compile_cache.as_deref(),
                };
                let start = Instant::now();
                let session = engine.create_session(&target, &request).map_err(|error| error.to_string())?;
                let create_ns = nanoseconds(start.elapsed());
                let placement = session.placement();
                self.session = Some(session);
                Ok(Response::Created { create_ns, placement })
            }
            Request::SetInputs(inputs) => {
                self.session()?.set_inputs(&inputs).map_err(|error| error.to_string())?;
                Ok(Response::Done)
            }
            Request::Run => {
                let session = self.session()?;
                let start = Instant::now();
                session.run().map_err(|error| error.to_string())?;
                Ok(Response::Ran { run_ns: nanoseconds(start.elapsed()) })
            }
            Request::Outputs => {
                let session = self.session()?;
                let start = Instant::now();
                let outputs = session.outputs().map_err(|error| error.to_string())?;
                Ok(Response::Outputs { outputs, copy_ns: nanoseconds(start.elapsed()) })
            }
            Request::WarmUp { min_calls, min_ns } => {
                let min_time = Duration::from_nanos(min_ns);
                let warm_up = timing::measure_warm_up(self.session()?, min_calls, min_time);
                Ok(Response::WarmedUp(warm_up.map_err(|error| error.to_string())?))
            }
            Request::Sample { round, calls, count, budget_ns } => self.sample(round, calls, count, budget_ns),
            Request::Usage => Ok(Response::Usage(Usage {
                cpu_time_ns: (self.probes.cpu_time_ns)(),
                resident_bytes: (self.probes.resident_bytes)(),
                peak_resident_bytes: (self.probes.peak_resident_bytes)(),
                device_bytes: (self.probes.device_bytes)(),
            })),
            Request::Close => {
                self.session = None;
                Ok(Response::Done)
            }
        }
    }

    fn open(&mut self, protocol: u32, spec: &EngineSpec) -> Result<Response, String> {
        if protocol != PROTOCOL {
            return Err(format!("this worker speaks protocol {PROTOCOL}, its parent {protocol}"));
        }
        let start = Instant::now();
        if self.engine.is_none() {
            self.engine = Some(load_engine(spec).map_err(|error| error.to_string())?);
        }
        let engine = self.engine.as_ref().ok_or("no engine is open")?;
        let load_ns = nanoseconds(start.elapsed());
        Ok(Response::Opened { version: engine.version(), offers: engine.offers(), load_ns })
    }

    fn session(&mut self) -> Result<&mut (dyn Session + 'static), String> {
        self.session.as_deref_mut().ok_or_else(|| "no session is open".to_owned())
    }

    fn sample(&mut self, round: u32, calls: u32, count: u32, budget_ns: u64) -> Result<Response, String> {
        let probes = self.probes;
        let before = (probes.cpu_time_ns)();
        let start = Instant::now();
        let budget = Duration::from_nanos(budget_ns);
        let samples = timing::measure_samples(self.session()?, round, calls, count, budget);
        let elapsed_ns = nanoseconds(start.elapsed()).max(1);
        let busy_cores = match (before, (probes.cpu_time_ns)()) {
            (Reading::Available(before), Reading::Available(after)) => {
                Reading::Available(after.saturating_sub(before) as f64 / elapsed_ns as f64)
            }
            (Reading::Unavailable(reason), _) | (_, Reading::Unavailable(reason)) => {
                Reading::Unavailable(reason)
            }
        };
        let peak_resident_bytes = (probes.peak_resident_bytes)();
        let samples = samples.map_err(|error| error.to_string())?;
        Ok(Response::Sampled { samples, busy_cores, peak_resident_bytes })
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
