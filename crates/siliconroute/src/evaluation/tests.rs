//! What a trial is worth as the truth.

use siliconroute_core::accuracy::{OutputDifference, OutputFault};
use siliconroute_core::trial::{Before, Failure, FailureKind, Measurement, Preparation};
use siliconroute_core::{CaseId, Reading};

use super::*;

fn trial(samples_ms: &[u64], outputs: OutputCheck) -> Trial {
    let sample = |(round, ms): (usize, &u64)| Sample {
        round: round as u32,
        calls: 2,
        total_ns: ms * 2_000_000,
        before: Before::Running,
    };
    Trial {
        target: TargetKey("cpu/ort".to_owned()),
        case: CaseId([1; 32]),
        workload: Workload::Sustained,
        preparation: Preparation::Running,
        purpose: Purpose::Verify,
        started_unix_ms: 0,
        order_seed: 0,
        input_seed: 0,
        conditions: "{}".to_owned(),
        suspect: None,
        outcome: Ok(Measurement {
            session_create_ns: 1,
            first_run_ns: 1,
            warmup_calls: 1,
            samples: samples_ms.iter().enumerate().map(sample).collect(),
            busy_cores: Reading::Available(1.0),
            peak_resident_bytes: Reading::unavailable("not looked at"),
            session_bytes: Reading::unavailable("not looked at"),
            device_bytes: Reading::unavailable("not looked at"),
            placement: Reading::unavailable("not looked at"),
            outputs,
            energy: Reading::unavailable("not looked at"),
        }),
    }
}

fn compared(max_relative_error: f64) -> OutputCheck {
    let reference = TargetKey("cpu/rten".to_owned());
    let difference = OutputDifference { max_relative_error, same_top1: true, reference_magnitude: 1.0 };
    OutputCheck::Compared { reference, difference }
}

#[track_caller]
fn check(trial: &Trial, expected: Result<f64, &str>) {
    match (true_time(trial, AccuracyClass::Standard), expected) {
        (Ok(time), Ok(ms)) => assert!((time.time_ns / 1e6 - ms).abs() < 1e-9, "{time:?}"),
        (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
        (found, _) => panic!("{found:?}, expected {expected:?}"),
    }
}

#[test]
fn the_truth_is_the_median_of_a_trial_with_allowed_outputs() {
    let not_compared = || OutputCheck::NotCompared { reason: "no target gave a reference".to_owned() };
    check(&trial(&[1, 9, 3], OutputCheck::Reference), Ok(3.0));
    check(&trial(&[1, 9, 3], not_compared()), Ok(3.0));
    check(&trial(&[4, 2], compared(1e-3)), Ok(3.0));
    check(&trial(&[4, 2], compared(2e-2)), Err("outputs fail the class standard: relative error 2.0e-2"));
    let fault = OutputFault::Count { found: 2, expected: 1 };
    let faulty = OutputCheck::Faulty { reference: TargetKey("cpu/rten".to_owned()), fault };
    check(&trial(&[1], faulty), Err("2 outputs where the reference has 1"));
    check(&trial(&[], OutputCheck::Reference), Err("no samples"));
    let mut failed = trial(&[1], OutputCheck::Reference);
    failed.outcome = Err(Failure::new(FailureKind::TimedOut, "no answer"));
    check(&failed, Err("timed_out: no answer"));
}

#[test]
fn few_samples_have_no_interval() {
    let time = true_time(&trial(&[1, 9, 3], OutputCheck::Reference), AccuracyClass::Exact).unwrap();
    assert_eq!(time.interval, None);
}

#[test]
fn an_evaluation_of_nothing_has_no_shares() {
    let evaluation = Evaluation::of(Vec::new());
    let router = &evaluation.strategies[ROUTER];
    assert_eq!((router.total, router.accuracy_pct, router.mean_regret_pct), (0, None, None));
    assert_eq!(evaluation.prediction.mape_pct, None);
    let json = serde_json::to_value(&evaluation).unwrap();
    assert_eq!(json["schema"], EVALUATION_SCHEMA);
    assert!(json["strategies"][ROUTER]["accuracy_pct"].is_null());
}
