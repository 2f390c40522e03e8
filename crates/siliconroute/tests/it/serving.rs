//! What serving keeps and learns of runs on simulated targets.

use std::collections::HashSet;

use siliconroute::evaluation::Question;
use siliconroute::event::Silent;
use siliconroute::inputs;
use siliconroute::learn::Learned;
use siliconroute::measure::{Job, Order};
use siliconroute::run::Routing;
use siliconroute_core::Workload;
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::trial::Purpose;
use siliconroute_store::{CampaignId, CampaignState, NewCampaign, NewDoubt, StoredTrial, TrialFilter};

use crate::simulated::{Simulated, question};

const RUNS: usize = 60;

#[test]
fn every_run_teaches_and_is_stored() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, "mlp-128w-4l", 1);
    let serving = router.serve(&targets, &learned).unwrap();
    let mut session = serving.open_session(&model, &case, Routing::default()).unwrap();
    session.set_inputs(inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap()).unwrap();
    for _ in 0..RUNS {
        session.run().unwrap();
    }
    assert_eq!(session.runs(), RUNS as u64);
    assert_eq!(session.outputs().unwrap().len(), 1);
    drop(session);
    serving.flush();
    let snapshot = serving.snapshot();
    let runs_of = |index: usize| {
        let belief = snapshot.belief(case.id, TargetIndex(index as u16), Workload::Sustained);
        belief.map_or(0, siliconroute_core::learning::Belief::runs)
    };
    let taught: u64 = (0..learned.knowledge.targets().len()).map(runs_of).sum();
    let served = TrialFilter { purpose: Some(Purpose::Served), ..TrialFilter::default() };
    let trials = router.store().trial_summaries(&served).unwrap();
    let samples: usize = trials.iter().map(|trial| router.store().samples(trial.id).unwrap().len()).sum();
    // The first run of each session belongs to its cold start.
    assert!(samples + 4 > RUNS && samples < RUNS, "{samples}");
    assert!(taught > 0 && taught <= samples as u64, "{taught} of {samples}");
    assert!(serving.account().total_ns > 0.0);
    drop(serving);
    let campaigns = router.store().campaigns().unwrap();
    let served = campaigns.iter().find(|campaign| campaign.purpose == Purpose::Served).unwrap();
    assert_eq!(served.state, CampaignState::Finished);
    // What was stored is learned from like any other trial; where it has shown a change, it takes the place of older ones.
    let again = router.learn(&targets).unwrap();
    assert!(again.trials.len() >= learned.trials.len() || !again.doubts.is_empty());
}

#[test]
fn a_named_target_is_kept_to() {
    let simulated = Simulated::usual();
    simulated.started();
    let before = simulated.router().store().campaigns().unwrap().len();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { model, case } = question(&router, "mlp-128w-4l", 1);
    {
        let serving = router.serve(&targets, &learned).unwrap();
        let named =
            Routing { target: Some(learned.knowledge.targets()[0].target.key.clone()), ..Routing::default() };
        let mut session = serving.open_session(&model, &case, named.clone()).unwrap();
        session.set_inputs(inputs::generate(&case.facts.inputs, &model.recipes, 1).unwrap()).unwrap();
        for _ in 0..RUNS {
            session.run().unwrap();
        }
        assert_eq!(Some(session.target()), named.target.as_ref());
    }
    assert_eq!(router.store().campaigns().unwrap().len(), before + 1);
}

#[test]
fn a_target_that_has_changed_as_a_whole_is_told_and_measured_again_by_the_next_start() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let target = learned.knowledge.target(TargetIndex(0)).key.clone();
    let trials = || {
        let trials = router.store().trial_summaries(&TrialFilter::default()).unwrap();
        trials.into_iter().filter(|trial| trial.target == target).collect::<Vec<_>>()
    };
    let before = trials();
    let times: HashSet<_> = before.iter().map(|trial| (trial.case, trial.workload)).collect();
    for model in ["mlp-128w-4l", "conv-8c-4l"] {
        let doubt = NewDoubt {
            hardware_id: &router.machine().hardware_id,
            target: before[0].target_id,
            case: question(&router, model, 1).case.id,
            workload: Workload::Sustained,
            ratio: 2.0,
            since_unix_ms: router.unix_ms(),
        };
        router.store().record_doubt(&doubt).unwrap();
    }
    let doubted = router.learn(&targets).unwrap().doubts;
    assert_eq!(doubted.len(), times.len());
    let told = router.told_doubts().unwrap();
    let begin = format!("{target} has changed as a whole since ");
    assert!(told.len() == 3 && told[2].starts_with(&begin), "{told:?}");
    let checks = router.diagnose(&mut Silent).unwrap();
    assert!(checks.iter().any(|check| check.finding == told[2]), "{checks:?}");

    simulated.up();
    assert!(router.learn(&targets).unwrap().doubts.is_empty());
    let again: HashSet<_> =
        trials()[before.len()..].iter().map(|trial| (trial.case, trial.workload)).collect();
    assert_eq!(again, times);
}

