//! What serving keeps and learns of runs on simulated targets.

use siliconroute::evaluation::Question;
use siliconroute::event::Silent;
use siliconroute::inputs;
use siliconroute::learn::Learned;
use siliconroute::run::Routing;
use siliconroute_core::Workload;
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::trial::Purpose;
use siliconroute_store::{CampaignState, NewDoubt, StoredTrial, TrialFilter};

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
