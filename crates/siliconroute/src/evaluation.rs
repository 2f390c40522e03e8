//! Decisions against the truth: what was chosen, what was best, what it cost, for every strategy.
//!
//! Invariant: a decision is made before the trials that judge it are taken, and all strategies are
//! judged on the same trials. A suspect trial is the truth of nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::{Context, Decision, Query, Source, decide};
use siliconroute_core::knowledge::{Knowledge, TargetIndex};
use siliconroute_core::regret::{Outcome, PredictionScore, Score, TrueTime, judge};
use siliconroute_core::statistics::{self, Interval};
use siliconroute_core::trial::{OutputCheck, Purpose, Sample, Trial};
use siliconroute_core::{AccuracyClass, Case, ChipKind, Goal, TargetKey, Workload};
use siliconroute_store::{NewDecision, NewVerification};

use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::home::MeasuringLock;
use crate::learn::Learned;
use crate::measure::{Job, Order};
use crate::model_tuning::Tuned;
use crate::models::KnownModel;
use crate::router::{Router, Targets};
use crate::run::Routing;
use crate::wording::counted;

/// The schema of [`Evaluation`].
pub const EVALUATION_SCHEMA: &str = "siliconroute.evaluation/1";

/// Name of the router among the strategies.
pub const ROUTER: &str = "router";

/// Providers in the order in which frameworks commonly try them: accelerators before the CPU.
const PRIORITY_LIST: [&str; 13] = [
    "nv_tensorrt_rtx",
    "tensorrt",
    "cuda",
    "migraphx",
    "dml",
    "coreml",
    "qnn",
    "vitisai",
    "openvino",
    "webgpu",
    "xnnpack",
    "ort",
    "rten",
];

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
    /// Scores by strategy over all decisions.
    pub strategies: BTreeMap<String, Score>,
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
        let mut strategies = BTreeMap::new();
        let router: Vec<_> = decisions.iter().map(|d| judge_choice(d, d.chosen.as_ref())).collect();
        strategies.insert(ROUTER.to_owned(), Score::of(&router));
        let names: BTreeSet<&String> = decisions.iter().flat_map(|d| d.strategies.keys()).collect();
        for name in names {
            let judged: Vec<_> = decisions
                .iter()
                .map(|d| judge_choice(d, d.strategies.get(name).and_then(Option::as_ref)))
                .collect();
            strategies.insert(name.clone(), Score::of(&judged));
        }
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
            strategies,
            router_by_knowledge,
            prediction,
            prediction_fitted,
        }
    }
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
            predicted_ms: BTreeMap::new(),
            predicted_intervals_ms: BTreeMap::new(),
            source: BTreeMap::new(),
            excluded: BTreeMap::new(),
            suspects: BTreeSet::new(),
            strategies: BTreeMap::new(),
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
    let keys: Vec<&TargetKey> = decision.times_ms.keys().collect();
    let times: Vec<Option<TrueTime>> = keys
        .iter()
        .map(|key| {
            let time_ns = decision.times_ms.get(*key)? * 1e6;
            let interval = decision.intervals_ms.get(*key);
            let interval = interval.map(|[low, high]| Interval { low: low * 1e6, high: high * 1e6 });
            Some(TrueTime { time_ns, interval })
        })
        .collect();
    match keys.iter().position(|key| *key == choice) {
        Some(position) => judge(&times, position),
        None => Outcome::Failed,
    }
}

impl Router {
    /// Decides every question under `routing`, then measures all candidates anew and stores what came of it.
    ///
    /// The truth is measured in the sustained workload, whatever workload the decision was made for.
    ///
    /// # Errors
    /// When measuring or the store fails, or the user stops; checks that were finished stay.
    pub fn check(
        &self,
        questions: &[Question],
        targets: &Targets,
        learned: &Learned,
        routing: &Routing,
        listener: &mut dyn Listener,
    ) -> Result<Vec<CheckedDecision>, Error> {
        let turn = self.lock_measuring(listener)?;
        Ok(self.check_in_turn(&turn, questions, targets, learned, routing, listener)?.0)
    }

