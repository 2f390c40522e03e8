//! Means and covariances from other machines' measurements.
//!
//! Invariant: with no other machine the prior stays as it is; with few of them it stays near.

use crate::cholesky::{Symmetric, dot};

use super::conditioned::{covariance, deviations};
use super::prior::{Prior, Table};
use super::{Kind, Observations, TransferError};

/// Machines that the covariance from facts counts as: for what the kinds of chips have in common, and for their
/// contrast, which differs more from machine to machine than it is told by others. docs/prediction.md has the figures.
const WEIGHT_OF_SHARED: [f64; Kind::COUNT] = [5.0, 20.0];
/// Machines that the prior's mean counts as, in the same order.
const WEIGHT_OF_MEAN: [f64; Kind::COUNT] = [0.3, 8.0];
/// Candidates that the covariance of a candidate's own part counts as.
const WEIGHT_OF_OWN: f64 = 30.0;
/// Rounds of expectation and maximisation; later ones change predictions by less than a percent.
const ROUNDS: usize = 8;

/// What the measurements of one machine say of its parts.
struct Expectation {
    /// Mean and covariance of the shared part, [turned](turn).
    shared: (Vec<f64>, Symmetric),
    /// The same of each candidate's own part, with its kind.
    own: Vec<(Kind, Vec<f64>, Symmetric)>,
}

/// A running sum of second moments.
struct Moments {
    sum: Vec<f64>,
    /// How much each row rests on.
    counts: Vec<f64>,
}

impl Prior {
    /// What facts say, changed by what was measured on `machines`.
    ///
    /// The covariances have inverse-Wishart priors about those of this prior, and the mean is normal: maximum a
    /// posteriori by expectation and maximisation (Gelman and others, *Bayesian Data Analysis*, 3rd edition,
    /// sections 3.6 and 13.4). What the kinds of chips have in common rests on fewer machines than their contrast,
    /// so the shared part is learned as these two. Models that a machine lacks are simply not observed.
    ///
    /// # Errors
    /// When a row is no time of a known candidate and model, or there are too many rows or models.
    pub fn learn(&self, machines: &[&Observations]) -> Result<Self, TransferError> {
        machines.iter().try_for_each(|machine| machine.check(self.models()))?;
        let Table { shared, own, .. } = self.learnable()?;
        let models = self.models();
        let mut prior = self.clone();
        if machines.is_empty() {
            return Ok(prior);
        }
        let (start, count) = (turn(shared), machines.len() as f64);
        let weights = |by_part: [f64; Kind::COUNT]| -> Vec<f64> {
            by_part.into_iter().flat_map(|weight| std::iter::repeat_n(weight, models)).collect()
        };
        let of_shared = weights(WEIGHT_OF_SHARED);
        let (of_mean, of_own) = (weights(WEIGHT_OF_MEAN), vec![WEIGHT_OF_OWN; models]);
        for _ in 0..ROUNDS {
            let found: Vec<Expectation> =
                machines.iter().map(|machine| expect(&prior, machine)).collect::<Result<_, _>>()?;
            let sum = |row: usize| found.iter().map(|it| it.shared.0[row]).sum::<f64>();
            let mean: Vec<f64> =
                of_mean.iter().enumerate().map(|(row, weight)| sum(row) / (count + weight)).collect();
            let mut moments = Moments::of(&start, of_shared.clone());
            let mut own_moments = Kind::ALL.map(|kind| Moments::of(&own[kind as usize], of_own.clone()));
            let pull: Vec<f64> =
                mean.iter().zip(&of_mean).map(|(mean, weight)| mean * weight.sqrt()).collect();
            moments.add(&pull, None);
            for it in found {
                let apart: Vec<f64> =
                    it.shared.0.iter().zip(&mean).map(|(found, mean)| found - mean).collect();
                moments.add(&apart, Some(&it.shared.1));
                for (kind, mean, covariance) in &it.own {
                    own_moments[*kind as usize].add(mean, Some(covariance));
                }
            }
            let own = own_moments.map(Moments::covariance);
            let (mean, shared) = (turn_vector(&mean), turn(&moments.covariance()));
            prior = self.with(Table { mean, shared, own });
        }
        // A further machine differs from the mean, and the mean is known from so many machines only.
        let Table { mean, shared, own } = prior.learnable()?.clone();
        let scale: Vec<f64> = of_mean.iter().map(|weight| (1.0 + (count + weight).recip()).sqrt()).collect();
        let turned = turn(&shared);
        let widened = Symmetric::from_lower(shared.order(), |i, j| scale[i] * scale[j] * turned.at(i, j));
        Ok(self.with(Table { mean, shared: turn(&widened), own }))
    }
}

/// The shared part of both kinds as what they have in common, the sum over `√2`, and their contrast, the difference
/// over `√2`. Turning twice turns back.
fn turn_vector(by_kind: &[f64]) -> Vec<f64> {
    let (first, second) = by_kind.split_at(by_kind.len() / 2);
    let turned = |sign: f64| {
        first.iter().zip(second).map(move |(a, b)| std::f64::consts::FRAC_1_SQRT_2 * (a + sign * b))
    };
    turned(1.0).chain(turned(-1.0)).collect()
}

/// The covariance of what [`turn_vector`] makes of a vector with the covariance `by_kind`.
fn turn(by_kind: &Symmetric) -> Symmetric {
    let models = by_kind.order() / 2;
    Symmetric::from_lower(by_kind.order(), |row, column| {
        let (i, j) = (row % models, column % models);
        let sign = |position: usize| if position < models { 1.0 } else { -1.0 };
        let (of_row, of_column) = (sign(row), sign(column));
        let on_first = by_kind.at(i, j) + of_column * by_kind.at(i, models + j);
        let on_second = by_kind.at(models + i, j) + of_column * by_kind.at(models + i, models + j);
        0.5 * (on_first + of_row * on_second)
    })
}

impl Moments {
    /// Moments of which each row has `counts` already, of the covariance `start`.
    fn of(start: &Symmetric, counts: Vec<f64>) -> Self {
        let weighted = |row: usize| {
            start.row(row).iter().zip(&counts).map({
                let of_row = counts[row];
                move |(value, of_column)| (of_row * of_column).sqrt() * value
            })
        };
        let sum = (0..start.order()).flat_map(weighted).collect();
        Self { sum, counts }
    }

    /// Adds the square of `vector`, and a covariance where it is the expectation of something measured, which counts.
    fn add(&mut self, vector: &[f64], covariance: Option<&Symmetric>) {
        let measured = if covariance.is_some() { 1.0 } else { 0.0 };
        self.counts.iter_mut().for_each(|count| *count += measured);
        for (row, sums) in self.sum.chunks_exact_mut(vector.len().max(1)).enumerate() {
            sums.iter_mut().zip(vector).for_each(|(sum, value)| *sum += vector[row] * value);
            if let Some(covariance) = covariance {
                sums.iter_mut().zip(covariance.row(row)).for_each(|(sum, value)| *sum += value);
            }
        }
    }

    fn covariance(self) -> Symmetric {
        let order = self.counts.len();
        let scale: Vec<f64> = self.counts.iter().map(|count| count.sqrt().recip()).collect();
        Symmetric::from_lower(order, |i, j| self.sum[i * order + j] * scale[i] * scale[j])
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
    let mean: Vec<f64> = across
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
    Ok(Expectation { shared: (turn_vector(&mean), turn(&remaining)), own })
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
