//! Workers within this process over the embedded engine, for targets that differ only as the benchmark wants it.
//!
//! Invariant: all targets run the same sessions of the same engine on one thread; a slowed one spins for a share of its own
//! time. With more threads the spinning would change how the engine's own threads sleep and wake, and the slow-down would
//! be another than the one asked for.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use siliconroute::discovery::Found;
use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Failure, FailureKind, Placement};
use siliconroute_core::{Reading, Target, TargetKey};
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::rten::RtenEngine;
use siliconroute_engine::session::{Engine, Offer, RunError, Session, SessionError, SessionRequest};
use siliconroute_engine::worker::process::{Launcher, Worker};
use siliconroute_engine::worker::serve::{Probes, State};
use siliconroute_engine::worker::wire::{EngineSpec, Request, Response};

/// Starts workers within this process.
pub(crate) struct InProcess {
    targets: BTreeMap<TargetKey, f64>,
}

impl InProcess {
    /// Targets by name, each with the share of its own time by which it is slowed.
    pub(crate) fn new(targets: &[(&str, f64)]) -> Self {
        let key = |name: &str| TargetKey(name.to_owned());
        Self { targets: targets.iter().map(|&(name, slowed)| (key(name), slowed)).collect() }
    }

    pub(crate) fn found(name: &str) -> Found {
        Found {
            target: Target { key: TargetKey(name.to_owned()), ..RtenEngine::target() },
            engine: EngineSpec::Rten,
            device: BTreeMap::new(),
            proven_error: Reading::unavailable("a benchmark compares times"),
            unavailable: None,
            may_pass: false,
            checks_indices: Reading::unavailable("not looked at"),
        }
    }
}

impl Launcher for InProcess {
    fn launch(&self, _engine: &EngineSpec) -> Result<Box<dyn Worker>, Failure> {
        let targets = self.targets.clone();
        let not_told = || Reading::unavailable("this process holds all workers");
        let probes = Probes {
            cpu_time_ns: siliconroute_hardware::process_cpu_time_ns,
            peak_resident_bytes: not_told,
            restart_peak: || Reading::unavailable("this process holds all workers"),
            resident_bytes: not_told,
            device_bytes: not_told,
            adapters: siliconroute_hardware::list_adapters,
        };
        let (requests, asked) = mpsc::channel::<Request>();
        let (answer, answers) = mpsc::channel();
        // A session stays on the thread that made it; the thread ends with the worker's end of the channel.
        thread::spawn(move || {
            let mut state = State::with_engine(Box::new(SlowedEngine { targets }), probes);
            for request in asked {
                if answer.send(state.answer(request)).is_err() {
                    return;
                }
            }
        });
        Ok(Box::new(LocalWorker { requests, answers }))
    }
}

struct LocalWorker {
    requests: mpsc::Sender<Request>,
    answers: mpsc::Receiver<Response>,
}

impl Worker for LocalWorker {
    fn call(&mut self, request: &Request, deadline: Duration) -> Result<Response, Failure> {
        let gone = || Failure::new(FailureKind::Crashed, "the worker's thread is gone");
        self.requests.send(request.clone()).map_err(|_closed| gone())?;
        self.answers.recv_timeout(deadline).map_err(|_silent| gone())
    }
}

struct SlowedEngine {
    targets: BTreeMap<TargetKey, f64>,
}

impl Engine for SlowedEngine {
    fn version(&self) -> String {
        RtenEngine.version()
    }

    fn offers(&self) -> Vec<Offer> {
        RtenEngine.offers()
    }

    fn create_session(
        &self,
        target: &TargetKey,
        request: &SessionRequest<'_>,
    ) -> Result<Box<dyn Session>, SessionError> {
        let slowed = *self.targets.get(target).ok_or_else(|| SessionError::UnknownTarget(target.clone()))?;
        let request = SessionRequest { threads: &ThreadOptions::of_count(1), ..*request };
        let session = RtenEngine.create_session(&RtenEngine::target().key, &request)?;
        Ok(Box::new(SlowedSession { session, slowed }))
    }
}

struct SlowedSession {
    session: Box<dyn Session>,
    slowed: f64,
}

impl Session for SlowedSession {
    fn placement(&self) -> Reading<Placement> {
        self.session.placement()
    }

    fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), RunError> {
        self.session.set_inputs(inputs)
    }

    fn run(&mut self) -> Result<(), RunError> {
        // Both kinds read the clock, so that only the spinning sets them apart.
        let start = Instant::now();
        self.session.run()?;
        let until = start.elapsed().mul_f64(1.0 + self.slowed);
        while start.elapsed() < until {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<NamedTensor>, RunError> {
        self.session.outputs()
    }
}
