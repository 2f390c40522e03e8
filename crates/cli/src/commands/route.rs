//! `route`: where a model should run, and why.
//!
//! Reading order: this file, `listing` and `document` (how a decision is shown), `stored` (those made before).

mod document;
mod listing;
mod stored;

use std::process::ExitCode;

use serde_json::json;
use siliconroute::decisions::{Made, Occasion};
use siliconroute::evaluation::Question;
use siliconroute::event::{Event, Listener as _};
use siliconroute::machine::describe_error;
use siliconroute::model_tuning::Tuned;
use siliconroute::run::{index_notice, log_rules, no_target};
use siliconroute::{Error, ErrorKind};
use siliconroute_core::Workload;
use siliconroute_core::decide::decide;

use super::Session;
use crate::arguments::Route;

/// Decides, and checks the decision where that is asked; `told` says what an error left behind.
pub(super) fn run(
    session: &Session<'_>,
    arguments: &Route,
    told: &dyn Fn(Error) -> Error,
) -> Result<ExitCode, Error> {
    if let Some(limit) = arguments.list {
        return stored::list(session, limit);
    }
    if let Some(id) = arguments.replay {
        return stored::replay(session, id);
    }
    let mut routing = super::routing(&arguments.case)?;
    if let Some(inferences) = arguments.inferences {
        if inferences == 0 {
            return Err(Error::Usage("`--inferences` takes a number from 1".to_owned()));
        }
        routing.inferences = Some(inferences);
    }
    let (model, case) = session.case(arguments.case.model(), arguments.case.batch, &arguments.case.shape)?;
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
        if !((0.0..=1e9).contains(&seconds) && query.workload == Workload::IdleLoaded) {
            let advice = "`--rest` takes seconds, from 0 to 1e9, and goes with `--workload idle_loaded`";
            return Err(Error::Usage(advice.to_owned()));
        }
        context.rested_ns = Some(seconds * 1e9);
    }
    let decision = decide(&learned.knowledge, &query, &context);
    let made = Made {
        occasion: Occasion::Route,
        query: &query,
        context: &context,
        decision: &decision,
        knowledge: &learned.knowledge,
    };
    // The answer is worth more than its record, as on a full disk.
    let kept = match session.router.keep_decision(&made, &targets) {
        Ok(Some(id)) => Ok(id.0),
        // That nothing is kept was said when the home was opened.
        Ok(None) => Err(session.router.read_only().unwrap_or_default().to_owned()),
        Err(error) => {
            let reason = describe_error(&error);
            progress.event(Event::Notice(format!("the decision is not recorded: {reason}")));
            Err(reason)
        }
    };
    log_rules(&decision, &learned);
    if decision.chosen.is_none() {
        return Err(no_target(&case, &query, &decision, (&learned, &targets)));
    }
    let (check, failure) = if arguments.verify {
        let question = Question { model: model.clone(), case: case.clone() };
        match session.router.check(&[question], &targets, &learned, &routing, &mut progress) {
            Ok(mut checks) => (checks.pop(), None),
            // The decision was made before, and stands.
            Err(error) if error.kind() == ErrorKind::Interrupted => (None, Some(told(error))),
            Err(error) => return Err(error),
        }
    } else {
        (None, None)
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
    for doubt in learned.doubts_of(case.id) {
        session.progress().event(Event::Notice(doubt.sentence(&case.label())));
    }
    let output = session.output;
    let sentence = decision.sentence(&learned.knowledge);
    if output.json {
        let document = json!({
            "schema": "siliconroute.decision/1", "id": kept.as_ref().ok(), "not_recorded": kept.as_ref().err(),
            "model": case.model_name, "case_id": case.id, "bindings": case.bindings,
            "workload": query.workload, "workload_inferred": inference, "goal": query.goal, "accuracy": query.accuracy, "limits": query.limits,
            "context": context, "deciding_goal": decision.goal, "rules_fired": document::fired(&decision, &learned.knowledge),
            "chosen": decision.chosen.map(|target| &learned.knowledge.target(target).key),
            "tie": decision.is_tie(),
            "reason": sentence,
            "notice": notice,
            "candidates": document::candidates(&decision, &learned.knowledge),
            "verification": check,
            "interrupted": failure.is_some(),
        });
        output.document_with(document, failure.as_ref());
        return failure.map_or(Ok(ExitCode::SUCCESS), Err);
    }
    listing::print_candidates(output, &decision, &learned.knowledge);
    output.paragraph(format!("{}: {sentence}", case.label()));
    if let Some(inference) = &inference {
        output.paragraph(inference);
    }
    listing::print_reasons(output, &decision, &learned.knowledge);
    if arguments.explain {
        listing::print_sources(output, &decision, &learned.knowledge);
        if let Some(rest_ns) = context.rested_ns {
            listing::print_rests(output, &decision, &learned.knowledge, rest_ns);
        }
        output.paragraph(match &kept {
            Ok(id) => {
                format!("recorded as decision {id}: `siliconroute route --replay {id}` makes it again")
            }
            Err(reason) => format!("not recorded, so it cannot be made again from the store: {reason}"),
        });
    }
    if let Some(check) = check {
        let best = check.best.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let regret = check.regret_pct.map_or_else(|| "unknown".to_owned(), |regret| format!("{regret:.1} %"));
        let tie = if check.tie { " (not separable)" } else { "" };
        output.line(format!("verified: the best is {best}, regret {regret}{tie}"));
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}
