//! What is believed of times before a machine's own measurements are looked at.
//!
//! Invariant: a covariance depends on facts of models and kinds of chips alone, or on those and on other
//! machines' measurements; never on the machine that is predicted.

use crate::cholesky::Symmetric;

use super::kernel::{self, Component};
use super::traits::Traits;
use super::{Kind, TransferError};

/// The largest number of models that other machines' measurements are learned for.
pub const MOST_LEARNED_MODELS: usize = 256;

/// Means and covariances of logarithms of times.
#[derive(Debug, Clone)]
pub struct Prior {
    pub(super) models: Vec<Traits>,
    pub(super) learned: Option<Learned>,
}

/// Means and covariances that other machines' measurements have changed.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    /// By kind, then by model.
    pub(super) mean: Vec<f64>,
    /// What the candidates of a machine share; rows as in `mean`.
    pub(super) shared: Symmetric,
    /// What each candidate has of its own, by kind; rows are models.
    pub(super) own: [Symmetric; 2],
}

impl Prior {
    /// What facts alone say.
    pub fn of_facts(models: Vec<Traits>) -> Self {
        Self { models, learned: None }
    }

    /// The number of models.
    pub fn models(&self) -> usize {
        self.models.len()
    }

    /// The mean of a model's logarithm on a kind of chip, the candidate's level left out.
    pub(super) fn mean(&self, kind: Kind, model: usize) -> f64 {
        self.learned.as_ref().map_or(0.0, |learned| learned.mean[self.row(kind, model)])
    }

    /// The covariance of what the candidates of one machine share.
    pub(super) fn shared(&self, a: (Kind, usize), b: (Kind, usize)) -> f64 {
        if let Some(learned) = &self.learned {
            return learned.shared.at(self.row(a.0, a.1), self.row(b.0, b.1));
        }
        let (left, right) = (&self.models[a.1], &self.models[b.1]);
        let of = |component: &Component| kernel::covariance(component, left, right);
        let alike = if a.0 == b.0 { of(&kernel::WITHIN_KIND[a.0 as usize]) } else { 0.0 };
        of(&kernel::WITHIN_MACHINE) + alike
    }

    /// The covariance of what one candidate has of its own.
    pub(super) fn own(&self, kind: Kind, a: usize, b: usize) -> f64 {
        match &self.learned {
            Some(learned) => learned.own[kind as usize].at(a, b),
            None => {
                kernel::covariance(&kernel::OF_CANDIDATE[kind as usize], &self.models[a], &self.models[b])
            }
        }
    }

    /// The position of a kind and a model among the rows of what is learned.
    pub(super) fn row(&self, kind: Kind, model: usize) -> usize {
        kind as usize * self.models.len() + model
    }

    /// The kind and the model at a position.
    pub(super) fn of_row(&self, row: usize) -> (Kind, usize) {
        let models = self.models.len();
        (if row < models { Kind::Cpu } else { Kind::Accelerator }, row % models)
    }

    /// Both covariances as matrices.
    pub(super) fn matrices(&self) -> Result<(Symmetric, [Symmetric; 2]), TransferError> {
        let models = self.models.len();
        if models > MOST_LEARNED_MODELS {
            return Err(TransferError::TooManyModels { found: models, most: MOST_LEARNED_MODELS });
        }
        let shared = Symmetric::from_lower(2 * models, |a, b| self.shared(self.of_row(a), self.of_row(b)));
        let own = Kind::ALL.map(|kind| Symmetric::from_lower(models, |a, b| self.own(kind, a, b)));
        Ok((shared, own))
    }
}
