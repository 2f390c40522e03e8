//! Decisions for models that were never measured, judged on stored trials: each measured model is left out in turn.
//!
//! Invariant: nothing that was measured of a model takes part in what is predicted of it, and nothing is measured.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use siliconroute_core::decide::{Context, Query, decide};
use siliconroute_core::form::{Fit, FitRow, Form, fit_form, fit_forms};
use siliconroute_core::knowledge::{Knowledge, TargetIndex};
use siliconroute_core::regret::{PredictionScore, Score};
use siliconroute_core::statistics::Interval;
use siliconroute_core::transfer::{
    CaseTraits, Conditioned, Kind, LogTime, Observations, Prior, Row, SortOfWork, Traits,
};
use siliconroute_core::{Case, CaseId, ModelId, TargetKey, Workload};

use crate::error::Error;
use crate::evaluation::{CheckedDecision, Evaluation, Question};
use crate::learn::Lessons;
use crate::router::{Router, Targets};
use crate::run::Routing;

/// Name of the choice by the Gaussian process over models and targets among the strategies.
pub const PROCESS: &str = "process";
/// Name of the choice by rooflines among the strategies.
pub const ROOFLINE: &str = "F1";

/// Decisions for left-out models, with the errors of other predictors beside the router's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// The decisions, as of any evaluation.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// Errors of each predictor over the same times of models that are not synthetic, by predictor.
    pub predictors: BTreeMap<&'static str, PredictionScore>,
    /// Scores of each strategy over decisions for models that are not synthetic, among all targets whose outputs turned
    /// out right, allowed before or not.
    pub published_models: BTreeMap<String, Score>,
    /// The same, judged among the targets alone that were candidates: their outputs were allowed before the model was
    /// measured.
    pub among_candidates: BTreeMap<String, Score>,
    /// Of those decisions, the ones with fewer than two candidates; they prove nothing of any strategy.
    pub without_choice_among_candidates: usize,
}

impl Router {
    /// Leaves out each model of `questions` in turn and decides its measured cases in `workload`, as if it had never been
    /// seen; judges by the stored trials.
    ///
    /// # Errors
    /// When the store fails.
    pub fn leave_models_out(
        &self,
        questions: &[Question],
        targets: &Targets,
        workload: Workload,
    ) -> Result<LeftOut, Error> {
        let (lessons, _) = self.lessons(targets)?;
        let fit_best = |lessons: &Lessons| {
            lessons.learn(targets, |found, _, rows| Ok(fit_forms(rows, lessons.bounds(found)).ok()))
        };
        let truth = fit_best(&lessons)?;
        let work = self.models().work_by_sort(&lessons.cases)?;
        let process = Process::new(&truth, &lessons.cases, &work, workload);
        let models: BTreeSet<ModelId> = questions.iter().map(|question| question.case.model).collect();
        let mut judged = Vec::new();
        for model in models {
            let others = lessons.without(model);
            let knowledge = fit_best(&others)?;
            let mut rooflines = BTreeMap::new();
            others.learn(targets, |found, of, rows: &[FitRow]| {
                if of == workload
                    && let Ok(fit) = fit_form(Form::Roofline, rows, lessons.bounds(found))
                {
                    rooflines.insert(found.target.key.clone(), fit);
                }
                Ok(None)
            })?;
            for question in questions.iter().filter(|question| question.case.model == model) {
                let routing = Routing { workload: Some(workload), ..Routing::default() };
                let query = self.query(&question.case, &routing);
                let predicted = Predicted { knowledge: &knowledge, rooflines: &rooflines, process: &process };
                judged.extend(describe(question, &query, &truth, &predicted));
            }
        }
        Ok(sum_up(judged))
    }
}

/// What is predicted of a left-out model.
struct Predicted<'p> {
    knowledge: &'p Knowledge,
    rooflines: &'p BTreeMap<TargetKey, Fit>,
    process: &'p Process,
}

/// A decision with the times that other predictors gave.
struct Judged {
    decision: CheckedDecision,
    /// Predicted time and interval in milliseconds, by predictor and target.
    predicted: BTreeMap<&'static str, BTreeMap<TargetKey, (f64, Interval)>>,
}

/// The Gaussian process over models and targets, each measured case with its model left out.
struct Process(BTreeMap<(CaseId, TargetIndex), LogTime>);

impl Process {
    /// Of cases that `work` lacks it counts as unknown.
    fn new(
        truth: &Knowledge,
        cases: &HashMap<CaseId, Case>,
        work: &BTreeMap<CaseId, Vec<SortOfWork>>,
        workload: Workload,
    ) -> Self {
        let mut cases: Vec<&Case> = cases.values().filter(|case| truth.cells(case.id).is_some()).collect();
        cases.sort_by_key(|case| (case.model, case.id));
        let models: BTreeSet<ModelId> = cases.iter().map(|case| case.model).collect();
        let number = |model: &ModelId| models.iter().position(|it| it == model).unwrap_or(0);
        let traits = |case: &&Case| {
            let work = work.get(&case.id).cloned().unwrap_or_default();
            Traits::new(number(&case.model), &CaseTraits { work, ..CaseTraits::from(&case.facts) })
        };
        let prior = Prior::of_facts(cases.iter().map(traits).collect());
        let kinds = truth.targets().iter().map(|entry| Kind::from(entry.target.chip_kind)).collect();
        let mut rows = Vec::new();
        for (model, case) in cases.iter().enumerate() {
            for candidate in 0..truth.targets().len() {
                if let Some(known) = truth.estimate(case.id, TargetIndex(candidate as u16), workload) {
                    rows.push(Row { candidate, model, time_ns: known.time_ns });
                }
            }
        }
        let observations = Observations { kinds, rows };
        let mut found = BTreeMap::new();
        // Where the process cannot be made it has no predictions, and its scores say of how many.
        if let Ok(conditioned) = Conditioned::new(&prior, &observations) {
            let leaving_out = conditioned.leaving_out();
            for model in &models {
                let of_model = |index: &usize| cases[observations.rows[*index].model].model == *model;
                let rows: Vec<usize> = (0..observations.rows.len()).filter(of_model).collect();
                let Ok(times) = leaving_out.predict(&rows) else { continue };
                for (row, time) in std::iter::zip(rows, times) {
                    let Row { candidate, model, .. } = observations.rows[row];
                    found.insert((cases[model].id, TargetIndex(candidate as u16)), time);
                }
            }
        }
        Self(found)
    }
}

