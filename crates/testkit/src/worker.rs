//! A simulated worker: answers every request at once, with times that a law and a seed give.
//!
//! Invariant: a worker that failed for good is gone, like a process that died.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::TensorSpec;
use siliconroute_core::trial::{Before, Failure, FailureKind, Sample};
use siliconroute_core::{Reading, TargetKey};
use siliconroute_engine::session::{Offer, ThreadOptions, check_inputs};
use siliconroute_engine::timing::WarmUp;
use siliconroute_engine::worker::process::Worker;
use siliconroute_engine::worker::wire::{Idled, PROTOCOL, Request, Response, Usage};
use siliconroute_onnx::SyntheticModel;

use crate::launcher::{Call, Script};
use crate::target::{FakeTarget, Fault, Moment, Strike, Working};

/// The model name of the probe whose index is beyond its table.
const INDEX_PROBE: &str = "index-probe";

/// No session of the simulation takes longer to make.
const CREATE_NS: u64 = 2_000_000;

/// What it costs to hand out outputs.
const COPY_NS: u64 = 1_000;

/// How long a simulated library takes to load.
const LOAD_NS: u64 = 5_000_000;

/// A worker of a [`FakeLauncher`](crate::FakeLauncher).
#[derive(Debug)]
pub struct FakeWorker {
    script: Arc<Mutex<Script>>,
    engine: String,
    version: String,
    random: Xoshiro256PlusPlus,
    session: Option<Session>,
    gone: bool,
}

#[derive(Debug)]
struct Session {
    target: TargetKey,
    model: String,
    bindings: Bindings,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    flops: f64,
    weight_bytes: f64,
    threads: ThreadOptions,
    inputs_set: bool,
    runs: u32,
    samples: u32,
}

/// How a call ends when it gives no answer.
enum NoAnswer {
    Refused(String),
    Gone(Failure),
}

impl From<String> for NoAnswer {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

impl Worker for FakeWorker {
    fn call(&mut self, request: &Request, deadline: Duration) -> Result<Response, Failure> {
        if self.gone {
            return Err(Failure::new(FailureKind::Crashed, "the worker has ended"));
        }
        self.record(request);
        match self.answer(request, deadline) {
            Ok(response) => Ok(response),
            Err(NoAnswer::Refused(reason)) => Ok(Response::Refused(reason)),
            Err(NoAnswer::Gone(failure)) => {
                self.gone = true;
                Err(failure)
            }
        }
    }
}

impl FakeWorker {
    pub(crate) fn new(script: Arc<Mutex<Script>>, engine: String, version: String, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { script, engine, version, random, session: None, gone: false }
    }

