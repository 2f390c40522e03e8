//! How alike two models are, and how much of a time each part of a machine explains.
//!
//! Invariant: every component is a covariance: symmetric and positive definite over any models.
//!
//! The standard deviations below, in units of `ln t`, maximise the marginal likelihood of public
//! measurements (Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, section 5.4), under
//! broad log-normal priors; docs/prediction.md says how they were found and what they are worth on
//! machines that had no part in it.

use super::Kind;
use super::traits::{SIZES, Traits};

/// Standard deviations of `ln t` that one part of a machine explains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Component {
    /// For each unit of the amount of work.
    pub(super) size: f64,
    /// For each unit of every other trait.
    pub(super) mix: f64,
    /// Smooth in all traits together, whatever the law.
    pub(super) smooth: f64,
    /// Of the model itself, told by no trait.
    pub(super) model: f64,
}

/// What all candidates of a machine share.
pub(super) const WITHIN_MACHINE: Component = Component { size: 0.81, mix: 0.075, smooth: 0.37, model: 0.05 };

/// What candidates of one kind share besides, by [`Kind`].
pub(super) const WITHIN_KIND: [Component; Kind::COUNT] = [
    Component { size: 0.23, mix: 0.02, smooth: 0.09, model: 0.08 },
    Component { size: 0.09, mix: 0.03, smooth: 0.39, model: 0.21 },
];

/// What a candidate has of its own, by [`Kind`].
pub(super) const OF_CANDIDATE: [Component; Kind::COUNT] = [
    Component { size: 0.14, mix: 0.027, smooth: 0.06, model: 0.14 },
    Component { size: 0.045, mix: 0.014, smooth: 0.07, model: 0.12 },
];

/// Distance in the amount of work at which the smooth part has lost most of its likeness.
const LENGTH_OF_SIZE: f64 = 4.4;
/// The same for every other trait.
const LENGTH_OF_MIX: f64 = 4.3;

/// The covariance of a component between two models.
///
/// With `s` the amounts of work and `x` the other traits it is
/// `size²·s·s′ + mix²·x·x′ + smooth²·exp(−½(|s − s′|² ÷ l_s² + |x − x′|² ÷ l_x²)) + model²·[same model]`.
pub(super) fn covariance(component: &Component, left: &Traits, right: &Traits) -> f64 {
    let (mut product, mut distance) = (0.0, 0.0);
    for (index, (a, b)) in left.values.iter().zip(&right.values).enumerate() {
        let (scale, length) =
            if index < SIZES { (component.size, LENGTH_OF_SIZE) } else { (component.mix, LENGTH_OF_MIX) };
        product += scale * scale * a * b;
        distance += ((a - b) / length).powi(2);
    }
    let same = if left.model == right.model { component.model.powi(2) } else { 0.0 };
    product + component.smooth.powi(2) * (-0.5 * distance).exp() + same
}