#[test]
fn a_served_campaign_whose_program_is_gone_ended_early_and_that_of_a_living_one_did_not() {
    let simulated = Simulated::usual();
    simulated.started();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let state = |id: CampaignId| {
        router.store().campaigns().unwrap().iter().find(|campaign| campaign.id == id).unwrap().state
    };
    let told = || {
        let checks = router.diagnose(&mut Silent).unwrap();
        checks.into_iter().find(|check| check.subject == "campaigns").map(|check| check.finding)
    };
    let lock = simulated.home.path().join("serving").join("gone.lock");
    let killed = |plan| {
        std::fs::write(&lock, "").unwrap();
        let campaign = NewCampaign {
            host: None,
            purpose: Purpose::Served,
            seed: 1,
            program_version: "0",
            program_commit: None,
            started_unix_ms: 1_700_000_000_000,
            plan,
        };
        router.store().begin_campaign(&campaign).unwrap()
    };
    let serving = router.serve(&targets, &learned).unwrap();
    let living = router.store().campaigns().unwrap().last().unwrap().id;
    assert_eq!(told(), None);

    // As a program that was killed leaves it: its lock went with it, and the lock's file stayed.
    let served = killed(r#"{"lock":"gone.lock"}"#);
    let finding = told().unwrap();
    let begin = format!("1 campaign ended early, since the program that served was ended: {served} (");
    assert!(finding.starts_with(&begin), "{finding}");
    drop(router.serve(&targets, &learned).unwrap());
    assert_eq!((state(served), state(living)), (CampaignState::Interrupted, CampaignState::Running));
    assert!(!lock.exists() && told().is_none());

    let served = killed("{}");
    let Question { model, case } = question(&router, "mlp-128w-4l", 1);
    let target = learned.knowledge.targets()[0].target.key.clone();
    let job = Job { model, case, workload: Workload::Sustained, targets: vec![target] };
    let sampling = router.sampling();
    router.measure(&[job], &targets, &Order::new(Purpose::Bench, &sampling), &mut Silent).unwrap();
    assert_eq!((state(served), state(living)), (CampaignState::Interrupted, CampaignState::Running));

    drop(serving);
    assert_eq!(state(living), CampaignState::Finished);
    let left = std::fs::read_dir(lock.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["gone.lock"]);
}

#[test]
fn a_time_that_runs_have_shown_to_have_changed_is_in_doubt_until_the_next_start_measures_it() {
    let simulated = Simulated::usual();
    simulated.up();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let Question { case, .. } = question(&router, "mlp-128w-4l", 1);
    let known = TargetIndex(0);
    let target = learned.knowledge.target(known).key.clone();
    let sessions = |learned: &Learned| {
        learned.knowledge.estimate(case.id, known, Workload::Sustained).map(|time| time.sessions)
    };
    assert!(sessions(&learned) > Some(1) && learned.doubts.is_empty());
    let since_unix_ms = router.unix_ms();
    let trials = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    let row = trials.iter().find(|trial| trial.target == target).unwrap().target_id;
    router
        .store()
        .record_doubt(&NewDoubt {
            hardware_id: &router.machine().hardware_id,
            target: row,
            case: case.id,
            workload: Workload::Sustained,
            ratio: 3.0,
            since_unix_ms,
        })
        .unwrap();
    let doubted = router.learn(&targets).unwrap();
    assert_eq!(doubted.doubts.iter().map(|doubt| &doubt.target).collect::<Vec<_>>(), [&target]);
    // Until there are new ones, the old times count.
    assert_eq!(sessions(&doubted), sessions(&learned));
    let told = router.told_doubts().unwrap();
    assert!(told[0].contains(&format!("on {target} (sustained) is in doubt since ")), "{told:?}");
    let checks = router.diagnose(&mut Silent).unwrap();
    assert!(checks.iter().any(|check| check.finding == told[0]), "{checks:?}");
    drop(router);

    simulated.up();
    let router = simulated.router();
    let again = router.learn(&targets).unwrap();
    assert!(again.doubts.is_empty(), "{:?}", again.doubts);
    let later = |trial: &StoredTrial| {
        trial.target == target && trial.case == case.id && trial.started_unix_ms > since_unix_ms
    };
    let trials = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    let made = trials.iter().filter(|trial| later(trial) && trial.purpose == Purpose::Learn).count();
    assert!(made > 0);
    assert_eq!(sessions(&again), Some(trials.iter().filter(|trial| later(trial)).count() as u32));
}
