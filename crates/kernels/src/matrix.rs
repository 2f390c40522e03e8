//! The matrix-vector product on all threads of a pool.
//!
//! Invariant: each result is written by one thread, the one that has its row.

#![expect(unsafe_code, reason = "threads write parts of one slice that do not overlap")]

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::Range;

use crate::kernel::{Kernels, Prefetch, ShapeError, check_shape};
use crate::policy::Policy;
use crate::pool::{Dispatch, Pool};

/// Computes `y = A·x` on all threads of `pool`, the rows of `A` cut by `policy`.
///
/// Shapes, errors and the bound of each result are those of [`Kernels::multiply`]. How the rows are cut may change
/// results within the bound, since rows are worked on four at a time.
///
/// # Errors
/// When the lengths do not fit together; `y` is then as it was.
pub fn multiply(
    pool: &Pool,
    policy: Policy,
    kernels: Kernels,
    values: &[f32],
    x: &[f32],
    y: &mut [f32],
    prefetch: Prefetch,
) -> Result<Dispatch, ShapeError> {
    check_shape(values.len(), y.len(), x.len())?;
    let y_rows = y.len();
    let results = Results { start: y.as_mut_ptr(), rows: y_rows, borrowed: PhantomData };
    // By value, so that another core fetches what it needs at once, and not one reference after the other.
    let body = move |rows: Range<usize>| {
        let part = &values[rows.start * x.len()..rows.end * x.len()];
        // SAFETY: the pool gives each row to one call of this body.
        let y = unsafe { results.part(rows) };
        let fits = kernels.multiply(part, x, y, prefetch);
        debug_assert!(fits.is_ok(), "whole rows of a matrix are a matrix");
    };
    Ok(pool.parallel_for(y_rows, policy, &body))
}

/// The results, to be written in parts.
struct Results<'a> {
    start: *mut f32,
    rows: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: what is shared are parts that do not overlap, as `part` demands.
unsafe impl Sync for Results<'_> {}

impl Results<'_> {
    /// # Safety
    /// Of the parts that are in use at once, no two overlap.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps parts apart")]
    unsafe fn part(&self, rows: Range<usize>) -> &mut [f32] {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows beyond the result");
        // SAFETY: within the borrowed slice by the assertion, and this part's own by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(rows.start), rows.len()) }
    }
}
