//! Tests of the product on a pool.
//!
//! Invariant: results are compared with sums in double precision, never with another kernel's.

#![expect(clippy::float_cmp, reason = "values that nothing computes with stay what they were")]

use std::num::NonZeroUsize;

use super::multiply;
use crate::kernel::tests::{check_product, noise};
use crate::{InstructionSet, Kernels, Policy, Pool, Prefetch};

#[test]
fn every_policy_on_every_instruction_set_is_within_the_bound() {
    let columns = if cfg!(miri) { 33 } else { 130 };
    for threads in [1, 2, 3] {
        let pool = Pool::builder().threads(NonZeroUsize::new(threads).unwrap()).build().unwrap();
        for policy in Policy::ALL {
            for rows in [0, 1, 3, 5, 7, 63] {
                let (a, x) = (noise(rows * columns, 5), noise(columns, 6));
                for kernels in InstructionSet::detect_all().into_iter().map(Kernels::new) {
                    let mut y = vec![f32::NAN; rows];
                    multiply(&pool, policy, kernels, &a, &x, &mut y, Prefetch::Ahead).unwrap();
                    check_product(&a, &x, &y, &format!("{policy:?} {} {rows}", kernels.instructions()));
                }
            }
        }
    }
}

#[test]
fn a_wrong_shape_is_refused_before_anything_is_written() {
    let pool = Pool::builder().build().unwrap();
    let mut y = [1.0; 2];
    let outcome =
        multiply(&pool, Policy::Static, Kernels::detect(), &[0.0; 5], &[0.0; 3], &mut y, Prefetch::Off);
    assert!(outcome.is_err());
    assert_eq!(y, [1.0; 2]);
}
