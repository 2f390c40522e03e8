//! The main job from a bare home, and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute::event::{Event, Listener, Silent};
use siliconroute::up::UpPlan;
use siliconroute::{Error, ErrorKind, Router};
use siliconroute_engine::packages::PackageKind;
use siliconroute_store::{NewDoubt, TrialFilter};

use crate::simulated::{
    DECIDED, GPU, LEARNED, Notices, ORT, RTEN, SUSTAINED, Simulated, decision, gpu, key, ort, question, rten,
};

#[test]
fn a_first_start_without_a_network_measures_decides_and_checks() {
    let simulated = Simulated::usual();
    let mut notices = Notices::default();
    let report = simulated.router().up(&UpPlan::default(), &mut notices).unwrap();
    assert_eq!(report.targets, [key(ORT), key(GPU), key(RTEN)]);
    assert_eq!(report.evaluation.decisions.len(), DECIDED);
    assert_eq!(report.measured_trials, 3 * (LEARNED + DECIDED));
    assert_eq!(simulated.trials().len(), 3 * (LEARNED + DECIDED));
    assert_eq!(report.notices, notices.0);
    let left_out = report.notices.iter().find(|notice| notice.starts_with("models left out")).unwrap();
    assert!(left_out.contains("silero-vad") && left_out.contains("orientation"), "{left_out}");
    assert!(report.notices.iter().any(|notice| notice.contains("no network in a test")));
}

/// A folder has the place of each model that cannot be written, as a full disk would.
#[test]
fn a_synthetic_model_that_cannot_be_written_is_left_out_and_told() {
    let simulated = Simulated::usual();
    let models = simulated.home.separate_models();
    let block = |name: &str| std::fs::create_dir_all(models.join(format!("{name}.onnx"))).unwrap();
    let large = ["mlp-2048w-4l", "mlp-1024w-4l"];
    large.into_iter().for_each(block);
    let report = simulated.up();
    assert_eq!(report.evaluation.decisions.len(), DECIDED - large.len());
    let told = |part: &str| report.notices.iter().any(|notice| notice.contains(part));
    assert!(told("mlp-2048w-4l.onnx") && told("a folder, not a file"), "{:?}", report.notices);
    assert!(told("synthetic models left out: mlp-2048w-4l, mlp-1024w-4l"), "{:?}", report.notices);
    let again = simulated.up();
    assert_eq!((again.measured_trials, again.evaluation), (0, report.evaluation));
    let files = std::fs::read_dir(&models).unwrap().map(|entry| entry.unwrap().file_name());
    let half_written: Vec<_> =
        files.filter(|name| name != ".lock" && !name.to_string_lossy().ends_with("l.onnx")).collect();
    assert!(half_written.is_empty(), "{half_written:?}");
}

