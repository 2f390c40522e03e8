//! Fits, decisions and verifications.

use siliconroute_core::accuracy::AccuracyClass;
use siliconroute_core::form::{Fit, FitRow, OperatorWork, fit_forms};
use siliconroute_core::identity::{CaseId, ModelId};
use siliconroute_core::model::Family;
use siliconroute_core::target::TargetKey;
use siliconroute_core::workload::{Goal, Workload};
use siliconroute_store::{
    DecisionId, NewDecision, NewFit, NewOutcome, NewVerification, StoreError, TargetId,
};

use crate::new_store;
use crate::sample_data::{NOW, prepare};

fn fit(scale: f64) -> Fit {
    let row = |i: u8| {
        let (size, batch) = (f64::from(i) * 1e6, f64::from(i % 3 + 1));
        FitRow {
            model: ModelId([i; 32]),
            flops: 2.0 * size * batch,
            nodes: 8.0,
            weight_bytes: 4.0 * size,
            parameters: size,
            batch,
            operators: OperatorWork::default(),
            family: Family::Mlp,
            time_ns: scale * (10_000.0 + 0.02 * size * batch + 0.3 * size),
        }
    };
    fit_forms(&(1..20).map(row).collect::<Vec<_>>(), 1e7).expect("enough rows to fit")
}

fn decision(case: CaseId, chosen: Option<TargetId>) -> NewDecision<'static> {
    NewDecision {
        case,
        workload: Workload::IdleLoaded,
        goal: Goal::Fastest,
        accuracy: AccuracyClass::Relaxed,
        chosen,
        document: r#"{"candidates":[]}"#,
        created_unix_ms: NOW,
    }
}

fn verification(decision: DecisionId) -> NewVerification<'static> {
    NewVerification {
        decision,
        campaign: None,
        chosen: None,
        best: None,
        regret_pct: None,
        document: "{}",
        created_unix_ms: NOW,
    }
}

#[test]
fn the_latest_fit_of_each_target_and_workload_is_read_back() {
    let (_folder, store) = new_store();
    let (_, target, _) = prepare(&store);
    let (first, second) = (fit(1.0), fit(2.0));
    let new = NewFit {
        target,
        workload: Workload::Sustained,
        fit: &first,
        input_digest: [1; 32],
        created_unix_ms: NOW,
    };
    store.record_fit(&new).unwrap();
    store.record_fit(&NewFit { fit: &second, input_digest: [2; 32], ..new }).unwrap();
    store.record_fit(&NewFit { workload: Workload::ColdStart, ..new }).unwrap();
    let fits = store.latest_fits().unwrap();
    let found: Vec<_> = fits.iter().map(|f| (f.workload, f.fit.clone(), f.input_digest)).collect();
    assert_eq!(
        found,
        [(Workload::ColdStart, first.clone(), [1; 32]), (Workload::Sustained, second, [2; 32])]
    );
    assert_eq!((fits[0].target_id, fits[0].target.as_str()), (target, "cpu/openvino"));

    store.record_fit(&NewFit { created_unix_ms: NOW + 1, ..new }).unwrap();
    let sustained = store.latest_fits().unwrap().pop().unwrap();
    assert_eq!(
        (sustained.fit, sustained.created_unix_ms),
        (first, NOW + 1),
        "fitted anew on the earlier input"
    );
}

