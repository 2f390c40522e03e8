//! A start that is stopped goes on where it was.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use siliconroute::event::Silent;
use siliconroute::identify::{ChipSample, OpenSensors, ProcessChipUse, Sensors};
use siliconroute::measure::{Job, Order};
use siliconroute::{Error, Router};
use siliconroute_core::trial::Purpose;
use siliconroute_store::{CampaignState, NewCampaign};

use crate::simulated::{DECIDED, GPU, LEARNED, Notices, ORT, SUSTAINED, Simulated, StopAt, key, question};

#[test]
fn an_interrupted_start_goes_on_with_what_is_missing() {
    let undisturbed = Simulated::usual().up();
    let simulated = Simulated::usual();
    let error = simulated.up_until("attn-64d-2l", 1);
    assert!(matches!(error, Error::Interrupted), "{error}");
    // The case that was running is lost, the seven before it are kept.
    let kept = simulated.trials().len();
    assert_eq!(kept, 3 * 7);

    simulated.launcher.forget_calls();
    let report = simulated.up();
    assert_eq!(report.measured_trials, 3 * (LEARNED - 7 + DECIDED));
    assert_eq!(simulated.trials().len(), 3 * (LEARNED + DECIDED));
    let chosen = |report: &siliconroute::up::UpReport| -> Vec<_> {
        report.evaluation.decisions.iter().map(|d| (d.model.clone(), d.batch, d.chosen.clone())).collect()
    };
    assert_eq!(chosen(&report), chosen(&undisturbed));
}

#[test]
fn an_interrupted_self_check_keeps_the_decisions_that_were_checked() {
    let simulated = Simulated::usual();
    // Each learned case is a step once in each session of learning and once while checking.
    let error = simulated.up_until("mlp-2048w-4l", siliconroute::up::SESSIONS + 1);
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(simulated.trials().len(), 3 * (LEARNED + 3));
    let report = simulated.up();
    assert_eq!(report.measured_trials, 3 * (DECIDED - 3));
    assert_eq!(report.evaluation.decisions.len(), DECIDED);
}

#[test]
fn an_interrupted_campaign_is_recorded_as_such() {
    let simulated = Simulated::usual();
    simulated.up_until("conv-8c-4l", 1);
    let router = simulated.router();
    let campaigns = router.store().campaigns().unwrap();
    assert_eq!(campaigns.len(), 1);
    assert_ne!(campaigns[0].state, CampaignState::Finished);
}

#[test]
fn a_campaign_whose_program_is_gone_ended_early() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let begun = || {
        let campaign = NewCampaign {
            host: None,
            purpose: Purpose::Bench,
            seed: 1,
            program_version: "0",
            program_commit: None,
            started_unix_ms: 1_700_000_000_000,
            plan: "{}",
        };
        router.store().begin_campaign(&campaign).unwrap()
    };
    let told = || {
        let checks = router.diagnose(&mut Silent).unwrap();
        checks.into_iter().find(|check| check.subject == "campaigns").map(|check| check.finding)
    };
    assert_eq!(told(), None);
    // As a program that was killed leaves it; its lock went with it.
    let killed = begun();
    let finding = told().unwrap();
    assert!(
        finding.starts_with(&format!("1 campaign ended early, since the program was ended: {killed}")),
        "{finding}"
    );
    let lock = std::fs::File::create(simulated.home.path().join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(told().unwrap(), format!("under way: {killed} (bench, begun 2023-11-14 22:13 UTC, 0 trials)"));
    drop(lock);
    let question = question(&router, "mlp-128w-4l", 1);
    let job =
        Job { model: question.model, case: question.case, workload: SUSTAINED, targets: vec![key(GPU)] };
    let sampling = router.sampling();
    router.measure(&[job], &targets, &Order::new(Purpose::Bench, &sampling), &mut Silent).unwrap();
    let states: Vec<_> = router.store().campaigns().unwrap().iter().map(|it| it.state).collect();
    assert_eq!(states, [CampaignState::Interrupted, CampaignState::Finished]);
    assert_eq!(told(), None);
}

