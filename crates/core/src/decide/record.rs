//! A decision as a record: everything that it was made from, and what came of it.
//!
//! Invariant: [`Record::replay`] reads the record and nothing else, so a decision that was stored gives the same answer
//! on another day, on another machine and without the knowledge that it was made from.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::context::Context;
use super::rules::{Bar, Fired, Rules};
use super::{
    Candidate, Decision, INLINE_TARGETS, Limits, Lineup, METHOD_VERSION, OfCase, Prediction, Query,
    Startable, answer,
};
use crate::accuracy::AccuracyClass;
use crate::knowledge::{Energy, Exclusion, Knowledge, TargetIndex};
use crate::learning::Explored;
use crate::target::Target;
use crate::workload::{Goal, Workload};
use crate::{form, predict};

/// What is asked beside the case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// In what state the target will be.
    pub workload: Workload,
    /// What the user wants most.
    pub goal: Goal,
    /// How exact the outputs must be.
    pub accuracy: AccuracyClass,
    /// What the chosen target must keep to.
    pub limits: Limits,
    /// The rules by which the context changes the decision.
    pub rules: Rules,
}

impl Terms {
    /// The most memory that a process with the session may take: the budget or what is free, whichever is less.
    pub(super) fn memory_limit(&self, context: &Context) -> Option<u64> {
        let free = context.free_memory_bytes.filter(|_| self.rules.free_memory);
        [self.limits.memory_bytes, free].into_iter().flatten().min()
    }
}

impl Query<'_> {
    /// What is asked beside the case.
    pub fn terms(&self) -> Terms {
        let Self { case: _, workload, goal, accuracy, limits, rules } = *self;
        Terms { workload, goal, accuracy, limits, rules: *rules }
    }
}

/// Versions of the methods that a decision came about by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Methods {
    /// Of ranking.
    pub decide: u32,
    /// Of predicting times that were not measured.
    pub predict: u32,
    /// Of fitting hardware models.
    pub form: u32,
}

impl Methods {
    /// Those of this program.
    pub const CURRENT: Self =
        Self { decide: METHOD_VERSION, predict: predict::METHOD_VERSION, form: form::METHOD_VERSION };
}

/// What was predicted of a target, or why nothing counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// Its time.
    Expected(Prediction),
    /// What excluded it.
    Excluded(Exclusion),
}

/// A target as the decision saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The target, with its version.
    pub target: Target,
    /// What was predicted of it.
    pub outlook: Outlook,
    /// Its predicted energy.
    pub energy: Option<Energy>,
    /// The most memory that it was seen to take, where that counted.
    pub memory_bytes: Option<u64>,
    /// The most power that it was seen to draw at work, in watts, where that counted.
    pub load_watts: Option<f64>,
    /// The time that an inference keeps within with 95 % certainty, where that counted.
    pub within_ns: Option<f64>,
    /// How far its sessions differ.
    pub spread: Option<f64>,
    /// What it takes to wake it up, where another one was running or exploring was allowed.
    pub waking_ns: Option<f64>,
    /// What it takes to start it, where exploring was allowed.
    pub cold_start_ns: Option<f64>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The chosen target, by its place among the candidates.
    pub chosen: Option<TargetIndex>,
    /// The next best.
    pub runner_up: Option<TargetIndex>,
    /// The goal that decided.
    pub goal: Goal,
    /// The rules that fired.
    pub fired: Vec<Fired>,
    /// Why the chosen target is not the one that is believed to be the best; `None` where it is.
    pub exploration: Option<Explored>,
    /// By candidate: what forbade it.
    pub barred: Vec<Option<Bar>>,
    /// By candidate: what it was ranked by.
    pub scores: Vec<Option<f64>>,
}

/// A decision with everything that it was made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What it came about by.
    pub methods: Methods,
    /// What was asked.
    pub terms: Terms,
    /// What the machine was like.
    pub context: Context,
    /// The targets, in the order of the knowledge.
    pub candidates: Vec<Seen>,
    /// What was decided.
    pub answer: Answer,
}

