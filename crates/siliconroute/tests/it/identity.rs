//! A trial belongs to a chip: targets that answer from another one are found, marked and not learned from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute::compare::compare_targets;
use siliconroute::evaluation::Evaluation;
use siliconroute::event::{Event, Listener, Silent};
use siliconroute::identify::{Agreement, Evidence, Verdict};
use siliconroute::measure::{Job, Measured, Order};
use siliconroute::run::Routing;
use siliconroute::{Error, Router};
use siliconroute_core::ChipKey;
use siliconroute_core::statistics::Verdict as Compared;
use siliconroute_core::trial::{Preparation, Purpose, Trial};
use siliconroute_store::TrialFilter;
use siliconroute_testkit::{Behaviour, FakeEngine, FakeSensors, FakeTarget, Fault, Moment, TimeLaw};

use crate::simulated::{Notices, ORT, SUSTAINED, Simulated, gpu, key, ort, question, rten};

const ONE: &str = "gpu:10de:2d18@0000:01:00.0";
const TWO: &str = "gpu:10de:2d18@0000:02:00.0";
/// The model of the load, by which its sessions are known.
const LOAD: &str = "conv-64c-4l";

fn on(chip: &str) -> String {
    format!("{chip}/webgpu")
}

/// The second GPU is four times as slow.
const FAST: TimeLaw = TimeLaw { overhead_ns: 300_000.0, ns_per_flop: 0.001, ns_per_byte: 0.0 };
const SLOW: TimeLaw = TimeLaw { overhead_ns: 300_000.0, ns_per_flop: 0.004, ns_per_byte: 0.0 };

/// A machine with two GPUs, and whether its sensors see them.
struct TwoGpus {
    simulated: Simulated,
    seen: Vec<&'static str>,
}

