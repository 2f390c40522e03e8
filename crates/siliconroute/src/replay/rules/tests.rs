//! Each rule on either side of its limit.

use super::*;

/// Options as `(time, variability, is_cpu)`; no variability below 0.
#[track_caller]
fn check(workload: Workload, options: &[(f64, f64, bool)], expected: Option<(usize, Option<Rule>)>) {
    let options: Vec<RuledOption> = options
        .iter()
        .map(|&(time_ns, variability, is_cpu)| RuledOption {
            time_ns,
            variability: (variability >= 0.0).then_some(variability),
            is_cpu,
        })
        .collect();
    let found = Rules::default().choose(workload, &options).map(|choice| (choice.chosen, choice.rule));
    assert_eq!(found, expected, "{options:?}");
}

#[test]
fn the_least_time_is_chosen_and_the_first_of_equals() {
    let sustained = |options: &[(f64, f64, bool)], expected| check(Workload::Sustained, options, expected);
    sustained(&[], None);
    sustained(&[(5.0, -1.0, false)], Some((0, None)));
    sustained(&[(5.0, -1.0, true), (4.0, -1.0, false), (4.0, -1.0, false)], Some((1, None)));
}

#[test]
fn the_steadier_of_two_near_ones_is_preferred() {
    let idle = |options: &[(f64, f64, bool)], expected| check(Workload::IdleLoaded, options, expected);
    idle(&[(100.0, 0.2, true), (114.9, 0.1, false)], Some((1, Some(Rule::Volatility))));
    idle(&[(100.0, 0.2, true), (115.1, 0.1, false)], Some((0, None)));
    idle(&[(100.0, 0.1, true), (101.0, 0.2, false)], Some((0, None)));
    // What is not known speaks for nothing, and a third one is not looked at.
    idle(&[(100.0, 0.2, true), (101.0, -1.0, false), (102.0, 0.1, false)], Some((0, None)));
}

#[test]
fn a_cold_start_leaves_the_cpu_only_for_a_large_gain() {
    let cold = |options: &[(f64, f64, bool)], expected| check(Workload::ColdStart, options, expected);
    cold(&[(100.0, 0.2, true), (71.0, 0.1, false)], Some((0, Some(Rule::ColdStart))));
    cold(&[(100.0, 0.2, true), (69.0, 0.1, false)], Some((1, None)));
    cold(&[(100.0, 0.2, true), (110.0, 0.1, false)], Some((0, None)));
    cold(&[(100.0, 0.2, false), (110.0, 0.1, false)], Some((1, Some(Rule::Volatility))));
}
