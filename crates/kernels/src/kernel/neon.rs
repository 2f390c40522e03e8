//! The kernels for NEON: 4 values in a vector.
//!
//! Invariant: nothing is asked for ahead, since the standard library has no stable hint for this architecture and
//! its cores follow several streams by themselves.

use std::arch::aarch64::{float32x4_t, vaddq_f32, vaddvq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32};

pub(super) const LANES: usize = 4;

type Vector = float32x4_t;

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> Vector {
    vdupq_n_f32(0.0)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat(value: f32) -> Vector {
    vdupq_n_f32(value)
}

/// # Safety
/// [`LANES`] values can be read at `from`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(from: *const f32) -> Vector {
    // SAFETY: the caller promises it.
    unsafe { vld1q_f32(from) }
}

#[inline]
#[target_feature(enable = "neon")]
fn fma(a: Vector, b: Vector, c: Vector) -> Vector {
    vfmaq_f32(c, a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn add(a: Vector, b: Vector) -> Vector {
    vaddq_f32(a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn total(vector: Vector) -> f32 {
    vaddvq_f32(vector)
}

#[inline]
fn prefetch(_: *const f32) {}

super::vector::vector_kernels!("neon");