impl TwoGpus {
    fn new(seen: &[&'static str]) -> Self {
        let gpus = vec![FakeTarget::new(&on(ONE), FAST), FakeTarget::new(&on(TWO), SLOW)];
        let simulated = Simulated::of(vec![
            FakeEngine::new("onnxruntime", vec![ort()]),
            FakeEngine::new("fakegpu", gpus),
            FakeEngine::new("rten", vec![rten()]),
        ]);
        Self { simulated, seen: seen.to_vec() }
    }

    /// A program of its own on this machine.
    fn router(&self) -> Router {
        let mut options = self.simulated.home.options(&self.simulated.launcher);
        options.sensors = FakeSensors::of(&self.simulated.launcher, &self.seen);
        Router::open(options).unwrap()
    }

    /// Each GPU's name leads to the other one from now on.
    fn swap(&self) {
        self.simulated.launcher.change(&on(ONE), |fake| {
            (fake.law, fake.answers) = (SLOW, Some(ChipKey(TWO.to_owned())));
        });
        self.simulated.launcher.change(&on(TWO), |fake| {
            (fake.law, fake.answers) = (FAST, Some(ChipKey(ONE.to_owned())));
        });
    }

    fn swap_back(&self) {
        self.simulated.launcher.change(&on(ONE), |fake| (fake.law, fake.answers) = (FAST, None));
        self.simulated.launcher.change(&on(TWO), |fake| (fake.law, fake.answers) = (SLOW, None));
    }

    /// How often the load was put onto a target.
    fn loads(&self) -> usize {
        self.simulated.launcher.sessions().iter().filter(|(_, model)| model == LOAD).count()
    }
}

/// A campaign over all targets; its trials and its notices.
fn campaign(router: &Router) -> (Vec<Trial>, Vec<String>) {
    let (measured, notices) = campaign_of(router, "mlp-128w-4l", 1);
    (measured.trials, notices)
}

fn campaign_of(router: &Router, model: &str, sessions: usize) -> (Measured, Vec<String>) {
    let targets = router.targets(&mut Silent).unwrap();
    let question = question(router, model, 1);
    let keys = targets.discovery.available().map(|found| found.target.key.clone()).collect();
    let job = Job { model: question.model, case: question.case, workload: SUSTAINED, targets: keys };
    let sampling = router.sampling();
    let mut notices = Notices::default();
    let jobs = vec![job; sessions];
    let order = Order::new(Purpose::Learn, &sampling);
    let measured = router.measure(&jobs, &targets, &order, &mut notices).unwrap();
    (measured, notices.0)
}

/// The targets of trials that are suspects, with the reasons.
fn suspects(trials: &[Trial]) -> Vec<(&str, &str)> {
    let mut found: Vec<_> =
        trials.iter().filter_map(|trial| Some((trial.target.as_str(), trial.suspect.as_deref()?))).collect();
    found.sort_unstable();
    found
}

#[track_caller]
fn swapped_adapters_are_suspects(machine: &TwoGpus, reason: &str) {
    let (trials, notices) = campaign(&machine.router());
    assert_eq!(trials.len(), 4);
    assert_eq!(suspects(&trials), []);
    assert!(notices.is_empty(), "{notices:?}");

    machine.swap();
    let (trials, notices) = campaign(&machine.router());
    let (one, two) = (on(ONE), on(TWO));
    let found = suspects(&trials);
    assert_eq!(found.iter().map(|(target, _)| *target).collect::<Vec<_>>(), [&one, &two]);
    assert!(found.iter().all(|(_, why)| why.contains(reason)), "{found:?}");
    let told = |target: &str| {
        notices.iter().any(|notice| notice.contains(target) && notice.contains("devices identify"))
    };
    assert!(told(&one) && told(&two), "{notices:?}");

    let router = machine.router();
    let kept = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    assert_eq!(kept.len(), 8, "suspect trials are kept");
    assert_eq!(kept.iter().filter(|trial| trial.suspect.is_some()).count(), 2);
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let of = |target: &str| learned.trials.iter().filter(|trial| trial.target == key(target)).count();
    assert_eq!((of(ORT), of(&one), of(&two)), (2, 1, 1), "nothing is learned from suspects");

    machine.swap_back();
    let (trials, _) = campaign(&machine.router());
    assert_eq!(suspects(&trials), [], "a suspect leaves no fingerprint");
}

#[test]
fn sensors_find_swapped_adapters() {
    swapped_adapters_are_suspects(&TwoGpus::new(&["cpu", ONE, TWO]), "answered to it, not");
}

#[test]
fn the_time_of_a_fixed_load_finds_swapped_adapters_without_sensors() {
    swapped_adapters_are_suspects(&TwoGpus::new(&[]), "adapters may have changed places");
}

/// A model that the GPUs are fastest at.
const LARGE: &str = LOAD;

#[test]
fn a_suspect_target_is_neither_the_best_nor_judged() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    campaign_of(&machine.router(), LARGE, 1);
    machine.swap();
    let router = machine.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let questions = [question(&router, LARGE, 1)];
    let checked =
        router.check(&questions, &targets, &learned, &Routing::default(), &mut Silent).unwrap().remove(0);
    let (one, two) = (key(&on(ONE)), key(&on(TWO)));
    assert_eq!(checked.chosen, Some(one.clone()), "it was the fastest when it was learned");
    assert_eq!(checked.best, Some(key(ORT)));
    assert_eq!((checked.regret_pct, checked.tie), (None, false));
    assert_eq!(checked.suspects.iter().collect::<Vec<_>>(), [&one, &two]);
    for suspect in [&one, &two] {
        assert!(!checked.times_ms.contains_key(suspect) && !checked.intervals_ms.contains_key(suspect));
        assert!(checked.excluded[suspect].contains("suspect: "), "{:?}", checked.excluded);
    }
    assert_eq!(checked.candidates, 2);

    let stored = router
        .stored_checks(&questions, &targets, siliconroute_core::Workload::Sustained)
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(stored.suspects, checked.suspects);
    let evaluation = Evaluation::of(vec![stored]);
    let score = |strategy: &str| {
        let score = &evaluation.strategies[strategy];
        (score.total, score.failed, score.not_applicable)
    };
    assert_eq!((score("router"), score("always-gpu")), ((0, 0, 1), (0, 0, 1)), "nobody knows what it cost");
    assert_eq!(score("always-cpu"), (1, 0, 0));
    assert_eq!(evaluation.prediction.total, 2, "predictions are judged on trials that are no suspects");
}

#[test]
fn comparisons_with_suspects_have_numbers_and_no_verdict() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    let (honest, _) = campaign_of(&machine.router(), LARGE, 3);
    machine.swap();
    machine.simulated.launcher.change(&on(ONE), |fake| fake.memory_bytes = Some(7));
    let router = machine.router();
    let (swapped, _) = campaign_of(&router, LARGE, 3);
    let verdict = |measured: &Measured, first: &str, second: &str| {
        let (case, how) = (measured.trials[0].case, (SUSTAINED, Preparation::Running));
        compare_targets(&measured.trials, case, how, &key(first), &key(second)).unwrap().verdict
    };
    assert!(matches!(verdict(&honest, &on(ONE), ORT), Compared::Faster { .. }));
    for (first, second) in [(&*on(ONE), ORT), (ORT, &*on(ONE))] {
        assert_eq!(verdict(&swapped, first, second), Compared::Withheld);
    }
    assert_ne!(verdict(&swapped, ORT, "cpu/rten"), Compared::Withheld);

    let compared = router.compare_campaigns(honest.campaign, swapped.campaign).unwrap();
    assert_eq!(compared.len(), 4);
    for pair in compared {
        let suspect = pair.first.starts_with("gpu");
        assert_eq!(pair.suspect.is_some(), suspect, "{pair:?}");
        assert_eq!(pair.comparison.unwrap().verdict == Compared::Withheld, suspect);
    }
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let sessions = |target: &str| learned.session_spread(&key(target), SUSTAINED).unwrap().sessions;
    assert_eq!((sessions(ORT), sessions(&on(ONE))), (6, 3), "suspects tell nothing of how sessions differ");
    let memory = learned.memory_of(&question(&router, LARGE, 1).case, &key(&on(ONE)));
    assert_eq!(memory.peak_resident.available(), None, "nor of memory");
}

