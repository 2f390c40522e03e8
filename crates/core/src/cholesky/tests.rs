//! The factor against its definition.

use super::*;
use crate::statistics::draws::Draws;

/// A random positive definite matrix.
fn example(order: usize, seed: u64) -> Symmetric {
    let mut draws = Draws::new(seed);
    let factor: Vec<f64> = (0..order * order).map(|_| draws.normal()).collect();
    Symmetric::from_lower(order, |i, j| {
        let product: f64 = (0..order).map(|k| factor[i * order + k] * factor[j * order + k]).sum();
        product + if i == j { 0.1 } else { 0.0 }
    })
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-8, "{found}, expected {expected}");
}

#[test]
fn a_matrix_times_its_inverse_is_the_identity() {
    for (order, seed) in [(1, 1), (2, 2), (3, 3), (5, 4), (17, 5), (40, 6)] {
        let matrix = example(order, seed);
        let inverse = matrix.cholesky().unwrap().inverse();
        for i in 0..order {
            for j in 0..order {
                let product: f64 = (0..order).map(|k| matrix.at(i, k) * inverse.at(k, j)).sum();
                assert_near(product, if i == j { 1.0 } else { 0.0 });
            }
        }
    }
}

#[test]
fn a_solution_satisfies_its_equations() {
    for order in [1, 4, 9, 30] {
        let matrix = example(order, order as u64);
        let b: Vec<f64> = (0..order).map(|i| (i * 7 % 5) as f64 - 2.0).collect();
        let factor = matrix.cholesky().unwrap();
        let x = factor.solve(&b);
        for (i, b) in b.iter().enumerate() {
            assert_near(dot(matrix.row(i), &x), *b);
        }
        // The square of L⁻¹·b is bᵀ·A⁻¹·b.
        let half = factor.solve_lower(&b);
        assert_near(dot(&half, &half), dot(&b, &x));
    }
}

#[test]
fn the_empty_matrix_has_an_empty_inverse() {
    let factor = Symmetric::from_lower(0, |_, _| 1.0).cholesky().unwrap();
    assert_eq!((factor.inverse().order(), factor.solve(&[])), (0, vec![]));
}

#[test]
fn refuses_what_is_not_positive_definite() {
    type Entry = fn(usize, usize) -> f64;
    let cases: [(usize, Entry, usize); 4] = [
        (2, |_, _| 1.0, 1),
        (3, |i, j| if i == j { -1.0 } else { 0.0 }, 0),
        (2, |_, _| f64::NAN, 0),
        (2, |i, j| if i == j { [1.0, 0.5][i] } else { 1.0 }, 1),
    ];
    for (order, entry, row) in cases {
        let found = Symmetric::from_lower(order, entry).cholesky().unwrap_err();
        assert_eq!(found, NotPositiveDefinite { row });
    }
}
