//! Decisions against the truth: what was chosen, what was best, what it cost, for every strategy.
//!
//! Invariant: all strategies are judged on the same trials. A suspect trial is the truth of nothing.
//!
//! Reading order: this file, `asking` (which decisions), `baselines` (what others choose), `checking` (measuring),
//! `checks` (what came of it).

mod asking;
mod baselines;
mod checking;
mod checks;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::{Decision, Query, Source};
use siliconroute_core::knowledge::{Knowledge, TargetIndex};
use siliconroute_core::regret::{Outcome, PredictionScore, Score, TrueTime, judge};
use siliconroute_core::statistics::Interval;
use siliconroute_core::{AccuracyClass, Case, TargetKey, Workload};

use crate::models::KnownModel;

pub use asking::{Asked, EvaluationPlan, USUAL_DECISIONS, ask};
pub use baselines::OthersChoice;
pub use checks::{Checks, NotChecked};

/// The schema of [`Evaluation`].
pub const EVALUATION_SCHEMA: &str = "siliconroute.evaluation/1";

/// Name of the router among the strategies.
pub const ROUTER: &str = "router";

/// Name of the strategy that knows the truth.
pub const ORACLE: &str = "oracle";

/// A case to decide and to check.
#[derive(Debug, Clone)]
pub struct Question {
    /// The model.
    pub model: KnownModel,
    /// The case.
    pub case: Case,
}

/// One decision with the truth beside it, as stored and as printed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedDecision {
    /// The decision's row in the store.
    pub id: String,
    /// The model.
    pub model: String,
    /// The batch size.
    pub batch: u64,
    /// The bound free dimensions.
    pub bindings: String,
    /// Whether the model is one of the synthetic families.
    pub synthetic: bool,
    /// Targets among which there was something to choose: predicted before the decision, or allowed by its
    /// check, suspects left out. With fewer than two the decision says nothing of the router.
    #[serde(default)]
    pub candidates: usize,
    /// Whether every candidate was measured on the case before the decision.
    pub profiled: bool,
    /// The workload.
    pub workload: Workload,
    /// The accuracy class.
    pub accuracy: AccuracyClass,
    /// The chosen target.
    pub chosen: Option<TargetKey>,
    /// The fastest target whose outputs satisfy the accuracy class.
    pub best: Option<TargetKey>,
    /// Time of the chosen over time of the best, minus one.
    pub regret_pct: Option<f64>,
    /// Whether the best is another target that the intervals cannot separate from the chosen.
    pub tie: bool,
    /// True times of the allowed targets.
    pub times_ms: BTreeMap<TargetKey, f64>,
    /// 95 % intervals of the true times, from the sessions that checked the decision.
    pub intervals_ms: BTreeMap<TargetKey, [f64; 2]>,
    /// The true times within each half of the sessions, or of the rounds of a single one.
    #[serde(default)]
    pub halves_ms: BTreeMap<TargetKey, [f64; 2]>,
    /// Predicted times.
    pub predicted_ms: BTreeMap<TargetKey, f64>,
    /// 95 % intervals of the predictions.
    pub predicted_intervals_ms: BTreeMap<TargetKey, [f64; 2]>,
    /// Where each prediction came from.
    pub source: BTreeMap<TargetKey, String>,
    /// What speaks against targets that were not candidates.
    pub excluded: BTreeMap<TargetKey, String>,
    /// Of those, the ones that were measured and whose trials are suspect: their true times are not known.
    #[serde(default)]
    pub suspects: BTreeSet<TargetKey>,
    /// What each other strategy would have chosen.
    pub strategies: BTreeMap<String, Option<TargetKey>>,
    /// What other programs chose for themselves, as it ran.
    #[serde(default)]
    pub others: BTreeMap<String, OthersChoice>,
    /// Strategies that cannot be had on this machine, with the reason.
    #[serde(default)]
    pub unavailable: BTreeMap<String, String>,
    /// The reason in one sentence.
    pub reason: String,
}

