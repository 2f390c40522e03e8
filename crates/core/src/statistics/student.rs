//! Student's t distribution for whole degrees of freedom, and the normal quantile of 95 %.
//!
//! Invariant: the probability is the exact finite sum of Abramowitz and Stegun, *Handbook of Mathematical
//! Functions* (1964), 26.7.3 and 26.7.4, so no table and no special function is approximated.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Φ⁻¹(0.975), half of the width of a normal 95 % interval in standard deviations.
pub(super) const NORMAL_95: f64 = 1.959_963_984_540_054;

/// P(|T| ≤ t) with `degrees` degrees of freedom; 0 for t ≤ 0 or no degrees.
pub(super) fn within(t: f64, degrees: usize) -> f64 {
    if degrees == 0 || t.is_nan() || t <= 0.0 {
        return 0.0;
    }
    let angle = if t.is_infinite() { FRAC_PI_2 } else { (t / (degrees as f64).sqrt()).atan() };
    let (sine, cosine) = angle.sin_cos();
    let square = cosine * cosine;
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    // The last term has the power ν − 2, and its factor the denominator ν − 2 as well.
    let mut denominator = if odd { 3 } else { 2 };
    while denominator + 2 <= degrees {
        term *= square * (denominator - 1) as f64 / denominator as f64;
        sum += term;
        denominator += 2;
    }
    let probability = if odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    probability.clamp(0.0, 1.0)
}

/// P(|T| > t): the two-sided p-value of `t`.
pub(super) fn two_sided_p(t: f64, degrees: usize) -> f64 {
    1.0 - within(t.abs(), degrees)
}

/// The t for which P(|T| ≤ t) is `confidence`, such as 12.706 for 95 % and one degree of freedom.
///
/// `None` without degrees of freedom or when the confidence is not strictly between 0 and 1.
pub(crate) fn critical(confidence: f64, degrees: usize) -> Option<f64> {
    if degrees == 0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let mut low = 0.0;
    let mut high = 1.0;
    while within(high, degrees) < confidence {
        low = high;
        high *= 2.0;
        if high > 1e12 {
            return None;
        }
    }
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}
