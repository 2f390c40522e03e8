//! What decisions for left-out models are judged among.
//!
//! Invariant: a target that was not allowed before counts among all targets and not among the candidates.

use siliconroute_core::regret::Score;

use super::*;
use crate::evaluation::ROUTER;

/// A decision for `cpu`, with true times of it and of others that were allowed or excluded for a reason.
fn judged(others: &[(&str, f64, Option<&str>)]) -> Judged {
    let mut decision = crate::evaluation::tests::decision(Workload::Sustained);
    let key = |name: &str| TargetKey(name.to_owned());
    decision.chosen = Some(key("cpu"));
    decision.times_ms = BTreeMap::from([(key("cpu"), 3.0)]);
    decision.predicted_ms = BTreeMap::from([(key("cpu"), 3.0)]);
    decision.intervals_ms.clear();
    for &(name, time_ms, reason) in others {
        decision.times_ms.insert(key(name), time_ms);
        match reason {
            None => drop(decision.predicted_ms.insert(key(name), time_ms)),
            Some(reason) => drop(decision.excluded.insert(key(name), reason.to_owned())),
        }
    }
    decision.judge();
    Judged { decision, predicted: BTreeMap::new() }
}

#[test]
fn a_target_that_was_not_allowed_counts_among_all_targets_alone() {
    let reason = "outputs never compared";
    let summed = sum_up(vec![
        judged(&[("half", 1.5, Some(reason)), ("slow", 6.0, None)]),
        judged(&[("half", 1.0, Some(reason))]),
        judged(&[("half", 9.0, Some(reason)), ("fast", 2.0, None)]),
    ]);
    let regret = |scores: &BTreeMap<String, Score>| scores[ROUTER].mean_regret_pct.unwrap();
    assert!((regret(&summed.published_models) - 350.0 / 3.0).abs() < 1e-9, "{:?}", summed.published_models);
    assert!((regret(&summed.among_candidates) - 50.0 / 3.0).abs() < 1e-9, "{:?}", summed.among_candidates);
    assert_eq!(summed.without_choice_among_candidates, 1);
    let excluded: Vec<_> = summed.evaluation.decisions.iter().map(CheckedDecision::excluded_best).collect();
    let half = TargetKey("half".to_owned());
    let among: Vec<_> =
        summed.evaluation.decisions.iter().map(CheckedDecision::regret_among_candidates_pct).collect();
    assert_eq!(among, [Some(0.0), Some(0.0), Some(50.0)]);
    assert_eq!(excluded, [Some((&half, reason)), Some((&half, reason)), None]);
}
