//! How strategies are scored.

use super::*;

fn key(name: &str) -> TargetKey {
    TargetKey(name.to_owned())
}

/// A decision for the first of two targets, of which the other one is faster.
pub(crate) fn decision(workload: Workload) -> CheckedDecision {
    let mut decision = CheckedDecision {
        id: "1".to_owned(),
        model: "m".to_owned(),
        batch: 1,
        bindings: String::new(),
        synthetic: false,
        candidates: 2,
        profiled: true,
        workload,
        accuracy: AccuracyClass::Standard,
        chosen: Some(key("a")),
        best: None,
        regret_pct: None,
        tie: false,
        times_ms: BTreeMap::from([(key("a"), 3.0), (key("b"), 2.0)]),
        intervals_ms: BTreeMap::from([(key("a"), [2.9, 3.1]), (key("b"), [1.9, 2.1])]),
        halves_ms: BTreeMap::new(),
        predicted_ms: BTreeMap::new(),
        predicted_intervals_ms: BTreeMap::new(),
        source: BTreeMap::new(),
        excluded: BTreeMap::new(),
        suspects: BTreeSet::new(),
        strategies: BTreeMap::from([("always-gpu".to_owned(), None)]),
        others: BTreeMap::new(),
        unavailable: BTreeMap::from([("always-gpu".to_owned(), "there is no GPU".to_owned())]),
        reason: String::new(),
    };
    decision.judge();
    decision
}

fn chose(time_ms: f64) -> OthersChoice {
    OthersChoice { time_ms: Some(time_ms), interval_ms: Some([time_ms, time_ms]), ..OthersChoice::default() }
}

#[test]
fn what_others_chose_is_judged_by_the_time_that_it_took() {
    let mut decision = decision(Workload::Sustained);
    decision.others.insert("ort-prefer-cpu".to_owned(), chose(2.5));
    decision.others.insert("ort-max-performance".to_owned(), chose(1.5));
    let failure = Some("refused: no".to_owned());
    decision.others.insert("openvino-auto".to_owned(), OthersChoice { failure, ..OthersChoice::default() });
    let evaluation = Evaluation::of(vec![decision]);
    let score = |name: &str| &evaluation.strategies[name];
    assert!((score("ort-prefer-cpu").mean_regret_pct.unwrap() - 25.0).abs() < 1e-9);
    // What is faster than every target has no regret.
    assert_eq!(
        (score("ort-max-performance").wins, score("ort-max-performance").mean_regret_pct),
        (1, Some(0.0))
    );
    assert!((score(ROUTER).mean_regret_pct.unwrap() - 50.0).abs() < 1e-9);
    assert_eq!(evaluation.unavailable["openvino-auto"], "refused: no");
}

#[test]
fn a_baseline_that_cannot_be_had_says_why_and_is_not_absent() {
    let evaluation = Evaluation::of(vec![decision(Workload::Sustained)]);
    assert_eq!(evaluation.unavailable["always-gpu"], "there is no GPU");
    assert_eq!(evaluation.strategies["always-gpu"].total, 0);
    // One that failed on some models only can be had, and lost there.
    let mut ran = decision(Workload::Sustained);
    ran.others.insert("openvino-auto".to_owned(), chose(2.0));
    let mut failed = decision(Workload::Sustained);
    let failure = Some("refused: no".to_owned());
    failed.others.insert("openvino-auto".to_owned(), OthersChoice { failure, ..OthersChoice::default() });
    let evaluation = Evaluation::of(vec![ran, failed]);
    assert!(!evaluation.unavailable.contains_key("openvino-auto"));
    let score = &evaluation.strategies["openvino-auto"];
    assert_eq!((score.wins, score.total, score.failed), (1, 2, 1));
}

#[test]
fn each_workload_has_its_scores() {
    let mut good = decision(Workload::ColdStart);
    good.chosen = Some(key("b"));
    good.judge();
    let evaluation = Evaluation::of(vec![decision(Workload::Sustained), good]);
    let of = |workload: &str| evaluation.by_workload[workload][ROUTER].accuracy_pct;
    assert_eq!((of("sustained"), of("cold_start")), (Some(0.0), Some(100.0)));
    assert!(!evaluation.by_workload.contains_key("idle_loaded"));
    assert_eq!(evaluation.strategies[ROUTER].total, 2);
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
