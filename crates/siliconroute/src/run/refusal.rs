//! What is said when no target gives an answer.
//!
//! Invariant: every target that was asked, or could have been, is named with what stands against it.

use siliconroute_core::Case;
use siliconroute_core::decide::{Decision, Query};
use siliconroute_core::knowledge::Exclusion;
use siliconroute_core::trial::{Failure, FailureKind, Placement};
use siliconroute_engine::session::RunError;

use super::{Choice, FellBack};
use crate::campaign::all_refuse;
use crate::error::{Error, ErrorKind};
use crate::learn::Learned;
use crate::machine::brief;
use crate::measure::measuring_advice;
use crate::router::Targets;

/// Says for each target why it is none for the case.
pub fn no_target(
    case: &Case,
    query: &Query<'_>,
    decision: &Decision<'_>,
    (learned, targets): (&Learned, &Targets),
) -> Error {
    if decision.candidates.is_empty() {
        return no_target_at_all(case, targets);
    }
    let reasons: Vec<String> = decision
        .candidates
        .iter()
        .filter_map(|candidate| {
            let barred = candidate.barred.map(|bar| bar.sentence());
            let reason = candidate.outlook.err().map(Exclusion::sentence).or(barred)?;
            let key = &learned.knowledge.target(candidate.target).key;
            tracing::info!("{key} {reason}");
            Some(format!("{key} {}", brief(&reason)))
        })
        .collect();
    let failures: Option<Vec<_>> = decision
        .candidates
        .iter()
        .map(|candidate| match candidate.outlook {
            Err(Exclusion::Failed(failure)) => {
                Some((&learned.knowledge.target(candidate.target).key, failure))
            }
            _ => None,
        })
        .collect();
    if failures.is_some_and(all_refuse) {
        return Error::ModelRefused { case: case.label(), refusals: reasons.join("; ") };
    }
    let excluded_by = |matches: fn(&Exclusion) -> bool| {
        decision.candidates.iter().filter_map(|candidate| candidate.outlook.err()).any(matches)
    };
    let advice = if decision.candidates.iter().any(|candidate| candidate.barred.is_some()) {
        "ease the limit that is named, or look at the rules with `siliconroute config show`".to_owned()
    } else if excluded_by(|exclusion| matches!(exclusion, Exclusion::NoPrediction)) {
        measuring_advice(query.workload)
    } else if excluded_by(|exclusion| {
        !matches!(exclusion, Exclusion::Failed(_) | Exclusion::ExpectedToFail { .. })
    }) {
        "`--accuracy relaxed` allows more targets".to_owned()
    } else {
        "`siliconroute devices` lists every target with its reason".to_owned()
    };
    Error::NoTarget { case: case.label(), reasons: reasons.join("; "), advice }
}

/// Refuses to go on where no target of the machine can be used.
///
/// # Errors
/// When there is none, with what each of them says.
pub fn require_target(targets: &Targets) -> Result<(), Error> {
    if targets.discovery.available().next().is_some() {
        return Ok(());
    }
    Err(Error::Finding {
        kind: ErrorKind::NothingSuitable,
        message: format!("no target of this machine can be used: {}", unavailable(targets)),
        advice: Some(DEVICES_ADVICE.to_owned()),
    })
}

/// Says for each target of the machine why it cannot be used for anything.
fn no_target_at_all(case: &Case, targets: &Targets) -> Error {
    let (reasons, advice) = (unavailable(targets), DEVICES_ADVICE.to_owned());
    Error::NoTarget { case: case.label(), reasons, advice }
}

/// Where to look for more about targets.
const DEVICES_ADVICE: &str = "`siliconroute devices` lists every target with its reason";

/// What each target that cannot be used says, joined.
fn unavailable(targets: &Targets) -> String {
    let unavailable = targets.discovery.found.iter().filter_map(|found| {
        let reason = found.unavailable.as_ref()?;
        Some(format!("{}: {}", found.target.key, brief(reason)))
    });
    let reasons: Vec<String> = unavailable.collect();
    match &reasons[..] {
        [] => "this machine has none that the request allows".to_owned(),
        reasons => reasons.join("; "),
    }
}

/// What a failed run says of its target: a worker's own failure, or else a refusal by the engine.
pub(super) fn failure_of(error: RunError) -> Failure {
    match error {
        RunError::Worker(failure) => failure,
        other => Failure::new(FailureKind::Refused, other.to_string()),
    }
}

pub(super) fn all_failed(case: &Case, choice: Choice, fell_back: &[FellBack]) -> Error {
    if let ([FellBack { target, failure }], Choice::Named) = (fell_back, choice) {
        tracing::info!("{target}: {failure}");
        let (case, target) = (case.label(), target.to_string());
        return if failure.kind == FailureKind::FellBack {
            Error::RunsElsewhere { case, target, finding: failure.detail.clone() }
        } else {
            Error::TargetFailed { case, target, failure: brief(&failure.to_string()) }
        };
    }
    Error::AllFailed { case: case.label(), failures: joined(fell_back) }
}

/// Says who would run a model of which the target runs nothing.
pub(super) fn runs_elsewhere(placement: &Placement) -> String {
    let name = |provider: &String| match provider.as_str() {
        "CPUExecutionProvider" => "ONNX Runtime's CPU provider".to_owned(),
        other => other.to_owned(),
    };
    let others: Vec<String> = placement.fallback.keys().map(name).collect();
    format!("it would run none of the model's nodes; {} would", others.join(" and "))
}

/// Target and failure, in brief; what engines said in full goes to the log.
pub(super) fn joined(fell_back: &[FellBack]) -> String {
    let failures: Vec<String> = fell_back
        .iter()
        .map(|FellBack { target, failure }| {
            tracing::info!("{target}: {failure}");
            format!("{target}: {}", brief(&failure.to_string()))
        })
        .collect();
    failures.join("; ")
}
