//! `route`: where a model should run, and why.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::evaluation::Question;
use siliconroute::event::{Event, Listener as _};
use siliconroute::run::{index_notice, no_target};
use siliconroute_core::decide::{Context, Decision, decide, format_interval_ns};
use siliconroute_core::knowledge::Knowledge;

use super::Session;
use crate::arguments::Route;
use crate::output::{milliseconds, table};

pub(super) fn run(session: &Session<'_>, arguments: &Route) -> Result<ExitCode, Error> {
    let routing = super::routing(&arguments.case)?;
    let (model, case) = session.case(&arguments.case.model, arguments.case.batch, &arguments.case.shape)?;
    let mut progress = session.progress();
    let targets = session.router.targets(&mut progress)?;
    let learned = session.router.learn(&targets)?;
    let query = session.router.query(&case, &routing);
    let decision = decide(&learned.knowledge, &query, &Context::default());
    if decision.chosen.is_none() {
        return Err(no_target(&case, &query, &decision, &learned));
    }
    let check = if arguments.verify {
        let question = Question { model: model.clone(), case: case.clone() };
        session.router.check(&[question], &targets, &learned, &routing, &mut progress)?.pop()
    } else {
        None
    };
    let notice = decision.chosen.and_then(|target| {
        let found = targets.get(learned.knowledge.target(target).key.as_str()).ok()?;
        index_notice(&model, &case, found)
    });
    if let Some(notice) = &notice {
        session.progress().event(Event::Notice(notice.clone()));
    }
    let output = session.output;
    let sentence = decision.sentence(&learned.knowledge);
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.decision/1",
            "model": case.model_name, "case_id": case.id, "bindings": case.bindings,
            "workload": query.workload, "goal": query.goal, "accuracy": query.accuracy,
            "chosen": decision.chosen.map(|target| &learned.knowledge.target(target).key),
            "tie": decision.is_tie(),
            "reason": sentence,
            "notice": notice,
            "candidates": candidates(&decision, &learned.knowledge),
            "verification": check,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut listed = table(&["target", "#predicted", "#95 % interval", "source", "excluded because"]);
    for candidate in &decision.candidates {
        let key = learned.knowledge.target(candidate.target).key.to_string();
        match candidate.outlook {
            Ok(p) => listed.add_row(vec![
                key,
                milliseconds(p.time_ns / 1e6),
                format_interval_ns(p.interval, " – "),
                p.source.name().to_owned(),
                String::new(),
            ]),
            Err(exclusion) => listed.add_row(vec![
                key,
                "–".to_owned(),
                "–".to_owned(),
                "–".to_owned(),
                exclusion.sentence(),
            ]),
        }
    }
    output.table(&listed);
    output.line(format!("{}: {sentence}", case.label()));
    if let Some(check) = check {
        let best = check.best.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let regret = check.regret_pct.map_or_else(|| "unknown".to_owned(), |regret| format!("{regret:.1} %"));
        let tie = if check.tie { " (not separable)" } else { "" };
        output.line(format!("verified: the best is {best}, regret {regret}{tie}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn candidates(decision: &Decision<'_>, knowledge: &Knowledge) -> Vec<serde_json::Value> {
    decision
        .candidates
        .iter()
        .map(|candidate| {
            let target = &knowledge.target(candidate.target).key;
            match candidate.outlook {
                Ok(p) => json!({
                    "target": target, "predicted_ms": p.time_ns / 1e6,
                    "interval_ms": [p.interval.low / 1e6, p.interval.high / 1e6], "source": p.source.name(),
                }),
                Err(exclusion) => json!({"target": target, "excluded": exclusion.sentence()}),
            }
        })
        .collect()
}
