//! What times of other models, other targets and other machines tell about a time that was never measured.
//!
//! Invariant: a prediction of a left-out time uses nothing that was measured with it left out, and always has
//! an interval.
//!
//! Logarithms of times are a Gaussian process over models and candidates. A time is the level of its candidate,
//! plus a part that all candidates of the machine share, a part of the candidate's kind, a part of its own and
//! noise; each part varies with the facts of the model ([`Prior::of_facts`]). Other machines' measurements change
//! means and covariances ([`Prior::learn`]). One rule then serves all questions: what is known of a time given
//! everything else that was measured on the machine ([`Conditioned`]).
//!
//! Reading order: `work`, `traits`, `kernel`, `prior`, `conditioned`, `learning`.

mod conditioned;
mod kernel;
mod learning;
mod prior;
#[cfg(test)]
mod tests;
mod traits;
mod work;

use crate::chip::ChipKind;
use crate::statistics::Interval;

pub use conditioned::{Conditioned, LeavingOut};
pub use prior::{MOST_LEARNED_MODELS, Prior};
pub use traits::{CaseTraits, Traits};
pub use work::{Pack, SortOfWork};

/// The largest number of measured times of one machine; the work grows with its cube.
pub const MOST_ROWS: usize = 4_000;

/// Standard normal quantile of a two-sided 95 % interval.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// Kinds of chips that times are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A CPU.
    Cpu,
    /// A GPU or an NPU.
    Accelerator,
}

impl Kind {
    /// The number of kinds.
    pub const COUNT: usize = 2;
    /// All kinds.
    pub const ALL: [Self; Self::COUNT] = [Self::Cpu, Self::Accelerator];
}

impl From<ChipKind> for Kind {
    fn from(kind: ChipKind) -> Self {
        match kind {
            ChipKind::Cpu => Self::Cpu,
            _ => Self::Accelerator,
        }
    }
}

/// A measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Position of the candidate in [`Observations::kinds`].
    pub candidate: usize,
    /// Position of the model among the models of the prior.
    pub model: usize,
    /// The time of one call.
    pub time_ns: f64,
}

/// What was measured on one machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// The kind of each candidate.
    pub kinds: Vec<Kind>,
    /// The measured times, at most one for a candidate and a model.
    pub rows: Vec<Row>,
}

/// A time as the logarithm of nanoseconds, normally distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogTime {
    /// Mean of `ln t`.
    pub mean: f64,
    /// Standard deviation of `ln t`, never negative.
    pub deviation: f64,
}

impl LogTime {
    /// The median, in nanoseconds.
    pub fn median_ns(&self) -> f64 {
        self.mean.exp()
    }

    /// The mean, in nanoseconds: `exp(µ + σ²/2)`. The least of it costs least on average, so a time that may
    /// turn out far longer is passed over for one as short and better known.
    pub fn expected_ns(&self) -> f64 {
        (self.mean + 0.5 * self.deviation.powi(2)).exp()
    }

    /// The 95 % interval, in nanoseconds.
    pub fn interval_ns(&self) -> Interval {
        let half_width = NORMAL_95 * self.deviation;
        Interval { low: (self.mean - half_width).exp(), high: (self.mean + half_width).exp() }
    }
}

/// Why nothing can be predicted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TransferError {
    /// A row names a candidate or a model that does not exist.
    #[error("measured time {row} belongs to no known {what}: give each candidate and model once")]
    Unknown {
        /// The row.
        row: usize,
        /// `candidate` or `model`.
        what: &'static str,
    },
    /// A time is not a positive number of ordinary size.
    #[error("measured time {row} is {time_ns} ns, which is no time: leave it out")]
    NoTime {
        /// The row.
        row: usize,
        /// The value.
        time_ns: f64,
    },
    /// More times than can be joined.
    #[error("{found} measured times are too many, at most {most} are joined: leave out models or candidates")]
    TooManyRows {
        /// Times given.
        found: usize,
        /// Times allowed.
        most: usize,
    },
    /// More models than other machines' measurements can be learned for.
    #[error("{found} models are too many to learn from other machines, at most {most} are: leave some out")]
    TooManyModels {
        /// Models given.
        found: usize,
        /// Models allowed.
        most: usize,
    },
    /// The covariance has no factor.
    #[error("the measured times contradict one another: give each candidate and model once")]
    Contradiction(#[source] crate::cholesky::NotPositiveDefinite),
}

impl Observations {
    /// Checks every row against the number of candidates and models.
    fn check(&self, models: usize) -> Result<(), TransferError> {
        if self.rows.len() > MOST_ROWS {
            return Err(TransferError::TooManyRows { found: self.rows.len(), most: MOST_ROWS });
        }
        for (row, it) in self.rows.iter().enumerate() {
            if it.candidate >= self.kinds.len() {
                return Err(TransferError::Unknown { row, what: "candidate" });
            }
            if it.model >= models {
                return Err(TransferError::Unknown { row, what: "model" });
            }
            if !(1e-3..=1e18).contains(&it.time_ns) {
                return Err(TransferError::NoTime { row, time_ns: it.time_ns });
            }
        }
        Ok(())
    }

    /// The kind and model of a row.
    fn cell(&self, row: usize) -> (Kind, usize) {
        let Row { candidate, model, .. } = self.rows[row];
        (self.kinds[candidate], model)
    }
}
