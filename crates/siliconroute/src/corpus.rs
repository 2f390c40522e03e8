//! Measured boards as tests of prediction: each model is left out, predicted and decided for.
//!
//! Invariant: what is predicted of a model on a board uses no time of that model on that board, except the
//! one that the task grants.

mod baselines;
mod known;
mod reachable;
mod reading;
mod tasks;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::mpsc;

use serde::Serialize;
use siliconroute_core::Reading;
use siliconroute_core::transfer::{Kind, Prior, Traits, TransferError};

use crate::evaluation::{CheckedDecision, Evaluation};
use crate::event::{Event, Listener, Stage};
use crate::table_file::TableError;

pub use reachable::Reachable;
pub use reading::{Board, Corpus, PublicModel};

/// What may be known of a model when its times are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Its facts, and the board's times of other models.
    ZeroShot,
    /// Besides, its time on the CPU configuration that is best for the board's other models.
    OneShot,
    /// Its facts, the board's times of other models, and everything that was measured on other boards.
    Fleet,
}

impl Task {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroShot => "zero-shot",
            Self::OneShot => "one-shot",
            Self::Fleet => "fleet",
        }
    }
}

/// Why a corpus gives no evaluation.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A table is wrong.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A board's times cannot be joined.
    #[error("the board `{board}` cannot be evaluated")]
    Board {
        /// The board.
        board: String,
        /// Why.
        #[source]
        source: TransferError,
    },
}

/// What came of a corpus.
#[derive(Debug, Serialize)]
pub struct CorpusEvaluation {
    /// The decisions and scores.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// The score of choices by true times, simulated.
    pub reachable: Reading<Reachable>,
    /// What was left out or could not be known, in sentences.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// Evaluates `task` on the boards of the table at `boards` with the models' facts of the table at `models`, until `stop` says
/// so; what was decided by then is judged.
///
/// Each board's candidates with at least 8 models take part, on the models that all of them have.
///
/// # Errors
/// When a table is wrong, or a board's times cannot be joined.
pub fn evaluate(
    boards: &Path,
    models: &Path,
    task: Task,
    stop: &(dyn Fn() -> bool + Sync),
    listener: &mut dyn Listener,
) -> Result<CorpusEvaluation, CorpusError> {
    evaluate_boards(Corpus::load(boards, models)?, task, stop, listener)
}

fn evaluate_boards(
    corpus: Corpus,
    task: Task,
    stop: &(dyn Fn() -> bool + Sync),
    listener: &mut dyn Listener,
) -> Result<CorpusEvaluation, CorpusError> {
    let facts = Prior::of_facts(corpus.models.iter().enumerate().map(traits).collect());
    // The work of different boards has nothing to do with one another.
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(16);
    let share = corpus.boards.len().div_ceil(workers).max(1);
    let shares: Vec<usize> = (0..corpus.boards.len()).collect();
    listener.event(Event::Begin { stage: Stage::Evaluating, steps: Some(corpus.boards.len() as u64) });
    let (tell, told) = mpsc::channel();
    let judged = std::thread::scope(|scope| {
        let (corpus, facts) = (&corpus, &facts);
        let running: Vec<_> = shares
            .chunks(share)
            .map(|chunk| {
                let tell = tell.clone();
                scope.spawn(move || {
                    let judge = |&board: &usize| {
                        let _heard = tell.send(Event::Step(corpus.boards[board].name.clone()));
                        let judged = tasks::judge(corpus, facts, board, task, stop);
                        let _heard = tell.send(Event::StepDone);
                        judged
                    };
                    chunk.iter().take_while(|_| !stop()).map(judge).collect()
                })
            })
            .collect();
        drop(tell);
        for event in told {
            listener.event(event);
        }
        let join = |worker: std::thread::ScopedJoinHandle<'_, Vec<Result<_, _>>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().flat_map(join).collect::<Result<Vec<Vec<CheckedDecision>>, CorpusError>>()
    })?;
    listener.event(Event::End(String::new()));
    let decisions: Vec<CheckedDecision> = judged.into_iter().flatten().collect();
    let asked: usize = corpus.boards.iter().map(|board| board.models.len()).sum();
    let interrupted = decisions.len() < asked;
    let evaluation = Evaluation { interrupted, ..Evaluation::of(decisions) };
    Ok(CorpusEvaluation { evaluation, reachable: reachable::simulate(&corpus), notes: corpus.notes })
}

fn traits((index, model): (usize, &PublicModel)) -> Traits {
    Traits::new(index, &model.traits)
}

/// The kind of a candidate, from the first part of its name.
fn kind_of(candidate: &str) -> Option<Kind> {
    match candidate.split('/').next()? {
        "cpu" => Some(Kind::Cpu),
        "gpu" | "npu" => Some(Kind::Accelerator),
        _ => None,
    }
}
