//! The kernels for AVX-512 F: 16 values in a vector.
//!
//! Invariant: no instruction beyond AVX-512 F, which every processor with any AVX-512 has.

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_reduce_add_ps,
    _mm512_set1_ps, _mm512_setzero_ps,
};

pub(super) const LANES: usize = 16;

type Vector = __m512;

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> Vector {
    _mm512_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(value: f32) -> Vector {
    _mm512_set1_ps(value)
}

/// # Safety
/// [`LANES`] values can be read at `from`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32) -> Vector {
    // SAFETY: the caller promises it.
    unsafe { _mm512_loadu_ps(from) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn fma(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm512_fmadd_ps(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm512_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total(vector: Vector) -> f32 {
    _mm512_reduce_add_ps(vector)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch(place: *const f32) {
    _mm_prefetch::<_MM_HINT_T0>(place.cast());
}

super::vector::vector_kernels!("avx512f");