    fn answer(&mut self, request: &Request, deadline: Duration) -> Result<Response, NoAnswer> {
        match request {
            Request::Open { protocol, .. } => self.open(*protocol, deadline),
            Request::Create { target, model, inputs, outputs, bindings, threads, .. } => {
                self.session = None;
                let name = model_name(model);
                let (flops, weight_bytes) = work_of(model, &name, bindings)?;
                let found = self.target(target)?;
                strike(found.behaviour_on(&name).strike.as_ref(), Moment::Create, 0, deadline)?;
                let placement = found.behaviour_on(&name).placement.reading();
                self.session = Some(Session {
                    target: target.clone(),
                    model: name,
                    bindings: bindings.clone(),
                    inputs: inputs.iter().cloned().map(TensorSpec::from).collect(),
                    outputs: outputs.iter().cloned().map(TensorSpec::from).collect(),
                    flops,
                    weight_bytes,
                    threads: threads.clone(),
                    inputs_set: false,
                    runs: 0,
                    samples: 0,
                });
                Ok(Response::Created { create_ns: CREATE_NS, placement })
            }
            Request::SetInputs(inputs) => {
                let (_, scripted) = self.current()?;
                let session = self.session.as_mut().ok_or_else(no_session)?;
                strike(scripted.as_ref(), Moment::SetInputs, 0, deadline)?;
                check_inputs(&session.inputs, inputs).map_err(|error| error.to_string())?;
                session.inputs_set = true;
                Ok(Response::Done)
            }
            Request::Run => {
                self.begin_run(Moment::Run, deadline)?;
                Ok(Response::Ran { run_ns: self.next_ns()? })
            }
            Request::Outputs => {
                let (target, _) = self.current()?;
                let session = self.session.as_ref().ok_or_else(no_session)?;
                if session.runs == 0 {
                    return Err("nothing was run yet".to_owned().into());
                }
                let outputs = target.behaviour_on(&session.model).outputs;
                let outputs =
                    outputs.make(&session.model, &session.bindings, &session.outputs, session.runs)?;
                Ok(Response::Outputs { outputs, copy_ns: COPY_NS })
            }
            Request::WarmUp { min_calls, min_ns } => {
                self.begin_run(Moment::Run, deadline)?;
                let (first_ns, last_ns) = (self.next_ns()?, self.next_ns()?);
                let fastest_ns = first_ns.min(last_ns).max(1);
                let calls = (*min_calls).max(min_ns.div_ceil(fastest_ns)).max(1);
                Ok(Response::WarmedUp(WarmUp { calls, first_ns, fastest_ns, last_ns }))
            }
            Request::Sample { round, calls, count, budget_ns } => {
                self.begin_run(Moment::Sample, deadline)?;
                let (mut samples, mut spent_ns) = (Vec::new(), 0_u64);
                while samples.is_empty() || (samples.len() < *count as usize && spent_ns < *budget_ns) {
                    let total_ns = self.next_ns()?.saturating_mul(u64::from((*calls).max(1)));
                    spent_ns = spent_ns.saturating_add(total_ns);
                    samples.push(Sample {
                        round: *round,
                        calls: (*calls).max(1),
                        total_ns,
                        before: Before::Running,
                    });
                }
                self.pass(Duration::from_nanos(spent_ns))?;
                let peak_resident_bytes = self.peak_resident_bytes();
                let busy_cores = self.working().map_or(1.0, |working| working.busy_cores);
                Ok(Response::Sampled {
                    samples,
                    busy_cores: Reading::Available(busy_cores),
                    peak_resident_bytes,
                })
            }
            Request::Idle { window_ns } => {
                self.begin_run(Moment::Run, deadline)?;
                let cpu_ns = Reading::from_option(
                    self.working().and_then(|working| working.idle_ns),
                    "a simulated worker uses nothing",
                );
                Ok(Response::Idled(Idled { wall_ns: *window_ns, cpu_ns }))
            }
            Request::Usage => {
                let none = || Reading::unavailable("a simulated worker uses nothing");
                Ok(Response::Usage(Usage {
                    cpu_time_ns: none(),
                    resident_bytes: none(),
                    peak_resident_bytes: self.peak_resident_bytes(),
                    device_bytes: none(),
                }))
            }
            Request::Close => {
                self.session = None;
                Ok(Response::Done)
            }
        }
    }

    /// How the session works under its thread options; `None` where they make no difference.
    fn working(&self) -> Option<Working> {
        let session = self.session.as_ref()?;
        let by_threads = self.target(&session.target).ok()?.by_threads?;
        Some(by_threads(&session.threads))
    }

    /// What the target of the session says of memory.
    fn peak_resident_bytes(&self) -> Reading<u64> {
        let told = self.session.as_ref().and_then(|session| self.target(&session.target).ok()?.memory_bytes);
        Reading::from_option(told, "a simulated worker holds no memory")
    }

    fn open(&self, protocol: u32, deadline: Duration) -> Result<Response, NoAnswer> {
        if protocol != PROTOCOL {
            return Err(format!("this worker speaks protocol {PROTOCOL}").into());
        }
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = script.engine(&self.engine)?;
        strike(engine.strike.as_ref(), Moment::Open, 0, deadline)?;
        let offer = |fake: &FakeTarget| {
            let mut target = fake.target.clone();
            target.provider_version = format!("{} (simulated)", self.version);
            Offer { target, device: std::collections::BTreeMap::new(), unavailable: fake.unavailable.clone() }
        };
        let offers = engine.targets.iter().map(offer).collect();
        let version = format!("{} {} (simulated)", self.engine, self.version);
        Ok(Response::Opened { version, offers, load_ns: LOAD_NS })
    }

    fn target(&self, key: &TargetKey) -> Result<FakeTarget, String> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let targets = &script.engine(&self.engine)?.targets;
        let found = targets.iter().find(|fake| fake.target.key == *key).cloned();
        found.ok_or_else(|| format!("this engine has no target `{key}`"))
    }

    /// The target of the session as it is scripted now, with its fault for the session's model.
    fn current(&self) -> Result<(FakeTarget, Option<Strike>), String> {
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let target = self.target(&session.target)?;
        let strike = target.behaviour_on(&session.model).strike.clone();
        Ok((target, strike))
    }