#[test]
fn an_adapter_that_has_become_slow_is_no_suspect() {
    let machine = TwoGpus::new(&[]);
    campaign(&machine.router());
    let slower = TimeLaw { ns_per_flop: 0.002, ..FAST };
    machine.simulated.launcher.change(&on(ONE), |fake| fake.law = slower);
    let (trials, notices) = campaign(&machine.router());
    assert_eq!(suspects(&trials), []);
    assert!(notices.is_empty(), "{notices:?}");
}

#[test]
fn chips_are_looked_at_once_in_a_process() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    machine.swap();
    let router = machine.router();
    for _ in 0..2 {
        let (trials, _) = campaign(&router);
        assert_eq!(suspects(&trials).len(), 2);
        assert_eq!(machine.loads(), 2);
    }
}

#[test]
fn where_nothing_can_be_told_apart_nothing_is_loaded() {
    let cpus = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new("rten", vec![rten()]),
    ]);
    for (machine, seen) in [(Simulated::with(ort(), gpu(), rten()), &[][..]), (cpus, &["cpu", ONE])] {
        let machine = TwoGpus { simulated: machine, seen: seen.to_vec() };
        let (trials, notices) = campaign(&machine.router());
        assert_eq!((suspects(&trials).len(), notices.len(), machine.loads()), (0, 0, 0));
    }
}

#[test]
fn a_target_that_fails_under_the_load_is_told_and_no_suspect() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    let refusal = Fault::Refuse("no such layout".to_owned());
    machine.simulated.launcher.change(&on(ONE), |fake| {
        fake.models.insert(LOAD.to_owned(), Behaviour::fault(Moment::Create, refusal));
    });
    let (trials, notices) = campaign(&machine.router());
    assert_eq!(suspects(&trials), []);
    assert!(notices.iter().any(|it| it.contains("is not checked") && it.contains("no such layout")));
}

#[test]
fn a_target_is_identified_by_what_its_chip_does() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    let router = machine.router();
    let identify = |target: &str| router.identify(target, 1.0, &mut Silent).unwrap();
    let one = identify(&on(ONE));
    assert_eq!((one.agrees, one.expected.as_str()), (Agreement::Agrees, ONE));
    assert_eq!(one.chips.len(), 3);
    let busy = one.chips.iter().filter(|chip| chip.load.busy_percent != chip.rest.busy_percent);
    assert_eq!(busy.map(|chip| chip.chip.as_str()).collect::<Vec<_>>(), [ONE]);
    assert_eq!(identify(ORT).agrees, Agreement::Agrees);

    machine.swap();
    let swapped = identify(&on(ONE));
    assert_eq!(swapped.agrees, Agreement::Contradicts);
    let chip = ChipKey(TWO.to_owned());
    assert_eq!(swapped.verdict, Verdict::Answered { chip, evidence: Evidence::Load, unseen: Vec::new() });

    let blind = TwoGpus::new(&[]);
    let unknown = blind.router().identify(&on(ONE), 1.0, &mut Silent).unwrap();
    assert!(matches!(unknown.agrees, Agreement::CannotTell(_)), "{:?}", unknown.agrees);
}

#[test]
fn a_load_without_end_is_refused() {
    let router = TwoGpus::new(&[]).router();
    for seconds in [0.0, -1.0, 1e9, f64::NAN, f64::INFINITY] {
        let error = router.identify(ORT, seconds, &mut Silent).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
}

struct StopAtWork(Arc<AtomicBool>);

impl Listener for StopAtWork {
    fn event(&mut self, event: Event) {
        if matches!(&event, Event::Step(step) if step.ends_with("at work")) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn an_identification_can_be_stopped() {
    let machine = TwoGpus::new(&["cpu", ONE, TWO]);
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = machine.simulated.home.options(&machine.simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let router = Router::open(options).unwrap();
    let error = router.identify(&on(ONE), 600.0, &mut StopAtWork(cancelled)).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}
