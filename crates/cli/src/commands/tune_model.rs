//! `tune --model`: the thread settings that suit one model on this machine.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::model_tuning::{ModelTuning, Proof, TargetTuning, TriedTarget, TuneModel};
use siliconroute::wording::counted;
use siliconroute_core::statistics::{Comparison, Scope};
use siliconroute_core::tuning::{Fate, TuningGoal};
use siliconroute_core::{Reading, TargetKey};

use super::Session;
use crate::arguments::{Shape, Tune};
use crate::output::{Output, milliseconds, optional, table};

pub(super) fn run(session: &Session<'_>, arguments: &Tune, model: &str) -> Result<ExitCode, Error> {
    if arguments.forget {
        return forget(session, model);
    }
    let goal = arguments.goal.as_deref().unwrap_or("fastest");
    let goal = TuningGoal::parse(goal)
        .ok_or_else(|| Error::Usage(format!("unknown goal `{goal}`; tuning has fastest and battery")))?;
    session.router.require_writable("remember a tuning")?;
    let (model, case) = session.case(model, arguments.batch, &Shape { shape: arguments.shape.clone() })?;
    let mut progress = session.progress();
    let targets = session.router.targets(&mut progress)?;
    let named = arguments.device.iter().filter(|word| !matches!(word.as_str(), "auto" | "cpu"));
    let order = TuneModel {
        goal,
        targets: named.map(|word| TargetKey(word.clone())).collect(),
        ..TuneModel::default()
    };
    let tuning = session.router.tune_model(&model, &case, &targets, &order, &mut progress)?;
    if session.output.json {
        session.output.document(&tuning);
    } else {
        print(session.output, &case.label(), &tuning);
    }
    if tuning.targets.is_empty() {
        let reasons: Vec<String> =
            tuning.refused.iter().map(|(target, reason)| format!("{target}: {reason}")).collect();
        return Err(Error::NoTarget {
            case: case.label(),
            reasons: reasons.join("; "),
            advice: "`siliconroute devices` lists every target with its reason".to_owned(),
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn forget(session: &Session<'_>, model: &str) -> Result<ExitCode, Error> {
    let model = session.router.find_model(model, &mut session.progress())?;
    let forgotten = session.router.forget_model_tuning(&model)?;
    if session.output.json {
        session.output.document(&json!({
            "schema": "siliconroute.model_tuning_forgotten/1", "model": model.name, "forgotten": forgotten,
        }));
    } else {
        session.output.line(format!("{}: {} forgotten", model.name, counted(forgotten, "tuning")));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(output: &Output, case: &str, tuning: &ModelTuning) {
    for target in &tuning.targets {
        let mut listed =
            table(&["setting", "#time", "#ratio", "#CPU time", "#CPU time after", "#rounds", "outcome"]);
        for tried in &target.tried {
            listed.add_row(row(target, tried));
        }
        output.table(&listed);
        output.line(format!("{case} {}: {}", target.chosen, verdict(target)));
        for proof in &target.proofs {
            output.line(format!("  {}", proof_sentence(proof)));
        }
        output.line(format!(
            "  searched {} of {} combinations in {:.1} s, compared in {:.1} s",
            target.tried.len(),
            target.combinations,
            target.search_s,
            target.comparison_s
        ));
    }
    for (target, reason) in &tuning.refused {
        output.message(format!("{target} could not be tuned: {reason}"));
    }
}

fn row(target: &TargetTuning, tried: &TriedTarget) -> Vec<String> {
    let of_interest = &tried.tried;
    let ms = |ns: Option<f64>| optional(ns, |ns| milliseconds(ns / 1e6));
    let settings = tried.target.as_str().strip_prefix(target.target.as_str()).unwrap_or_default();
    let name = if settings.is_empty() { tried.target.to_string() } else { settings.to_owned() };
    let outcome = match &of_interest.fate {
        _ if tried.target == target.chosen => "taken".to_owned(),
        Fate::Measured => String::new(),
        Fate::Slower => "slower".to_owned(),
        Fate::NoGain => "no gain".to_owned(),
        Fate::Refused(reason) => reason.clone(),
    };
    vec![
        name,
        ms(of_interest.call_ns),
        optional(of_interest.ratio, |ratio| format!("{ratio:.2}")),
        ms(of_interest.cpu_ns),
        ms(of_interest.idle_cpu_ns),
        of_interest.rounds.to_string(),
        outcome,
    ]
}

/// The answer, with the ratio to the defaults and its interval where they were compared.
fn verdict(target: &TargetTuning) -> String {
    let compared = target.comparison.as_ref().map(ratio_sentence);
    match compared {
        None => target.answer.sentence().to_owned(),
        Some(ratio) if target.answer.takes_found() => format!("{}: {ratio}", target.answer.sentence()),
        Some(ratio) => format!("{} ({}: {ratio})", target.answer.sentence(), target.found),
    }
}

fn ratio_sentence(comparison: &Comparison) -> String {
    let interval = comparison.interval.map_or_else(
        || "no interval".to_owned(),
        |interval| format!("95 % interval {:.3} – {:.3}", interval.low, interval.high),
    );
    let sessions = match comparison.scope {
        Scope::OneSession => "1 session".to_owned(),
        Scope::Sessions => counted(comparison.sessions, "session"),
    };
    format!("{:.3} times the time of the defaults, {interval}, {sessions}", comparison.ratio)
}

fn proof_sentence(proof: &Proof) -> String {
    let Proof { setting, shown, seen } = proof;
    match shown {
        Reading::Available(true) => format!("{setting} shows its effect: {seen}"),
        Reading::Available(false) => format!("{setting} shows no effect: {seen}"),
        Reading::Unavailable(reason) => format!("{setting}: not provable, {reason}"),
    }
}
