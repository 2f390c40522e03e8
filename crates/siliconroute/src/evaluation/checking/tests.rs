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
fn few_samples_span_what_they_saw_and_one_spans_nothing() {
    let time = |samples: &[u64]| true_time(&trial(samples, OutputCheck::Reference), AccuracyClass::Exact);
    assert_eq!(time(&[1, 9, 3]).unwrap().interval, Some(Interval { low: 1e6, high: 9e6 }));
    assert_eq!(time(&[1]).unwrap().interval, None);
}

#[test]
fn one_sample_judges_no_decision() {
    for (samples, expected) in [(&[][..], false), (&[1], true), (&[1, 2], false)] {
        assert_eq!(is_single_sample(&trial(samples, OutputCheck::Reference)), expected, "{samples:?}");
    }
    let mut failed = trial(&[1], OutputCheck::Reference);
    failed.outcome = Err(Failure::new(FailureKind::TimedOut, "no answer"));
    assert!(!is_single_sample(&failed));
}

#[test]
fn sessions_are_joined_and_one_that_failed_speaks_for_all() {
    let session = |ms: f64| {
        let interval = Interval { low: (ms - 1.0) * 1e6, high: (ms + 1.0) * 1e6 };
        Ok(TrueTime { interval: Some(interval), ..TrueTime::bare(ms * 1e6) })
    };
    let joined = join(vec![session(4.0), session(6.0)]).unwrap();
    assert!((joined.time_ns - 5e6).abs() < 1e-6);
    assert_eq!(joined.interval, Some(Interval { low: 3e6, high: 7e6 }));
    assert_eq!(joined.halves_ns, Some([4e6, 6e6]));
    let divided = TrueTime { halves_ns: Some([3e6, 5e6]), ..TrueTime::bare(4e6) };
    assert_eq!(join(vec![Ok(divided)]).unwrap().halves_ns, Some([3e6, 5e6]));
    assert_eq!(join(vec![session(4.0), Err("crashed".to_owned())]).unwrap_err(), "crashed");
    assert!(join(Vec::new()).is_err());
}

#[test]
fn a_trial_that_compared_nothing_proves_no_excluded_target() {
    let judged = |unproven: bool, outputs: OutputCheck| {
        let mut record = crate::evaluation::tests::decision(Workload::Sustained);
        (record.times_ms, record.intervals_ms) = (BTreeMap::new(), BTreeMap::new());
        let trial = trial(&[1, 2, 3], outputs);
        let unproven = unproven.then(|| trial.target.clone()).into_iter().collect();
        add_truth(&mut record, &[&trial], &unproven);
        record.times_ms.len()
    };
    let not_compared = || OutputCheck::NotCompared { reason: "constant weights".to_owned() };
    assert_eq!(judged(false, not_compared()), 1);
    assert_eq!(judged(true, not_compared()), 0);
    assert_eq!(judged(true, compared(1e-6)), 1);
}