    fn begin_run(&mut self, moment: Moment, deadline: Duration) -> Result<(), NoAnswer> {
        let (target, scripted) = self.current()?;
        let session = self.session.as_mut().ok_or_else(no_session)?;
        if !session.inputs_set {
            return Err("no inputs are set".to_owned().into());
        }
        // Honest targets check indices; one that is scripted for the probe does what its script says.
        if session.model == INDEX_PROBE && session.runs > 0 && !target.models.contains_key(INDEX_PROBE) {
            return Err("the index is beyond the table".to_owned().into());
        }
        let count = if moment == Moment::Sample { &mut session.samples } else { &mut session.runs };
        strike(scripted.as_ref(), moment, *count, deadline)?;
        *count += 1;
        Ok(())
    }

    /// Lets the time of samples pass where the target is paced, and has it counted as work meanwhile.
    fn pass(&self, time: Duration) -> Result<(), String> {
        let (target, _) = self.current()?;
        if target.paced {
            let script = || self.script.lock().unwrap_or_else(PoisonError::into_inner);
            script().work.begin(&target.target.key);
            std::thread::sleep(time);
            script().work.end();
        }
        Ok(())
    }

    /// The time of the next call: the law's, with noise in proportion.
    fn next_ns(&mut self) -> Result<u64, String> {
        let (target, _) = self.current()?;
        let session = self.session.as_ref().ok_or_else(no_session)?;
        let law = || target.law.time_ns(session.flops, session.weight_bytes);
        let time_ns = target.behaviour_on(&session.model).time_ns.unwrap_or_else(law);
        let time_ns = time_ns * self.working().map_or(1.0, |working| working.time_factor);
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        Ok((time_ns * (1.0 + target.spread * (2.0 * unit - 1.0))).round().max(1.0) as u64)
    }

    fn record(&self, request: &Request) {
        let (request, created) = match request {
            Request::Open { .. } => ("open", None),
            Request::Create { target, model, .. } => ("create", Some((target.clone(), model_name(model)))),
            Request::SetInputs(_) => ("set_inputs", None),
            Request::Run => ("run", None),
            Request::Outputs => ("outputs", None),
            Request::WarmUp { .. } => ("warm_up", None),
            Request::Sample { .. } => ("sample", None),
            Request::Idle { .. } => ("idle", None),
            Request::Usage => ("usage", None),
            Request::Close => ("close", None),
        };
        let open = || self.session.as_ref().map(|session| (session.target.clone(), session.model.clone()));
        let (target, model) = created.or_else(open).unzip();
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.calls.push(Call { engine: self.engine.clone(), request, target, model });
    }
}

fn no_session() -> String {
    "no session is open".to_owned()
}

/// Fails as scripted, if this is the moment.
fn strike(scripted: Option<&Strike>, moment: Moment, good: u32, deadline: Duration) -> Result<(), NoAnswer> {
    let struck = scripted.filter(|it| it.moment == moment && good >= it.good);
    let Some(Strike { fault, .. }) = struck else {
        return Ok(());
    };
    let gone = |kind, detail: String| Err(NoAnswer::Gone(Failure::new(kind, detail)));
    match fault {
        Fault::Crash => {
            gone(FailureKind::Crashed, "the worker ended by itself (simulated signal)".to_owned())
        }
        Fault::Hang => {
            gone(FailureKind::TimedOut, format!("no answer within {:.1} s", deadline.as_secs_f64()))
        }
        Fault::OutOfMemory => gone(FailureKind::MemoryExceeded, "the worker held too much".to_owned()),
        Fault::Refuse(reason) => Err(NoAnswer::Refused(reason.clone())),
    }
}

fn model_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Operations and bytes of weights of one call.
fn work_of(path: &Path, name: &str, bindings: &Bindings) -> Result<(f64, f64), String> {
    if let Ok(model) = SyntheticModel::parse(name) {
        let batch = bindings.get("batch").unwrap_or(1);
        return Ok((model.flops(batch), model.parameters() as f64 * 4.0));
    }
    let loaded = siliconroute_onnx::load_model(path).map_err(|error| error.to_string())?;
    let facts = loaded.case_facts(bindings).map_err(|error| error.to_string())?;
    Ok((facts.flops, facts.weight_bytes as f64))
}
