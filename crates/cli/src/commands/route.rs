//! `route`: where a model should run, and why.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::evaluation::Question;
use siliconroute::event::{Event, Listener as _};
use siliconroute::model_tuning::Tuned;
use siliconroute::run::{index_notice, log_rules, no_target};
use siliconroute_core::Workload;
use siliconroute_core::decide::{
    Decision, Source, decide, format_duration_ns, format_interval_ns, format_joules,
};
use siliconroute_core::knowledge::{Exclusion, Knowledge};

use super::Session;
use crate::arguments::Route;
use crate::output::{Output, milliseconds, table};

pub(super) fn run(session: &Session<'_>, arguments: &Route) -> Result<ExitCode, Error> {
    let mut routing = super::routing(&arguments.case)?;
    if let Some(inferences) = arguments.inferences {
        if inferences == 0 || routing.workload.is_some() {
            let advice = "`--inferences` takes a number from 1, from which the workload is inferred, so it goes \
                without `--workload`";
            return Err(Error::Usage(advice.to_owned()));
        }
        routing.inferences = Some(inferences);
    }
    let (model, case) = session.case(&arguments.case.model, arguments.case.batch, &arguments.case.shape)?;
    let mut progress = session.progress();
    let plain = session.router.targets(&mut progress)?;
    let Tuned { targets, notices } = session.router.tuned_targets(&plain, &case)?;
    for notice in notices {
        progress.event(Event::Notice(notice));
    }
    let learned = session.router.learn(&targets)?;
    let (routing, inference) = session.router.settled(&case, &routing, &learned);
    let query = session.router.query(&case, &routing);
    let mut context = session.router.context(&learned);
    if let Some(seconds) = arguments.rest {
        if !(seconds.is_finite() && seconds >= 0.0 && query.workload == Workload::IdleLoaded) {
            let advice = "`--rest` takes seconds, from 0, and goes with `--workload idle_loaded`";
            return Err(Error::Usage(advice.to_owned()));
        }
        context.rested_ns = Some(seconds * 1e9);
    }
    let decision = decide(&learned.knowledge, &query, &context);
    log_rules(&decision, &learned);
    if decision.chosen.is_none() {
        return Err(no_target(&case, &query, &decision, (&learned, &targets)));
    }
    let check = if arguments.verify {
        let question = Question { model: model.clone(), case: case.clone() };
        session.router.check(&[question], &targets, &learned, &routing, &mut progress)?.pop()
    } else {
        None
    };
    let notice = decision.chosen.and_then(|target| {
        let found = targets.resolve(learned.knowledge.target(target).key.as_str()).ok()?;
        index_notice(&model, &case, &found)
    });
    let advice = session.router.energy_advice(&decision);
    let notice = match (notice, advice) {
        (Some(notice), Some(advice)) => Some(format!("{notice}; {advice}")),
        (notice, advice) => notice.or(advice),
    };
    if let Some(notice) = &notice {
        session.progress().event(Event::Notice(notice.clone()));
    }
    let output = session.output;
    let sentence = decision.sentence(&learned.knowledge);
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.decision/1",
            "model": case.model_name, "case_id": case.id, "bindings": case.bindings,
            "workload": query.workload, "workload_inferred": inference, "goal": query.goal, "accuracy": query.accuracy, "limits": query.limits,
            "context": context, "deciding_goal": decision.goal, "rules_fired": fired(&decision, &learned.knowledge),
            "chosen": decision.chosen.map(|target| &learned.knowledge.target(target).key),
            "tie": decision.is_tie(),
            "reason": sentence,
            "notice": notice,
            "candidates": candidates(&decision, &learned.knowledge),
            "verification": check,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    print_candidates(session, &decision, &learned.knowledge);
    output.line(format!("{}: {sentence}", case.label()));
    if let Some(inference) = &inference {
        output.line(inference);
    }
    if arguments.explain {
        print_sources(output, &decision, &learned.knowledge, context.rested_ns);
    }
    if let Some(check) = check {
        let best = check.best.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let regret = check.regret_pct.map_or_else(|| "unknown".to_owned(), |regret| format!("{regret:.1} %"));
        let tie = if check.tie { " (not separable)" } else { "" };
        output.line(format!("verified: the best is {best}, regret {regret}{tie}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of all targets; energy has a column where anything is known of it.
fn print_candidates(session: &Session<'_>, decision: &Decision<'_>, knowledge: &Knowledge) {
    let of_energy = decision.candidates.iter().any(|candidate| candidate.energy.is_some());
    let mut heads = vec!["target", "#predicted", "#95 % interval", "source", "#energy", "excluded because"];
    if !of_energy {
        heads.retain(|head| *head != "#energy");
    }
    let mut listed = table(&heads);
    for candidate in &decision.candidates {
        let dash = || "–".to_owned();
        let mut row = vec![knowledge.target(candidate.target).key.to_string()];
        match candidate.outlook {
            Ok(p) => row.extend([
                milliseconds(p.time_ns / 1e6),
                format_interval_ns(p.interval, " – "),
                p.source.name().to_owned(),
            ]),
            Err(_) => row.extend([dash(), dash(), dash()]),
        }
        if of_energy {
            let known = candidate.energy.map(|energy| format_joules(energy.joules));
            row.push(known.unwrap_or_else(|| "not measured".to_owned()));
        }
        let barred = candidate.barred.map(|bar| bar.sentence());
        row.push(candidate.outlook.err().map(Exclusion::sentence).or(barred).unwrap_or_default());
        listed.add_row(row);
    }
    session.output.table(&listed);
}

/// What each prediction rests on, a line for each target.
fn print_sources(output: &Output, decision: &Decision<'_>, knowledge: &Knowledge, rested_ns: Option<f64>) {
    for candidate in &decision.candidates {
        if let Ok(prediction) = candidate.outlook {
            let key = &knowledge.target(candidate.target).key;
            output.line(format!("{key}: {}", prediction.source.sentence()));
            if let (Some(rest_ns), Some(curve)) = (rested_ns, knowledge.waking(candidate.target)) {
                output.line(format!(
                    "{key}: {} of rest add {:.0} % of what the usual 10 s add, by {} times of other rests",
                    format_duration_ns(rest_ns),
                    curve.share(rest_ns) * 100.0,
                    curve.times
                ));
            } else if rested_ns.is_some() {
                output.line(format!("{key}: taken as after 10 s, since no other rests were measured"));
            }
        }
    }
}

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
fn fired(decision: &Decision<'_>, knowledge: &Knowledge) -> Vec<serde_json::Value> {
    let rules = decision.fired.iter();
    rules
        .map(|fired| json!({"rule": fired.name(), "effect": fired.sentence(knowledge), "figures": fired}))
        .collect()
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
                    "sources": sources(p.source),
                    "energy": candidate.energy, "score": candidate.score,
                    "barred": candidate.barred.map(|bar| json!({"reason": bar.sentence(), "figures": bar})),
                }),
                Err(exclusion) => json!({"target": target, "excluded": exclusion.sentence()}),
            }
        })
        .collect()
}