    /// [`Self::check`] for a caller whose turn to measure it is already; gives the number of trials too.
    pub(crate) fn check_in_turn(
        &self,
        turn: &MeasuringLock,
        questions: &[Question],
        targets: &Targets,
        learned: &Learned,
        routing: &Routing,
        listener: &mut dyn Listener,
    ) -> Result<(Vec<CheckedDecision>, usize), Error> {
        let sampling = &self.sampling();
        let mut trials_made = 0;
        listener.event(Event::Begin { stage: Stage::Checking, steps: Some(questions.len() as u64) });
        let mut checked = Vec::new();
        for question in questions {
            let Tuned { targets, notices } = self.tuned_targets(targets, &question.case)?;
            for notice in notices {
                listener.event(Event::Notice(notice));
            }
            let (targets, relearned) = match &targets {
                Cow::Owned(tuned) => (tuned, Some(self.learn(tuned)?)),
                Cow::Borrowed(plain) => (*plain, None),
            };
            let learned = relearned.as_ref().unwrap_or(learned);
            let query = self.query(&question.case, routing);
            let decision = decide(&learned.knowledge, &query, &Context::default());
            let candidates = candidate_keys(&decision, learned);
            let job = Job {
                model: question.model.clone(),
                case: question.case.clone(),
                workload: query.workload,
                targets: candidates,
            };
            let measured = self
                .measure_in_turn(turn, &[job], targets, &Order::new(Purpose::Verify, sampling), listener)?
                .complete()?;
            trials_made += measured.trials.len();
            let trials: Vec<&Trial> = measured.of_case(question.case.id).collect();
            let mut record = describe(question, &query, &decision, learned, &trials);
            self.store_check(&mut record, &query, targets, measured.campaign)?;
            checked.push(record);
        }
        listener.event(Event::End(format!("{} checked", counted(checked.len(), "decision"))));
        Ok((checked, trials_made))
    }

    fn store_check(
        &self,
        record: &mut CheckedDecision,
        query: &Query<'_>,
        targets: &Targets,
        campaign: siliconroute_store::CampaignId,
    ) -> Result<(), Error> {
        let row = |key: &Option<TargetKey>| key.as_ref().and_then(|key| targets.rows.get(key)).copied();
        let now = (self.clock)();
        let document = serde_json::to_string(record).expect("a decision has only text keys");
        let decision = self.store.record_decision(&NewDecision {
            case: query.case.id,
            workload: query.workload,
            goal: query.goal,
            accuracy: query.accuracy,
            chosen: row(&record.chosen),
            document: &document,
            created_unix_ms: now,
        })?;
        record.id = decision.to_string();
        let stored = StoredCheck { fingerprint: targets.fingerprint.clone(), decision: record.clone() };
        self.store.record_verification(&NewVerification {
            decision,
            campaign: Some(campaign),
            chosen: row(&record.chosen),
            best: row(&record.best),
            regret_pct: record.regret_pct,
            document: &serde_json::to_string(&stored).expect("a check has only text keys"),
            created_unix_ms: now,
        })?;
        Ok(())
    }

    /// The latest checks of `questions` that were made with the targets as they are now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn stored_checks(
        &self,
        questions: &[Question],
        targets: &Targets,
    ) -> Result<Vec<Option<CheckedDecision>>, Error> {
        let stored = self.store.latest_verifications(None)?;
        let find = |question: &Question| {
            stored
                .iter()
                .filter(|check| check.decision.case == question.case.id)
                .filter(|check| check.decision.workload == Workload::Sustained)
                .filter(|check| check.decision.accuracy == self.settings.accuracy)
                .filter(|check| check.decision.goal == Goal::Fastest)
                .filter_map(|check| serde_json::from_str::<StoredCheck>(&check.document).ok())
                .find(|check| check.fingerprint == targets.fingerprint)
                .map(|check| {
                    // Checks that were stored before this was counted hold what it is counted from.
                    let candidates = check.decision.count_candidates();
                    CheckedDecision { candidates, ..check.decision }
                })
        };
        Ok(questions.iter().map(find).collect())
    }
}

