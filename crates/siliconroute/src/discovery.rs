//! Finds the targets of this machine: starts every engine once, asks what it offers, proves it.
//!
//! Invariant: a target is listed as available only if it ran the precision probe here, with an error
//! that fits the precision it was asked for.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siliconroute_core::chip::ChipIdentity;
use siliconroute_core::model::Bindings;
use siliconroute_core::target::{Cores, SessionSettings};
use siliconroute_core::tensor::{Dimension, ElementType, NamedTensor, Tensor, TensorData, TensorSpec};
use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_core::{AccuracyClass, Chip, Reading, Target, TargetKey};
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient};
use siliconroute_engine::worker::process::Launcher;
use siliconroute_engine::worker::wire::EngineSpec;
use siliconroute_hardware::ChipFinding;

/// A target with all that is needed to start it, or the reason why it cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The target.
    pub target: Target,
    /// The engine that serves it.
    pub engine: EngineSpec,
    /// What the engine says of the device.
    pub device: std::collections::BTreeMap<String, String>,
    /// The relative error of the precision probe, or why there is none.
    pub proven_error: Reading<f64>,
    /// Whether the target refuses numbers computed inside a graph that lie beyond the table they pick from, or why
    /// that is not known. One that does not answers with made-up numbers.
    #[serde(default = "not_probed")]
    pub checks_indices: Reading<bool>,
    /// Why the target cannot be used; `None` when it can.
    pub unavailable: Option<String>,
    /// Whether the reason may pass by itself, since a worker died, hung or ran out of memory.
    pub may_pass: bool,
}

impl Found {
    /// The target as its engine knows it, and what sets this one apart from it.
    pub fn base(&self) -> (TargetKey, SessionSettings) {
        let key = &self.target.key;
        SessionSettings::split(key.as_str())
            .unwrap_or_else(|_foreign| (key.clone(), SessionSettings::default()))
    }

    /// How the threads of its sessions work: the settings of its key, named cores as the numbers that they stand for.
    pub fn threads(&self) -> ThreadOptions {
        let cpu = self.base().1.cpu;
        let cores = match self.target.options.get("cores").map(|text| Cores::parse(text)) {
            Some(Ok(Cores::Listed(cpus))) => cpus,
            _ => Vec::new(),
        };
        ThreadOptions { count: cpu.threads, spin: cpu.spin, block_base: cpu.block_base, cores }
    }

    /// The target's chip, from what the engine says of it alone.
    pub(crate) fn chip_as_reported(&self) -> Chip {
        let said = |key: &str| self.device.get(key).cloned();
        let hexadecimal =
            |key: &str| said(key).and_then(|text| u32::from_str_radix(&text, 16).ok()).unwrap_or(0);
        Chip {
            key: self.target.chip.clone(),
            kind: self.target.chip_kind,
            vendor: said("vendor").unwrap_or_else(|| "unknown".to_owned()),
            name: said("hardware.Description").unwrap_or_else(|| self.target.chip.to_string()),
            identity: ChipIdentity {
                bus_address: said("hardware.pci_bus_id"),
                ..ChipIdentity::of_ids(hexadecimal("vendor_id"), hexadecimal("device_id"))
            },
            memory_bytes: None,
            software: false,
            driver: None,
        }
    }
}

/// What was found on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Discovery {
    /// All targets, usable ones first, in the order in which their engines were asked.
    pub found: Vec<Found>,
}

impl Discovery {
    /// The targets that can be used.
    pub fn available(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|found| found.unavailable.is_none())
    }

    /// The machine's chips: those that the system tells of, and those that only an engine's usable targets run on.
    ///
    /// Where an engine has found a chip of a kind, the system's word that there is none is left out.
    pub fn chips(&self, seen: &[ChipFinding]) -> Vec<ChipFinding> {
        let mut chips = seen.to_vec();
        for found in self.available() {
            let key = &found.target.chip;
            if chips.iter().any(|finding| finding.chip.available().is_some_and(|chip| chip.key == *key)) {
                continue;
            }
            let kind = found.target.chip_kind;
            chips.retain(|finding| finding.kind != kind || finding.chip.available().is_some());
            chips.push(ChipFinding {
                kind,
                chip: Reading::Available(found.chip_as_reported()),
                source: format!("the provider {}", found.target.provider),
            });
        }
        chips
    }

    /// The target called `key`, usable or not.
    pub fn find(&self, key: &TargetKey) -> Option<&Found> {
        self.found.iter().find(|found| found.target.key == *key)
    }
}

/// An engine to ask, with what it is called before it can say so itself.
#[derive(Debug, Clone)]
pub struct EngineToAsk {
    /// The engine.
    pub spec: EngineSpec,
    /// What a target is called that never came to be, such as `openvino 1.8.1`.
    pub label: String,
    /// What its package must find on the machine besides, in words.
    pub requires: Option<String>,
}

