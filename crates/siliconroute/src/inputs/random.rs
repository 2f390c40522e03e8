//! The random numbers behind the recipes.
//!
//! Invariant: every step is integer arithmetic or a float operation that IEEE 754 rounds exactly (`+ − × ÷ √`).
//! Logarithms of the system's mathematics library differ in the last bit from one system to the next, so the
//! one needed here is written out.
//!
//! Generator: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
//! its state filled by `SplitMix64` from a 64-bit seed. Normal numbers: the polar method (Marsaglia and Bray,
//! "A convenient method for generating normal variables", 1964).

use std::f64::consts::{LN_2, SQRT_2};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// No standard normal draw lies farther from 0: the polar method's bound is `sqrt(-2 ln 2^-106)`, about 12.2.
pub(super) const FARTHEST_NORMAL: f64 = 13.0;

/// The random stream of one input.
#[derive(Debug)]
pub(super) struct Random {
    generator: Xoshiro256PlusPlus,
    spare_normal: Option<f64>,
}

impl Random {
    /// The stream that belongs to `seed` and the input's `name`.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(fnv1a_64(bytes)), spare_normal: None }
    }

    /// A multiple of 2⁻⁵³ in `0..1`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * 2_f64.powi(-53)
    }

    /// A whole number in `0..bound`, each equally likely; 0 for a bound of 0.
    ///
    /// Lemire, "Fast random integer generation in an interval", 2019.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let rejected = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.generator.next_u64()) * u128::from(bound);
            if product as u64 >= rejected {
                return (product >> 64) as u64;
            }
        }
    }

    /// A draw of the standard normal distribution.
    pub(super) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let u = 2.0 * self.unit() - 1.0;
            let v = 2.0 * self.unit() - 1.0;
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * natural_logarithm(square) / square).sqrt();
                self.spare_normal = Some(v * scale);
                return u * scale;
            }
        }
    }
}

/// The 64-bit FNV-1a hash.
fn fnv1a_64(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// `ln x` of a normal, positive `x`, within some units in the last place.
///
/// `x = m·2^e` with `m` in `√½..√2`, and `ln m = 2·artanh((m − 1)/(m + 1))` by its series, whose argument stays
/// below 0.172, so that ten terms reach the precision of a 64-bit float.
fn natural_logarithm(x: f64) -> f64 {
    const FRACTION_BITS: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & FRACTION_BITS) | 1.0_f64.to_bits());
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..10).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    exponent * LN_2 + 2.0 * z * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_agrees_with_the_system() {
        let mut random = Random::new(1, "x");
        let edges = [
            f64::MIN_POSITIVE,
            2_f64.powi(-106),
            0.5,
            SQRT_2 / 2.0,
            1.0 - 2_f64.powi(-53),
            1.0,
            SQRT_2,
            1e300,
        ];
        for x in edges.into_iter().chain((0..10_000).map(|_| random.unit() + 2_f64.powi(-54))) {
            let (ours, system) = (natural_logarithm(x), x.ln());
            assert!((ours - system).abs() <= 1e-15 * system.abs() + 1e-16, "{x}: {ours} {system}");
        }
    }

    #[test]
    fn normal_numbers_have_the_moments_of_the_distribution() {
        let mut random = Random::new(7, "moments");
        let draws: Vec<f64> = (0..200_000).map(|_| random.normal()).collect();
        let moment = |power| draws.iter().map(|x| x.powi(power)).sum::<f64>() / draws.len() as f64;
        // The bounds are five standard errors wide.
        for (power, expected, bound) in [(1, 0.0, 0.012), (2, 1.0, 0.016), (3, 0.0, 0.044), (4, 3.0, 0.11)] {
            assert!((moment(power) - expected).abs() < bound, "moment {power}: {}", moment(power));
        }
        let within = draws.iter().filter(|x| x.abs() < 1.0).count() as f64 / draws.len() as f64;
        assert!((within - 0.682_69).abs() < 0.0053, "{within}");
        assert!(draws.iter().all(|x| x.abs() < FARTHEST_NORMAL));
    }

    #[test]
    fn whole_numbers_are_spread_evenly() {
        let mut random = Random::new(3, "dice");
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 460), "{counts:?}");
        assert_eq!(random.below(1), 0);
        assert_eq!(random.below(0), 0);
        assert!((0..100).any(|_| random.below(u64::MAX) > u64::MAX / 2));
    }

    #[test]
    fn streams_differ_by_seed_and_by_name() {
        let first = |seed, name| Random::new(seed, name).unit().to_bits();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}
