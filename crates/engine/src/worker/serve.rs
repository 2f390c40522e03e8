//! Inside the worker: answers requests until the parent goes away.
//!
//! Invariant: the worker ends when its standard input closes, so that no worker outlives a killed parent.

use std::io::{Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use siliconroute_core::Reading;
use siliconroute_core::tensor::TensorSpec;

use super::wire::{
    EngineSpec, Idled, PROTOCOL, Request, Response, Usage, WireError, read_message, write_message,
};
use crate::onnxruntime::{ListAdapters, OrtEngine};
use crate::rten::RtenEngine;
use crate::session::{Engine, Session, SessionRequest};
use crate::timing;

/// Readings of the worker's own process, given from outside since this crate reads no sensors.
#[derive(Debug, Clone, Copy)]
pub struct Probes {
    /// Processor time used so far.
    pub cpu_time_ns: fn() -> Reading<u64>,
    /// The most memory held so far, or since the count was last begun anew.
    pub peak_resident_bytes: fn() -> Reading<u64>,
    /// Begins the count of the most memory anew, where the system can do that.
    pub restart_peak: fn() -> Reading<()>,
    /// Memory held now.
    pub resident_bytes: fn() -> Reading<u64>,
    /// Memory of chips other than the processor held now.
    pub device_bytes: fn() -> Reading<u64>,
    /// The system's adapters as they are now.
    pub adapters: ListAdapters,
}

/// Loads the engine that `spec` describes; `adapters` tells whose chips its devices are.
///
/// # Errors
/// What the runtime library says when it cannot be loaded.
pub fn load_engine(
    spec: &EngineSpec,
    adapters: ListAdapters,
) -> Result<Box<dyn Engine>, crate::onnxruntime::LoadError> {
    Ok(match spec {
        EngineSpec::Rten => Box::new(RtenEngine),
        EngineSpec::OnnxRuntime { library, version, plugins, built_in, cpu, .. } => {
            Box::new(OrtEngine::load(library, version, plugins, built_in, *cpu, adapters)?)
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
    /// The most memory that the process held before the session, where the count could not begin anew.
    held_before: Option<u64>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("session", &self.session.is_some()).finish_non_exhaustive()
    }
}

impl State {
    /// A worker that has loaded nothing yet.
    pub fn new(probes: Probes) -> Self {
        Self { session: None, engine: None, probes, held_before: None }
    }

    /// A worker with an engine of the caller's; tests give fakes.
    pub fn with_engine(engine: Box<dyn Engine>, probes: Probes) -> Self {
        Self { session: None, engine: Some(engine), probes, held_before: None }
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
                self.begin_peak();
                let inputs: Vec<TensorSpec> = inputs.into_iter().map(TensorSpec::from).collect();
                let outputs: Vec<TensorSpec> = outputs.into_iter().map(TensorSpec::from).collect();
                let engine = self.engine.as_ref().ok_or("no engine is open")?;
                let request = SessionRequest {
                    model: &model,
                    inputs: &inputs,
                    outputs: &outputs,
                    bindings: &bindings,
                    threads: &threads,
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
            Request::Idle { window_ns } => self.idle(Duration::from_nanos(window_ns)),
            Request::Usage => Ok(Response::Usage(Usage {
                cpu_time_ns: (self.probes.cpu_time_ns)(),
                resident_bytes: (self.probes.resident_bytes)(),
                peak_resident_bytes: self.peak_resident_bytes(),
                device_bytes: (self.probes.device_bytes)(),
            })),
            Request::Close => {
                self.session = None;
                // What this session held is not to hide what the next one takes.
                drop((self.probes.restart_peak)());
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
            self.engine = Some(load_engine(spec, self.probes.adapters).map_err(|error| error.to_string())?);
        }
        let engine = self.engine.as_ref().ok_or("no engine is open")?;
        let load_ns = nanoseconds(start.elapsed());
        Ok(Response::Opened { version: engine.version(), offers: engine.offers(), load_ns })
    }

    fn session(&mut self) -> Result<&mut (dyn Session + 'static), String> {
        self.session.as_deref_mut().ok_or_else(|| "no session is open".to_owned())
    }

    /// What earlier sessions held is not this one's.
    fn begin_peak(&mut self) {
        self.held_before = match (self.probes.restart_peak)() {
            Reading::Available(()) => None,
            Reading::Unavailable(_) => (self.probes.peak_resident_bytes)().available().copied(),
        };
    }

    /// The most memory held since the session was made.
    fn peak_resident_bytes(&self) -> Reading<u64> {
        (self.probes.peak_resident_bytes)().and_then(|peak| match self.held_before {
            Some(before) if peak <= before => Reading::unavailable(format!(
                "the process held {before} bytes before this session, and this system tells no later peak below that"
            )),
            _ => Reading::Available(peak),
        })
    }

    fn idle(&mut self, window: Duration) -> Result<Response, String> {
        let probes = self.probes;
        self.session()?.run().map_err(|error| error.to_string())?;
        let (before, start) = ((probes.cpu_time_ns)(), Instant::now());
        thread::sleep(window);
        let (after, wall_ns) = ((probes.cpu_time_ns)(), nanoseconds(start.elapsed()));
        let cpu_ns = used_between(before, after);
        Ok(Response::Idled(Idled { wall_ns, cpu_ns }))
    }

    fn sample(&mut self, round: u32, calls: u32, count: u32, budget_ns: u64) -> Result<Response, String> {
        let probes = self.probes;
        let before = (probes.cpu_time_ns)();
        let start = Instant::now();
        let budget = Duration::from_nanos(budget_ns);
        let samples = timing::measure_samples(self.session()?, round, calls, count, budget);
        let elapsed_ns = nanoseconds(start.elapsed()).max(1);
        let used = used_between(before, (probes.cpu_time_ns)());
        let busy_cores = used.and_then(|used| Reading::Available(used as f64 / elapsed_ns as f64));
        let peak_resident_bytes = self.peak_resident_bytes();
        let samples = samples.map_err(|error| error.to_string())?;
        Ok(Response::Sampled { samples, busy_cores, peak_resident_bytes })
    }
}

/// The processor time between two readings.
fn used_between(before: Reading<u64>, after: Reading<u64>) -> Reading<u64> {
    before.and_then(|before| after.and_then(|after| Reading::Available(after.saturating_sub(before))))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use siliconroute_core::TargetKey;
    use siliconroute_core::model::Bindings;

    use super::*;
    use crate::session::ThreadOptions;

    static PEAK: AtomicU64 = AtomicU64::new(0);

    fn peak() -> Reading<u64> {
        Reading::Available(PEAK.load(Ordering::Relaxed))
    }

    fn restart() -> Reading<()> {
        PEAK.store(30, Ordering::Relaxed);
        Reading::Available(())
    }

    fn cannot_restart() -> Reading<()> {
        Reading::unavailable("the count runs for the whole life of the process")
    }

    /// What is told of the peak after a session was made in a process that held 100 before, and then held `later`.
    fn told(restart_peak: fn() -> Reading<()>, later: u64) -> Reading<u64> {
        let none = || Reading::unavailable("not asked for");
        let mut state = State::new(Probes {
            cpu_time_ns: none,
            peak_resident_bytes: peak,
            restart_peak,
            resident_bytes: none,
            device_bytes: none,
            adapters: || Reading::unavailable("not asked for"),
        });
        PEAK.store(100, Ordering::Relaxed);
        let request = Request::Create {
            target: TargetKey("cpu/rten".to_owned()),
            model: "model.onnx".into(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            bindings: Bindings::default(),
            threads: ThreadOptions::default(),
            compile_cache: None,
        };
        // Without an engine there is no session, but its count has begun.
        assert!(matches!(state.answer(request), Response::Refused(_)));
        PEAK.fetch_max(later, Ordering::Relaxed);
        match state.answer(Request::Usage) {
            Response::Usage(usage) => usage.peak_resident_bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_peak_is_that_of_the_session() {
        assert_eq!(told(restart, 60), Reading::Available(60));
        assert_eq!(told(cannot_restart, 160), Reading::Available(160));
        let hidden = told(cannot_restart, 60);
        assert!(
            matches!(&hidden, Reading::Unavailable(why) if why.contains("held 100 bytes before")),
            "{hidden:?}"
        );
    }
}