/// Decisions and how good each strategy was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// [`EVALUATION_SCHEMA`].
    pub schema: &'static str,
    /// The decisions.
    pub decisions: Vec<CheckedDecision>,
    /// Of those, the ones with fewer than two targets to choose among; they prove nothing of any strategy.
    pub without_choice: usize,
    /// Decisions that were asked and not checked, with the reason.
    pub not_checked: Vec<NotChecked>,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
    /// Scores by strategy over all decisions.
    pub strategies: BTreeMap<String, Score>,
    /// The same within each workload.
    pub by_workload: BTreeMap<&'static str, BTreeMap<String, Score>>,
    /// Strategies that cannot be had on this machine, with the reason.
    pub unavailable: BTreeMap<String, String>,
    /// How long deciding and measuring took; absent where nothing was measured.
    pub elapsed_s: Option<f64>,
    /// The time that it was given.
    pub budget_s: Option<f64>,
    /// The router's scores, cases measured before and cases only predicted apart.
    pub router_by_knowledge: BTreeMap<&'static str, Score>,
    /// How far all predictions lay from the truth.
    pub prediction: PredictionScore,
    /// The same for predictions by hardware models alone.
    pub prediction_fitted: PredictionScore,
}

impl Evaluation {
    /// Sums up checked decisions.
    pub fn of(decisions: Vec<CheckedDecision>) -> Self {
        let unavailable = unavailable(&decisions);
        let all: Vec<&CheckedDecision> = decisions.iter().collect();
        let strategies = score(&all, &unavailable);
        let by_workload = Workload::ALL.into_iter().filter_map(|workload| {
            let own: Vec<&CheckedDecision> = decisions.iter().filter(|it| it.workload == workload).collect();
            (!own.is_empty()).then(|| (workload.name(), score(&own, &unavailable)))
        });
        let by_workload = by_workload.collect();
        let of = |profiled: bool| {
            let judged: Vec<_> = decisions
                .iter()
                .filter(|d| d.profiled == profiled)
                .map(|d| judge_choice(d, d.chosen.as_ref()))
                .collect();
            Score::of(&judged)
        };
        let router_by_knowledge = BTreeMap::from([("measured", of(true)), ("predicted", of(false))]);
        let prediction = PredictionScore::of(&prediction_pairs(&decisions, |_| true));
        let prediction_fitted =
            PredictionScore::of(&prediction_pairs(&decisions, |source| source != "measured"));
        Self {
            schema: EVALUATION_SCHEMA,
            without_choice: decisions.iter().filter(|decision| decision.candidates < 2).count(),
            decisions,
            not_checked: Vec::new(),
            interrupted: false,
            strategies,
            by_workload,
            unavailable,
            elapsed_s: None,
            budget_s: None,
            router_by_knowledge,
            prediction,
            prediction_fitted,
        }
    }
}

/// Strategies that could be had in no decision, with the reason.
fn unavailable(decisions: &[CheckedDecision]) -> BTreeMap<String, String> {
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for decision in decisions {
        for (name, reason) in &decision.unavailable {
            reasons.entry(name.clone()).or_insert_with(|| reason.clone());
        }
        for (name, choice) in &decision.others {
            if let Some(failure) = &choice.failure {
                reasons.entry(name.clone()).or_insert_with(|| failure.clone());
            }
        }
    }
    let was_had = |name: &String| {
        let chose = |it: &CheckedDecision| it.strategies.get(name).is_some_and(Option::is_some);
        let ran = |it: &CheckedDecision| it.others.get(name).is_some_and(|other| other.time_ms.is_some());
        decisions.iter().any(|decision| chose(decision) || ran(decision))
    };
    reasons.retain(|name, _| !was_had(name));
    reasons
}