#[test]
fn a_start_without_any_model_fails_with_the_first_reason() {
    let simulated = Simulated::usual();
    let models = simulated.home.separate_models();
    for (family, widths) in [("mlp", [128, 256, 512, 1024, 2048]), ("conv", [8, 16, 32, 48, 64])] {
        for width in widths {
            let unit = if family == "conv" { 'c' } else { 'w' };
            std::fs::create_dir(models.join(format!("{family}-{width}{unit}-4l.onnx"))).unwrap();
        }
    }
    for width in [64, 128, 256] {
        std::fs::create_dir(models.join(format!("attn-{width}d-2l.onnx"))).unwrap();
    }
    let error = simulated.router().up(&UpPlan::default(), &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
    assert!(error.to_string().contains("mlp-128w-4l.onnx"), "{error}");
}

#[test]
fn each_size_goes_to_the_target_that_is_fastest_for_it() {
    let report = Simulated::usual().up();
    for (model, chosen) in [("mlp-128w-4l", RTEN), ("mlp-512w-4l", ORT), ("conv-64c-4l", GPU)] {
        let decision = decision(&report, model, 1);
        assert_eq!(decision.chosen, Some(key(chosen)), "{model}: {}", decision.reason);
        assert_eq!(decision.best, decision.chosen);
        assert!(decision.profiled && decision.regret_pct.unwrap() < 1.0);
        assert_eq!(decision.source[&key(chosen)], "measured");
    }
    for (model, batch, chosen) in [("mlp-1024w-4l", 8, GPU), ("conv-48c-4l", 1, GPU)] {
        let decision = decision(&report, model, batch);
        assert!(!decision.profiled, "{model}");
        assert_eq!(decision.chosen, Some(key(chosen)), "{model}: {}", decision.reason);
        assert!(decision.source[&key(chosen)].starts_with('F'));
    }
    assert!(report.evaluation.strategies["router"].mean_regret_pct.unwrap() < 5.0);
}

#[test]
fn a_second_start_measures_nothing_and_decides_the_same() {
    let simulated = Simulated::usual();
    let first = simulated.up();
    let trials = simulated.trials().len();
    simulated.launcher.forget_calls();
    let second = simulated.up();
    assert_eq!(second.measured_trials, 0);
    assert_eq!(simulated.launcher.calls(), []);
    assert_eq!(simulated.trials().len(), trials);
    assert_eq!(second.evaluation.decisions, first.evaluation.decisions);
    assert_eq!(second.evaluation, first.evaluation);
}

#[test]
fn another_version_of_a_provider_is_measured_anew() {
    let simulated = Simulated::usual();
    simulated.up();
    simulated.launcher.change(GPU, |target| target.law.overhead_ns = 1_000.0);
    simulated.home.package("fakegpu", "2.0", PackageKind::Plugin);
    let report = simulated.up();
    // The new version and the reference, while learning.
    assert_eq!(report.measured_trials, 2 * LEARNED + 3 * DECIDED);
    assert_eq!(decision(&report, "mlp-128w-4l", 1).chosen, Some(key(GPU)));
    let gpus = simulated.router().store().targets().unwrap();
    let versions: Vec<_> = gpus.iter().filter(|stored| stored.target.key == key(GPU)).collect();
    assert_eq!(versions.len(), 2);
}

#[test]
fn a_target_that_is_gone_is_no_candidate_and_its_history_stays() {
    let simulated = Simulated::usual();
    simulated.up();
    let before = simulated.trials().len();
    simulated.home.remove_package("fakegpu");
    let report = simulated.up();
    assert_eq!(report.targets, [key(ORT), key(RTEN)]);
    // The cases are known for the targets that are left; only the decisions are new ones.
    assert_eq!(report.measured_trials, 2 * DECIDED);
    assert_eq!(simulated.trials().len(), before + 2 * DECIDED);
    assert_ne!(decision(&report, "conv-64c-4l", 1).chosen, Some(key(GPU)));
}

#[test]
fn a_new_target_is_measured_beside_the_known_ones() {
    let simulated = Simulated::usual();
    simulated.home.remove_package("fakegpu");
    simulated.up();
    simulated.home.package("fakegpu", "1.0", PackageKind::Plugin);
    let report = simulated.up();
    assert_eq!(report.targets, [key(ORT), key(GPU), key(RTEN)]);
    assert_eq!(decision(&report, "conv-64c-4l", 1).chosen, Some(key(GPU)));
    assert_eq!(report.measured_trials, 2 * LEARNED + 3 * DECIDED);
}

#[test]
fn the_users_own_model_is_measured_too() {
    let simulated = Simulated::usual();
    let own = simulated.home.path().join("own.onnx");
    let router = simulated.router();
    router.generate_models(&["mlp-64w-2l".to_owned()], simulated.home.path(), &mut Silent).unwrap();
    std::fs::rename(simulated.home.path().join("mlp-64w-2l.onnx"), &own).unwrap();
    let plan = UpPlan { models: vec![own.display().to_string()], ..UpPlan::default() };
    let report = router.up(&plan, &mut Silent).unwrap();
    assert_eq!(report.evaluation.decisions.len(), DECIDED + 1);
    let decision = decision(&report, "own", 1);
    assert!(decision.profiled && !decision.synthetic);
    assert_eq!(decision.chosen, Some(key(RTEN)));
}

/// Listens to a start that has nothing to wait for, and stops one that waits for its turn to measure.
struct Impatient {
    cancelled: Arc<AtomicBool>,
    notices: Notices,
}

impl Listener for Impatient {
    fn event(&mut self, event: Event) {
        if matches!(&event, Event::Notice(notice) if notice.contains("another program is measuring")) {
            self.cancelled.store(true, Ordering::Relaxed);
        }
        self.notices.event(event);
    }
}

#[test]
fn a_doubt_about_a_model_that_is_gone_lets_no_later_start_wait() {
    let simulated = Simulated::usual();
    let own = simulated.home.path().join("mlp-64w-2l.onnx");
    let router = simulated.router();
    router.generate_models(&["mlp-64w-2l".to_owned()], simulated.home.path(), &mut Silent).unwrap();
    let plan = UpPlan { models: vec![own.display().to_string()], ..UpPlan::default() };
    router.up(&plan, &mut Silent).unwrap();
    let case = question(&router, &plan.models[0], 1).case;
    let filter = TrialFilter { case: Some(case.id), ..TrialFilter::default() };
    let doubt = NewDoubt {
        hardware_id: &router.machine().hardware_id,
        target: router.store().trial_summaries(&filter).unwrap()[0].target_id,
        case: case.id,
        workload: SUSTAINED,
        ratio: 3.0,
        since_unix_ms: router.unix_ms(),
    };
    router.store().record_doubt(&doubt).unwrap();
    std::fs::remove_file(&own).unwrap();
    let trials = simulated.trials().len();

    let other = std::fs::File::create(simulated.home.path().join("measuring.lock")).unwrap();
    other.lock().unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let mut listener = Impatient { cancelled, notices: Notices::default() };
    let report = Router::open(options).unwrap().up(&UpPlan::default(), &mut listener).unwrap();
    assert_eq!((report.measured_trials, simulated.trials().len()), (0, trials));
    let told = |notice: &&String| notice.contains("is not measured again: ");
    assert_eq!(report.notices.iter().filter(told).count(), 1, "{:?}", report.notices);
    assert_eq!(report.notices, listener.notices.0);
}

#[test]
fn a_model_of_the_user_that_is_not_there_stops_the_start() {
    let simulated = Simulated::usual();
    let plan = UpPlan { models: vec!["nowhere/model.onnx".to_owned()], ..UpPlan::default() };
    let error: Error = simulated.router().up(&plan, &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(simulated.launcher.calls(), []);
}

#[test]
fn a_model_of_the_user_that_no_target_can_run_is_told_and_is_a_failure() {
    use siliconroute_testkit::{Behaviour, Fault, Moment};
    let refuse = || Behaviour::fault(Moment::Create, Fault::Refuse("no such operator".to_owned()));
    let crash = || Behaviour::fault(Moment::Create, Fault::Crash);
    for (gpu_does, kind) in [(refuse(), ErrorKind::Usage), (crash(), ErrorKind::WorkFailed)] {
        let simulated =
            Simulated::with(ort().on("own", refuse()), gpu().on("own", gpu_does), rten().on("own", refuse()));
        let router = simulated.router();
        router.generate_models(&["mlp-64w-2l".to_owned()], simulated.home.path(), &mut Silent).unwrap();
        let own = simulated.home.path().join("own.onnx");
        std::fs::rename(simulated.home.path().join("mlp-64w-2l.onnx"), &own).unwrap();
        let plan = UpPlan { models: vec![own.display().to_string()], ..UpPlan::default() };
        let report = router.up(&plan, &mut Silent).unwrap();
        assert_eq!(report.failure(), Some(kind));
        let notice =
            report.notices.iter().find(|notice| notice.starts_with("no target can run own")).unwrap();
        assert!(notice.contains("cpu/ort refused: no such operator"), "{notice}");
        assert_eq!(report.unusable.len(), 1);
    }
}

#[test]
fn trials_that_are_to_be_shorter_than_usual_warm_up_less() {
    let simulated = Simulated::usual();
    for (budget_ms, warmup_us) in [("1", 1_500), ("100", 150_000), ("200", 300_000), ("60000", 300_000)] {
        let mut options = simulated.home.options(&simulated.launcher);
        options.settings = siliconroute::settings::Settings::resolve(
            simulated.home.path(),
            [("SILICONROUTE_TRIAL_BUDGET_MS".to_owned(), budget_ms.to_owned())],
            &std::collections::BTreeMap::new(),
        )
        .unwrap();
        let sampling = Router::open(options).unwrap().sampling();
        assert_eq!(sampling.warmup_time, std::time::Duration::from_micros(warmup_us), "{budget_ms} ms");
    }
}
