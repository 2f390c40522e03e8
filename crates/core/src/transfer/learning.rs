//! Means and covariances from other machines' measurements.
//!
//! Invariant: with no other machine the prior stays as it is; with few of them it stays near.

use crate::cholesky::{Symmetric, dot};

use super::conditioned::{covariance, deviations};
use super::prior::{Prior, Table};
use super::{Kind, Observations, TransferError};

/// Machines that the shared covariance from facts counts as. This and the next make left-out times of other boards
/// most probable; docs/prediction.md has the figures.
const WEIGHT_OF_SHARED: f64 = 5.0;
/// Candidates that the covariance of a candidate's own part counts as.
const WEIGHT_OF_OWN: f64 = 30.0;
/// Machines that the prior's mean counts as.
const WEIGHT_OF_MEAN: f64 = 0.3;
/// Rounds of expectation and maximisation; later ones change predictions by less than a percent.
const ROUNDS: usize = 8;

/// What the measurements of one machine say of its parts.
struct Expectation {
    /// Mean and covariance of the shared part.
    shared: (Vec<f64>, Symmetric),
    /// The same of each candidate's own part, with its kind.
    own: Vec<(Kind, Vec<f64>, Symmetric)>,
}

/// A running sum of second moments.
struct Moments {
    sum: Vec<f64>,
    order: usize,
    count: f64,
}

impl Prior {
    /// What facts say, changed by what was measured on `machines`.
    ///
    /// The covariances have inverse-Wishart priors about those of this prior, and the mean is normal: maximum a
    /// posteriori by expectation and maximisation (Gelman and others, *Bayesian Data Analysis*, 3rd edition,
    /// sections 3.6 and 13.4). Models that a machine lacks are simply not observed.
    ///
    /// # Errors
    /// When a row is no time of a known candidate and model, or there are too many rows or models.
    pub fn learn(&self, machines: &[&Observations]) -> Result<Self, TransferError> {
        machines.iter().try_for_each(|machine| machine.check(self.models()))?;
        let Table { shared, own, .. } = self.learnable()?;
        let order = shared.order();
        let mut prior = self.clone();
        if machines.is_empty() {
            return Ok(prior);
        }
        let count = machines.len() as f64;
        for _ in 0..ROUNDS {
            let found: Vec<Expectation> =
                machines.iter().map(|machine| expect(&prior, machine)).collect::<Result<_, _>>()?;
            let mean: Vec<f64> = (0..order)
                .map(|row| found.iter().map(|it| it.shared.0[row]).sum::<f64>() / (count + WEIGHT_OF_MEAN))
                .collect();
            let mut moments = Moments::of(shared, WEIGHT_OF_SHARED);
            let mut own_moments = Kind::ALL.map(|kind| Moments::of(&own[kind as usize], WEIGHT_OF_OWN));
            moments.add(&mean, None, WEIGHT_OF_MEAN);
            // The mean is estimated too, which the normal-inverse-Wishart mode counts as one more machine.
            moments.count += 1.0;
            for it in found {
                let apart: Vec<f64> =
                    it.shared.0.iter().zip(&mean).map(|(found, mean)| found - mean).collect();
                moments.add(&apart, Some(&it.shared.1), 1.0);
                moments.count += 1.0;
                for (kind, mean, covariance) in &it.own {
                    own_moments[*kind as usize].add(mean, Some(covariance), 1.0);
                    own_moments[*kind as usize].count += 1.0;
                }
            }
            let own = own_moments.map(Moments::covariance);
            prior = self.with(Table { mean, shared: moments.covariance(), own });
        }
        Ok(prior)
    }
}

impl Moments {
    fn of(start: &Symmetric, weight: f64) -> Self {
        let order = start.order();
        let sum = (0..order).flat_map(|row| start.row(row)).map(|value| weight * value).collect();
        Self { sum, order, count: weight }
    }

    /// Adds `weight` times the square of `vector`, and a covariance.
    fn add(&mut self, vector: &[f64], covariance: Option<&Symmetric>, weight: f64) {
        for (row, sums) in self.sum.chunks_exact_mut(self.order.max(1)).enumerate() {
            let factor = weight * vector[row];
            sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += factor * value);
            if let Some(covariance) = covariance {
                sums.iter_mut().zip(covariance.row(row)).for_each(|(sum, value)| *sum += value);
            }
        }
    }

    fn covariance(self) -> Symmetric {
        Symmetric::from_lower(self.order, |i, j| self.sum[i * self.order + j] / self.count)
    }
}

/// Splits what was measured on a machine into its parts, as far as the measurements tell.
fn expect(prior: &Prior, machine: &Observations) -> Result<Expectation, TransferError> {
    let factor = covariance(prior, machine).cholesky().map_err(TransferError::Contradiction)?;
    let (precision, weights) = (factor.inverse(), factor.solve(&deviations(prior, machine)));
    let models = prior.models();
    let cells: Vec<_> = (0..machine.rows.len()).map(|row| machine.cell(row)).collect();

    let across: Vec<Vec<f64>> = (0..2 * models)
        .map(|row| cells.iter().map(|&cell| prior.shared(prior.of_row(row), cell)).collect())
        .collect();
    let all: Vec<usize> = (0..cells.len()).collect();
    let remaining = explain(&across, &all, &precision, |a, b| prior.shared(prior.of_row(a), prior.of_row(b)));
    let mean = across
        .iter()
        .enumerate()
        .map(|(row, across)| {
            let (kind, model) = prior.of_row(row);
            prior.mean(kind, model) + dot(across, &weights)
        })
        .collect();

    let mut own = Vec::with_capacity(machine.kinds.len());
    for (candidate, &kind) in machine.kinds.iter().enumerate() {
        let rows: Vec<usize> =
            (0..cells.len()).filter(|&row| machine.rows[row].candidate == candidate).collect();
        let across: Vec<Vec<f64>> = (0..models)
            .map(|model| rows.iter().map(|&row| prior.own(kind, model, cells[row].1)).collect())
            .collect();
        let own_weights: Vec<f64> = rows.iter().map(|&row| weights[row]).collect();
        let remaining = explain(&across, &rows, &precision, |a, b| prior.own(kind, a, b));
        own.push((kind, across.iter().map(|across| dot(across, &own_weights)).collect(), remaining));
    }
    Ok(Expectation { shared: (mean, remaining), own })
}

/// The covariance `prior − A·P·Aᵀ` that remains once `rows` were measured, `A` their covariance with the parts
/// and `P` the precision.
fn explain(
    across: &[Vec<f64>],
    rows: &[usize],
    precision: &Symmetric,
    prior: impl Fn(usize, usize) -> f64,
) -> Symmetric {
    let whole = rows.len() == precision.order();
    let weighted: Vec<Vec<f64>> = across
        .iter()
        .map(|across| {
            let of = |&row: &usize| {
                let precision = precision.row(row);
                if whole {
                    dot(precision, across)
                } else {
                    rows.iter().zip(across).map(|(&column, value)| precision[column] * value).sum()
                }
            };
            rows.iter().map(of).collect()
        })
        .collect();
    Symmetric::from_lower(across.len(), |a, b| prior(a, b) - dot(&weighted[a], &across[b]))
}