impl EngineToAsk {
    /// The reason why a library of this engine cannot be used, with what the machine may lack.
    fn explain(&self, reason: String) -> String {
        match &self.requires {
            Some(requires) => format!("{reason} (it needs {requires})"),
            None => reason,
        }
    }
}

fn not_probed() -> Reading<bool> {
    Reading::unavailable("the index probe did not run")
}

/// The models that show by their effect what a target does.
#[derive(Debug, Clone, Copy)]
pub struct Probes<'a> {
    /// The file of the model that proves the precision.
    pub precision: &'a Path,
    /// The file of the model that picks a row beyond its table.
    pub index: &'a Path,
}

/// Asks every engine in a worker of its own, and proves every target that it offers.
///
/// An engine that crashes, hangs or refuses is listed with its reason. The first engine that offers a
/// target keeps it.
pub fn discover_targets(
    launcher: &dyn Launcher,
    engines: &[EngineToAsk],
    probes: Probes<'_>,
    deadline: Duration,
    mut asked: impl FnMut(&EngineToAsk),
) -> Discovery {
    let mut found: Vec<Found> = Vec::new();
    for engine in engines {
        asked(engine);
        let mut worker = match WorkerClient::open(launcher, &engine.spec, deadline) {
            Ok(worker) => worker,
            Err(failure) => {
                found.push(lost_engine(engine, &failure));
                continue;
            }
        };
        for offer in worker.offers().to_vec() {
            if found.iter().any(|other| other.target.key == offer.target.key) {
                continue;
            }
            let mut entry = Found {
                target: offer.target,
                engine: engine.spec.clone(),
                device: offer.device,
                proven_error: Reading::unavailable("the probe did not run"),
                checks_indices: not_probed(),
                unavailable: offer.unavailable.map(|reason| engine.explain(reason)),
                may_pass: false,
            };
            if entry.unavailable.is_none() {
                prove(&mut worker, launcher, &mut entry, probes, deadline);
            }
            if entry.unavailable.is_none() {
                probe_indices(&mut worker, launcher, &mut entry, probes, deadline);
            }
            found.push(entry);
        }
    }
    found.sort_by_key(|found| found.unavailable.is_some());
    Discovery { found }
}

/// Runs the probe on a target; a worker that dies of it is replaced for the targets that follow.
fn prove(
    worker: &mut WorkerClient,
    launcher: &dyn Launcher,
    entry: &mut Found,
    probes: Probes<'_>,
    deadline: Duration,
) {
    match run_probe(worker, &entry.target, probes, deadline) {
        Ok(error) => {
            entry.proven_error = Reading::Available(error);
            entry.unavailable = check_precision(&entry.target, error);
        }
        Err(failure) => {
            entry.unavailable = Some(format!("the precision probe failed: {failure}"));
            entry.may_pass = may_pass(&failure);
            replace_if_lost(worker, launcher, &entry.engine, &failure, deadline);
        }
    }
}

/// Starts another worker in place of one that died of a probe.
fn replace_if_lost(
    worker: &mut WorkerClient,
    launcher: &dyn Launcher,
    engine: &EngineSpec,
    failure: &Failure,
    deadline: Duration,
) {
    if may_pass(failure)
        && let Ok(fresh) = WorkerClient::open(launcher, engine, deadline)
    {
        *worker = fresh;
    }
}

/// Has a row picked that its table does not have; a worker that dies of it is replaced, and nothing is known then.
fn probe_indices(
    worker: &mut WorkerClient,
    launcher: &dyn Launcher,
    entry: &mut Found,
    probes: Probes<'_>,
    deadline: Duration,
) {
    match run_index_probe(worker, &entry.target, probes, deadline) {
        Ok(checks) => entry.checks_indices = Reading::Available(checks),
        Err(failure) => {
            entry.checks_indices = Reading::Unavailable(format!("the index probe failed: {failure}"));
            replace_if_lost(worker, launcher, &entry.engine, &failure, deadline);
        }
    }
}

