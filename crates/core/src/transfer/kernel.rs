//! How alike two models are, and how much of a time each part of a machine explains.
//!
//! Invariant: every component is a covariance: symmetric and positive definite over any models.
//!
//! The standard deviations below, in units of `ln t`, make the public measurements of each model on each machine
//! most probable given those of the machine's other models (Rasmussen and Williams, *Gaussian Processes for Machine
//! Learning*, 2006, section 5.4.2), under broad log-normal priors: `data/fit_transfer_constants.py` finds them, and
//! docs/prediction.md says what they are worth on machines that had no part in it.

use super::Kind;
use super::traits::Traits;

/// Standard deviations of `ln t` that one part of a machine explains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Component {
    /// For each unit of the amount of work.
    pub(super) size: f64,
    /// For the typical distance in what the work consists of.
    pub(super) work: f64,
    /// Smooth in all traits together, whatever the law.
    pub(super) smooth: f64,
    /// Of the model itself, told by no trait.
    pub(super) model: f64,
}

/// What all candidates of a machine share.
pub(super) const WITHIN_MACHINE: Component =
    Component { size: 1.127, work: 0.047, smooth: 0.601, model: 0.051 };

/// What candidates of one kind share besides, by [`Kind`].
pub(super) const WITHIN_KIND: [Component; Kind::COUNT] = [
    Component { size: 0.059, work: 0.107, smooth: 0.073, model: 0.061 },
    Component { size: 0.046, work: 0.321, smooth: 0.085, model: 0.124 },
];

/// What a candidate has of its own, by [`Kind`].
pub(super) const OF_CANDIDATE: [Component; Kind::COUNT] = [
    Component { size: 0.12, work: 0.112, smooth: 0.153, model: 0.112 },
    Component { size: 0.027, work: 0.025, smooth: 0.073, model: 0.12 },
];

/// Distance in the amount of work at which the smooth part has lost most of its likeness.
const LENGTH_OF_SIZE: f64 = 10.8;
/// The same for every other trait.
const LENGTH_OF_TRAIT: f64 = 5.4;

/// How alike two models are in each respect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike {
    /// Product of the amounts of work.
    size: f64,
    /// Product of what the work consists of.
    work: f64,
    /// 1 for equal traits, falling to 0.
    smooth: f64,
    /// 1 for the same model, else 0.
    model: f64,
}

impl Alike {
    /// Compares two models whose work is alike by `work`.
    ///
    /// With `x` the traits, the smooth part is `exp(−½·Σ(x − x′)² ÷ l²)`. A trait that is not known counts as drawn
    /// from a standard normal distribution and the smooth part as its expectation, so that what is not known of a
    /// model moves from what models share to what is the model's own.
    pub(super) fn new(left: &Traits, right: &Traits, work: f64) -> Self {
        let same = left.model == right.model;
        let (mut exponent, mut factor) = (0.0, 1.0);
        for (index, traits) in left.values.iter().zip(&right.values).enumerate() {
            let square = if index == 0 { LENGTH_OF_SIZE } else { LENGTH_OF_TRAIT }.powi(2);
            match traits {
                (Some(a), Some(b)) => exponent += (a - b).powi(2) / square,
                (Some(known), None) | (None, Some(known)) => {
                    exponent += known * known / (square + 1.0);
                    factor /= (1.0 + 1.0 / square).sqrt();
                }
                (None, None) if same => {}
                (None, None) => factor /= (1.0 + 2.0 / square).sqrt(),
            }
        }
        Self {
            size: left.size() * right.size(),
            work,
            smooth: factor * (-0.5_f64 * exponent).exp(),
            model: f64::from(u8::from(same)),
        }
    }

    /// The covariance of a component between the two models: each of its variances times the likeness.
    pub(super) fn covariance(&self, component: &Component) -> f64 {
        let Component { size, work, smooth, model } = component;
        size * size * self.size
            + work * work * self.work
            + smooth * smooth * self.smooth
            + model * model * self.model
    }
}
