//! The kernels for AVX2 with fused multiply-adds: 8 values in a vector.
//!
//! Invariant: no instruction beyond AVX2 and FMA.

use std::arch::x86_64::{
    __m256, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps, _mm_prefetch,
    _mm256_add_ps, _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_set1_ps, _mm256_setzero_ps,
};

pub(super) const LANES: usize = 8;

type Vector = __m256;

#[inline]
#[target_feature(enable = "avx2,fma")]
fn zero() -> Vector {
    _mm256_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn splat(value: f32) -> Vector {
    _mm256_set1_ps(value)
}

/// # Safety
/// [`LANES`] values can be read at `from`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load(from: *const f32) -> Vector {
    // SAFETY: the caller promises it.
    unsafe { _mm256_loadu_ps(from) }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn fma(a: Vector, b: Vector, c: Vector) -> Vector {
    _mm256_fmadd_ps(a, b, c)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add(a: Vector, b: Vector) -> Vector {
    _mm256_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn total(vector: Vector) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(vector), _mm256_extractf128_ps::<1>(vector));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn prefetch(place: *const f32) {
    _mm_prefetch::<_MM_HINT_T0>(place.cast());
}

super::vector::vector_kernels!("avx2,fma");
