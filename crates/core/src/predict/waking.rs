//! How what a rest adds to the sustained time grows with the rest.
//!
//! Invariant: after the usual rest the curve says what was measured there, and beyond twice the longest measured rest
//! nothing more is added.

use crate::statistics;

/// The usual rest, which idle-loaded times are known for.
pub const USUAL_REST_NS: f64 = 1e10;
/// Time constants to choose among, from 50 ms to 100 s.
const CONSTANTS_NS: [f64; 8] = [5e7, 2e8, 5e8, 1e9, 3e9, 1e10, 3e10, 1e11];
/// The fewest measured times of other rests that a curve is fitted to.
const LEAST_TIMES: usize = 3;
/// Share of the usual addition that a curve is off by at least.
const LEAST_SPREAD: f64 = 0.1;

/// The addition after a rest as a share of that after the usual one: what caches lost at once, and what goes to sleep
/// with time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WakingCurve {
    /// The share that any rest adds.
    pub at_once: f64,
    /// Time constant of the rest of it.
    pub constant_ns: f64,
    /// Standard deviation of measured shares about the curve.
    pub spread: f64,
    /// Measured times that it was fitted to.
    pub times: usize,
    /// The longest rest among them, or the usual one.
    pub longest_ns: f64,
}

/// Part of the sleeping share that a rest of `rest_ns` reaches, 1 for the usual rest.
fn asleep(rest_ns: f64, constant_ns: f64) -> f64 {
    (-(-rest_ns / constant_ns).exp_m1()) / (-(-USUAL_REST_NS / constant_ns).exp_m1())
}

impl WakingCurve {
    /// Fits shares measured after rests, in nanoseconds; `None` for fewer than 3.
    ///
    /// `share = s + (1 − s)·(1 − exp(−rest ÷ τ)) ÷ (1 − exp(−10 s ÷ τ))` with `0 ≤ s ≤ 1` by least squares, for each of
    /// a list of `τ` of which the best is kept.
    pub fn fit(shares: &[(f64, f64)]) -> Option<Self> {
        let valid = |(rest, share): &&(f64, f64)| *rest > 0.0 && rest.is_finite() && share.is_finite();
        let shares: Vec<(f64, f64)> = shares.iter().filter(valid).copied().collect();
        if shares.len() < LEAST_TIMES {
            return None;
        }
        let longest_ns = shares.iter().map(|(rest, _)| *rest).fold(USUAL_REST_NS, f64::max);
        let with = |constant_ns: f64| {
            let (mut product, mut square) = (0.0, 0.0);
            for (rest, share) in &shares {
                let asleep = asleep(*rest, constant_ns);
                product += (1.0 - asleep) * (share - asleep);
                square += (1.0 - asleep).powi(2);
            }
            let at_once = if square > 0.0 { (product / square).clamp(0.0, 1.0) } else { 0.0 };
            let curve = Self { at_once, constant_ns, spread: 0.0, times: shares.len(), longest_ns };
            let errors: Vec<f64> =
                shares.iter().map(|(rest, share)| (share - curve.share(*rest)).abs()).collect();
            // The median, since one rest that another program disturbed says nothing of the curve.
            let error = statistics::median(&errors).unwrap_or(f64::INFINITY);
            (error, curve)
        };
        let best = CONSTANTS_NS.into_iter().map(with).min_by(|a, b| a.0.total_cmp(&b.0));
        // 1.4826 makes the median deviation the standard deviation of normal errors.
        best.map(|(error, curve)| Self { spread: (1.4826 * error).max(LEAST_SPREAD), ..curve })
    }

    /// The share of the usual addition after a rest, never below 0.
    pub fn share(&self, rest_ns: f64) -> f64 {
        let rest = rest_ns.clamp(0.0, 2.0 * self.longest_ns);
        (self.at_once + (1.0 - self.at_once) * asleep(rest, self.constant_ns)).max(0.0)
    }
}
