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

#[test]
fn a_doubt_says_what_since_when_and_why() {
    let (doubts, _) = settle(&[], vec![doubt()]);
    assert_eq!(
        doubts[0].sentence("resnet"),
        "knowledge of resnet on gpu:1/webgpu (sustained) is in doubt since 1970-01-01 00:00: runs took 3.00 times as long as before"
    );
}
