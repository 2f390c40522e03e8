//! What verdicts say of a target, and the figures beside them.
//!
//! Invariant: only counted work on another chip contradicts.

use siliconroute_core::Reading;

use super::*;

fn key(text: &str) -> ChipKey {
    ChipKey(text.to_owned())
}

fn answered(chip: &str, evidence: Evidence, unseen: &[&str]) -> Verdict {
    Verdict::Answered { chip: key(chip), evidence, unseen: unseen.iter().map(|text| key(text)).collect() }
}

/// What the verdict says of a target on `gpu:a`, the sensors seeing the CPU and the GPUs `a` and `b`.
#[track_caller]
fn check(verdict: &Verdict, expected: &str, reason: &str) {
    let seen = [key("cpu"), key("gpu:a"), key("gpu:b")];
    let found = agreement(&key("gpu:a"), verdict, &seen.iter().collect());
    let document = serde_json::to_value(&found).unwrap();
    assert_eq!(document["answer"], expected, "{document}");
    assert_eq!(document["reason"].is_null(), reason.is_empty(), "{document}");
    assert!(document["reason"].as_str().unwrap_or_default().contains(reason), "{document}");
}

#[test]
fn a_target_is_contradicted_by_work_that_was_counted_on_another_chip() {
    check(&answered("gpu:a", Evidence::Awoke, &[]), "agrees", "");
    check(&answered("gpu:b", Evidence::Load, &[]), "contradicts", "");
    check(&answered("gpu:b", Evidence::ProcessWork, &[]), "contradicts", "");
    check(&answered("cpu", Evidence::Load, &[]), "contradicts", "");
}

#[test]
fn what_sensors_cannot_tell_stands_against_nobody() {
    check(&answered("gpu:b", Evidence::Load, &["gpu:a"]), "cannot_tell", "no sensor tells whether gpu:a did");
    check(&answered("gpu:b", Evidence::Power, &[]), "cannot_tell", "the power of gpu:b rose");
    check(&answered("gpu:b", Evidence::Awoke, &[]), "cannot_tell", "gpu:b awoke");
    let ambiguous = Verdict::Ambiguous { candidates: vec![key("gpu:b")], reason: "two rose".to_owned() };
    check(&ambiguous, "cannot_tell", "two rose");
    check(&Verdict::NoSensor { reason: "none".to_owned() }, "cannot_tell", "none");
}

#[test]
fn a_chip_that_the_sensors_know_by_no_such_name_is_not_contradicted() {
    let seen = [key("cpu"), key("gpu:b")];
    let found = agreement(&key("gpu:a"), &answered("gpu:b", Evidence::Load, &[]), &seen.iter().collect());
    assert!(matches!(&found, Agreement::CannotTell(reason) if reason.contains("know no chip gpu:a")));
}

#[test]
fn a_figure_that_no_sample_has_is_absent_with_its_reason() {
    let sample = |percent: Option<f64>| ChipSample {
        busy: Reading::from_option(
            percent.map(|percent| Busy { percent, source: BusySource::Counted }),
            "it is the first",
        ),
        ..ChipSample::unavailable(key("gpu:a"), "no sensor")
    };
    let seen = Observation {
        rest: vec![vec![sample(None)], vec![sample(Some(1.0))], vec![sample(Some(3.0))]],
        load: vec![vec![sample(None)]],
        ..Observation::default()
    };
    let [gpu] = &summary::summaries(&seen)[..] else { panic!("one chip was seen") };
    assert_eq!((gpu.rest.samples, gpu.load.samples), (3, 1));
    assert_eq!(gpu.rest.busy_percent, Reading::Available(2.0));
    assert_eq!(gpu.load.busy_percent, Reading::unavailable("it is the first"));
    assert_eq!(gpu.load.limits, Reading::unavailable("no sensor"));
    assert_eq!(gpu.process_percent, Reading::unavailable("the worker has no process of its own"));
}
