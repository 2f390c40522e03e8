//! Decisions checked on the machine: decided, then every candidate measured side by side, in the same workload.
//!
//! Invariant: a decision is made before the trials that judge it are taken.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::{Context, Decision, decide};
use siliconroute_core::knowledge::Exclusion;
use siliconroute_core::regret::TrueTime;
use siliconroute_core::statistics::{self, Interval};
use siliconroute_core::trial::{Measurement, OutputCheck, Purpose, Sample, Trial};
use siliconroute_core::{AccuracyClass, Goal, TargetKey, Workload};
use siliconroute_store::{CampaignId, NewVerification};

use super::asking::{Asked, EvaluationPlan};
use super::baselines::{Others, OthersChoice, fixed_choices};
use super::checks::{Checks, Unchecked};
use super::{CheckedDecision, ORACLE, Question};
use crate::campaign::{OutOfTime, Sampling};
use crate::decisions::{Made, Occasion};
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::home::MeasuringLock;
use crate::learn::Learned;
use crate::measure::{Job, Order};
use crate::model_tuning::Tuned;
use crate::plan::{PlannedJob, part_of, planned, seconds};
use crate::router::{Router, Targets};
use crate::run::{Routing, fixed_order};
use crate::wording::counted;

/// Sessions in the sustained workload, each in processes of their own.
const SESSIONS: usize = 2;

/// Rests and starts of an evaluated decision: 6 are the fewest that a 95 % interval can be had from, and each half of 8 has
/// four.
const REPETITIONS: u32 = 8;

/// Sessions that the truth of an evaluated decision is measured in; rests and starts have their repetitions.
fn sessions_of(workload: Workload) -> usize {
    if workload == Workload::Sustained { SESSIONS } else { 1 }
}

/// One session of all targets and `others` in a decision's workload, as it is expected.
fn expected(
    asked: &Asked,
    targets: &Targets,
    others: Vec<TargetKey>,
    learned: &Learned,
    sampling: &Sampling,
) -> PlannedJob {
    let available = targets.discovery.available().map(|found| found.target.key.clone());
    let job = Job {
        model: asked.question.model.clone(),
        case: asked.question.case.clone(),
        workload: asked.workload,
        targets: available.chain(others).collect(),
    };
    planned(&job, learned, sampling)
}

/// How a decision is checked.
struct Check<'a> {
    routing: &'a Routing,
    sampling: &'a Sampling,
    /// Sessions of each candidate.
    sessions: usize,
    /// Time for the measurement.
    budget: Option<Duration>,
    /// When nothing new may begin, even if the decision is left unchecked.
    closes: Option<Instant>,
}

