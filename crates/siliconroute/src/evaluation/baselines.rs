//! What others would choose: fixed choices, the fitted models alone, ONNX Runtime's policies, OpenVINO's AUTO device.
//!
//! Invariant: a baseline that cannot be had says why; one that chooses for itself is run and measured as it is, never
//! reckoned from another session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::{Context, Query, decide};
use siliconroute_core::knowledge::Knowledge;
use siliconroute_core::trial::Failure;
use siliconroute_core::{CaseId, ChipKey, ChipKind, ProviderName, Reading, Target, TargetKey};
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::onnxruntime::Automatic;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient};
use siliconroute_engine::worker::wire::EngineSpec;

use super::Question;
use crate::campaign::OutOfTime;
use crate::discovery::Found;
use crate::machine::brief;
use crate::router::{Router, Targets};

/// Providers in the order in which frameworks commonly try them: accelerators before the CPU.
const PRIORITY_LIST: [&str; 13] = [
    "nv_tensorrt_rtx",
    "tensorrt",
    "cuda",
    "migraphx",
    "dml",
    "coreml",
    "qnn",
    "vitisai",
    "openvino",
    "webgpu",
    "xnnpack",
    "ort",
    "rten",
];

/// A choice that another program made for itself, as it ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OthersChoice {
    /// The session whose measurement it is; several that choose alike share one.
    pub measured_as: Option<TargetKey>,
    /// Where it put the model: nodes by provider.
    pub ran_on: BTreeMap<String, u64>,
    /// The time of one inference.
    pub time_ms: Option<f64>,
    /// Its 95 % interval.
    pub interval_ms: Option<[f64; 2]>,
    /// The time within each half of the sessions, or of the rounds of a single one.
    #[serde(default)]
    pub halves_ms: Option<[f64; 2]>,
    /// Why there is no time.
    pub failure: Option<String>,
}

/// What the fixed baselines choose for a question, and why some choose nothing.
pub(super) fn fixed_choices(
    query: &Query<'_>,
    knowledge: &Knowledge,
) -> (BTreeMap<String, Option<TargetKey>>, BTreeMap<String, String>) {
    let keys = || knowledge.targets().iter().map(|entry| &entry.target);
    let fitted = decide(knowledge, query, &Context { ignore_measurements: true, ..Context::default() });
    let first_of_kind =
        |kind: ChipKind| keys().find(|target| target.chip_kind == kind).map(|t| t.key.clone());
    let listed = PRIORITY_LIST
        .iter()
        .find_map(|provider| keys().find(|target| target.provider.as_str() == *provider))
        .map(|target| target.key.clone());
    let cpu = keys().find(|t| t.key.base() == "cpu/ort").map(|t| t.key.clone());
    let mut choices = BTreeMap::new();
    for target in keys().filter(|target| Some(&target.key) != cpu.as_ref()) {
        choices.insert(format!("always-{}", target.key), Some(target.key.clone()));
    }
    let mut unavailable = BTreeMap::new();
    let mut fixed = |name: &str, choice: Option<TargetKey>, reason: &str| {
        if choice.is_none() {
            unavailable.insert(name.to_owned(), reason.to_owned());
        }
        choices.insert(name.to_owned(), choice);
    };
    fixed("always-cpu", cpu, "ONNX Runtime is not installed");
    fixed("always-gpu", first_of_kind(ChipKind::Gpu), "this machine has no usable target on a GPU");
    fixed("always-first-listed", listed, "no provider of the usual lists is here");
    let fitted = fitted.chosen.map(|target| knowledge.target(target).key.clone());
    choices.insert("fit-only".to_owned(), fitted);
    (choices, unavailable)
}

/// The sessions of others that are measured beside the targets.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Those that can be had here.
    found: Vec<(Automatic, Found)>,
    /// Why the rest cannot.
    pub(super) unavailable: BTreeMap<String, String>,
    /// What each chose for a case.
    chosen: BTreeMap<CaseId, BTreeMap<String, OthersChoice>>,
    /// Whether equal placements tell of equal choices, since all targets are on one chip.
    one_chip: bool,
}