/// Decides a left-out case; `None` where fewer than two targets were measured, so that there is nothing to choose.
fn describe(
    question: &Question,
    query: &Query<'_>,
    truth: &Knowledge,
    predicted: &Predicted<'_>,
) -> Option<Judged> {
    let case = &question.case;
    let knowledge = predicted.knowledge;
    let decision = decide(knowledge, query, &Context::default());
    let by_law = decide(knowledge, query, &Context { ignore_measurements: true, ..Context::default() });
    let key = |target: TargetIndex| knowledge.target(target).key.clone();
    let mut record = CheckedDecision {
        id: case.label(),
        profiled: false,
        ..CheckedDecision::before_its_trials(question, query, &decision, knowledge)
    };
    let mut others: BTreeMap<&'static str, BTreeMap<TargetKey, (f64, Interval)>> = BTreeMap::new();
    for candidate in &decision.candidates {
        let (target, name) = (candidate.target, key(candidate.target));
        let Some(known) = truth.estimate(case.id, target, query.workload) else { continue };
        if matches!(truth.outputs_in_class(case, target, query.accuracy), Some(Some(_))) {
            continue;
        }
        record.times_ms.insert(name.clone(), known.time_ns / 1e6);
        record.intervals_ms.insert(name.clone(), [known.interval.low / 1e6, known.interval.high / 1e6]);
        if candidate.outlook.is_err() {
            continue;
        }
        let mut note = |predictor, time_ns: f64, interval: Interval| {
            let interval = Interval { low: interval.low / 1e6, high: interval.high / 1e6 };
            others.entry(predictor).or_default().insert(name.clone(), (time_ns / 1e6, interval));
        };
        if let Some(fit) = predicted.rooflines.get(&name) {
            let time = fit.predict(&case.facts);
            note(ROOFLINE, time.time_ns, Interval { low: time.low_ns, high: time.high_ns });
        }
        if let Some(time) = predicted.process.0.get(&(case.id, target)) {
            note(PROCESS, time.median_ns(), time.interval_ns());
        }
        if let Ok(prediction) = candidate.outlook {
            note(crate::evaluation::ROUTER, prediction.time_ns, prediction.interval);
        }
    }
    if record.times_ms.len() < 2 {
        return None;
    }
    for predictor in [ROOFLINE, PROCESS] {
        let of = others.get(predictor);
        let least = of.and_then(|of| of.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0)));
        record.strategies.insert(predictor.to_owned(), least.map(|(key, _)| key.clone()));
    }
    record.strategies.insert("fit-only".to_owned(), by_law.chosen.map(key));
    let cpu = record.times_ms.keys().find(|key| key.base() == "cpu/ort").cloned();
    record.strategies.insert("always-cpu".to_owned(), cpu);
    record.judge();
    Some(Judged { decision: record, predicted: others })
}

fn sum_up(judged: Vec<Judged>) -> LeftOut {
    let published = || judged.iter().filter(|it| !it.decision.synthetic);
    let mut pairs: BTreeMap<&'static str, Vec<(f64, Interval, f64)>> = BTreeMap::new();
    for it in published() {
        for (predictor, times) in &it.predicted {
            let of =
                times.iter().map(|(key, (time, interval))| (*time, *interval, it.decision.times_ms[key]));
            pairs.entry(predictor).or_default().extend(of);
        }
    }
    let predictors = pairs.into_iter().map(|(name, pairs)| (name, PredictionScore::of(&pairs))).collect();
    let of_published: Vec<CheckedDecision> = published().map(|it| it.decision.clone()).collect();
    let among: Vec<CheckedDecision> = of_published.iter().cloned().map(without_unproven).collect();
    let without_choice_among_candidates = among.iter().filter(|it| it.times_ms.len() < 2).count();
    let published_models = Evaluation::of(of_published).strategies;
    let among_candidates = Evaluation::of(among).strategies;
    let evaluation = Evaluation::of(judged.into_iter().map(|it| it.decision).collect());
    LeftOut { evaluation, predictors, published_models, among_candidates, without_choice_among_candidates }
}

/// The decision as judged among its candidates alone.
fn without_unproven(mut decision: CheckedDecision) -> CheckedDecision {
    decision.times_ms.retain(|key, _| decision.predicted_ms.contains_key(key));
    decision
}

#[cfg(test)]
mod tests;
