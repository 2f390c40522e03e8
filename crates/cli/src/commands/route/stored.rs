//! Decisions that were made before: listed, or made once more from what is stored of them.
//!
//! Invariant: nothing is measured, no target is looked for and nothing is recorded.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::decisions::{DAMAGED_ADVICE, DamagedDecision, DecisionId, Kept, Unreadable};
use siliconroute::wording::{counted, utc_minute};
use siliconroute::{Error, ErrorKind};

use super::{document, listing};
use crate::commands::Session;
use crate::output::{milliseconds, optional, table};

/// Lists the latest `limit` decisions, newest first.
pub(super) fn list(session: &Session<'_>, limit: u32) -> Result<ExitCode, Error> {
    let kept = session.router.decisions(limit)?;
    let output = session.output;
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.decisions/1",
            "decisions": kept.iter().map(shown).collect::<Vec<_>>(),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    if kept.is_empty() {
        output.message("no decision was made yet: `siliconroute route --model MODEL` makes one");
        return Ok(ExitCode::SUCCESS);
    }
    let mut listed = table(&["#id", "made (UTC)", "for", "case", "chosen", "outcome"]);
    let mut unreadable: Vec<String> = Vec::new();
    for kept in &kept {
        let kept = match kept {
            Ok(kept) => kept,
            Err(damaged) => {
                unreadable.push(damaged.to_string());
                let dash = || "–".to_owned();
                listed.add_row([damaged.id.to_string(), dash(), dash(), dash(), dash(), DAMAGED.to_owned()]);
                continue;
            }
        };
        if let Err(reason) = &kept.document {
            unreadable.push(format!("decision {} cannot be made again: {reason}", kept.id));
        }
        if kept.damaged_outcomes > 0 {
            let outcomes = counted(kept.damaged_outcomes, "outcome");
            unreadable.push(format!("{outcomes} of decision {} cannot be read", kept.id));
        }
        let document = kept.document.as_ref().ok();
        listed.add_row([
            kept.id.to_string(),
            utc_minute(kept.created_unix_ms),
            optional(document, |document| document.occasion.name().to_owned()),
            kept.case.clone(),
            optional(kept.chosen.as_ref(), ToString::to_string),
            outcome(kept),
        ]);
    }
    output.table(&listed);
    let told = !unreadable.is_empty();
    for text in unreadable {
        output.paragraph(text);
    }
    if told {
        output.paragraph(format!("what can be done about them: {DAMAGED_ADVICE}"));
    }
    output.paragraph("`siliconroute route --replay ID` makes one of them again from what is stored of it");
    Ok(ExitCode::SUCCESS)
}

/// Makes the decision `id` once more.
pub(super) fn replay(session: &Session<'_>, id: i64) -> Result<ExitCode, Error> {
    let kept = session.router.decision(DecisionId(id))?;
    let stored = kept.replayable()?;
    let replayed = stored.replay();
    let (record, output) = (&stored.record, session.output);
    let failure = (!replayed.same).then(|| Error::Finding {
        kind: ErrorKind::WorkFailed,
        message: format!("decision {id} is not the same when it is made again"),
        advice: None,
    });
    if output.json {
        let mut shown = described(&kept);
        shown["schema"] = json!("siliconroute.replay/1");
        shown["same"] = json!(replayed.same);
        shown["methods"] = json!({"stored": record.methods, "now": replayed.methods});
        shown["replayed"] = json!({
            "chosen": record.key(replayed.decision.chosen).map(|target| &target.key),
            "reason": replayed.reason, "deciding_goal": replayed.decision.goal,
            "rules_fired": document::fired(&replayed.decision, record),
            "candidates": document::candidates(&replayed.decision, record),
        });
        output.document_with(shown, failure.as_ref());
    } else {
        listing::print_candidates(output, &replayed.decision, record);
        output.paragraph(format!("{}: {}", stored.case, replayed.reason));
        listing::print_reasons(output, &replayed.decision, record);
        let made = utc_minute(kept.created_unix_ms);
        output.paragraph(if replayed.same {
            format!("the same as decision {id}, made on {made} UTC")
        } else {
            format!("decision {id}, made on {made} UTC, was another one: {}", stored.reason)
        });
        if record.methods != replayed.methods {
            output.paragraph("it was made by another version of the method");
        }
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// What the table says of a record that cannot be read.
const DAMAGED: &str = "damaged record";

/// What came of a decision, in a few words.
fn outcome(kept: &Kept) -> String {
    if matches!(kept.document, Err(Unreadable::Damaged(_))) {
        return DAMAGED.to_owned();
    }
    let carried = kept.outcomes.last().map(|carried| match &carried.target {
        Some(target) if Some(target) != kept.chosen.as_ref() => format!("answered by {target}"),
        Some(_) => optional(carried.last_run_ms, milliseconds),
        None if carried.fell_back.is_empty() => "not run".to_owned(),
        None => "every target failed".to_owned(),
    });
    let checked = kept.regret_pct.map(|regret| format!("regret {regret:.1} %"));
    carried.or(checked).unwrap_or_else(|| "–".to_owned())
}

/// A stored decision for scripts, or what is known of one whose row is damaged.
fn shown(kept: &Result<Kept, DamagedDecision>) -> serde_json::Value {
    match kept {
        Ok(kept) => described(kept),
        Err(damaged) => json!({"id": damaged.id.0, "damaged": true, "unreadable": damaged.to_string()}),
    }
}

/// A stored decision for scripts.
fn described(kept: &Kept) -> serde_json::Value {
    let mut shown = json!({
        "id": kept.id.0, "created_unix_ms": kept.created_unix_ms, "case_id": kept.case_id, "case": kept.case,
        "workload": kept.workload, "goal": kept.goal, "accuracy": kept.accuracy, "chosen": kept.chosen,
        "outcomes": kept.outcomes, "damaged_outcomes": kept.damaged_outcomes, "regret_pct": kept.regret_pct,
        "damaged": matches!(kept.document, Err(Unreadable::Damaged(_))),
    });
    match &kept.document {
        Err(reason) => shown["unreadable"] = json!(reason.to_string()),
        Ok(document) => {
            let record = &document.record;
            let decision = record.replay();
            shown["occasion"] = json!(document.occasion);
            shown["reason"] = json!(document.reason);
            shown["exploration"] = json!(document.record.answer.exploration);
            shown["context"] = json!(record.context);
            shown["limits"] = json!(record.terms.limits);
            shown["rules"] = json!(record.terms.rules);
            shown["deciding_goal"] = json!(record.answer.goal);
            shown["rules_fired"] = json!(document::fired(&decision, record));
            shown["candidates"] = json!(document::candidates(&decision, record));
        }
    }
    shown
}
