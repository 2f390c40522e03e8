//! The machine that most tests run on: a CPU with two engines and a GPU, each best at some sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use siliconroute::evaluation::{CheckedDecision, Question};
use siliconroute::event::{Event, Listener, Silent};
use siliconroute::models::Given;
use siliconroute::up::{UpPlan, UpReport};
use siliconroute::{Error, Router};
use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_core::{TargetKey, Workload};
use siliconroute_engine::packages::PackageKind;
use siliconroute_store::TrialFilter;
use siliconroute_testkit::{FakeEngine, FakeLauncher, FakeTarget, TestHome, TimeLaw};

pub(crate) const ORT: &str = "cpu/ort";
pub(crate) const RTEN: &str = "cpu/rten";
pub(crate) const GPU: &str = "gpu:10de:2d18@0000:01:00.0/webgpu";

/// Trials of each target while learning: nine cases, each in so many sessions.
pub(crate) const LEARNED: usize = 9 * siliconroute::up::SESSIONS;
/// Cases that a start decides: those that it learned and five that it only predicts.
pub(crate) const DECIDED: usize = 14;

/// The embedded engine: no overhead to speak of, slow arithmetic.
pub(crate) fn rten() -> FakeTarget {
    FakeTarget::new(RTEN, TimeLaw::new(2_000.0, 0.05))
}

/// The usual CPU engine.
pub(crate) fn ort() -> FakeTarget {
    FakeTarget::new(ORT, TimeLaw::new(10_000.0, 0.02))
}

/// Slow to start, fast arithmetic.
pub(crate) fn gpu() -> FakeTarget {
    FakeTarget::new(GPU, TimeLaw::new(300_000.0, 0.000_5))
}

/// The files of a home.
type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// What the first start of each machine left in its home, by how the machine behaves.
static FIRST_STARTS: Mutex<BTreeMap<String, Arc<OnceLock<Contents>>>> = Mutex::new(BTreeMap::new());

/// A home with simulated engines.
pub(crate) struct Simulated {
    pub(crate) home: TestHome,
    pub(crate) launcher: FakeLauncher,
}

impl Simulated {
    /// The usual machine.
    pub(crate) fn usual() -> Self {
        Self::with(ort(), gpu(), rten())
    }

    /// The usual engines with targets that behave otherwise.
    pub(crate) fn with(ort: FakeTarget, gpu: FakeTarget, rten: FakeTarget) -> Self {
        Self::of(vec![
            FakeEngine::new("onnxruntime", vec![ort]),
            FakeEngine::new("fakegpu", vec![gpu]),
            FakeEngine::new("rten", vec![rten]),
        ])
    }

    /// Engines with the packages that bring them; all but `onnxruntime` and `rten` are plugins.
    pub(crate) fn of(engines: Vec<FakeEngine>) -> Self {
        let home = TestHome::new(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("models"));
        for engine in &engines {
            match engine.name.as_str() {
                "rten" => {}
                "onnxruntime" => home.package("onnxruntime", "9.9.9", PackageKind::RuntimeLibrary),
                name => home.package(name, "1.0", PackageKind::Plugin),
            }
        }
        Self { home, launcher: FakeLauncher::new(engines) }
    }

    pub(crate) fn router(&self) -> Router {
        self.home.router(&self.launcher)
    }

    /// A start that must succeed.
    pub(crate) fn up(&self) -> UpReport {
        self.router().up(&UpPlan::default(), &mut Silent).unwrap()
    }

    /// Leaves the home as [`Self::up`] would. All tests on such a machine share one start, so this is for those that look
    /// at nothing of the start itself.
    pub(crate) fn started(&self) {
        let engines = self.launcher.engines();
        let start = Arc::clone(FIRST_STARTS.lock().unwrap().entry(format!("{engines:?}")).or_default());
        let left = start.get_or_init(|| {
            let first = Self::of(engines);
            first.up();
            first.home.contents()
        });
        self.home.fill(left);
    }

    /// A start that is stopped as soon as a step of that name begins for the `count`-th time.
    pub(crate) fn up_until(&self, step: &str, count: usize) -> Error {
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut options = self.home.options(&self.launcher);
        options.cancelled = Arc::clone(&cancelled);
        let mut stop = StopAt { step, left: count, cancelled };
        Router::open(options).unwrap().up(&UpPlan::default(), &mut stop).unwrap_err()
    }

    /// Every stored trial as target, model, and why it failed.
    pub(crate) fn trials(&self) -> Vec<(TargetKey, String, Option<Failure>)> {
        let router = self.router();
        let cases = router.store().cases().unwrap();
        router
            .store()
            .trial_summaries(&TrialFilter::default())
            .unwrap()
            .into_iter()
            .map(|trial| {
                let case = cases.iter().find(|case| case.id == trial.case).unwrap();
                (trial.target, case.model_name.clone(), trial.outcome.err())
            })
            .collect()
    }

    /// The kind of failure of each stored failed trial of `target`, by model.
    pub(crate) fn failures(&self, target: &str) -> Vec<(String, FailureKind)> {
        self.trials()
            .into_iter()
            .filter(|(key, _, _)| key.as_str() == target)
            .filter_map(|(_, model, failure)| Some((model, failure?.kind)))
            .collect()
    }
}

/// Stops the work as soon as a step of that name begins for so many times.
pub(crate) struct StopAt<'a> {
    pub(crate) step: &'a str,
    pub(crate) left: usize,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Listener for StopAt<'_> {
    fn event(&mut self, event: Event) {
        if matches!(&event, Event::Step(name) if name.starts_with(self.step)) {
            self.left -= 1;
            if self.left == 0 {
                self.cancelled.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Keeps all notices.
#[derive(Default)]
pub(crate) struct Notices(pub(crate) Vec<String>);

impl Listener for Notices {
    fn event(&mut self, event: Event) {
        if let Event::Notice(notice) = event {
            self.0.push(notice);
        }
    }
}

/// The decision for a model and batch size.
#[track_caller]
pub(crate) fn decision<'r>(report: &'r UpReport, model: &str, batch: u64) -> &'r CheckedDecision {
    report.evaluation.decisions.iter().find(|d| d.model == model && d.batch == batch).unwrap()
}

/// A model with a case of it.
pub(crate) fn question(router: &Router, model: &str, batch: u64) -> Question {
    let model = router.find_model(model, &mut Silent).unwrap();
    let case = router.models().case(&model, &Given { batch: Some(batch), ..Given::default() }).unwrap();
    Question { model, case }
}

pub(crate) fn key(name: &str) -> TargetKey {
    TargetKey(name.to_owned())
}

/// The workload that everything here is measured in.
pub(crate) const SUSTAINED: Workload = Workload::Sustained;
