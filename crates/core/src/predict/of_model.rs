//! What the measured times of one model say of its other shapes and targets.
//!
//! Invariant: a correction never makes a prediction less sure than the law alone is.

use smallvec::SmallVec;

use super::likeness::{Error, Likeness, work_of};
use crate::cholesky::{Symmetric, dot};
use crate::form::FitRow;
use crate::identity::CaseId;

/// Times of one model in one workload that a prediction looks at; of more, those are left out whose works others
/// stand for.
pub const MOST_TIMES_OF_MODEL: usize = 64;

/// Measured times of one model in one workload.
#[derive(Debug)]
pub(super) struct OfModel {
    places: Vec<(usize, CaseId, f64)>,
    /// Inverse of the covariance of the scaled errors, and its product with them.
    precision: Symmetric,
    weights: Vec<f64>,
}

/// What other times of the model add to a law, in units of the law's root mean square.
#[derive(Debug, Clone, Copy)]
pub(super) struct Correction {
    pub(super) mean: f64,
    pub(super) variance: f64,
    pub(super) shapes: u16,
    pub(super) shapes_weight: f64,
    pub(super) elsewhere: u16,
    pub(super) elsewhere_weight: f64,
}

impl OfModel {
    /// Joins the errors of one model; `None` without any.
    pub(super) fn new(likeness: &Likeness, errors: &[Error]) -> Option<Self> {
        let thinned = thin(errors);
        let factor = likeness.covariance(&thinned).cholesky().ok().filter(|_| !thinned.is_empty())?;
        let scaled: Vec<f64> = thinned.iter().map(|it| it.scaled).collect();
        Some(Self {
            places: thinned.iter().map(|it| (it.target, it.case, it.work)).collect(),
            precision: factor.inverse(),
            weights: factor.solve(&scaled),
        })
    }

    /// What the model's times say of a case on a target whose law errs by `deviation`; `None` where they say nothing.
    pub(super) fn correct(
        &self,
        likeness: &Likeness,
        row: &FitRow,
        case: CaseId,
        target: usize,
        deviation: f64,
    ) -> Option<Correction> {
        let place = (target, case, work_of(row));
        let across: SmallVec<[f64; MOST_TIMES_OF_MODEL]> =
            self.places.iter().map(|known| likeness.between(*known, place)).collect();
        let mean = dot(&across, &self.weights);
        let (mut explained, mut shares) = (0.0, [0.0; 2]);
        let mut counts = [0_u16; 2];
        for (index, known) in self.places.iter().enumerate() {
            let weight = dot(self.precision.row(index), &across);
            explained += weight * across[index];
            let sort = usize::from(known.0 != target);
            shares[sort] += weight;
            counts[sort] += 1;
        }
        let whole = 1.0 + (likeness.noise / deviation).powi(2);
        let [shapes_weight, elsewhere_weight] = shares.map(|share| share.max(0.0));
        let sum = (shapes_weight + elsewhere_weight).max(1.0);
        (explained > 0.0).then(|| Correction {
            mean,
            variance: (whole - explained).max(1e-4),
            shapes: counts[0],
            shapes_weight: shapes_weight / sum,
            elsewhere: counts[1],
            elsewhere_weight: elsewhere_weight / sum,
        })
    }
}

/// At most [`MOST_TIMES_OF_MODEL`] of the errors, cases spread evenly over the work.
fn thin(errors: &[Error]) -> Vec<Error> {
    if errors.len() <= MOST_TIMES_OF_MODEL {
        return errors.to_vec();
    }
    let mut sorted = errors.to_vec();
    sorted.sort_by(|a, b| a.work.total_cmp(&b.work).then(a.case.cmp(&b.case)).then(a.target.cmp(&b.target)));
    let step = sorted.len() as f64 / MOST_TIMES_OF_MODEL as f64;
    (0..MOST_TIMES_OF_MODEL).map(|index| sorted[(index as f64 * step) as usize]).collect()
}