impl Others {
    /// What can be had with the engines behind `targets`.
    pub(super) fn of(targets: &Targets) -> Self {
        let available: Vec<&Found> = targets.discovery.available().collect();
        let plain = available.iter().find(|found| found.target.key.as_str() == "cpu/ort");
        let openvino = available.iter().find(|found| found.target.provider.as_str() == "openvino");
        let mut others = Self {
            one_chip: available.windows(2).all(|pair| pair[0].target.chip == pair[1].target.chip),
            ..Self::default()
        };
        for automatic in Automatic::ALL {
            let (engine, reason) = match automatic {
                Automatic::OpenvinoAuto => {
                    (openvino.map(|found| found.engine.clone()), "OpenVINO has no usable target here")
                }
                _ => (
                    plain.and_then(|found| with_all_plugins(&found.engine, &available)),
                    "ONNX Runtime is not installed",
                ),
            };
            match engine {
                Some(engine) => others.found.push((automatic, automatic_target(automatic, engine))),
                None => drop(others.unavailable.insert(automatic.name().to_owned(), reason.to_owned())),
            }
        }
        others
    }

    /// Those that a job may name.
    pub(super) fn found(&self) -> Vec<Found> {
        self.found.iter().map(|(_, found)| found.clone()).collect()
    }

    /// Has each choose for the case of `question`, and gives the sessions to measure.
    ///
    /// # Errors
    /// When a budget is over at `closes` and they have not all chosen.
    pub(super) fn choose(
        &mut self,
        router: &Router,
        question: &Question,
        closes: Option<Instant>,
    ) -> Result<Vec<TargetKey>, OutOfTime> {
        if !self.chosen.contains_key(&question.case.id) {
            let choices = self.ask(router, question, closes)?;
            self.chosen.insert(question.case.id, choices);
        }
        Ok(self.sessions(question.case.id))
    }

    /// The sessions to measure for `case`: one for each that may choose another place, as long as they have not chosen.
    pub(super) fn sessions(&self, case: CaseId) -> Vec<TargetKey> {
        let mut keys: Vec<TargetKey> = match self.chosen.get(&case) {
            Some(choices) => choices.values().filter_map(|choice| choice.measured_as.clone()).collect(),
            None => self.found.iter().map(|(automatic, _)| automatic.key()).collect(),
        };
        keys.sort();
        keys.dedup();
        keys
    }

    fn ask(
        &self,
        router: &Router,
        question: &Question,
        closes: Option<Instant>,
    ) -> Result<BTreeMap<String, OthersChoice>, OutOfTime> {
        let mut worker: Option<(EngineSpec, WorkerClient)> = None;
        let mut choices: BTreeMap<String, OthersChoice> = BTreeMap::new();
        for (automatic, found) in &self.found {
            let left = closes.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(OutOfTime);
            }
            let deadline = left.unwrap_or(Duration::MAX).min(router.worker_deadline());
            let mut choice = match placement(router, &mut worker, (found, question), deadline) {
                Ok(ran_on) => OthersChoice { ran_on, ..OthersChoice::default() },
                // What the end of the budget cut off has not failed.
                Err(_) if closes.is_some_and(|at| Instant::now() >= at) => return Err(OutOfTime),
                Err(failure) => {
                    OthersChoice { failure: Some(brief(&failure.to_string())), ..OthersChoice::default() }
                }
            };
            if choice.failure.is_none() {
                let is_policy = *automatic != Automatic::OpenvinoAuto;
                let alike = choices.iter().find(|(name, known)| {
                    self.one_chip
                        && is_policy
                        && name.starts_with("ort-")
                        && !choice.ran_on.is_empty()
                        && known.ran_on == choice.ran_on
                });
                let alike = alike.and_then(|(_, known)| known.measured_as.clone());
                choice.measured_as = Some(alike.unwrap_or_else(|| automatic.key()));
            }
            choices.insert(automatic.name().to_owned(), choice);
        }
        Ok(choices)
    }

    /// What each chose for `case`; without times.
    pub(super) fn choices(&self, case: CaseId) -> BTreeMap<String, OthersChoice> {
        self.chosen.get(&case).cloned().unwrap_or_default()
    }
}