impl Answer {
    /// The answer of `decision`.
    pub fn of(decision: &Decision<'_>) -> Self {
        let candidates = || decision.candidates.iter();
        Self {
            chosen: decision.chosen,
            runner_up: decision.runner_up,
            goal: decision.goal,
            fired: decision.fired.to_vec(),
            exploration: decision.exploration,
            barred: candidates().map(|candidate| candidate.barred).collect(),
            // Stored numbers are finite; any other one is no score.
            scores: candidates().map(|it| it.score.filter(|score| score.is_finite())).collect(),
        }
    }
}

impl Record {
    /// The record of `decision`, which was made from `knowledge`.
    pub fn of(decision: &Decision<'_>, query: &Query<'_>, context: &Context, knowledge: &Knowledge) -> Self {
        let lineup = OfCase::new(knowledge, query.case);
        let explores = context.exploration.is_some();
        let wakes = explores || context.running.is_some();
        let seen = |candidate: &Candidate<'_>| Seen {
            target: lineup.target(candidate.target).clone(),
            outlook: match candidate.outlook {
                Ok(prediction) => Outlook::Expected(prediction),
                Err(exclusion) => Outlook::Excluded(exclusion.clone()),
            },
            energy: candidate.energy,
            memory_bytes: candidate.memory_bytes,
            load_watts: candidate.load_watts,
            within_ns: candidate.within_ns,
            spread: candidate.spread,
            waking_ns: wakes.then(|| lineup.waking_ns(candidate, query.workload)),
            cold_start_ns: explores.then(|| lineup.cold_start_ns(candidate.target)).flatten(),
        };
        Self {
            methods: Methods::CURRENT,
            terms: query.terms(),
            context: context.clone(),
            candidates: decision.candidates.iter().map(seen).collect(),
            answer: Answer::of(decision),
        }
    }

    /// Decides once more from what is recorded.
    pub fn replay(&self) -> Decision<'_> {
        let mut candidates: SmallVec<[Candidate<'_>; INLINE_TARGETS]> = SmallVec::new();
        for (index, seen) in self.candidates.iter().enumerate() {
            candidates.push(Candidate {
                target: TargetIndex(index as u16),
                outlook: match &seen.outlook {
                    Outlook::Expected(prediction) => Ok(*prediction),
                    Outlook::Excluded(exclusion) => Err(exclusion),
                },
                energy: seen.energy,
                memory_bytes: seen.memory_bytes,
                load_watts: seen.load_watts,
                within_ns: seen.within_ns,
                spread: seen.spread,
                barred: None,
                score: None,
            });
        }
        answer(self, &self.terms, &self.context, candidates)
    }

    /// Whether deciding once more gives the recorded answer.
    pub fn repeats(&self) -> bool {
        // A record from elsewhere may name targets that it does not list.
        self.is_whole() && Answer::of(&self.replay()) == self.answer
    }

    /// Whether every target that the record names is one that it lists.
    pub fn is_whole(&self) -> bool {
        let count = self.candidates.len();
        let within = |target: TargetIndex| usize::from(target.0) < count;
        let answer = &self.answer;
        u16::try_from(count).is_ok()
            && answer.chosen.is_none_or(within)
            && answer.runner_up.is_none_or(within)
            && answer.exploration.is_none_or(|it| within(it.instead_of))
            && answer.barred.len() == count
            && answer.scores.len() == count
            && answer.fired.iter().filter_map(Fired::target).all(within)
    }

    /// The target at `index`; `None` where the record lists no such one.
    pub fn key(&self, index: Option<TargetIndex>) -> Option<&Target> {
        self.candidates.get(usize::from(index?.0)).map(|seen| &seen.target)
    }
}

impl Lineup for Record {
    fn target(&self, index: TargetIndex) -> &Target {
        &self.candidates[usize::from(index.0)].target
    }
}

impl Startable for Record {
    fn waking_ns(&self, candidate: &Candidate<'_>, _workload: Workload) -> f64 {
        self.candidates[usize::from(candidate.target.0)].waking_ns.unwrap_or(0.0)
    }

    fn cold_start_ns(&self, target: TargetIndex) -> Option<f64> {
        self.candidates[usize::from(target.0)].cold_start_ns
    }
}
