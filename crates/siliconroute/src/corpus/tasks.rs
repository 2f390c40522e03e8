//! The decisions on one board.
//!
//! Invariant: choices are made before the true times of the left-out model are looked at, but for the granted one.

use std::collections::{BTreeMap, BTreeSet};

use siliconroute_core::regret::{Outcome, TrueTime, judge as judge_times};
use siliconroute_core::transfer::{
    Conditioned, Kind, LeavingOut, LogTime, Observations, Prior, Row, TransferError,
};
use siliconroute_core::{AccuracyClass, TargetKey, Workload};

use crate::evaluation::CheckedDecision;

use super::baselines::{self, LeftOut};
use super::{Board, Corpus, CorpusError, Task};

/// What is known of a candidate before the choice.
#[derive(Debug, Clone, Copy)]
enum Outlook {
    Predicted(LogTime),
    /// The granted measurement, in milliseconds.
    Measured(f64),
}

impl Outlook {
    fn expected_ms(self) -> f64 {
        match self {
            Self::Predicted(time) => time.expected_ns() / 1e6,
            Self::Measured(ms) => ms,
        }
    }
}

/// Leaves out each model of the board at `index` and decides for it, until `stop` says so.
pub(super) fn judge(
    corpus: &Corpus,
    facts: &Prior,
    index: usize,
    task: Task,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<CheckedDecision>, CorpusError> {
    let board = &corpus.boards[index];
    let failed = |source| CorpusError::Board { board: board.name.clone(), source };
    let learned = match task {
        Task::Fleet => {
            let others = corpus.boards.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<&Observations> = others.map(|(_, board)| &board.all).collect();
            Some(facts.learn(&others).map_err(failed)?)
        }
        Task::ZeroShot | Task::OneShot => None,
    };
    let observations = common(board);
    let conditioned = Conditioned::new(learned.as_ref().unwrap_or(facts), &observations).map_err(failed)?;
    let leaving_out = conditioned.leaving_out();
    (0..board.models.len())
        .take_while(|_| !stop())
        .map(|position| {
            let granted = (task == Task::OneShot).then(|| best_cpu_without(board, position)).flatten();
            let outlooks = outlooks(board, &leaving_out, position, granted).map_err(failed)?;
            Ok(describe(corpus, board, position, &outlooks))
        })
        .collect()
}

/// The times of the models that all candidates have, by candidate and model.
fn common(board: &Board) -> Observations {
    let rows = board.times_ms.iter().enumerate().flat_map(|(candidate, times)| {
        std::iter::zip(&board.models, times).map(move |(&model, time)| Row {
            candidate,
            model,
            time_ns: time * 1e6,
        })
    });
    Observations { kinds: board.all.kinds.clone(), rows: rows.collect() }
}

/// The CPU candidate with the least mean logarithm of the times of all models but the one at `position`.
fn best_cpu_without(board: &Board, position: usize) -> Option<usize> {
    let mean = |candidate: usize| {
        let times = board.times_ms[candidate].iter().enumerate().filter(|(other, _)| *other != position);
        times.map(|(_, time)| time.ln()).sum::<f64>()
    };
    let cpus = (0..board.candidates.len()).filter(|&candidate| board.all.kinds[candidate] == Kind::Cpu);
    cpus.min_by(|&a, &b| mean(a).total_cmp(&mean(b)))
}

fn outlooks(
    board: &Board,
    leaving_out: &LeavingOut<'_, '_>,
    position: usize,
    granted: Option<usize>,
) -> Result<Vec<Outlook>, TransferError> {
    let candidates = board.candidates.len();
    let unknown: Vec<usize> = (0..candidates).filter(|&candidate| Some(candidate) != granted).collect();
    let rows: Vec<usize> =
        unknown.iter().map(|candidate| candidate * board.models.len() + position).collect();
    let mut predicted = leaving_out.predict(&rows)?.into_iter();
    let of = |candidate: usize| {
        if Some(candidate) == granted {
            return Some(Outlook::Measured(board.times_ms[candidate][position]));
        }
        predicted.next().map(Outlook::Predicted)
    };
    Ok((0..candidates).filter_map(of).collect())
}

fn describe(corpus: &Corpus, board: &Board, position: usize, outlooks: &[Outlook]) -> CheckedDecision {
    let key = |candidate: usize| TargetKey(board.candidates[candidate].clone());
    let chosen = outlooks
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| a.expected_ms().total_cmp(&b.expected_ms()))
        .map(|(candidate, _)| candidate);
    let times: Vec<f64> = board.times_ms.iter().map(|times| times[position]).collect();
    let true_times: Vec<Option<TrueTime>> = times.iter().map(|ms| Some(TrueTime::bare(ms * 1e6))).collect();
    let judgement = chosen.map(|chosen| judge_times(&true_times, chosen));
    let (best, regret_pct) = match judgement {
        Some(Outcome::Judged(judgement)) => (Some(key(judgement.best)), Some(judgement.regret_pct)),
        _ => (None, None),
    };
    let mut predicted_ms = BTreeMap::new();
    let mut predicted_intervals_ms = BTreeMap::new();
    let mut source = BTreeMap::new();
    for (candidate, outlook) in outlooks.iter().enumerate() {
        let (time, interval, name) = match outlook {
            Outlook::Predicted(time) => {
                let interval = time.interval_ns();
                (time.median_ns() / 1e6, [interval.low / 1e6, interval.high / 1e6], "predicted")
            }
            Outlook::Measured(ms) => (*ms, [*ms, *ms], "measured"),
        };
        predicted_ms.insert(key(candidate), time);
        predicted_intervals_ms.insert(key(candidate), interval);
        source.insert(key(candidate), name.to_owned());
    }
    let left_out = LeftOut { corpus, board, position };
    let strategies = baselines::choices(&left_out)
        .into_iter()
        .map(|(name, choice)| (name.to_owned(), choice.map(key)))
        .collect();
    let model = corpus.models[board.models[position]].name.clone();
    let reason = chosen.map_or_else(String::new, |chosen| {
        format!("{} has the least expected time", board.candidates[chosen])
    });
    CheckedDecision {
        id: format!("{}: {model}", board.name),
        model,
        batch: 1,
        bindings: String::new(),
        synthetic: false,
        candidates: times.len(),
        profiled: false,
        workload: Workload::Sustained,
        accuracy: AccuracyClass::Standard,
        chosen: chosen.map(key),
        best,
        regret_pct,
        tie: false,
        times_ms: times.iter().enumerate().map(|(candidate, &ms)| (key(candidate), ms)).collect(),
        intervals_ms: BTreeMap::new(),
        halves_ms: BTreeMap::new(),
        predicted_ms,
        predicted_intervals_ms,
        source,
        excluded: BTreeMap::new(),
        suspects: BTreeSet::new(),
        strategies,
        others: BTreeMap::new(),
        unavailable: BTreeMap::new(),
        reason,
    }
}
