//! Decisions as JSON.
//!
//! Invariant: a decision and its replay have the same shape.

use serde_json::json;
use siliconroute_core::decide::{Decision, Lineup, Source};

/// What a prediction rests on, for scripts.
fn sources(source: Source) -> serde_json::Value {
    match source {
        Source::Measured { sessions } => json!([{"source": "measured", "weight": 1.0, "sessions": sessions}]),
        Source::Imported { machines, assumed } => json!([{
            "source": "imported", "weight": 1.0, "machines": machines, "assumed_spread": assumed,
        }]),
        Source::Served { runs, strained } => {
            json!([{"source": "served", "weight": 1.0, "runs": runs, "strained": strained}])
        }
        Source::Predicted(basis) => {
            let mut listed = vec![json!({
                "source": basis.law.name(), "weight": basis.law_weight(), "extrapolated": basis.extrapolated,
            })];
            let times = [
                ("same-model", basis.shapes, basis.shapes_weight),
                ("other-targets", basis.elsewhere, basis.elsewhere_weight),
            ];
            let known = times.into_iter().filter(|(_, times, _)| *times > 0);
            listed.extend(
                known.map(
                    |(source, times, weight)| json!({"source": source, "weight": weight, "times": times}),
                ),
            );
            json!(listed)
        }
    }
}

/// The rules that fired, each with its figures and what it did.
pub(super) fn fired(decision: &Decision<'_>, lineup: &impl Lineup) -> Vec<serde_json::Value> {
    let rules = decision.fired.iter();
    rules
        .map(|fired| json!({"rule": fired.name(), "effect": fired.sentence(lineup), "figures": fired}))
        .collect()
}

/// How each target was seen.
pub(super) fn candidates(decision: &Decision<'_>, lineup: &impl Lineup) -> Vec<serde_json::Value> {
    decision
        .candidates
        .iter()
        .map(|candidate| {
            let target = &lineup.target(candidate.target).key;
            match candidate.outlook {
                Ok(p) => json!({
                    "target": target, "predicted_ms": p.time_ns / 1e6,
                    "interval_ms": [p.interval.low / 1e6, p.interval.high / 1e6], "source": p.source.name(),
                    "sources": sources(p.source),
                    "energy": candidate.energy, "score": candidate.score,
                    "barred": candidate.barred.map(|bar| json!({"reason": bar.sentence(), "figures": bar})),
                }),
                Err(exclusion) => json!({"target": target, "excluded": exclusion.sentence()}),
            }
        })
        .collect()
}