/// The engine with the plugins of all targets that share its runtime library.
fn with_all_plugins(engine: &EngineSpec, available: &[&Found]) -> Option<EngineSpec> {
    let EngineSpec::OnnxRuntime { library: own, .. } = engine else { return None };
    let mut whole = engine.clone();
    for found in available {
        let EngineSpec::OnnxRuntime { library, plugins, search_path, .. } = &found.engine else { continue };
        if library != own {
            continue;
        }
        if let EngineSpec::OnnxRuntime { plugins: all, search_path: folders, .. } = &mut whole {
            all.extend(plugins.iter().filter(|new| !all.contains(new)).cloned().collect::<Vec<_>>());
            folders
                .extend(search_path.iter().filter(|new| !folders.contains(new)).cloned().collect::<Vec<_>>());
        }
    }
    Some(whole)
}

/// What stands for the sessions of `automatic` in a campaign; no target, so that nothing is learned from it.
fn automatic_target(automatic: Automatic, engine: EngineSpec) -> Found {
    let version = match &engine {
        EngineSpec::Rten => String::new(),
        EngineSpec::OnnxRuntime { version, plugins, .. } => {
            let plugins = plugins.iter().map(|plugin| format!("{} {}", plugin.name, plugin.version));
            std::iter::once(version.clone()).chain(plugins).collect::<Vec<_>>().join(", ")
        }
    };
    Found {
        target: Target {
            key: automatic.key(),
            provider: ProviderName(automatic.name().to_owned()),
            provider_version: version,
            chip: ChipKey("auto".to_owned()),
            chip_kind: ChipKind::Cpu,
            options: BTreeMap::new(),
        },
        engine,
        device: BTreeMap::from([(
            "hardware.Description".to_owned(),
            "whatever chip the runtime library chooses".to_owned(),
        )]),
        proven_error: Reading::unavailable("a choice of others is not proven"),
        checks_indices: Reading::unavailable("a choice of others is not probed"),
        unavailable: None,
        may_pass: false,
    }
}

/// Where a session of `found` puts the nodes of a model, by provider.
fn placement(
    router: &Router,
    worker: &mut Option<(EngineSpec, WorkerClient)>,
    (found, question): (&Found, &Question),
    deadline: Duration,
) -> Result<BTreeMap<String, u64>, Failure> {
    if worker.as_ref().is_none_or(|(engine, _)| *engine != found.engine) {
        let fresh = WorkerClient::open(router.launcher.as_ref(), &found.engine, deadline)?;
        *worker = Some((found.engine.clone(), fresh));
    }
    let Some((_, client)) = worker else { return Ok(BTreeMap::new()) };
    let model = RemoteModel {
        path: &question.model.path,
        inputs: &question.model.facts.inputs,
        outputs: &question.model.facts.outputs,
        bindings: &question.case.bindings,
        threads: &ThreadOptions::default(),
        compile_cache: None,
    };
    let placed = client.create_session(&found.target.key, &model, deadline);
    let placed = placed.map(|session| session.placement.clone());
    match placed.and_then(|placed| client.close_session(deadline).map(|()| placed)) {
        Ok(Reading::Available(placement)) => Ok(placement.fallback),
        // Without a proof nobody knows whether two choose alike, so each is measured.
        Ok(Reading::Unavailable(_)) => Ok(BTreeMap::new()),
        Err(failure) => {
            if failure.kind.is_transient() {
                *worker = None;
            }
            Err(failure)
        }
    }
}