#[test]
fn an_interrupted_benchmark_tells_what_it_misses() {
    let simulated = Simulated::usual();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let router = Router::open(options).unwrap();
    let targets = router.targets(&mut Silent).unwrap();
    let asked = [1, 2].map(|batch| question(&router, "mlp-128w-4l", batch));
    let job = |index: usize| Job {
        model: asked[index].model.clone(),
        case: asked[index].case.clone(),
        workload: SUSTAINED,
        targets: vec![key(ORT), key(GPU)],
    };
    let jobs = [job(0), job(1), job(0), job(1)];
    let (sampling, mut stop) = (router.sampling(), StopAt { step: "mlp-128w-4l", left: 3, cancelled });
    let order = Order::new(Purpose::Bench, &sampling);
    let measured = router.measure(&jobs, &targets, &order, &mut stop).unwrap();
    assert!(measured.interrupted);
    let missing: Vec<_> =
        measured.missing.iter().map(|it| (it.case_id, it.sessions, it.of_sessions)).collect();
    assert_eq!(missing, asked.map(|question| (question.case.id, 1, 2)));
    assert!(measured.missing.iter().all(|it| it.all_targets && it.targets == [key(ORT), key(GPU)]));
    assert!(measured.missing[1].to_string().ends_with(" sustained (1 of 2 sessions)"));
}

#[test]
fn what_was_interrupted_leaves_no_trial_of_the_case() {
    let simulated = Simulated::usual();
    simulated.up_until("conv-8c-4l", 1);
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let question = question(&router, "conv-8c-4l", 1);
    for found in targets.discovery.available() {
        assert!(learned.trials_of(question.case.id, &found.target.key, SUSTAINED).next().is_none());
    }
}

/// Sensors that never answer the thread that looks while a campaign runs, until their other end is dropped.
struct Hanging(mpsc::Receiver<()>);

impl Sensors for Hanging {
    fn sample(&mut self) -> Vec<ChipSample> {
        if std::thread::current().name() == Some("sampler") {
            let _never_or_dropped = self.0.recv();
        }
        Vec::new()
    }

    fn process(&mut self, _pid: u32) -> Vec<ProcessChipUse> {
        Vec::new()
    }
}

#[test]
fn a_sensor_that_hangs_does_not_keep_a_campaign_from_ending() {
    let simulated = Simulated::usual();
    let mut options = simulated.home.options(&simulated.launcher);
    let held: Arc<Mutex<Vec<mpsc::Sender<()>>>> = Arc::default();
    let kept = Arc::clone(&held);
    let open: OpenSensors = Arc::new(move |_| {
        let (sender, receiver) = mpsc::channel();
        kept.lock().unwrap().push(sender);
        Box::new(Hanging(receiver))
    });
    options.sensors = open;
    let router = Router::open(options).unwrap();
    let targets = router.targets(&mut Silent).unwrap();
    let question = question(&router, "mlp-128w-4l", 1);
    let job =
        Job { model: question.model, case: question.case, workload: SUSTAINED, targets: vec![key(GPU)] };
    let (sampling, mut notices) = (router.sampling(), Notices::default());
    let order = Order::new(Purpose::Learn, &sampling);
    let measured = router.measure(&[job], &targets, &order, &mut notices).unwrap();
    assert_eq!(measured.trials.len(), 1);
    let conditions: serde_json::Value = serde_json::from_str(&measured.trials[0].conditions).unwrap();
    let seen = &conditions["meanwhile"]["seen"]["available"];
    let reason = seen["chips"]["unavailable"].as_str().unwrap();
    assert!(reason.contains("a sensor has not answered for"), "{reason}");
    assert!(notices.0.iter().any(|notice| notice.contains("a sensor has not answered")), "{:?}", notices.0);
    assert_eq!(router.store().campaigns().unwrap()[0].state, CampaignState::Finished);
}
