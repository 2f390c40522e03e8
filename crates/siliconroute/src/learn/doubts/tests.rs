//! When old times count no more, and when a doubt is open.

use siliconroute_core::ModelId;
use siliconroute_core::statistics::summarise;
use siliconroute_core::trial::{OutputCheck, Preparation};
use siliconroute_core::{Reading, TargetKey};
use siliconroute_store::{CampaignId, StoredMeasurement, TargetId};

use super::*;

fn trial(id: i64, at_ms: i64, purpose: Purpose, samples: usize) -> StoredTrial {
    let absent = || Reading::unavailable("made up for a test");
    let measured = StoredMeasurement {
        session_create_ns: 1,
        first_run_ns: 1,
        warmup_calls: 0,
        summary: summarise(&vec![1e6; samples]),
        busy_cores: Reading::unavailable("made up for a test"),
        peak_resident_bytes: absent(),
        session_bytes: absent(),
        device_bytes: absent(),
        placement: Reading::unavailable("made up for a test"),
        outputs: OutputCheck::Reference,
    };
    StoredTrial {
        id: TrialId(id),
        campaign: CampaignId(1),
        target_id: TargetId(1),
        target: TargetKey("gpu:1/webgpu".to_owned()),
        case: CaseId([1; 32]),
        model: ModelId([1; 32]),
        workload: Workload::Sustained,
        purpose,
        started_unix_ms: at_ms,
        suspect: None,
        preparation: Preparation::Running,
        outcome: Ok(measured),
    }
}

fn doubt() -> StoredDoubt {
    StoredDoubt {
        target_id: TargetId(1),
        target: TargetKey("gpu:1/webgpu".to_owned()),
        case: CaseId([1; 32]),
        workload: Workload::Sustained,
        ratio: 3.0,
        since_unix_ms: 1_000,
    }
}

#[track_caller]
fn check(trials: &[StoredTrial], open: bool, superseded: &[i64]) {
    let (doubts, left_out) = settle(trials, vec![doubt()]);
    let mut left_out: Vec<i64> = left_out.into_iter().map(|id| id.0).collect();
    left_out.sort_unstable();
    assert_eq!((!doubts.is_empty(), left_out.as_slice()), (open, superseded));
}

#[test]
fn old_times_count_until_there_are_new_ones_and_only_a_campaign_settles_a_doubt() {
    let old = [trial(1, 500, Purpose::Learn, 40), trial(2, 1_000, Purpose::Served, 40)];
    let with = |more: &[StoredTrial]| -> Vec<StoredTrial> { old.iter().chain(more).cloned().collect() };
    check(&old, true, &[]);
    // Too few samples to learn from.
    check(&with(&[trial(3, 1_500, Purpose::Served, 5)]), true, &[]);
    check(&with(&[trial(3, 1_500, Purpose::Served, 40)]), true, &[1, 2]);
    check(&with(&[trial(3, 1_500, Purpose::Learn, 40)]), false, &[1, 2]);
    let elsewhere = StoredTrial { target_id: TargetId(2), ..trial(3, 1_500, Purpose::Learn, 40) };
    check(&with(&[elsewhere]), true, &[]);
    let rested = StoredTrial { workload: Workload::IdleLoaded, ..trial(3, 1_500, Purpose::Learn, 40) };
    check(&with(&[rested]), true, &[]);
}

/// A doubt and trials of another case or workload on the target of [`doubt`].
fn of(case: u8, since_unix_ms: i64, ratio: f64) -> StoredDoubt {
    StoredDoubt { case: CaseId([case; 32]), since_unix_ms, ratio, ..doubt() }
}

fn trial_of(case: u8, id: i64, at_ms: i64) -> StoredTrial {
    StoredTrial { case: CaseId([case; 32]), ..trial(id, at_ms, Purpose::Learn, 40) }
}

const HOUR_MS: i64 = 3_600_000;

#[track_caller]
fn check_moved(trials: &[StoredTrial], stored: &[StoredDoubt], moved: &[(u8, Workload)], superseded: &[i64]) {
    let (doubts, left_out) = settle(trials, stored.to_vec());
    let with_target = doubts.iter().filter(|it| it.with_target);
    let with_target: Vec<_> = with_target.map(|it| (it.case.0[0], it.workload)).collect();
    let mut left_out: Vec<i64> = left_out.into_iter().map(|id| id.0).collect();
    left_out.sort_unstable();
    assert_eq!((with_target.as_slice(), left_out.as_slice()), (moved, superseded));
}