/// A checked decision with the set of targets that it was made among.
#[derive(Debug, Serialize, Deserialize)]
struct StoredCheck {
    fingerprint: String,
    decision: CheckedDecision,
}

/// The targets to measure: all that did not fail on the model before.
fn candidate_keys(decision: &Decision<'_>, learned: &Learned) -> Vec<TargetKey> {
    use siliconroute_core::knowledge::Exclusion;
    decision
        .candidates
        .iter()
        .filter(|candidate| !matches!(candidate.outlook, Err(Exclusion::Failed(_))))
        .map(|candidate| learned.knowledge.target(candidate.target).key.clone())
        .collect()
}

fn describe(
    question: &Question,
    query: &Query<'_>,
    decision: &Decision<'_>,
    learned: &Learned,
    trials: &[&Trial],
) -> CheckedDecision {
    let mut record = CheckedDecision::before_its_trials(question, query, decision, &learned.knowledge);
    record.strategies = strategies(query, &learned.knowledge);
    for trial in trials {
        if let Some(reason) = &trial.suspect {
            record.suspects.insert(trial.target.clone());
            record.excluded.entry(trial.target.clone()).or_insert_with(|| format!("suspect: {reason}"));
            continue;
        }
        match true_time(trial, query.accuracy) {
            Ok(time) => {
                record.times_ms.insert(trial.target.clone(), time.time_ns / 1e6);
                if let Some(interval) = time.interval {
                    let interval = [interval.low / 1e6, interval.high / 1e6];
                    record.intervals_ms.insert(trial.target.clone(), interval);
                }
            }
            Err(reason) => {
                record.excluded.entry(trial.target.clone()).or_insert(reason);
            }
        }
    }
    record.judge();
    record
}

/// The median of a trial whose outputs are allowed in `class`, or why there is none.
fn true_time(trial: &Trial, class: AccuracyClass) -> Result<TrueTime, String> {
    let measurement = trial.outcome.as_ref().map_err(ToString::to_string)?;
    match &measurement.outputs {
        OutputCheck::Compared { difference, .. } if !difference.satisfies(class) => {
            return Err(format!(
                "outputs fail the class {class}: relative error {:.1e}",
                difference.max_relative_error
            ));
        }
        OutputCheck::Faulty { fault, .. } => return Err(format!("outputs fail the class {class}: {fault}")),
        OutputCheck::Compared { .. } | OutputCheck::Reference | OutputCheck::NotCompared { .. } => {}
    }
    let times: Vec<f64> = measurement.samples.iter().map(Sample::per_call_ns).collect();
    let summary = statistics::summarise(&times).ok_or_else(|| "no samples were taken".to_owned())?;
    Ok(TrueTime { time_ns: summary.median_ns, interval: summary.interval })
}

/// What the baselines choose for a question.
fn strategies(query: &Query<'_>, knowledge: &Knowledge) -> BTreeMap<String, Option<TargetKey>> {
    let keys = || knowledge.targets().iter().map(|entry| &entry.target);
    let fitted = decide(knowledge, query, &Context { ignore_measurements: true, ..Context::default() });
    let first_of_kind =
        |kind: ChipKind| keys().find(|target| target.chip_kind == kind).map(|t| t.key.clone());
    let listed = PRIORITY_LIST
        .iter()
        .find_map(|provider| keys().find(|target| target.provider.as_str() == *provider))
        .map(|target| target.key.clone());
    BTreeMap::from([
        ("always-cpu".to_owned(), keys().find(|t| t.key.base() == "cpu/ort").map(|t| t.key.clone())),
        ("always-gpu".to_owned(), first_of_kind(ChipKind::Gpu)),
        ("always-first-listed".to_owned(), listed),
        ("fit-only".to_owned(), fitted.chosen.map(|target| knowledge.target(target).key.clone())),
    ])
}

#[cfg(test)]
mod tests;