/// Whether the target refuses the index that is beyond the table.
fn run_index_probe(
    worker: &mut WorkerClient,
    target: &Target,
    probes: Probes<'_>,
    deadline: Duration,
) -> Result<bool, Failure> {
    let spec = |name: &str, element, sizes: &[u64]| TensorSpec {
        name: name.to_owned(),
        element,
        shape: sizes.iter().map(|&size| Dimension::Fixed(size)).collect(),
    };
    let inputs = [spec("ids", ElementType::Int64, &[1])];
    let outputs = [spec("rows", ElementType::Float32, &[1, 2])];
    let index = |index| {
        let tensor =
            Tensor::new(vec![1], TensorData::Int64(vec![index])).expect("one index has the shape [1]");
        vec![NamedTensor { name: "ids".to_owned(), tensor }]
    };
    let model = RemoteModel {
        path: probes.index,
        inputs: &inputs,
        outputs: &outputs,
        bindings: &Bindings::default(),
        threads: &ThreadOptions::default(),
        compile_cache: None,
    };
    let mut session = worker.create_session(&target.key, &model, deadline)?;
    // A target that cannot even pick a row that is there tells nothing by refusing.
    session.set_inputs(index(0))?;
    session.run()?;
    session.set_inputs(index(40))?;
    let checks = match session.run() {
        Ok(_) => false,
        Err(failure) if failure.kind == FailureKind::Refused => true,
        Err(failure) => return Err(failure),
    };
    worker.close_session(deadline)?;
    Ok(checks)
}

/// The probe's largest error relative to its largest output.
fn run_probe(
    worker: &mut WorkerClient,
    target: &Target,
    probes: Probes<'_>,
    deadline: Duration,
) -> Result<f64, Failure> {
    let reference = siliconroute_onnx::precision_probe_reference();
    let width = reference.input.len();
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        element: ElementType::Float32,
        shape: vec![Dimension::Fixed(1), Dimension::Fixed(width as u64)],
    };
    let (inputs, outputs) = ([spec("input")], [spec("output")]);
    let tensor = Tensor::new(vec![1, width], TensorData::Float32(reference.input.clone()))
        .expect("the probe's input has its own length");
    let model = RemoteModel {
        path: probes.precision,
        inputs: &inputs,
        outputs: &outputs,
        bindings: &Bindings::default(),
        threads: &ThreadOptions::default(),
        compile_cache: None,
    };
    let mut session = worker.create_session(&target.key, &model, deadline)?;
    if let Reading::Available(placement) = &session.placement
        && placement.is_full_fallback()
    {
        return Err(Failure::new(FailureKind::FellBack, format!("{placement}")));
    }
    session.set_inputs(vec![NamedTensor { name: "input".to_owned(), tensor }])?;
    session.run()?;
    let outputs = session.outputs()?;
    let values = outputs.first().and_then(|output| output.tensor.data().to_f64()).unwrap_or_default();
    if values.len() != reference.output.len() {
        let detail = format!("{} output values where {} are due", values.len(), reference.output.len());
        return Err(Failure::new(FailureKind::Refused, detail));
    }
    let largest = reference.output.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let worst = values.iter().zip(&reference.output).fold(0.0_f64, |worst, (value, exact)| {
        let error = (value - exact).abs();
        if error.is_nan() { f64::INFINITY } else { worst.max(error) }
    });
    worker.close_session(deadline)?;
    Ok(worst / largest)
}

/// What the probe's error says against the precision that the target's options ask for.
fn check_precision(target: &Target, error: f64) -> Option<String> {
    let asked = target.options.get("load_config").map(String::as_str).unwrap_or_default();
    let exact = AccuracyClass::Exact.limit();
    if asked.contains("f32") && error > exact {
        Some(format!(
            "asked for f32, but the probe's relative error is {error:.1e}: the option has no effect"
        ))
    } else if (asked.contains("bf16") || asked.contains("f16")) && error <= exact {
        Some(format!(
            "asked for 16 bits, but the probe's relative error is {error:.1e}: the option has no effect"
        ))
    } else if error > AccuracyClass::Relaxed.limit() {
        Some(format!("the probe's relative error is {error:.1e}, beyond every accuracy class"))
    } else {
        None
    }
}

fn lost_engine(engine: &EngineToAsk, failure: &Failure) -> Found {
    let (provider, version) = engine.label.split_once(' ').unwrap_or((&engine.label, "unknown"));
    Found {
        target: Target {
            key: TargetKey(format!("*/{provider}")),
            provider: siliconroute_core::ProviderName::parse(provider),
            provider_version: version.to_owned(),
            chip: siliconroute_core::ChipKey("*".to_owned()),
            chip_kind: siliconroute_core::ChipKind::Cpu,
            options: std::collections::BTreeMap::new(),
        },
        engine: engine.spec.clone(),
        device: std::collections::BTreeMap::new(),
        proven_error: Reading::unavailable("the engine did not start"),
        checks_indices: Reading::unavailable("the engine did not start"),
        unavailable: Some(match failure.kind {
            FailureKind::Refused => engine.explain(failure.to_string()),
            _ => failure.to_string(),
        }),
        may_pass: may_pass(failure),
    }
}

fn may_pass(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Crashed | FailureKind::TimedOut | FailureKind::MemoryExceeded => true,
        FailureKind::Refused | FailureKind::FellBack => false,
    }
}

#[cfg(test)]
mod tests;
