//! Models and targets of a home with what it takes to measure them through the campaign.
//!
//! Invariant: sessions are made and sampled by the product's own campaign, in workers like its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use siliconroute::campaign::{
    CaseToMeasure, Circumstances, Sampling, Setting, Surroundings, Workers, measure_case,
};
use siliconroute::discovery::Found;
use siliconroute::event::Silent;
use siliconroute::models::{Given, KnownModel};
use siliconroute::settings::Settings;
use siliconroute::{Options, Router, inputs};
use siliconroute_core::model::Case;
use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Measurement, Purpose, Trial};
use siliconroute_core::{Reading, Workload};
use siliconroute_engine::worker::process::ProcessLauncher;
use siliconroute_hardware::Conditions;

const INPUT_SEED: u64 = 1;

/// A case with its input values.
pub(crate) struct Subject {
    pub(crate) model: KnownModel,
    pub(crate) case: Case,
    pub(crate) values: Vec<NamedTensor>,
    compile_cache: PathBuf,
}

/// Opens the home at `root` without fetching anything.
pub(crate) fn open(root: &Path) -> Result<Router, Box<dyn Error>> {
    let flags = BTreeMap::from([("offline", "true".to_owned())]);
    let settings = Settings::resolve(root, Vec::new(), &flags)?;
    Ok(Router::open(Options::new(root.to_owned(), settings))?)
}

/// Workers that are processes of this program.
pub(crate) fn process_launcher() -> Result<ProcessLauncher, Box<dyn Error>> {
    Ok(ProcessLauncher {
        program: std::env::current_exe()?,
        arguments: vec![siliconroute::router::WORKER_ARGUMENT.into()],
        environment: vec![("ORT_DISABLE_TELEMETRY".into(), "1".into())],
        memory: |_process| Reading::unavailable("a benchmark limits no memory"),
        memory_limit_bytes: u64::MAX,
        cancelled: Arc::default(),
    })
}

impl Subject {
    pub(crate) fn find(router: &Router, name: &str) -> Result<Self, Box<dyn Error>> {
        let model = router.find_model(name, &mut Silent)?;
        let case = router.models().case(&model, &Given::default())?;
        let values = inputs::generate_for(&case.facts, &model.recipes, INPUT_SEED)?;
        Ok(Self { model, case, values, compile_cache: router.home().cache().join("compiled") })
    }

    /// Measures the sustained workload on `targets` side by side.
    pub(crate) fn measure(
        &self,
        workers: &mut Workers<'_>,
        targets: &[&Found],
        sampling: &Sampling,
        order_seed: u64,
    ) -> Vec<Trial> {
        let test = CaseToMeasure {
            case: &self.case,
            path: &self.model.path,
            inputs: &self.model.facts.inputs,
            outputs: &self.model.facts.outputs,
            values: &self.values,
            input_seed: INPUT_SEED,
            constant_weights: self.model.constant_weights,
            compile_cache: &self.compile_cache,
        };
        let setting = Setting {
            purpose: Purpose::Bench,
            sampling,
            order_seed,
            until: None,
            closing: None,
            surroundings: &Around { begin: Instant::now() },
            suspects: &BTreeMap::new(),
        };
        measure_case(workers, &test, targets, Workload::Sustained, &setting).unwrap_or_default()
    }

    /// [`Self::measure`] of one target.
    pub(crate) fn measure_alone(
        &self,
        workers: &mut Workers<'_>,
        target: &Found,
        sampling: &Sampling,
        order_seed: u64,
    ) -> Result<Measurement, Box<dyn Error>> {
        let trial = self.measure(workers, &[target], sampling, order_seed).pop();
        let trial =
            trial.ok_or_else(|| format!("{} gave no trial of {}", target.target.key, self.model.name))?;
        Ok(trial.outcome?)
    }
}

/// The running machine without a user.
struct Around {
    begin: Instant,
}

impl Surroundings for Around {
    fn unix_ms(&self) -> i64 {
        siliconroute::router::unix_ms()
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn least_sample(&self) -> Duration {
        let timer = siliconroute_hardware::timer_facts();
        Duration::from_nanos(((timer.resolution_ns + timer.overhead_ns) / 0.005).ceil() as u64)
    }

    fn conditions(&self) -> Conditions {
        siliconroute_hardware::detect_conditions()
    }

    fn describe(&self, circumstances: &Circumstances<'_>) -> String {
        let Circumstances { before, after, .. } = circumstances;
        serde_json::json!({ "before": before, "after": after }).to_string()
    }

    fn drop_from_file_cache(&self, _files: &[PathBuf]) -> Result<(), String> {
        Err("no cold start is measured".to_owned())
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn notice(&self, text: String) {
        println!("{text}");
    }
}
