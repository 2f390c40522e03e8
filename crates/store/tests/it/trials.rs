//! Campaigns, trials, samples and summaries.

use std::error::Error;

use rusqlite::Connection;
use siliconroute_core::reading::Reading;
use siliconroute_core::statistics;
use siliconroute_core::trial::{Failure, FailureKind, OutputCheck, Purpose, Sample, Trial};
use siliconroute_core::workload::Workload;
use siliconroute_store::{CampaignId, CampaignState, Store, StoreError, TargetId, TrialFilter, TrialId};

use crate::sample_data::{NOW, campaign, case, failed_trial, model, prepare, target, trial};
use crate::{for_reading, new_store};

/// The summaries of all trials.
fn all(store: &Store) -> Vec<siliconroute_store::StoredTrial> {
    store.trial_summaries(&TrialFilter::default()).expect("the trials can be read")
}

#[track_caller]
fn check_refused(store: &Store, campaign: CampaignId, target: TargetId, trial: &Trial, reason: &str) {
    let refused = store.record_trial(campaign, target, trial).expect_err("the trial must be refused");
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let source = refused.source().map(ToString::to_string).unwrap_or_default();
    assert!(source.contains(reason), "{source}");
    assert_eq!(all(store), []);
}

#[test]
fn trials_round_trip() {
    let (_folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    let mut faulty = trial(&case, 1);
    let measured = faulty.outcome.as_mut().unwrap();
    measured.outputs = OutputCheck::NotCompared { reason: "the reference failed".to_owned() };
    measured.busy_cores = Reading::unavailable("not asked");
    measured.peak_resident_bytes = Reading::Available(1 << 40);
    measured.placement = Reading::unavailable("this engine does not tell");
    faulty.workload = Workload::IdleLoaded;
    faulty.purpose = Purpose::Verify;
    for original in [trial(&case, 100), trial(&case, 0), faulty, failed_trial(&case)] {
        let id = store.record_trial(campaign, target, &original).unwrap();
        assert_eq!(store.trial(id).unwrap(), Some(original.clone()));
        let samples = original.outcome.map(|measured| measured.samples).unwrap_or_default();
        assert_eq!(store.samples(id).unwrap(), samples);
    }
    assert_eq!(store.trial(TrialId(99)).unwrap(), None);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn summaries_carry_what_knowledge_needs() {
    let (_folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    let original = trial(&case, 40);
    let id = store.record_trial(campaign, target, &original).unwrap();
    store.record_trial(campaign, target, &failed_trial(&case)).unwrap();
    store.record_trial(campaign, target, &trial(&case, 0)).unwrap();
    let mut found = all(&store).into_iter();
    let (first, second, third) = (found.next().unwrap(), found.next().unwrap(), found.next().unwrap());

    assert_eq!((first.id, first.campaign, first.target_id), (id, campaign, target));
    assert_eq!((first.case, first.model, first.started_unix_ms), (case.id, case.model, NOW));
    let measured = first.outcome.clone().unwrap();
    let raw = original.outcome.unwrap();
    let times: Vec<f64> = raw.samples.iter().map(Sample::per_call_ns).collect();
    assert_eq!(measured.summary, statistics::summarise(&times));
    assert_eq!((measured.placement, measured.outputs.clone()), (raw.placement, raw.outputs));
    let facts = first.into_facts().unwrap();
    assert_eq!(facts.outcome, Ok((measured.summary.unwrap(), measured.outputs)));

    let failure = Failure::new(FailureKind::TimedOut, "no answer after 10 s");
    assert_eq!(second.into_facts().unwrap().outcome, Err(failure));
    assert!(third.into_facts().is_none(), "a trial without samples teaches no time");
}

#[test]
fn raw_data_cannot_be_changed() {
    let (folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    let original = trial(&case, 3);
    let id = store.record_trial(campaign, target, &original).unwrap();
    let other = Connection::open(folder.path().join("store.db")).unwrap();
    other.pragma_update(None, "recursive_triggers", true).unwrap();
    for attempt in [
        "UPDATE sample SET total_ns = 1",
        "DELETE FROM sample",
        "INSERT OR REPLACE INTO sample VALUES (1, 0, 0, 1, 1, NULL)",
        "UPDATE trial SET first_run_ns = 1",
        "DELETE FROM trial",
    ] {
        let refused = other.execute(attempt, []).unwrap_err().to_string();
        assert!(refused.contains("never"), "{attempt}: {refused}");
    }
    assert_eq!(store.trial(id).unwrap(), Some(original));
}

#[test]
fn refuses_a_trial_whose_parts_were_never_recorded() {
    let (_folder, store) = new_store();
    let (campaign, row, [known, _]) = prepare(&store);
    check_refused(&store, CampaignId(7), row, &trial(&known, 3), "FOREIGN KEY");
    check_refused(&store, campaign, TargetId(7), &trial(&known, 3), "never recorded");
    check_refused(&store, campaign, row, &trial(&case(&model(9), 1), 3), "never recorded");
    let mut foreign = trial(&known, 3);
    foreign.target.0.push_str("-other");
    check_refused(&store, campaign, row, &foreign, "is the target");
}

#[test]
fn refuses_a_broken_trial_as_a_whole() {
    let (_folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    let broken = |change: &dyn Fn(&mut Vec<Sample>)| {
        let mut broken = trial(&case, 30);
        change(&mut broken.outcome.as_mut().unwrap().samples);
        broken
    };
    check_refused(&store, campaign, target, &broken(&|samples| samples[29].calls = 0), "CHECK");
    check_refused(
        &store,
        campaign,
        target,
        &broken(&|samples| samples[29].total_ns = u64::MAX),
        "out of range",
    );
    let mut no_json = trial(&case, 3);
    no_json.conditions = "{".to_owned();
    check_refused(&store, campaign, target, &no_json, "json_valid");
}

#[test]
fn numbers_that_are_none_become_absences_or_bounds() {
    let (_folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    let mut odd = trial(&case, 3);
    let measured = odd.outcome.as_mut().unwrap();
    measured.busy_cores = Reading::Available(f64::NAN);
    let OutputCheck::Compared { difference, .. } = &mut measured.outputs else {
        panic!("outputs were compared")
    };
    difference.max_relative_error = f64::INFINITY;
    let id = store.record_trial(campaign, target, &odd).unwrap();
    let stored = store.trial(id).unwrap().unwrap().outcome.unwrap();
    assert!(matches!(stored.busy_cores, Reading::Unavailable(_)));
    let OutputCheck::Compared { difference, .. } = stored.outputs else { panic!("outputs were compared") };
    assert_eq!(difference.class(), None);
}

#[test]
fn filters_select_and_the_oldest_comes_first() {
    let (_folder, store) = new_store();
    let (first_campaign, first_target, [one, eight]) = prepare(&store);
    let host = store.record_host("x86_64_chip", "{}", NOW).unwrap();
    let second_campaign =
        store.begin_campaign(&siliconroute_store::NewCampaign { host: Some(host), ..campaign() }).unwrap();
    let second_target = store.record_target(&target("2"), NOW).unwrap();
    let late = Trial { started_unix_ms: NOW + 10, ..trial(&one, 3) };
    let early = Trial { purpose: Purpose::Bench, workload: Workload::ColdStart, ..trial(&eight, 3) };
    let late = store.record_trial(first_campaign, first_target, &late).unwrap();
    let early = store.record_trial(second_campaign, second_target, &early).unwrap();

    let check = |filter: TrialFilter, expected: &[TrialId]| {
        let found: Vec<TrialId> = store.trial_summaries(&filter).unwrap().iter().map(|t| t.id).collect();
        assert_eq!(found, expected, "{filter:?}");
    };
    let any = TrialFilter::default;
    check(any(), &[early, late]);
    check(TrialFilter { campaign: Some(first_campaign), ..any() }, &[late]);
    check(TrialFilter { hardware_id: Some("x86_64_chip".to_owned()), ..any() }, &[early]);
    check(TrialFilter { hardware_id: Some("other".to_owned()), ..any() }, &[]);
    check(TrialFilter { target: Some(second_target), ..any() }, &[early]);
    check(TrialFilter { case: Some(one.id), ..any() }, &[late]);
    check(TrialFilter { workload: Some(Workload::ColdStart), ..any() }, &[early]);
    check(TrialFilter { purpose: Some(Purpose::Learn), ..any() }, &[late]);
    check(TrialFilter { since_unix_ms: Some(NOW + 1), ..any() }, &[late]);
    check(TrialFilter { since_unix_ms: Some(NOW + 1), purpose: Some(Purpose::Bench), ..any() }, &[]);
}

#[test]
fn an_outdated_summary_is_derived_anew_and_kept() {
    let (folder, store) = new_store();
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &trial(&case, 30)).unwrap();
    let expected = all(&store);
    let path = folder.path().join("store.db");
    let other = Connection::open(&path).unwrap();
    let stored = || -> Option<(i64, String)> {
        other
            .query_row("SELECT method, document FROM trial_summary", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .ok()
    };
    let current = stored().unwrap();
    let reader = Store::open(&path, &for_reading()).unwrap();
    for outdate in [
        "UPDATE trial_summary SET method = 0, document = '{}'",
        "UPDATE trial_summary SET document = '{\"no\":\"summary\"}'",
        "DELETE FROM trial_summary",
    ] {
        other.execute(outdate, []).unwrap();
        let before = stored();
        assert_eq!(all(&reader), expected, "{outdate}");
        assert_eq!(stored(), before, "a reader keeps nothing");
        assert_eq!(all(&store), expected, "{outdate}");
        assert_eq!(stored().unwrap(), current, "{outdate}");
    }
    other.execute("UPDATE trial_summary SET method = 999, document = '{}'", []).unwrap();
    assert_eq!(all(&store), expected);
    assert_eq!(stored().unwrap(), (999, "{}".to_owned()), "what a newer program derived stays");
}

#[test]
fn campaigns_end_once() {
    let (_folder, store) = new_store();
    let host = store.record_host("x86_64_chip", "{}", NOW).unwrap();
    let (campaign, target, [case, _]) = prepare(&store);
    store.record_trial(campaign, target, &failed_trial(&case)).unwrap();
    let new = siliconroute_store::NewCampaign {
        host: Some(host),
        started_unix_ms: NOW + 100,
        program_commit: None,
        ..crate::sample_data::campaign()
    };
    let second = store.begin_campaign(&new).unwrap();
    let running = store.campaigns().unwrap();
    assert_eq!((running[0].id, running[0].trials, running[0].seed), (campaign, 1, u64::MAX - 1));
    assert_eq!((running[0].state, running[0].finished_unix_ms), (CampaignState::Running, None));
    assert_eq!(running[1].hardware_id.as_deref(), Some("x86_64_chip"));

    store.finish_campaign(second, true, NOW + 300).unwrap();
    let served = siliconroute_store::NewCampaign { purpose: Purpose::Served, ..new };
    let served = store.begin_campaign(&served).unwrap();
    assert_eq!(store.close_abandoned_campaigns().unwrap(), 1);
    let running: Vec<_> = store.running_campaigns().unwrap().iter().map(|campaign| campaign.id).collect();
    assert_eq!(running, [served]);
    let again = store.finish_campaign(second, false, NOW + 400);
    assert!(matches!(again, Err(StoreError::Refused { .. })), "{again:?}");
    let ended: Vec<_> = store.campaigns().unwrap().iter().map(|c| (c.state, c.finished_unix_ms)).collect();
    assert_eq!(
        ended,
        [
            // It was last heard of when its trial began.
            (
                CampaignState::Interrupted,
                Some(store.trial_summaries(&TrialFilter::default()).unwrap()[0].started_unix_ms)
            ),
            (CampaignState::Finished, Some(NOW + 300)),
            (CampaignState::Running, None),
        ]
    );
    store.close_campaign(served).unwrap();
    store.close_campaign(second).unwrap();
    let ended: Vec<_> = store.campaigns().unwrap().iter().map(|campaign| campaign.state).collect();
    assert_eq!(ended, [CampaignState::Interrupted, CampaignState::Finished, CampaignState::Interrupted]);
}
