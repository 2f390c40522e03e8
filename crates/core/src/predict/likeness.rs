//! How alike the errors of a law are: between targets, between shapes, and from one look to the next.
//!
//! Invariant: likeness is a covariance over any times of one model, and is learned from left-out models alone.

use crate::cholesky::Symmetric;
use crate::form::FitRow;
use crate::identity::{CaseId, ModelId};

/// Likeness of the errors of two targets that nothing is known of.
const USUAL_CORRELATION: f64 = 0.5;
/// Models that this belief weighs as much as.
const MODELS_OF_BELIEF: f64 = 4.0;
/// Lengths in log work over which errors of shapes part, to choose among.
const LENGTHS: [f64; 5] = [0.7, 1.5, 3.0, 6.0, 12.0];
/// The length where no model was measured at several shapes.
const USUAL_LENGTH: f64 = 3.0;
/// Distance that any other shape has at least, since kernels may be others.
const LEAST_DISTANCE: f64 = 0.1;
/// Noise of measured times in log space, to choose among.
const NOISES: [f64; 3] = [0.02, 0.05, 0.1];
const USUAL_NOISE: f64 = 0.05;

/// A law's error on one measured time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Error {
    pub(super) target: usize,
    pub(super) case: CaseId,
    pub(super) model: ModelId,
    /// Logarithm of the work of the case.
    pub(super) work: f64,
    /// The log error over the law's root mean square.
    pub(super) scaled: f64,
    /// The law's root mean square.
    pub(super) deviation: f64,
    /// Variance in log space of how a time of another sort stands for this one; 0 for the time itself.
    pub(super) further_noise: f64,
}

/// What is learned of the errors in one workload.
#[derive(Debug, Clone)]
pub(super) struct Likeness {
    targets: usize,
    /// Correlations of targets, row by row.
    correlation: Vec<f64>,
    length: f64,
    /// Standard deviation of one measured time in log space.
    pub(super) noise: f64,
    /// Standard deviations within which 95 % of left-out times lie.
    pub(super) quantile: f64,
}

impl Default for Likeness {
    fn default() -> Self {
        Self {
            targets: 0,
            correlation: Vec::new(),
            length: USUAL_LENGTH,
            noise: USUAL_NOISE,
            quantile: super::NORMAL_95,
        }
    }
}

/// Logarithm of the work of a case, by which shapes of one model are near or far.
pub(super) fn work_of(row: &FitRow) -> f64 {
    (row.flops + row.operators.moved_bytes).max(1.0).ln()
}

impl Likeness {
    /// Learns from the errors of left-out models, which stand grouped by model.
    pub(super) fn learn(targets: usize, errors: &[Error]) -> Self {
        let mut learned = Self { targets, correlation: correlations(targets, errors), ..Self::default() };
        let groups: Vec<&[Error]> = errors.chunk_by(|a, b| a.model == b.model).collect();
        let several = groups.iter().any(|group| group.iter().any(|it| it.case != group[0].case));
        let together = groups.iter().any(|group| group.len() > 1);
        let mut best = f64::NEG_INFINITY;
        let (lengths, noises) = match (several, together) {
            (true, _) => (&LENGTHS[..], &NOISES[..]),
            (false, true) => (&[USUAL_LENGTH][..], &NOISES[..]),
            (false, false) => (&[USUAL_LENGTH][..], &[USUAL_NOISE][..]),
        };
        for &length in lengths {
            for &noise in noises {
                let candidate = Self { length, noise, ..learned.clone() };
                let likelihood: f64 = groups.iter().map(|group| candidate.log_likelihood(group)).sum();
                if likelihood > best {
                    (best, learned.length, learned.noise) = (likelihood, length, noise);
                }
            }
        }
        learned.quantile = learned.quantile_of(&groups);
        learned
    }

    /// The correlation of the errors at two works on two targets.
    pub(super) fn between(&self, a: (usize, CaseId, f64), b: (usize, CaseId, f64)) -> f64 {
        let shape = if a.1 == b.1 {
            1.0
        } else {
            // The covariance of a random walk that returns: jumps of kernels are to be expected, so it is not smooth.
            (-(LEAST_DISTANCE + (a.2 - b.2).abs()) / self.length).exp()
        };
        let targets = if a.0 == b.0 {
            1.0
        } else {
            self.correlation.get(a.0 * self.targets + b.0).copied().unwrap_or(0.0)
        };
        shape * targets
    }