#[test]
fn decisions_round_trip() {
    let (_folder, store) = new_store();
    let (_, target, [case, other]) = prepare(&store);
    let id = store.record_decision(&decision(case.id, Some(target))).unwrap();
    let none = store.record_decision(&decision(other.id, None)).unwrap();
    let stored = store.decision(id).unwrap().unwrap().unwrap();
    assert_eq!((stored.id, stored.case, stored.workload), (id, case.id, Workload::IdleLoaded));
    assert_eq!((stored.goal, stored.accuracy), (Goal::Fastest, AccuracyClass::Relaxed));
    assert_eq!(stored.chosen, Some(TargetKey("cpu/openvino".to_owned())));
    assert_eq!((stored.document.as_str(), stored.created_unix_ms), (r#"{"candidates":[]}"#, NOW));
    assert_eq!(store.decision(none).unwrap().unwrap().unwrap().chosen, None);
    assert_eq!(store.decision(DecisionId(99)).unwrap(), None);
    let latest: Vec<_> = store.latest_decisions(1).unwrap().into_iter().map(|d| d.unwrap().id).collect();
    assert_eq!(latest, [none]);
}

#[test]
fn refuses_a_decision_on_an_unknown_case() {
    let (_folder, store) = new_store();
    prepare(&store);
    let refused = store.record_decision(&decision(CaseId([9; 32]), None));
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

#[test]
fn what_came_of_a_decision_is_read_back_in_its_order() {
    let (_folder, store) = new_store();
    let (_, target, [case, other]) = prepare(&store);
    let id = store.record_decision(&decision(case.id, Some(target))).unwrap();
    let untold = store.record_decision(&decision(other.id, None)).unwrap();
    let new = |target, document| NewOutcome { decision: id, target, document, created_unix_ms: NOW };
    store.record_outcome(&new(Some(target), r#"{"runs":1}"#)).unwrap();
    store.record_outcome(&new(None, r#"{"runs":2}"#)).unwrap();
    let told: Vec<_> =
        store.outcomes(id).unwrap().into_iter().map(|outcome| (outcome.target, outcome.document)).collect();
    let key = TargetKey("cpu/openvino".to_owned());
    assert_eq!(told, [(Some(key), r#"{"runs":1}"#.to_owned()), (None, r#"{"runs":2}"#.to_owned())]);
    assert_eq!(store.outcomes(untold).unwrap(), []);
    let lost = store.record_outcome(&NewOutcome { decision: DecisionId(99), ..new(None, "{}") });
    assert!(matches!(lost, Err(StoreError::Refused { .. })), "{lost:?}");
    assert_eq!(store.regret_of(id).unwrap(), None);
    store.record_verification(&NewVerification { regret_pct: Some(2.0), ..verification(id) }).unwrap();
    assert_eq!(store.regret_of(id).unwrap(), Some(2.0));
}

#[test]
fn the_latest_verification_of_each_question_is_read_back() {
    let (_folder, store) = new_store();
    let (campaign, target, [case, other]) = prepare(&store);
    let first = store.record_decision(&decision(case.id, Some(target))).unwrap();
    let again = store.record_decision(&decision(case.id, Some(target))).unwrap();
    let elsewhere = store.record_decision(&decision(other.id, None)).unwrap();
    let good = NewVerification {
        campaign: Some(campaign),
        chosen: Some(target),
        best: Some(target),
        regret_pct: Some(0.0),
        ..verification(first)
    };
    let good = store.record_verification(&good).unwrap();
    let unjudged = store.record_verification(&verification(elsewhere)).unwrap();
    let late = NewVerification { regret_pct: Some(1.0 / 3.0), chosen: Some(target), ..verification(again) };
    let late = store.record_verification(&late).unwrap();

    let found = store.latest_verifications(None).unwrap();
    let ids: Vec<_> = found.iter().map(|v| (v.id, v.decision.id, v.regret_pct)).collect();
    assert_eq!(ids, [(unjudged, elsewhere, None), (late, again, Some(1.0 / 3.0))]);
    assert_eq!((found[0].chosen.clone(), found[1].best.clone()), (None, None));
    let of_campaign = store.latest_verifications(Some(campaign)).unwrap();
    assert_eq!((of_campaign.len(), of_campaign[0].id, of_campaign[0].campaign), (1, good, Some(campaign)));
    assert_eq!(of_campaign[0].best, Some(TargetKey("cpu/openvino".to_owned())));

    let negative =
        store.record_verification(&NewVerification { regret_pct: Some(-1.0), ..verification(first) });
    assert!(matches!(negative, Err(StoreError::Refused { .. })), "{negative:?}");
}
