//! `evaluate`: decisions beside the truth and beside baselines.

mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use siliconroute::Error;
use siliconroute::corpus::{self, CorpusEvaluation, Task};
use siliconroute::evaluation::{CheckedDecision, Evaluation, EvaluationPlan, Question, ROUTER, ask};
use siliconroute::left_out::LeftOut;
use siliconroute::replay::{self, Preset};
use siliconroute::run::require_target;
use siliconroute::wording::counted;
use siliconroute_core::regret::Score;
use siliconroute_core::{Reading, TargetKey, Workload};

use super::{Session, given};
use crate::arguments::{CorpusTask, Evaluate, ReplayPreset, Shape};
use crate::output::{Listing, Output, milliseconds, optional, table};
use crate::progress::Progress;

/// Evaluates on this machine; `told` says what an error left behind.
pub(super) fn run(
    session: &Session<'_>,
    arguments: &Evaluate,
    told: &dyn Fn(Error) -> Error,
) -> Result<ExitCode, Error> {
    let mut progress = session.progress();
    let targets = session.router.targets(&mut progress)?;
    require_target(&targets)?;
    let learned = session.router.learn(&targets)?;
    let questions = if arguments.models.is_empty() {
        session.router.measured_questions(&learned, &mut progress)?
    } else {
        named_questions(session, arguments)?
    };
    if questions.is_empty() {
        session.output.message("nothing was measured yet: run `siliconroute up --once` first");
    }
    if arguments.leave_out {
        let workload = super::workload(arguments.workload.as_deref())?.unwrap_or(Workload::Sustained);
        let left_out = session.router.leave_models_out(&questions, &targets, workload)?;
        if session.output.json {
            session.output.document(&left_out);
        } else {
            print_left_out(session.output, &left_out);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let workload = super::workload(arguments.workload.as_deref())?;
    let workloads = workload.map_or_else(|| Workload::ALL.to_vec(), |workload| vec![workload]);
    let (evaluation, failure) = if arguments.stored {
        let mut checked: Vec<CheckedDecision> = Vec::new();
        for workload in workloads {
            checked
                .extend(session.router.stored_checks(&questions, &targets, workload)?.into_iter().flatten());
        }
        if checked.is_empty() && !questions.is_empty() && !session.output.json {
            session.output.message(match session.router.count_stored_checks()? {
                0 => "no decision was checked yet: run `siliconroute evaluate` first".to_owned(),
                count => format!(
                    "{} stored, and none of them of the targets that are here now: run `siliconroute evaluate`, or `siliconroute doctor` for what is missing",
                    if count == 1 { "1 check is".to_owned() } else { format!("{count} checks are") }
                ),
            });
        }
        (Evaluation::of(checked), None)
    } else {
        let plan = EvaluationPlan { decisions: arguments.decisions, workloads, budget: budget(arguments)? };
        let asked = ask(&questions, &learned.knowledge, &plan);
        let checks = session.router.evaluate(&asked, &plan, &targets, &learned, &mut progress)?;
        let failure = checks.failure().map(told);
        (checks.evaluation(plan.budget), failure)
    };
    if session.output.json {
        let document = serde_json::to_value(&evaluation).expect("an evaluation has only text keys");
        session.output.document_with(document, failure.as_ref());
    } else {
        print_evaluation(session.output, &evaluation);
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The time that an evaluation may take.
fn budget(arguments: &Evaluate) -> Result<Option<Duration>, Error> {
    let Some(seconds) = arguments.budget else { return Ok(None) };
    match Duration::try_from_secs_f64(seconds) {
        Ok(budget) if !budget.is_zero() => Ok(Some(budget)),
        _ => Err(Error::Usage(format!("--budget {seconds} is no time; give seconds, such as 240"))),
    }
}

/// What an evaluation away from this machine works with.
pub(super) struct Elsewhere<'a> {
    pub(super) seed: u64,
    pub(super) output: &'a Output,
    /// Whether the user wants to stop.
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    /// Says what an error left behind.
    pub(super) told: &'a dyn Fn(Error) -> Error,
}

impl Elsewhere<'_> {
    /// The failure that an interrupted evaluation is.
    fn failure(&self, interrupted: bool) -> Option<Error> {
        interrupted.then(|| (self.told)(Error::Interrupted))
    }

    /// Ends with what was printed; `text` prints it for people.
    fn end(
        &self,
        document: &impl Serialize,
        interrupted: bool,
        text: impl FnOnce(),
    ) -> Result<ExitCode, Error> {
        let failure = self.failure(interrupted);
        if self.output.json {
            let document = serde_json::to_value(document).expect("an evaluation has only text keys");
            self.output.document_with(document, failure.as_ref());
        } else {
            text();
        }
        failure.map_or(Ok(ExitCode::SUCCESS), Err)
    }
}

/// Evaluates on the files that the arguments name, or on simulated machines; `None` when they name neither.
pub(super) fn run_on_files(
    arguments: &Evaluate,
    elsewhere: &Elsewhere<'_>,
) -> Option<Result<ExitCode, Error>> {
    if arguments.simulate {
        return Some(simulated::run(arguments.scenario.as_deref(), elsewhere));
    }
    if let Some(directory) = &arguments.replay {
        return Some(run_replay(directory, arguments.preset, elsewhere.output));
    }
    let (Some(boards), Some(models), Some(task)) =
        (&arguments.corpus, &arguments.model_facts, arguments.task)
    else {
        return None;
    };
    Some(run_corpus(boards, models, task, elsewhere))
}

fn run_replay(directory: &Path, preset: ReplayPreset, output: &Output) -> Result<ExitCode, Error> {
    let preset = match preset {
        ReplayPreset::Published => Preset::Published,
        ReplayPreset::Default => Preset::Default,
    };
    let replay = replay::replay(directory, preset)?;
    if output.json {
        output.document(&replay.evaluation);
        return Ok(ExitCode::SUCCESS);
    }
    print_decisions(output, &replay.evaluation);
    print_strategies(output, &replay.evaluation);
    output.line(format!(
        "{} of {} choices are the published ones",
        replay.as_published,
        replay.evaluation.decisions.len()
    ));
    if replay.without_times > 0 {
        output.line(format!(
            "{} left out: the files hold no times of their alternatives",
            counted(replay.without_times, "published decision")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_corpus(
    boards: &Path,
    models: &Path,
    task: CorpusTask,
    elsewhere: &Elsewhere<'_>,
) -> Result<ExitCode, Error> {
    let task = match task {
        CorpusTask::ZeroShot => Task::ZeroShot,
        CorpusTask::OneShot => Task::OneShot,
        CorpusTask::Fleet => Task::Fleet,
    };
    let output = elsewhere.output;
    let found = corpus::evaluate(boards, models, task, elsewhere.stop, &mut Progress::new(output))?;
    for note in &found.notes {
        output.note(note);
    }
    elsewhere.end(&found, found.evaluation.interrupted, || print_corpus(output, task, &found))
}

/// Prints what was decided badly, then how each strategy did; nothing where nothing was decided.
fn print_corpus(output: &Output, task: Task, found: &CorpusEvaluation) {
    let evaluation = &found.evaluation;
    if evaluation.decisions.is_empty() {
        return;
    }
    let mut misses =
        table(&["board and model", "chosen", "#predicted", "#actual", "best", "#best time", "#regret"]);
    let missed = evaluation.decisions.iter().filter(|decision| decision.regret_pct > Some(2.0));
    for decision in missed {
        // A board's name stands in the decision's, and every corpus decision is a prediction.
        let mut row = decision_row(decision);
        row.drain(1..4);
        row[0].clone_from(&decision.id);
        misses.add_row(row);
    }
    output.line("choices over 2 % slower than the best:");
    output.table(&misses);
    print_strategies(output, evaluation);
    let prediction = &evaluation.prediction_fitted;
    if let (Some(median), Some(coverage)) = (prediction.median_ape_pct, prediction.interval_coverage_pct) {
        output.line(format!(
            "{}, {}: median error {median:.1} %, {coverage:.1} % of the truths inside the 95 % interval",
            task.name(),
            counted(prediction.total, "prediction")
        ));
    }
    if let (Some(median), true) =
        (evaluation.prediction.median_ape_pct, evaluation.prediction.total > prediction.total)
    {
        output.line(format!(
            "with the granted measurements, whose error is 0: median error {median:.1} % over {}",
            counted(evaluation.prediction.total, "time")
        ));
    }
    output.line(match &found.reachable {
        Reading::Available(it) => format!(
            "simulated: choices by true times would be within 2 % of the best in {:.1} %, mean regret {:.1} %, if times are \
             measured as far apart as {} pairs of one accelerator in the table (median {:.1} %)",
            it.within_2_pct,
            it.mean_regret_pct,
            it.pairs,
            it.median_difference_pct
        ),
        Reading::Unavailable(reason) => {
            format!("what choices by true times would reach is not available: {reason}")
        }
    });
}

fn named_questions(session: &Session<'_>, arguments: &Evaluate) -> Result<Vec<Question>, Error> {
    let batches: Vec<Option<u64>> = match arguments.batch.as_slice() {
        [] => vec![None],
        batches => batches.iter().copied().map(Some).collect(),
    };
    let no_shape = Shape { shape: Vec::new() };
    let mut questions = Vec::new();
    for reference in &arguments.models {
        let model = session.router.find_model(reference, &mut session.progress())?;
        for &batch in &batches {
            let case = session.router.models().case(&model, &given(batch, &no_shape)?)?;
            questions.push(Question { model: model.clone(), case });
        }
    }
    Ok(questions)
}

/// Prints the decisions, then how each strategy did on them; nothing where there are none.
pub(super) fn print_evaluation(output: &Output, evaluation: &Evaluation) {
    if evaluation.decisions.is_empty() {
        return;
    }
    print_decisions(output, evaluation);
    print_strategies(output, evaluation);
    print_workloads(output, evaluation);
    print_doubts(output, evaluation);
    if let Some(elapsed) = evaluation.elapsed_s {
        let of = evaluation.budget_s.map_or_else(String::new, |budget| format!(" of {budget:.0} s"));
        output.paragraph(format!("deciding and measuring took {elapsed:.0} s{of}"));
    }
}

/// Prints what was decided for left-out models, and how good each predictor was.
fn print_left_out(output: &Output, left_out: &LeftOut) {
    if left_out.evaluation.decisions.is_empty() {
        output.message("no model was measured on several targets, so there is nothing to leave out");
        return;
    }
    print_decisions(output, &left_out.evaluation);
    let scores = |title: &str, scores: &BTreeMap<String, Score>| {
        output.line(title.to_owned());
        let mut listed = table(&STRATEGY_HEADS);
        for (name, score) in scores {
            listed.add_row(score_row(name, score));
        }
        output.table(&listed);
    };
    let among_all = "among all targets whose outputs turned out right";
    scores(&format!("all models, each left out, {among_all}"), &left_out.evaluation.strategies);
    scores(&format!("published models alone, {among_all}"), &left_out.published_models);
    scores(
        "published models, among the targets whose outputs were allowed before they were compared",
        &left_out.among_candidates,
    );
    if left_out.without_choice_among_candidates > 0 {
        output.line(format!(
            "{} of these with a single allowed target left nothing to choose",
            counted(left_out.without_choice_among_candidates, "decision")
        ));
    }
    print_excluded_bests(output, &left_out.evaluation);
    print_vague_ties(output, &left_out.evaluation.strategies);
    output.line("how far predictions for left-out published models lie from the truth".to_owned());
    let mut listed =
        table(&["predictor", "#times", "#mean error", "#median error", "#within 10 %", "#inside interval"]);
    let percent = |value: Option<f64>| optional(value, |value| format!("{value:.1} %"));
    for (name, score) in &left_out.predictors {
        listed.add_row([
            (*name).to_owned(),
            score.total.to_string(),
            percent(score.mape_pct),
            percent(score.median_ape_pct),
            percent(score.within_10_pct),
            percent(score.interval_coverage_pct),
        ]);
    }
    output.table(&listed);
}

/// Names the decisions for published models that no prediction could have won, with what kept the fastest target out.
fn print_excluded_bests(output: &Output, evaluation: &Evaluation) {
    let mut listed =
        table(&["model", "#batch", "fastest", "#regret", "#among allowed", "no candidate before, since"]);
    let percent = |regret: Option<f64>| optional(regret, |regret| format!("{regret:.1} %"));
    for decision in evaluation.decisions.iter().filter(|decision| !decision.synthetic) {
        let Some((best, reason)) = decision.excluded_best() else { continue };
        listed.add_row([
            decision.model.clone(),
            decision.batch.to_string(),
            best.to_string(),
            percent(decision.regret_pct),
            percent(decision.regret_among_candidates_pct()),
            reason.to_owned(),
        ]);
    }
    if !listed.is_empty() {
        output.line("published models whose fastest target could not be chosen; regret beyond that among the allowed is no error of a prediction");
        output.table(&listed);
    }
}

fn print_decisions(output: &Output, evaluation: &Evaluation) {
    output.table(&list_decisions(evaluation));
}

/// A row for each decision.
pub(super) fn list_decisions(evaluation: &Evaluation) -> Listing {
    let mut decisions = table(&[
        "model",
        "#batch",
        "workload",
        "known",
        "chosen",
        "#predicted",
        "#actual",
        "best",
        "#best time",
        "#regret",
    ]);
    for decision in &evaluation.decisions {
        decisions.add_row(decision_row(decision));
    }
    decisions
}

fn print_strategies(output: &Output, evaluation: &Evaluation) {
    output.table(&list_strategies(evaluation));
}

const STRATEGY_HEADS: [&str; 8] =
    ["strategy", "#best or tied", "#tied", "#accuracy", "#within 2 %", "#mean regret", "#p90", "#largest"];

/// A row for each strategy, the router's own included.
pub(super) fn list_strategies(evaluation: &Evaluation) -> Listing {
    let mut strategies = table(&STRATEGY_HEADS);
    for (name, score) in &evaluation.strategies {
        let mut row = score_row(name, score);
        if let Some(reason) = evaluation.unavailable.get(name) {
            row[1] = format!("not available: {reason}");
        }
        strategies.add_row(row);
    }
    for (knowledge, score) in &evaluation.router_by_knowledge {
        if score.total > 0 {
            strategies.add_row(score_row(&format!("router, {knowledge} before"), score));
        }
    }
    strategies
}

/// How each strategy did within each workload, where there are several.
fn print_workloads(output: &Output, evaluation: &Evaluation) {
    if evaluation.by_workload.len() < 2 {
        return;
    }
    output.line("within each workload: best or tied, and mean regret");
    let workloads = evaluation.by_workload.keys();
    let heads: Vec<String> = workloads.map(|name| format!("#{name}")).collect();
    let mut listed =
        table(&std::iter::once("strategy").chain(heads.iter().map(String::as_str)).collect::<Vec<_>>());
    for name in evaluation.strategies.keys().filter(|name| !evaluation.unavailable.contains_key(*name)) {
        let cell = |scores: &BTreeMap<String, Score>| match scores.get(name) {
            Some(Score { wins, total, mean_regret_pct: Some(regret), .. }) => {
                format!("{wins} of {total}, {regret:.1} %")
            }
            Some(Score { wins, total, .. }) if *total > 0 => format!("{wins} of {total}"),
            _ => "–".to_owned(),
        };
        let cells = evaluation.by_workload.values().map(cell);
        listed.add_row(std::iter::once(name.clone()).chain(cells));
    }
    output.table(&listed);
}

/// Says how many of the router's ties a quieter measurement might tell apart.
fn print_vague_ties(output: &Output, strategies: &BTreeMap<String, Score>) {
    let Some(Score { ties, vague_ties, .. }) = strategies.get(ROUTER) else { return };
    if *vague_ties > 0 {
        let verb = if *ties == 1 { "rests" } else { "rest" };
        output.paragraph(format!(
            "{vague_ties} of the router's {} {verb} on intervals wider than ± 10 %: a quieter measurement may tell them apart",
            counted(*ties, "tie")
        ));
    }
}

/// Between which limits the router's mean regret lies, where chance had a part in it.
fn print_chance(output: &Output, strategies: &BTreeMap<String, Score>) {
    let Some(Score { mean_regret_pct: Some(full), mean_cross_validated_pct: Some(crossed), .. }) =
        strategies.get(ROUTER)
    else {
        return;
    };
    // No more than all of it is chance.
    let left = crossed.max(0.0);
    if *full > left {
        output.line(format!(
            "of the router's mean regret of {full:.1} %, {left:.1} % is left where one half of each measurement picks the best and the other half judges; the rest is chance, or differences too small for half a measurement"
        ));
    }
}

fn print_doubts(output: &Output, evaluation: &Evaluation) {
    let (all, without_choice) = (evaluation.decisions.len(), evaluation.without_choice);
    if without_choice > 0 {
        output.line(format!(
            "nothing to choose in {without_choice} of {all} decisions (n targets ≤ 1): their scores say nothing of the router"
        ));
    }
    print_vague_ties(output, &evaluation.strategies);
    print_chance(output, &evaluation.strategies);
    let suspects: BTreeSet<&TargetKey> = evaluation.decisions.iter().flat_map(|it| &it.suspects).collect();
    if !suspects.is_empty() {
        let names: Vec<&str> = suspects.into_iter().map(TargetKey::as_str).collect();
        output.line(format!(
            "suspect, so their trials judge no decision: {}; `siliconroute devices identify` shows more",
            names.join(", ")
        ));
    }
    let fitted = &evaluation.prediction_fitted;
    if let (Some(median), Some(coverage)) = (fitted.median_ape_pct, fitted.interval_coverage_pct) {
        output.line(format!(
            "hardware models: median error {median:.1} % over {}, {coverage:.0} % of the truths inside the 95 % interval",
            counted(fitted.total, "prediction")
        ));
    }
}

fn decision_row(decision: &CheckedDecision) -> Vec<String> {
    let time_of = |key: Option<&TargetKey>, times: &BTreeMap<TargetKey, f64>| {
        optional(key.and_then(|key| times.get(key)).copied(), milliseconds)
    };
    let regret = match decision.regret_pct {
        None => "–".to_owned(),
        Some(regret) if decision.tie => format!("{regret:.1} % (tie)"),
        Some(regret) => format!("{regret:.1} %"),
    };
    let name = |key: Option<&TargetKey>| optional(key, ToString::to_string);
    vec![
        decision.model.clone(),
        decision.batch.to_string(),
        decision.workload.to_string(),
        if decision.profiled { "measured" } else { "predicted" }.to_owned(),
        name(decision.chosen.as_ref()),
        time_of(decision.chosen.as_ref(), &decision.predicted_ms),
        time_of(decision.chosen.as_ref(), &decision.times_ms),
        name(decision.best.as_ref()),
        time_of(decision.best.as_ref(), &decision.times_ms),
        regret,
    ]
}

fn score_row(name: &str, score: &Score) -> Vec<String> {
    let percent = |value: Option<f64>| optional(value, |value| format!("{value:.1} %"));
    let wins = match (score.total, score.failed) {
        (0, _) => "not applicable".to_owned(),
        (total, 0) => format!("{} of {total}", score.wins),
        (total, failed) => format!("{} of {total} ({failed} failed)", score.wins),
    };
    vec![
        name.to_owned(),
        wins,
        if score.total == 0 { "–".to_owned() } else { score.ties.to_string() },
        percent(score.accuracy_pct),
        percent(score.within_2_pct),
        percent(score.mean_regret_pct),
        percent(score.p90_regret_pct),
        percent(score.max_regret_pct),
    ]
}