    /// The covariance of the scaled errors of one model, noise included.
    pub(super) fn covariance(&self, errors: &[Error]) -> Symmetric {
        let place = |it: &Error| (it.target, it.case, it.work);
        Symmetric::from_lower(errors.len(), |i, j| {
            let own = if i == j { self.noise_of(&errors[i]) } else { 0.0 };
            self.between(place(&errors[i]), place(&errors[j])) + own
        })
    }

    fn noise_of(&self, error: &Error) -> f64 {
        (self.noise.powi(2) + error.further_noise) / error.deviation.powi(2)
    }

    fn log_likelihood(&self, group: &[Error]) -> f64 {
        let covariance = self.covariance(group);
        let Ok(factor) = covariance.cholesky() else { return f64::NEG_INFINITY };
        let scaled: Vec<f64> = group.iter().map(|it| it.scaled).collect();
        let explained = factor.solve_lower(&scaled);
        let square: f64 = explained.iter().map(|value| value * value).sum();
        -0.5 * square - factor.log_determinant_of_factor()
    }

    /// Predicts each time from the others of its model, and finds how many standard deviations hold 95 %.
    fn quantile_of(&self, groups: &[&[Error]]) -> f64 {
        let mut sizes = Vec::new();
        for group in groups.iter().filter(|group| group.len() > 1) {
            let Ok(factor) = self.covariance(group).cholesky() else { continue };
            let scaled: Vec<f64> = group.iter().map(|it| it.scaled).collect();
            let (inverse, weights) = (factor.inverse(), factor.solve(&scaled));
            let share = 1.0 / group.len() as f64;
            for (index, (weight, error)) in std::iter::zip(weights, *group).enumerate() {
                if error.further_noise == 0.0 {
                    // With one row left out its error is weight ÷ precision, its variance 1 ÷ precision.
                    sizes.push((weight.abs() / inverse.at(index, index).sqrt(), share));
                }
            }
        }
        if sizes.is_empty() {
            return super::NORMAL_95;
        }
        crate::form::conformal_halfwidth(sizes).clamp(0.8 * super::NORMAL_95, 4.0 * super::NORMAL_95)
    }
}

/// Correlations of the errors of each two targets over the models that both were measured on, drawn towards
/// what is usual.
fn correlations(targets: usize, errors: &[Error]) -> Vec<f64> {
    let mut products = vec![(0.0, 0.0, 0.0, 0.0); targets * targets];
    for group in errors.chunk_by(|a, b| a.model == b.model) {
        let mut sums = vec![(0.0, 0.0); targets];
        for error in group.iter().filter(|it| it.further_noise == 0.0) {
            let sum = &mut sums[error.target];
            *sum = (sum.0 + error.scaled, sum.1 + 1.0);
        }
        for (a, left) in sums.iter().enumerate().filter(|(_, sum)| sum.1 > 0.0) {
            for (b, right) in sums.iter().enumerate().filter(|(_, sum)| sum.1 > 0.0) {
                let (x, y) = (left.0 / left.1, right.0 / right.1);
                let sum = &mut products[a * targets + b];
                *sum = (sum.0 + x * y, sum.1 + x * x, sum.2 + y * y, sum.3 + 1.0);
            }
        }
    }
    let found = |belief: f64| -> Vec<f64> {
        let of = |index: usize| {
            if index / targets == index % targets {
                return 1.0;
            }
            let (product, left, right, models) = products[index];
            let size = (left * right).sqrt();
            let seen = if size > 0.0 { (product / size).clamp(-1.0, 1.0) } else { 0.0 };
            let weight = belief + MODELS_OF_BELIEF;
            // Never wholly alike: the noise of a time is its target's own.
            ((models * seen + weight * USUAL_CORRELATION) / (models + weight)).min(0.98)
        };
        (0..targets * targets).map(of).collect()
    };
    // Correlations found pair by pair may contradict one another; then more is left to belief.
    for belief in [0.0, 4.0, 16.0, 64.0, 1e3] {
        let found = found(belief);
        if Symmetric::from_lower(targets, |i, j| found[i * targets + j]).cholesky().is_ok() {
            return found;
        }
    }
    found(1e9)
}
