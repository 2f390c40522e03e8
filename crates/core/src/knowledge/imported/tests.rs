//! How times of other machines become priors.

use super::*;

const CASE: CaseId = CaseId([1; 32]);

fn fact(machine: u32, case: u8, time_ns: f64) -> ImportedFacts {
    ImportedFacts {
        target: TargetKey("a".to_owned()),
        case: CaseId([case; 32]),
        workload: Workload::Sustained,
        machine,
        time_ns,
        outputs: None,
    }
}

fn joined(facts: Vec<ImportedFacts>, measured: impl Fn(CaseId) -> Option<f64>) -> ImportedTimes {
    let index = HashMap::from([(TargetKey("a".to_owned()), 0)]);
    join(facts, &index, |case, _, _| measured(case))
}

/// What is expected of the first case in the sustained workload.
fn expected(facts: Vec<ImportedFacts>, measured: impl Fn(CaseId) -> Option<f64>) -> Imported {
    joined(facts, measured)[&CASE][0][0].unwrap()
}

fn factor(told: &Imported) -> f64 {
    told.interval.high / told.time_ns
}

#[test]
fn one_machine_has_the_assumed_spread() {
    let told = expected(vec![fact(1, 1, 100.0), fact(1, 1, 400.0), fact(1, 1, 100.0)], |_| None);
    assert!((told.time_ns - 100.0).abs() < 1e-9, "the median of its sessions");
    assert_eq!((told.machines, told.assumed), (1, true));
    // t₄ = 2.776, between two machines of the spread 0.15 each.
    let half_width = 2.776_445 * ASSUMED_SPREAD * 2.0_f64.sqrt();
    assert!((factor(&told).ln() - half_width).abs() < 1e-5, "{told:?}");
    assert!((told.interval.low * told.interval.high - told.time_ns.powi(2)).abs() < 1e-6);
}

#[test]
fn machines_that_agree_narrow_the_interval_and_those_that_differ_widen_it() {
    let of = |times: [f64; 3]| {
        let facts = (1..).zip(times).map(|(machine, time)| fact(machine, 1, time));
        expected(facts.collect(), |_| None)
    };
    let (alone, agreed) = (expected(vec![fact(1, 1, 100.0)], |_| None), of([100.0; 3]));
    let apart = of([50.0, 100.0, 200.0]);
    assert!(factor(&agreed) < factor(&alone) && factor(&alone) < factor(&apart), "{agreed:?} {apart:?}");
    assert!((apart.time_ns - 100.0).abs() < 1e-9, "the geometric mean");
    assert_eq!((apart.machines, apart.assumed), (3, false));
}

#[test]
fn this_machine_tells_how_far_machines_differ() {
    let facts = || vec![fact(1, 1, 100.0), fact(1, 2, 100.0)];
    let own = |time: f64| move |case: CaseId| (case.0[0] == 2).then_some(time);
    let (close, far) = (expected(facts(), own(101.0)), expected(facts(), own(300.0)));
    assert!(factor(&close) < factor(&far), "{close:?} {far:?}");
    assert_eq!((far.time_ns, far.machines, far.assumed), (close.time_ns, 1, false));
}

#[test]
fn many_cases_of_two_machines_count_as_two_machines() {
    let facts =
        |cases: u8| (1..=cases).flat_map(|case| [fact(1, case, 100.0), fact(2, case, 101.0)]).collect();
    let (one, many) = (expected(facts(1), |_| None), expected(facts(200), |_| None));
    assert!((factor(&one) - factor(&many)).abs() < 1e-9, "{one:?} {many:?}");
}

#[test]
fn outputs_that_fail_a_class_tell_nothing_in_it() {
    let difference = OutputDifference { max_relative_error: 1e-3, same_top1: true, reference_magnitude: 1.0 };
    let wrong = ImportedFacts { outputs: Some(difference), ..fact(2, 1, 100.0) };
    let told = expected(vec![fact(1, 1, 100.0), wrong], |_| None);
    assert_eq!(AccuracyClass::ALL.map(|class| told.satisfies(class)), [false, true, true]);
}

#[test]
fn what_is_no_time_or_of_no_target_is_passed_over() {
    let facts = [f64::NAN, 0.0, -1.0, f64::INFINITY].map(|time| fact(1, 1, time));
    assert!(joined(facts.to_vec(), |_| None).is_empty());
    let other = ImportedFacts { target: TargetKey("b".to_owned()), ..fact(1, 1, 1.0) };
    assert!(joined(vec![other], |_| None).is_empty());
    let extreme = vec![fact(1, 1, f64::MAX), fact(2, 1, f64::MIN_POSITIVE)];
    assert!(joined(extreme, |_| None)[&CASE][0][0].is_none(), "an interval without ends");
}