/// The score of each strategy that can be had; of the others one over nothing.
fn score(decisions: &[&CheckedDecision], unavailable: &BTreeMap<String, String>) -> BTreeMap<String, Score> {
    let of = |judge: &dyn Fn(&CheckedDecision) -> Outcome| {
        let outcomes: Vec<Outcome> = decisions.iter().map(|decision| judge(decision)).collect();
        Score::of(&outcomes)
    };
    let mut scores = BTreeMap::new();
    scores.insert(ROUTER.to_owned(), of(&|it| judge_choice(it, it.chosen.as_ref())));
    let names: BTreeSet<&String> = decisions.iter().flat_map(|it| it.strategies.keys()).collect();
    for name in names {
        let chosen = |it: &CheckedDecision| it.strategies.get(name).cloned().flatten();
        scores.insert(name.clone(), of(&|it| judge_choice(it, chosen(it).as_ref())));
    }
    let names: BTreeSet<&String> = decisions.iter().flat_map(|it| it.others.keys()).collect();
    for name in names.into_iter().filter(|name| !unavailable.contains_key(*name)) {
        let judged = |it: &CheckedDecision| it.others.get(name).map(|choice| judge_others(it, choice));
        scores.insert(name.clone(), of(&|it| judged(it).unwrap_or(Outcome::NotApplicable)));
    }
    for name in unavailable.keys() {
        scores.entry(name.clone()).or_insert_with(|| Score::of(&[]));
    }
    scores
}

impl CheckedDecision {
    /// What a decision said of `question` before any time that judges it is known.
    pub(crate) fn before_its_trials(
        question: &Question,
        query: &Query<'_>,
        decision: &Decision<'_>,
        knowledge: &Knowledge,
    ) -> Self {
        let key = |target: TargetIndex| knowledge.target(target).key.clone();
        let mut record = Self {
            id: String::new(),
            model: question.model.name.clone(),
            batch: question.case.facts.batch,
            bindings: question.case.bindings.to_string(),
            synthetic: question.model.synthetic,
            candidates: 0,
            profiled: decision
                .candidates
                .iter()
                .filter_map(|candidate| candidate.outlook.ok())
                .all(|prediction| matches!(prediction.source, Source::Measured { .. })),
            workload: query.workload,
            accuracy: query.accuracy,
            chosen: decision.chosen.map(key),
            best: None,
            regret_pct: None,
            tie: false,
            times_ms: BTreeMap::new(),
            intervals_ms: BTreeMap::new(),
            halves_ms: BTreeMap::new(),
            predicted_ms: BTreeMap::new(),
            predicted_intervals_ms: BTreeMap::new(),
            source: BTreeMap::new(),
            excluded: BTreeMap::new(),
            suspects: BTreeSet::new(),
            strategies: BTreeMap::new(),
            others: BTreeMap::new(),
            unavailable: BTreeMap::new(),
            reason: decision.sentence(knowledge),
        };
        for candidate in &decision.candidates {
            let name = key(candidate.target);
            match candidate.outlook {
                Ok(prediction) => {
                    record.predicted_ms.insert(name.clone(), prediction.time_ns / 1e6);
                    let interval = [prediction.interval.low / 1e6, prediction.interval.high / 1e6];
                    record.predicted_intervals_ms.insert(name.clone(), interval);
                    record.source.insert(name, prediction.source.name().to_owned());
                }
                Err(exclusion) => {
                    record.excluded.insert(name, exclusion.sentence());
                }
            }
        }
        record
    }

    /// Judges the choice by the times that were measured.
    pub(crate) fn judge(&mut self) {
        self.candidates = self.count_candidates();
        let keys: Vec<TargetKey> = self.times_ms.keys().cloned().collect();
        if let Outcome::Judged(judgement) = judge_choice(self, self.chosen.as_ref()) {
            self.best = keys.get(judgement.best).cloned();
            self.regret_pct = Some(judgement.regret_pct);
            self.tie = judgement.tie;
        } else {
            self.best = keys.into_iter().min_by(|a, b| self.times_ms[a].total_cmp(&self.times_ms[b]));
        }
    }

