//! Starts simulated workers, and keeps the script they follow and a record of what they were asked.
//!
//! Invariant: one script is behind all workers, so that a test changes the machine between two calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_core::{ChipKey, TargetKey};
use siliconroute_engine::rten::RTEN_VERSION;
use siliconroute_engine::worker::process::{Launcher, Worker};
use siliconroute_engine::worker::wire::EngineSpec;

use crate::target::{FakeTarget, Fault, Moment, Strike};
use crate::work::Work;
use crate::worker::FakeWorker;

/// A simulated engine: the embedded one (`rten`), or the one that a package of the same name brings.
#[derive(Debug, Clone)]
pub struct FakeEngine {
    /// `rten`, or the package's name.
    pub name: String,
    /// Its targets.
    pub targets: Vec<FakeTarget>,
    /// How it fails when it is opened.
    pub strike: Option<Strike>,
}

impl FakeEngine {
    /// A well-behaved engine.
    pub fn new(name: &str, targets: Vec<FakeTarget>) -> Self {
        Self { name: name.to_owned(), targets, strike: None }
    }

    /// An engine that fails when it is opened.
    pub fn broken(name: &str, fault: Fault) -> Self {
        let strike = Some(Strike { moment: Moment::Open, good: 0, fault });
        Self { strike, ..Self::new(name, Vec::new()) }
    }
}

/// A request that a worker got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The engine's name.
    pub engine: String,
    /// The request's name: `open`, `create`, `run`, `sample` …
    pub request: &'static str,
    /// The target of the session, where there is one.
    pub target: Option<TargetKey>,
    /// The model of the session, where there is one.
    pub model: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    engines: Vec<FakeEngine>,
    pub(crate) calls: Vec<Call>,
    launched: u64,
    pub(crate) work: Work,
}

impl Script {
    pub(crate) fn engine(&self, name: &str) -> Result<&FakeEngine, String> {
        let found = self.engines.iter().find(|engine| engine.name == name);
        found.ok_or_else(|| format!("no engine `{name}` is simulated"))
    }
}

/// Launches workers that follow a script.
#[derive(Debug, Clone, Default)]
pub struct FakeLauncher {
    script: Arc<Mutex<Script>>,
}

impl FakeLauncher {
    /// A machine with these engines.
    pub fn new(engines: Vec<FakeEngine>) -> Self {
        Self { script: Arc::new(Mutex::new(Script { engines, ..Script::default() })) }
    }

    /// The machine's engines, as they behave now.
    pub fn engines(&self) -> Vec<FakeEngine> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).engines.clone()
    }

    /// Changes the target called `key` from the next call on.
    ///
    /// # Panics
    /// When no engine has it.
    pub fn change(&self, key: &str, change: impl FnOnce(&mut FakeTarget)) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let mut targets = script.engines.iter_mut().flat_map(|engine| &mut engine.targets);
        change(targets.find(|fake| fake.target.key.as_str() == key).expect("the script has the target"));
    }

    /// The chip that works now: that of the target whose worker was last asked to run something.
    pub(crate) fn working_chip(&self) -> Option<ChipKey> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let last = script.calls.last().filter(|call| matches!(call.request, "run" | "warm_up" | "sample"))?;
        let mut targets = script.engines.iter().flat_map(|engine| &engine.targets);
        let working = targets.find(|fake| Some(&fake.target.key) == last.target.as_ref())?;
        Some(working.answers.clone().unwrap_or_else(|| working.target.chip.clone()))
    }

    /// How long paced targets have worked so far, by target.
    pub(crate) fn worked(&self) -> BTreeMap<TargetKey, Duration> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).work.so_far()
    }

    /// All requests so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }

    /// The sessions made so far, as target and model, without those of the precision probe.
    pub fn sessions(&self) -> Vec<(TargetKey, String)> {
        self.calls()
            .into_iter()
            .filter(|call| call.request == "create")
            .filter_map(|call| Some((call.target?, call.model?)))
            .filter(|(_, model)| model != crate::outputs::PROBE)
            .collect()
    }

    /// Forgets the requests so far.
    pub fn forget_calls(&self) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).calls.clear();
    }
}

impl Launcher for FakeLauncher {
    fn launch(&self, engine: &EngineSpec) -> Result<Box<dyn Worker>, Failure> {
        let (name, version) = match engine {
            EngineSpec::Rten => ("rten".to_owned(), RTEN_VERSION.to_owned()),
            EngineSpec::OnnxRuntime { library, version, plugins, .. } => match plugins.first() {
                Some(plugin) => (library_name(&plugin.library), plugin.version.clone()),
                None => (library_name(library), version.clone()),
            },
        };
        let seed = {
            let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
            script.engine(&name).map_err(|reason| Failure::new(FailureKind::Crashed, reason))?;
            script.launched += 1;
            script.launched
        };
        Ok(Box::new(FakeWorker::new(Arc::clone(&self.script), name, version, seed)))
    }
}

/// The engine's name from its library, which [`TestHome::package`](crate::TestHome::package) names so.
fn library_name(library: &Path) -> String {
    library.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