impl Router {
    /// Decides every question under `routing`, then measures all candidates anew and stores what came of it.
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
        let check = Check { routing, sampling, sessions: 1, budget: None, closes: None };
        let mut trials_made = 0;
        listener.event(Event::Begin { stage: Stage::Checking, steps: Some(questions.len() as u64) });
        let mut checked = Vec::new();
        for question in questions {
            let judged = self.check_one(turn, question, targets, learned, &check, None, listener)?;
            if let Ok((record, trials)) = judged {
                trials_made += trials;
                checked.push(record);
            }
        }
        listener.event(Event::End(format!("{} checked", counted(checked.len(), "decision"))));
        Ok((checked, trials_made))
    }

    /// Checks decisions in their workloads, beside the choices of others, until all are checked, the user stops, or the
    /// budget is used up: nothing begins that is not expected to end within it.
    ///
    /// # Errors
    /// When measuring or the store fails; checks that were finished stay in the store.
    pub fn evaluate(
        &self,
        asked: &[Asked],
        plan: &EvaluationPlan,
        targets: &Targets,
        learned: &Learned,
        listener: &mut dyn Listener,
    ) -> Result<Checks, Error> {
        let turn = self.lock_measuring(listener)?;
        let start = Instant::now();
        let mut checks = Checks { asked: asked.len(), ..Checks::default() };
        if asked.is_empty() {
            return Ok(checks);
        }
        let closes = plan.budget.and_then(|budget| start.checked_add(budget));
        let sampling = &Sampling { repetitions: REPETITIONS, ..self.sampling() };
        let mut others = Others::of(targets);
        let of_targets = |asked: &Asked| {
            let one = expected(asked, targets, Vec::new(), learned, sampling);
            one.expected_s * sessions_of(asked.workload) as f64
        };
        let expected_s: Vec<f64> = asked.iter().map(of_targets).collect();
        let whole = seconds(expected_s.iter().sum());
        let limit = plan.budget.map_or_else(String::new, |it| format!(", within {:.0} s", it.as_secs_f64()));
        let count = counted(asked.len(), "decision");
        listener.event(Event::Notice(format!("{count} to check: about {:.0} s{limit}", whole.as_secs_f64())));
        let steps = asked.iter().map(|asked| sessions_of(asked.workload)).sum::<usize>() as u64;
        listener.event(Event::Begin { stage: Stage::Checking, steps: Some(steps) });
        for (index, asked) in asked.iter().enumerate() {
            let Asked { question, workload } = asked;
            if self.is_cancelled() {
                checks.interrupted = true;
                break;
            }
            let mut share = None;
            if let Some(closes) = closes {
                let left = closes.saturating_duration_since(Instant::now());
                let sessions = others.sessions(question.case.id);
                let least = expected(asked, targets, sessions, learned, sampling).least;
                if least > left {
                    checks.leave_out(asked, Unchecked::NoRoom { least, left });
                    continue;
                }
                let rest: f64 = expected_s[index..].iter().sum();
                share = Some(part_of(left, expected_s[index], rest));
            }
            let routing = Routing { workload: Some(*workload), ..Routing::default() };
            let sessions = sessions_of(*workload);
            let check = Check { routing: &routing, sampling, sessions, budget: share, closes };
            match self.check_one(&turn, question, targets, learned, &check, Some(&mut others), listener) {
                Ok(Ok((record, _))) => checks.decisions.push(record),
                Ok(Err(reason)) => checks.leave_out(asked, reason),
                Err(Error::Interrupted) => {
                    checks.interrupted = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        listener.event(Event::End(format!("{} checked", counted(checks.decisions.len(), "decision"))));
        for notice in checks.notices() {
            listener.event(Event::Notice(notice));
        }
        checks.elapsed = start.elapsed();
        Ok(checks)
    }

    /// Checks one decision; the inner error says why nothing of it could be measured, which is no fault of the decision.
    #[expect(clippy::too_many_arguments, reason = "what is checked, among what, how, and who is told")]
    fn check_one(
        &self,
        turn: &MeasuringLock,
        question: &Question,
        targets: &Targets,
        learned: &Learned,
        check: &Check<'_>,
        others: Option<&mut Others>,
        listener: &mut dyn Listener,
    ) -> Result<Result<(CheckedDecision, usize), Unchecked>, Error> {
        let Tuned { targets, notices } = self.tuned_targets(targets, &question.case)?;
        for notice in notices {
            listener.event(Event::Notice(notice));
        }
        let relearned = match &targets {
            Cow::Owned(tuned) => Some(self.learn(tuned)?),
            Cow::Borrowed(_) => None,
        };
        let learned = relearned.as_ref().unwrap_or(learned);
        let query = self.query(&question.case, check.routing);
        let context = Context::default();
        let decision = decide(&learned.knowledge, &query, &context);
        let mut candidates = candidate_keys(&decision, learned);
        // Where every target has failed before, there is nothing to measure, and that is the answer.
        let has_candidates = !candidates.is_empty();
        let mut targets = targets;
        let mut record = CheckedDecision::before_its_trials(question, &query, &decision, &learned.knowledge);
        if record.chosen.is_none()
            && let Some(first) = fixed_order(&decision, &learned.knowledge).into_iter().next()
        {
            // What a session would be opened on.
            record.reason = format!("nothing is known of any target, so {first} comes first");
            record.chosen = Some(first);
        }
        (record.strategies, record.unavailable) = fixed_choices(&query, &learned.knowledge);
        if let Some(others) = others {
            match others.choose(self, question, check.closes) {
                Ok(sessions) => candidates.extend(sessions),
                Err(OutOfTime) => return Ok(Err(Unchecked::CutOff)),
            }
            targets.to_mut().automatic = others.found();
            record.others = others.choices(question.case.id);
            record.unavailable.extend(others.unavailable.clone());
        }
        let job = Job {
            model: question.model.clone(),
            case: question.case.clone(),
            workload: query.workload,
            targets: candidates,
        };
        let (budget, closes) = (check.budget, check.closes);
        let order = Order { budget, closes, ..Order::new(Purpose::Verify, check.sampling) };
        let jobs = vec![job; check.sessions];
        let measured = self.measure_in_turn(turn, &jobs, &targets, &order, listener)?.complete()?;
        let trials: Vec<&Trial> = measured.of_case(question.case.id).collect();
        if trials.is_empty() && has_candidates {
            return Ok(Err(if measured.out_of_time { Unchecked::CutOff } else { Unchecked::NotMeasured }));
        }
        if trials.iter().any(|trial| is_single_sample(trial)) {
            return Ok(Err(Unchecked::OneSample));
        }
        add_truth(&mut record, &trials, &unproven(&decision, learned));
        let made = Made {
            occasion: Occasion::Check,
            query: &query,
            context: &context,
            decision: &decision,
            knowledge: &learned.knowledge,
        };
        self.store_check(&mut record, &made, &targets, measured.campaign)?;
        Ok(Ok((record, measured.trials.len())))
    }

    fn store_check(
        &self,
        record: &mut CheckedDecision,
        made: &Made<'_, '_>,
        targets: &Targets,
        campaign: CampaignId,
    ) -> Result<(), Error> {
        let row = |key: &Option<TargetKey>| key.as_ref().and_then(|key| targets.rows.get(key)).copied();
        let now = (self.clock)();
        let decision = self.record_decision(made, targets)?;
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

    /// How many checks are stored, of whatever targets.
    ///
    /// # Errors
    /// When the store fails.
    pub fn count_stored_checks(&self) -> Result<usize, Error> {
        Ok(self.store.latest_verifications(None)?.len())
    }

    /// The latest checks of `questions` in `workload` that were made with the targets as they are now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn stored_checks(
        &self,
        questions: &[Question],
        targets: &Targets,
        workload: Workload,
    ) -> Result<Vec<Option<CheckedDecision>>, Error> {
        let stored = self.store.latest_verifications(None)?;
        let find = |question: &Question| {
            stored
                .iter()
                .filter(|check| check.decision.case == question.case.id)
                .filter(|check| check.decision.workload == workload)
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
    decision
        .candidates
        .iter()
        .filter(|candidate| !matches!(candidate.outlook, Err(Exclusion::Failed(_))))
        .map(|candidate| learned.knowledge.target(candidate.target).key.clone())
        .collect()
}

/// The targets that were excluded for what they computed, here or elsewhere.
fn unproven(decision: &Decision<'_>, learned: &Learned) -> BTreeSet<TargetKey> {
    let by_outputs = |outlook: &Exclusion| {
        matches!(outlook, Exclusion::WrongOutputs { .. } | Exclusion::UnprovenOutputs { .. })
    };
    let excluded = decision.candidates.iter().filter(|it| it.outlook.err().is_some_and(by_outputs));
    excluded.map(|candidate| learned.knowledge.target(candidate.target).key.clone()).collect()
}

/// Adds what the trials of a decision say, and judges it.
///
/// A trial whose outputs could not be compared proves nothing of those in `unproven`: what excluded them stands.
fn add_truth(record: &mut CheckedDecision, trials: &[&Trial], unproven: &BTreeSet<TargetKey>) {
    let mut sessions: BTreeMap<&TargetKey, Vec<Result<TrueTime, String>>> = BTreeMap::new();
    for trial in trials {
        if let Some(reason) = &trial.suspect {
            record.suspects.insert(trial.target.clone());
            record.excluded.entry(trial.target.clone()).or_insert_with(|| format!("suspect: {reason}"));
            continue;
        }
        let compared = |it: &Measurement| !matches!(it.outputs, OutputCheck::NotCompared { .. });
        if unproven.contains(&trial.target) && !trial.outcome.as_ref().is_ok_and(compared) {
            continue;
        }
        sessions.entry(&trial.target).or_default().push(true_time(trial, record.accuracy));
    }
    for (key, sessions) in sessions {
        let time = join(sessions);
        let is_others = record.others.values().any(|choice| choice.measured_as.as_ref() == Some(key));
        if is_others {
            for choice in record.others.values_mut().filter(|it| it.measured_as.as_ref() == Some(key)) {
                note(choice, &time);
            }
            continue;
        }
        match time {
            Ok(time) => {
                record.times_ms.insert(key.clone(), time.time_ns / 1e6);
                if let Some(interval) = time.interval {
                    record.intervals_ms.insert(key.clone(), [interval.low / 1e6, interval.high / 1e6]);
                }
                if let Some(halves) = time.halves_ns {
                    record.halves_ms.insert(key.clone(), halves.map(|ns| ns / 1e6));
                }
            }
            Err(reason) => {
                record.excluded.entry(key.clone()).or_insert(reason);
            }
        }
    }
    for choice in record.others.values_mut() {
        if choice.time_ms.is_none() && choice.failure.is_none() {
            choice.failure = Some("it was not measured".to_owned());
        }
    }
    record.judge();
    record.strategies.insert(ORACLE.to_owned(), record.best.clone());
}

fn note(choice: &mut OthersChoice, time: &Result<TrueTime, String>) {
    match time {
        Ok(time) => {
            choice.time_ms = Some(time.time_ns / 1e6);
            choice.interval_ms = time.interval.map(|interval| [interval.low / 1e6, interval.high / 1e6]);
            choice.halves_ms = time.halves_ns.map(|halves| halves.map(|ns| ns / 1e6));
        }
        Err(reason) => choice.failure = Some(reason.clone()),
    }
}

/// The median of the sessions' times and the hull of their intervals; a session that failed speaks for all. Halves are those
/// of the sessions, or of the rounds of a single one.
fn join(sessions: Vec<Result<TrueTime, String>>) -> Result<TrueTime, String> {
    let sessions = sessions.into_iter().collect::<Result<Vec<TrueTime>, String>>()?;
    let times: Vec<f64> = sessions.iter().map(|session| session.time_ns).collect();
    let time_ns = statistics::median(&times).ok_or_else(|| "no samples were taken".to_owned())?;
    let hull = |one: Interval, other: Interval| Interval {
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    };
    let halves_ns = match &sessions[..] {
        [only] => only.halves_ns,
        _ => halves(times.iter().copied().enumerate(), Workload::Sustained),
    };
    let interval = sessions.into_iter().filter_map(|it| it.interval).reduce(hull);
    Ok(TrueTime { time_ns, interval, halves_ns })
}

/// Whether a trial holds one sample: no interval can be had from it, so that chance would count as a difference.
fn is_single_sample(trial: &Trial) -> bool {
    trial.outcome.as_ref().is_ok_and(|measurement| measurement.samples.len() == 1)
}

/// The typical time of a trial whose outputs are allowed in `class`, or why there is none.
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
    // Samples that are too few for an interval, or depend on one another, may lie anywhere within their range.
    let range = Interval { low: summary.min_ns, high: summary.max_ns };
    let interval = summary.interval.or((summary.samples > 1).then_some(range));
    let time_ns = summary.typical_ns(trial.workload);
    let interval = interval.map(|it| Interval { low: it.low.min(time_ns), high: it.high.max(time_ns) });
    let rounds = measurement.samples.iter().map(|sample| (sample.round as usize, sample.per_call_ns()));
    Ok(TrueTime { time_ns, interval, halves_ns: halves(rounds, trial.workload) })
}

/// What is typical of the times with even and of those with odd numbers; `None` where there are not both.
fn halves(numbered: impl Iterator<Item = (usize, f64)>, workload: Workload) -> Option<[f64; 2]> {
    let (even, odd): (Vec<_>, Vec<_>) = numbered.partition(|(number, _)| number % 2 == 0);
    let of = |half: Vec<(usize, f64)>| {
        let times: Vec<f64> = half.into_iter().map(|(_, time)| time).collect();
        Some(statistics::summarise(&times)?.typical_ns(workload))
    };
    Some([of(even)?, of(odd)?])
}

#[cfg(test)]
mod tests;
