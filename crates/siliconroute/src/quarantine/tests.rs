//! Who is left out, and until when.

use siliconroute_core::trial::{Failure, FailureKind, OutputCheck, Preparation, Purpose};
use siliconroute_core::{CaseId, Reading, Workload};
use siliconroute_store::{CampaignId, StoredMeasurement, TargetId, TrialId};

use super::*;

const MINUTE: i64 = 60_000;

fn rule() -> Quarantine {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    Quarantine { failures: 2, first: minutes(10), longest: minutes(60) }
}

fn key(name: &str) -> TargetKey {
    TargetKey(name.to_owned())
}

#[test]
fn each_further_failure_doubles_the_time_up_to_a_limit() {
    for (failures, minutes) in
        [(0, None), (1, None), (2, Some(10)), (3, Some(20)), (4, Some(40)), (5, Some(60)), (4_000, Some(60))]
    {
        let streak = Streak { failures, last_unix_ms: 5 * MINUTE };
        assert_eq!(rule().until(streak), minutes.map(|minutes| (5 + minutes) * MINUTE), "{failures}");
        if let Some(minutes) = minutes {
            assert!(rule().holds(streak, (5 + minutes) * MINUTE - 1));
            assert!(!rule().holds(streak, (5 + minutes) * MINUTE));
        }
    }
    let endless = Streak { failures: 9, last_unix_ms: i64::MAX };
    assert_eq!(rule().until(endless), Some(i64::MAX));
}

#[test]
fn an_answer_and_a_long_time_without_a_failure_end_a_streak() {
    let (mut streaks, target) = (Streaks::default(), key("gpu:1/webgpu"));
    for minute in [0, 1, 2] {
        streaks.failed(&target, minute * MINUTE, &rule());
    }
    assert_eq!(streaks.get(&target), Some(Streak { failures: 3, last_unix_ms: 2 * MINUTE }));
    assert_eq!(streaks.get(&key("gpu:1/webgpu+threads=2")), streaks.get(&target));
    streaks.failed(&target, 63 * MINUTE, &rule());
    assert_eq!(streaks.get(&target).map(|streak| streak.failures), Some(1));
    streaks.answered(&target);
    assert_eq!(streaks.get(&target), None);
}

fn trial(target: &str, model: u8, at_minute: i64, failed: Option<FailureKind>) -> StoredTrial {
    let measured = StoredMeasurement {
        session_create_ns: 1,
        first_run_ns: 1,
        warmup_calls: 0,
        summary: None,
        busy_cores: Reading::unavailable("made up for a test"),
        peak_resident_bytes: Reading::unavailable("made up for a test"),
        session_bytes: Reading::unavailable("made up for a test"),
        device_bytes: Reading::unavailable("made up for a test"),
        placement: Reading::unavailable("made up for a test"),
        outputs: OutputCheck::Reference,
    };
    StoredTrial {
        id: TrialId(at_minute),
        campaign: CampaignId(1),
        target_id: TargetId(1),
        target: key(target),
        case: CaseId([model; 32]),
        model: ModelId([model; 32]),
        workload: Workload::Sustained,
        preparation: Preparation::Running,
        purpose: Purpose::Learn,
        started_unix_ms: at_minute * MINUTE,
        suspect: None,
        outcome: failed.map_or(Ok(measured), |kind| Err(Failure::new(kind, "made up for a test".to_owned()))),
    }
}

#[test]
fn trials_that_failed_in_a_row_count_once_for_each_model() {
    use FailureKind::{Crashed, Refused, TimedOut};
    let trials = [
        trial("a", 1, 1, Some(Crashed)),
        trial("a", 1, 2, Some(Crashed)),
        trial("a", 2, 3, Some(TimedOut)),
        trial("b", 1, 4, Some(Crashed)),
        trial("b", 2, 5, Some(Crashed)),
        trial("b", 3, 6, None),
        trial("c", 1, 7, Some(Refused)),
        trial("c", 2, 8, Some(Crashed)),
        trial("a", 3, 9, Some(Refused)),
    ];
    let streaks = Streaks::of(&trials, &[]);
    assert_eq!(streaks.get(&key("a")), Some(Streak { failures: 2, last_unix_ms: 3 * MINUTE }));
    assert_eq!(streaks.get(&key("b")), None);
    assert_eq!(streaks.get(&key("c")), Some(Streak { failures: 1, last_unix_ms: 8 * MINUTE }));
}

#[test]
fn the_usual_rule_is_that_of_the_settings() {
    assert_eq!(crate::settings::Settings::defaults().quarantine, Quarantine::USUAL);
}

#[test]
fn an_inference_that_was_answered_since_ends_a_streak() {
    let crashed = Some(FailureKind::Crashed);
    let trials = [trial("gpu:1/webgpu", 1, 1, crashed), trial("gpu:1/webgpu", 2, 5, crashed)];
    let failures = |answers: &[(TargetId, i64)]| {
        Streaks::of(&trials, answers).get(&key("gpu:1/webgpu")).map_or(0, |streak| streak.failures)
    };
    let row = trials[0].target_id;
    assert_eq!(failures(&[]), 2);
    assert_eq!(failures(&[(row, 3 * MINUTE)]), 1);
    assert_eq!(failures(&[(row, 9 * MINUTE)]), 0);
    assert_eq!(failures(&[(TargetId(row.0 + 1), 9 * MINUTE)]), 2);
}
