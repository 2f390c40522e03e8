//! How the target of an inference came to be chosen, and the order where nothing is known.
//!
//! Invariant: a target that is known to fail or to compute wrongly is in no order.

use serde::Serialize;
use siliconroute_core::decide::Decision;
use siliconroute_core::knowledge::{Exclusion, Knowledge};
use siliconroute_core::tensor::ElementType;
use siliconroute_core::{AccuracyClass, Case, Reading, TargetKey, Workload};

use crate::campaign::TRUSTED_REFERENCES;
use crate::discovery::Found;
use crate::learn::Learned;
use crate::measure::measuring_advice;
use crate::models::KnownModel;
use crate::run::{REFERENCE, Routing};

/// On what ground the first target was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The caller named it.
    Named,
    /// It is the fastest by measurements or predictions.
    Decided,
    /// Nothing is known of the case in the workload, so a fixed order decided.
    FixedOrder,
}

/// The targets of which nothing is known for a case: the references first, since others are judged by their
/// outputs, then the rest as listed.
pub(crate) fn fixed_order(decision: &Decision<'_>, knowledge: &Knowledge) -> Vec<TargetKey> {
    let mut unknown: Vec<TargetKey> = decision
        .candidates
        .iter()
        .filter(|candidate| matches!(candidate.outlook, Err(Exclusion::NoPrediction)))
        .map(|candidate| knowledge.target(candidate.target).key.clone())
        .collect();
    let rank = |key: &TargetKey| TRUSTED_REFERENCES.iter().position(|name| *name == key.base());
    unknown.sort_by_key(|key| rank(key).unwrap_or(TRUSTED_REFERENCES.len()));
    unknown
}

/// Says that a fixed order decided, and how to do better.
pub(super) fn fixed_order_notice(case: &Case, workload: Workload, order: &[TargetKey]) -> String {
    let head =
        format!("nothing is measured or predicted yet for {} in the workload {workload}", case.label());
    let chosen = match order {
        [only] => format!("{only} is the only target at hand"),
        _ => {
            let names: Vec<&str> = order.iter().map(TargetKey::as_str).collect();
            format!("chosen by the fixed order {}", names.join(", "))
        }
    };
    format!("{head}: {chosen}; {}", measuring_advice(workload))
}

/// What the caller of a named target should know of its outputs: that they are known to fail the class, or, where
/// a class was asked for in so many words, that nothing is known.
pub(super) fn accuracy_notice(
    case: &Case,
    target: &TargetKey,
    class: AccuracyClass,
    routing: &Routing,
    learned: &Learned,
) -> Option<String> {
    let index = learned.knowledge.find(target)?;
    match learned.knowledge.outputs_in_class(case, index, class) {
        Some(Some(exclusion)) => {
            Some(format!("{target} answers because it was named, but its {}", exclusion.sentence()))
        }
        Some(None) => None,
        None if routing.accuracy.is_none() || target.base() == REFERENCE => None,
        None => Some(format!(
            "whether {target} computes {} within the class {class} is not known, since its outputs were never \
             compared; {}",
            case.label(),
            measuring_advice(Workload::Sustained)
        )),
    }
}

/// Says that a target would make up numbers for indices that the model computes from its inputs and that lie
/// beyond their table; `None` where it checks them, that is not known, or the model computes none.
pub fn index_notice(model: &KnownModel, case: &Case, found: &Found) -> Option<String> {
    let gathers = ["Gather", "GatherElements", "GatherND"]
        .iter()
        .any(|name| model.facts.operators.keys().any(|operator| operator == name));
    let computed = case.facts.inputs.iter().any(|input| {
        matches!(input.element, ElementType::Int32 | ElementType::Int64)
            && !case.facts.index_limits.contains_key(&input.name)
    });
    let unchecked = matches!(found.checks_indices, Reading::Available(false));
    (unchecked && gathers && computed).then(|| {
        format!(
            "{} does not check indices that {} computes from its inputs: one beyond its table gives made-up numbers",
            found.target.key,
            case.label()
        )
    })
}
