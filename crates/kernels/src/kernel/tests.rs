//! Tests of the kernels against sums in double precision.
//!
//! Invariant: every instruction set of this processor is tested, at lengths around each step of its loops.

#![expect(clippy::float_cmp, reason = "values that nothing computes with stay what they were")]

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{Kernels, Prefetch, ShapeError};
use crate::InstructionSet;

const LENGTHS: &[usize] = if cfg!(miri) {
    &[0, 1, 3, 5, 7, 33, 63]
} else {
    &[0, 1, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 255, 300, 511, 4097]
};
const ROWS: &[usize] = &[0, 1, 3, 4, 5, 7, 9];

fn all() -> impl Iterator<Item = Kernels> {
    InstructionSet::detect_all().into_iter().map(Kernels::new)
}

/// Values in −1..1 of both signs, whose sums cancel.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<f32> {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..length).map(|_| (generator.next_u32() >> 8) as f32 / f32::from(1_u16 << 15) / 256.0 - 1.0).collect()
}

/// γₙ of the documentation, times `magnitude`, and the rounding of results too small for full precision.
pub(crate) fn bound(n: usize, magnitude: f64) -> f64 {
    let nu = n as f64 * f64::from(f32::EPSILON) / 2.0;
    nu / (1.0 - nu) * magnitude + n as f64 * f64::from(f32::from_bits(1))
}

#[track_caller]
pub(crate) fn check_product(values: &[f32], x: &[f32], y: &[f32], what: &str) {
    for (row, result) in y.iter().enumerate() {
        let terms =
            values[row * x.len()..][..x.len()].iter().zip(x).map(|(a, x)| f64::from(*a) * f64::from(*x));
        let (exact, magnitude) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        let error = (f64::from(*result) - exact).abs();
        assert!(error <= bound(x.len(), magnitude), "{what}: row {row} is off by {error:e}");
    }
}

#[test]
fn products_are_within_their_bound_at_awkward_lengths_and_places() {
    for kernels in all() {
        for prefetch in Prefetch::ALL {
            for (&rows, &columns) in
                ROWS.iter().flat_map(|rows| LENGTHS.iter().map(move |columns| (rows, columns)))
            {
                // Odd starts, so that nothing is aligned beyond a value.
                let (a, x) = (noise(rows * columns + 3, 1), noise(columns + 1, 2));
                let (a, x) = (&a[3..], &x[1..]);
                let mut y = vec![f32::NAN; rows];
                kernels.multiply(a, x, &mut y, prefetch).unwrap();
                check_product(a, x, &y, &format!("{} {prefetch:?} {rows}×{columns}", kernels.instructions()));
            }
        }
    }
}

#[test]
fn sums_are_within_their_bound_at_awkward_lengths_and_places() {
    for kernels in all() {
        for prefetch in Prefetch::ALL {
            // Four streams take 16384 values at a time.
            let long: &[usize] = if cfg!(miri) { &[] } else { &[16383, 16384, 16_421] };
            for &length in LENGTHS.iter().chain(long) {
                let values = noise(length + 1, 3);
                let values = &values[1..];
                let exact: f64 = values.iter().copied().map(f64::from).sum();
                let magnitude: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
                let error = (f64::from(kernels.sum(values, prefetch)) - exact).abs();
                assert!(error <= bound(length, magnitude), "{} {length}: {error:e}", kernels.instructions());
            }
        }
    }
}

#[test]
fn multiply_adds_end_where_their_recurrence_does() {
    for kernels in all() {
        for rounds in [0, 1, 2, 40] {
            let done = kernels.multiply_add(rounds);
            let values = kernels.lanes() * super::CHAINS;
            let exact: f64 = (0..values)
                .map(|index| (0..rounds).fold(index as f64 / 64.0, |value, _| value * 0.5 + 0.75))
                .sum();
            assert_eq!(done.flops, 2 * u64::from(rounds) * values as u64);
            assert!(
                (f64::from(done.sum) - exact).abs() < 1e-4 * exact,
                "{} {rounds}",
                kernels.instructions()
            );
        }
    }
}

#[test]
fn what_is_not_finite_stays_so() {
    for kernels in all() {
        for (bad, place) in [(f32::NAN, 0), (f32::INFINITY, 40), (f32::NAN, 66)] {
            let (mut a, x) = (noise(5 * 67, 4), vec![1.0; 67]);
            a[2 * 67 + place] = bad;
            let mut y = [0.0; 5];
            kernels.multiply(&a, &x, &mut y, Prefetch::Ahead).unwrap();
            assert_eq!(y.map(f32::is_finite), [true, true, false, true, true]);
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let mut y = [7.0; 3];
    for (values, columns) in [(5, 2), (7, 2), (0, 1), (1, 0)] {
        let error =
            Kernels::detect().multiply(&vec![0.0; values], &vec![0.0; columns], &mut y, Prefetch::Off);
        assert_eq!(error, Err(ShapeError { values, rows: 3, columns }));
    }
    assert_eq!(y, [7.0; 3]);
    assert!(super::check_shape(0, usize::MAX, 2).is_err());
}

#[test]
fn without_columns_results_are_zero() {
    for kernels in all() {
        let mut y = [1.0; 6];
        kernels.multiply(&[], &[], &mut y, Prefetch::Ahead).unwrap();
        assert_eq!(y, [0.0; 6]);
    }
}

#[test]
fn what_fits_the_second_level_cache_is_walked_row_by_row() {
    assert_eq!(Prefetch::for_size(1 << 20, 1 << 20), Prefetch::Near);
    assert_eq!(Prefetch::for_size((1 << 20) + 1, 1 << 20), Prefetch::Off);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_and_scale_is_within_its_bound(
        rows in 0_usize..14, columns in 0_usize..200, skip in 0_usize..16, exponent in -60_i32..60, seed: u64
    ) {
        let scale = f32::powi(2.0, exponent);
        let a: Vec<_> = noise(skip + rows * columns, seed).iter().map(|value| value * scale).collect();
        let x = noise(skip + columns, !seed);
        let mut y = vec![f32::NAN; rows];
        for kernels in all() {
            for prefetch in Prefetch::ALL {
                kernels.multiply(&a[skip..], &x[skip..], &mut y, prefetch).unwrap();
                check_product(&a[skip..], &x[skip..], &y, kernels.instructions().name());
            }
        }
    }
}
