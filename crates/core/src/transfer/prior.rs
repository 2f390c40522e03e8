//! What is believed of times before a machine's own measurements are looked at.
//!
//! Invariant: a covariance depends on facts of models and kinds of chips alone, or on those and on other
//! machines' measurements; never on the machine that is predicted.

use crate::cholesky::Symmetric;

use super::kernel::{self, Alike};
use super::traits::Traits;
use super::work::Likeness;
use super::{Kind, TransferError};

/// The largest number of models that other machines' measurements are learned for.
pub const MOST_LEARNED_MODELS: usize = 256;
/// The largest number of models whose covariances are tabulated: some 50 MiB.
pub(super) const MOST_TABULATED_MODELS: usize = 1_024;

/// Means and covariances of logarithms of times.
#[derive(Debug, Clone)]
pub struct Prior {
    models: Vec<Traits>,
    likeness: Likeness,
    /// Absent of more models than fit a table: their covariances are computed when they are asked for.
    pub(super) table: Option<Table>,
}

/// Means and covariances of all models.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// By kind, then by model.
    pub(super) mean: Vec<f64>,
    /// What the candidates of a machine share; rows as in `mean`.
    pub(super) shared: Symmetric,
    /// What each candidate has of its own, by kind; rows are models.
    pub(super) own: [Symmetric; 2],
}

impl Prior {
    /// What facts alone say.
    ///
    /// Cost: the square of the number of models; with over a thousand of them, that of the pairs that are asked for.
    pub fn of_facts(models: Vec<Traits>) -> Self {
        let mixtures: Vec<_> = models.iter().map(|model| model.work.as_ref()).collect();
        let likeness = Likeness::of(&mixtures);
        let mut prior = Self { models, likeness, table: None };
        if prior.models() <= MOST_TABULATED_MODELS {
            prior.table = Some(prior.tabulate());
        }
        prior
    }

    /// The number of models.
    pub fn models(&self) -> usize {
        self.models.len()
    }

    /// The same models with other means and covariances.
    pub(super) fn with(&self, table: Table) -> Self {
        Self { table: Some(table), ..self.clone() }
    }

    /// Means and covariances to learn from.
    ///
    /// # Errors
    /// When there are too many models.
    pub(super) fn learnable(&self) -> Result<&Table, TransferError> {
        let found = self.models();
        let table = self.table.as_ref().filter(|_| found <= MOST_LEARNED_MODELS);
        table.ok_or(TransferError::TooManyModels { found, most: MOST_LEARNED_MODELS })
    }

    /// The mean of a model's logarithm on a kind of chip, the candidate's level left out.
    pub(super) fn mean(&self, kind: Kind, model: usize) -> f64 {
        self.table.as_ref().map_or(0.0, |table| table.mean[self.row(kind, model)])
    }

    /// The covariance of what the candidates of one machine share.
    pub(super) fn shared(&self, a: (Kind, usize), b: (Kind, usize)) -> f64 {
        match &self.table {
            Some(table) => table.shared.at(self.row(a.0, a.1), self.row(b.0, b.1)),
            None => shared(&self.alike(a.1, b.1), a.0, b.0),
        }
    }

    /// The covariance of what one candidate has of its own.
    pub(super) fn own(&self, kind: Kind, a: usize, b: usize) -> f64 {
        match &self.table {
            Some(table) => table.own[kind as usize].at(a, b),
            None => self.alike(a, b).covariance(&kernel::OF_CANDIDATE[kind as usize]),
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

    /// How alike the facts of two models are.
    fn alike(&self, a: usize, b: usize) -> Alike {
        let (left, right) = (&self.models[a], &self.models[b]);
        let same = left.model == right.model;
        let work = self.likeness.at((a, left.work.as_ref()), (b, right.work.as_ref()), same);
        Alike::new(left, right, work)
    }

    fn tabulate(&self) -> Table {
        let models = self.models();
        let alike: Vec<Vec<Alike>> =
            (0..models).map(|a| (0..=a).map(|b| self.alike(a, b)).collect()).collect();
        let at = |a: usize, b: usize| &alike[a.max(b)][a.min(b)];
        let shared = Symmetric::from_lower(2 * models, |row, column| {
            let (a, b) = (self.of_row(row), self.of_row(column));
            shared(at(a.1, b.1), a.0, b.0)
        });
        let own = kernel::OF_CANDIDATE
            .map(|component| Symmetric::from_lower(models, |a, b| at(a, b).covariance(&component)));
        Table { mean: vec![0.0; 2 * models], shared, own }
    }
}

/// The covariance of what candidates of two kinds share on one machine.
fn shared(alike: &Alike, a: Kind, b: Kind) -> f64 {
    let within_kind = if a == b { alike.covariance(&kernel::WITHIN_KIND[a as usize]) } else { 0.0 };
    alike.covariance(&kernel::WITHIN_MACHINE) + within_kind
}