#[test]
fn two_cases_that_change_together_put_the_other_times_of_their_target_in_doubt() {
    let elsewhere = StoredTrial { target_id: TargetId(2), ..trial_of(3, 4, 500) };
    let rested = StoredTrial { workload: Workload::IdleLoaded, ..trial_of(1, 5, 500) };
    let cold = StoredTrial { workload: Workload::ColdStart, ..trial_of(1, 6, 500) };
    let short = StoredTrial { case: CaseId([4; 32]), ..trial(7, 500, Purpose::Served, 5) };
    let trials =
        [trial_of(1, 1, 500), trial_of(2, 2, 500), trial_of(3, 3, 500), elsewhere, rested, cold, short];
    let moved = [(3, Workload::Sustained), (1, Workload::IdleLoaded)];
    check_moved(&trials, &[of(1, 1_000, 3.0), of(2, 1_000 + HOUR_MS - 1, 2.0)], &moved, &[]);
    check_moved(&trials, &[of(2, 1_000 + HOUR_MS - 1, 0.5), of(1, 1_000, 0.4)], &moved, &[]);
    for alone in [of(2, 1_000 + HOUR_MS, 2.0), of(2, 2_000, 0.5), of(1, 2_000, 2.0)] {
        check_moved(&trials, &[of(1, 1_000, 3.0), alone], &[], &[]);
    }
    let other = StoredDoubt { target_id: TargetId(2), ..of(2, 2_000, 2.0) };
    check_moved(&trials, &[of(1, 1_000, 3.0), other], &[], &[]);
    // What was measured since the first of the two is of the time after the change.
    let since = [&trials[..], &[trial_of(3, 8, 1_500)]].concat();
    check_moved(&since, &[of(1, 1_000, 3.0), of(2, 2_000, 2.0)], &moved[1..], &[3]);
    let served = StoredTrial { purpose: Purpose::Served, ..trial_of(3, 8, 1_500) };
    let since = [&trials[..], &[served]].concat();
    check_moved(&since, &[of(1, 1_000, 3.0), of(2, 2_000, 2.0)], &moved, &[3]);
}

#[test]
fn a_change_of_a_whole_target_overtakes_an_older_doubt_of_a_time() {
    let trials = [trial_of(3, 1, 50), trial_of(3, 2, 500)];
    let stored = vec![of(3, 100, 0.5), of(1, 1_000, 3.0), of(2, 2_000, 2.0)];
    let (doubts, superseded) = settle(&trials, stored);
    let of_it: Vec<_> = doubts.iter().filter(|it| it.case.0[0] == 3).collect();
    assert_eq!(
        of_it.iter().map(|it| (it.since_unix_ms, it.with_target)).collect::<Vec<_>>(),
        [(1_000, true)]
    );
    assert!((of_it[0].ratio - 6.0_f64.sqrt()).abs() < 1e-9);
    // What was measured after the older one had taken the place of what was measured before it.
    assert_eq!(superseded.into_iter().map(|id| id.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_target_that_has_changed_as_a_whole_is_told_in_one_sentence() {
    let trials = [trial_of(1, 1, 500), trial_of(3, 2, 500), trial_of(4, 3, 500)];
    let (doubts, _) = settle(&trials, vec![of(1, 1_000, 2.0), of(2, 2_000, 2.0)]);
    let told = told(&doubts, |case| format!("case {}", case.0[0]));
    assert_eq!(told.len(), 3);
    assert!(told[1].starts_with("knowledge of case 2 on gpu:1/webgpu"), "{told:?}");
    assert_eq!(
        told[2],
        "gpu:1/webgpu has changed as a whole since 1970-01-01 00:00: runs of several cases took 2.00 times as long as before, so \
         that 2 other times on it may have changed"
    );
    assert!(doubts[2].sentence("x").ends_with(": runs of other cases took 2.00 times as long as before"));
}

#[test]
fn a_doubt_says_what_since_when_and_why() {
    let (doubts, _) = settle(&[], vec![doubt()]);
    assert_eq!(
        doubts[0].sentence("resnet"),
        "knowledge of resnet on gpu:1/webgpu (sustained) is in doubt since 1970-01-01 00:00: runs took 3.00 times as long as before"
    );
}
