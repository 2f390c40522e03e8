//! Predictions given what was measured on a machine.
//!
//! Invariant: what is left out together is predicted together, from all other rows and from nothing else.

use crate::cholesky::{Cholesky, Symmetric, dot};

use super::prior::Prior;
use super::{Kind, LogTime, Observations, TransferError};

/// Variance of a candidate's level: its speed is not known before anything is measured on it.
pub(super) const LEVEL_VARIANCE: f64 = 100.0;
/// Centre of levels, `ln` of 10 ms in nanoseconds.
pub(super) const LEVEL_CENTRE: f64 = 16.118_095_650_958_32;
/// Variance of one measurement about the case's own time.
pub(super) const NOISE_VARIANCE: f64 = 0.05 * 0.05;

/// A machine's measurements joined with a prior.
#[derive(Debug)]
pub struct Conditioned<'a> {
    prior: &'a Prior,
    observations: &'a Observations,
    factor: Cholesky,
    /// The covariance's inverse times the deviations from the prior's means.
    weights: Vec<f64>,
}

impl<'a> Conditioned<'a> {
    /// Joins `observations` with what `prior` says.
    ///
    /// Cost: a third of the cube of the number of rows.
    ///
    /// # Errors
    /// When a row is no time of a known candidate and model, or there are too many.
    pub fn new(prior: &'a Prior, observations: &'a Observations) -> Result<Self, TransferError> {
        observations.check(prior.models())?;
        let factor = covariance(prior, observations).cholesky().map_err(TransferError::Contradiction)?;
        let weights = factor.solve(&deviations(prior, observations));
        Ok(Self { prior, observations, factor, weights })
    }

    /// Prepares to leave out rows.
    pub fn leaving_out(&self) -> LeavingOut<'_, 'a> {
        LeavingOut { conditioned: self, precision: self.factor.inverse() }
    }

    /// Predicts what one measurement of a model on a candidate would give.
    ///
    /// Cost: the square of the number of rows. A pair that is not known has no prediction.
    pub fn predict(&self, candidate: usize, model: usize) -> Option<LogTime> {
        let kind = *self.observations.kinds.get(candidate)?;
        if model >= self.prior.models() {
            return None;
        }
        let cell = (kind, model);
        let rows = self.observations.rows.iter().enumerate();
        let across: Vec<f64> = rows
            .map(|(index, row)| {
                let known = self.observations.cell(index);
                covariance_of(self.prior, (row.candidate, known), (candidate, cell))
            })
            .collect();
        let mean = LEVEL_CENTRE + self.prior.mean(kind, model) + dot(&across, &self.weights);
        let explained = self.factor.solve_lower(&across);
        let own = covariance_of(self.prior, (candidate, cell), (candidate, cell)) + NOISE_VARIANCE;
        let variance = (own - dot(&explained, &explained)).max(NOISE_VARIANCE);
        Some(LogTime { mean, deviation: variance.sqrt() })
    }
}

/// Measurements of which some can be left out without joining the rest anew.
#[derive(Debug)]
pub struct LeavingOut<'c, 'a> {
    conditioned: &'c Conditioned<'a>,
    precision: Symmetric,
}

impl LeavingOut<'_, '_> {
    /// Predicts `rows` together from all rows that are not among them.
    ///
    /// With `K` the covariance of all rows and `B` the rows left out, their mean is
    /// `y_B − ((K⁻¹)_BB)⁻¹·(K⁻¹·y)_B` and their covariance `((K⁻¹)_BB)⁻¹` (Rasmussen and Williams 2006, section
    /// 5.4.2, for blocks), the same as joining all other rows anew.
    ///
    /// # Errors
    /// When a row does not exist, or rows repeat.
    pub fn predict(&self, rows: &[usize]) -> Result<Vec<LogTime>, TransferError> {
        let known = &self.conditioned.observations.rows;
        if rows.iter().any(|&row| row >= known.len()) {
            let row = rows.iter().copied().max().unwrap_or(0);
            return Err(TransferError::Unknown { row, what: "row" });
        }
        let block = Symmetric::from_lower(rows.len(), |i, j| self.precision.at(rows[i], rows[j]));
        let covariance = block.cholesky().map_err(TransferError::Contradiction)?.inverse();
        let weights: Vec<f64> = rows.iter().map(|&row| self.conditioned.weights[row]).collect();
        let predict = |(index, &row): (usize, &usize)| LogTime {
            mean: known[row].time_ns.ln() - dot(covariance.row(index), &weights),
            deviation: covariance.at(index, index).max(0.0).sqrt(),
        };
        Ok(rows.iter().enumerate().map(predict).collect())
    }
}

/// The covariance of two cells, noise left out.
fn covariance_of(prior: &Prior, a: (usize, (Kind, usize)), b: (usize, (Kind, usize))) -> f64 {
    let shared = prior.shared(a.1, b.1);
    if a.0 == b.0 { shared + prior.own(a.1.0, a.1.1, b.1.1) + LEVEL_VARIANCE } else { shared }
}

/// The covariance of all rows.
pub(super) fn covariance(prior: &Prior, observations: &Observations) -> Symmetric {
    let rows = &observations.rows;
    Symmetric::from_lower(rows.len(), |i, j| {
        let cell = |row: usize| (rows[row].candidate, observations.cell(row));
        covariance_of(prior, cell(i), cell(j)) + if i == j { NOISE_VARIANCE } else { 0.0 }
    })
}

/// How far all rows lie from what the prior expects.
pub(super) fn deviations(prior: &Prior, observations: &Observations) -> Vec<f64> {
    let of = |(index, row): (usize, &super::Row)| {
        let (kind, model) = observations.cell(index);
        row.time_ns.ln() - LEVEL_CENTRE - prior.mean(kind, model)
    };
    observations.rows.iter().enumerate().map(of).collect()
}