    /// The fastest target whose outputs turned out right, with the reason for which it was no candidate; `None` where
    /// it was one. What is lost beyond [`Self::regret_among_candidates_pct`] is lost to the reason, not to a prediction.
    pub fn excluded_best(&self) -> Option<(&TargetKey, &str)> {
        let best = self.best.as_ref()?;
        self.excluded.get(best).map(|reason| (best, reason.as_str()))
    }

    /// Time of the chosen over time of the best among the targets that were candidates, minus one; `None` where the chosen
    /// one has no true time.
    pub fn regret_among_candidates_pct(&self) -> Option<f64> {
        let chosen = self.times_ms.get(self.chosen.as_ref()?)?;
        let candidates = self.times_ms.iter().filter(|(key, _)| self.predicted_ms.contains_key(*key));
        let best = candidates.map(|(_, time)| *time).min_by(f64::total_cmp)?;
        Some(100.0 * (chosen / best - 1.0).max(0.0))
    }

    /// The true times, in the order of their keys.
    fn true_times(&self) -> Vec<Option<TrueTime>> {
        let of = |(key, &ms): (&TargetKey, &f64)| {
            let (interval, halves) = (self.intervals_ms.get(key), self.halves_ms.get(key));
            Some(true_time(ms, interval.copied(), halves.copied()))
        };
        self.times_ms.iter().map(of).collect()
    }

    pub(crate) fn count_candidates(&self) -> usize {
        let others = self.times_ms.keys().filter(|key| !self.predicted_ms.contains_key(*key));
        let judged = self.predicted_ms.keys().filter(|key| !self.suspects.contains(*key));
        judged.count() + others.count()
    }
}

fn prediction_pairs(
    decisions: &[CheckedDecision],
    wanted: impl Fn(&str) -> bool,
) -> Vec<(f64, Interval, f64)> {
    let of_decision = |decision: &CheckedDecision| {
        let pairs = decision.times_ms.iter().filter_map(|(key, &truth)| {
            let source = decision.source.get(key)?;
            let [low, high] = *decision.predicted_intervals_ms.get(key)?;
            wanted(source).then_some((*decision.predicted_ms.get(key)?, Interval { low, high }, truth))
        });
        pairs.collect::<Vec<_>>()
    };
    decisions.iter().flat_map(of_decision).collect()
}

/// Judges a strategy's choice on the true times of a decision.
pub(crate) fn judge_choice(decision: &CheckedDecision, choice: Option<&TargetKey>) -> Outcome {
    // What another chip may have done neither honours a choice nor speaks against it.
    let Some(choice) = choice.filter(|choice| !decision.suspects.contains(*choice)) else {
        return Outcome::NotApplicable;
    };
    let times = decision.true_times();
    match decision.times_ms.keys().position(|key| key == choice) {
        Some(position) => judge(&times, position),
        None => Outcome::Failed,
    }
}

/// Judges what another program chose for itself by the time that it took, against the best target.
fn judge_others(decision: &CheckedDecision, choice: &OthersChoice) -> Outcome {
    let Some(own) = choice.time_ms else { return Outcome::Failed };
    let mut times = decision.true_times();
    times.push(Some(true_time(own, choice.interval_ms, choice.halves_ms)));
    judge(&times, times.len() - 1)
}

fn true_time(ms: f64, interval_ms: Option<[f64; 2]>, halves_ms: Option<[f64; 2]>) -> TrueTime {
    TrueTime {
        time_ns: ms * 1e6,
        interval: interval_ms.map(|[low, high]| Interval { low: low * 1e6, high: high * 1e6 }),
        halves_ns: halves_ms.map(|halves| halves.map(|ms| ms * 1e6)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
