//! Least squares with non-negative coefficients.
//!
//! Invariant: a solution satisfies the Karush-Kuhn-Tucker conditions of the problem to rounding, or
//! the call fails; it never returns a point that only looks converged.
//!
//! Method: Lawson and Hanson, *Solving Least Squares Problems* (1974), chapter 23, on the triangular
//! factor of the data.

#[cfg(test)]
mod tests;
mod triangle;

pub(crate) use triangle::Triangle;

/// The least-squares solution with all coefficients at 0 or above.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The coefficients, one per column.
    pub x: Vec<f64>,
    /// `‖A·x − b‖₂`, in the unit of `b`.
    pub residual_norm: f64,
}

/// Why a least-squares problem has no answer here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NnlsError {
    /// There are no rows or no columns.
    #[error("the least-squares problem is empty: give at least one row with one column")]
    Empty,
    /// A row is longer or shorter than the first, or `b` has another length than `a` has rows.
    #[error("row {row} of the least-squares problem has {found} values instead of {expected}")]
    Shape {
        /// Index of the row.
        row: usize,
        /// Values in it, its right-hand side counted.
        found: usize,
        /// Values expected, the right-hand side counted.
        expected: usize,
    },
    /// A value is NaN or infinite.
    #[error("row {row} of the least-squares problem holds a value that is not finite: leave the row out")]
    NotFinite {
        /// Index of the row.
        row: usize,
    },
    /// The values are so large or so unlike in size that the solution is not a finite number.
    #[error("the least-squares problem overflows: give its columns in units of similar size")]
    Overflow,
    /// The active set did not settle.
    #[error(
        "the least-squares problem did not settle within {steps} steps: remove columns that repeat others"
    )]
    NotSettled {
        /// Steps made.
        steps: usize,
    },
}

/// Finds the `x ≥ 0` that minimises `‖A·x − b‖₂`, for a small dense `A` given by rows.
///
/// The rows are folded one by one into the triangular factor of `[A b]` by Givens rotations, so the
/// condition number is that of `A`, not its square as with normal equations. Columns are scaled to
/// unit length, which makes the result independent of their units. A column that lies within 1e-10 of
/// the span of those already in use (as a share of its length) is left at 0: of several collinear
/// columns, the one that explains `b` best is used.
///
/// Cost: `O(rows · columns²)`, then a few steps of `O(columns³)`.
///
/// # Errors
/// When the problem is empty or ragged, holds a value that is not finite, overflows, or does not
/// settle; see [`NnlsError`].
pub fn nnls<R: AsRef<[f64]>>(a: &[R], b: &[f64]) -> Result<Solution, NnlsError> {
    let columns = a.first().map_or(0, |row| row.as_ref().len());
    if columns == 0 {
        return Err(NnlsError::Empty);
    }
    let mut triangle = Triangle::new(columns);
    let mut scratch = vec![0.0; columns + 1];
    for index in 0..a.len().max(b.len()) {
        let row = a.get(index).map_or(&[][..], AsRef::as_ref);
        let right = b.get(index);
        let found = row.len() + usize::from(right.is_some());
        let (Some(right), true) = (right, row.len() == columns) else {
            return Err(NnlsError::Shape { row: index, found, expected: columns + 1 });
        };
        if !right.is_finite() || row.iter().any(|value| !value.is_finite()) {
            return Err(NnlsError::NotFinite { row: index });
        }
        scratch[..columns].copy_from_slice(row);
        scratch[columns] = *right;
        triangle.push_row(&mut scratch);
    }
    solve(&triangle)
}

/// Solves the problem whose rows were folded into `triangle`.
pub(crate) fn solve(triangle: &Triangle) -> Result<Solution, NnlsError> {
    let columns = triangle.columns();
    let scaled = triangle.scaled().ok_or(NnlsError::Overflow)?;
    let mut state = ActiveSet::new(&scaled.triangle);
    let limit = 50 * (columns + 1);
    let mut steps = 0;
    while let Some(candidate) = state.most_wanted() {
        steps += 1;
        if steps > limit || !state.admit(candidate) {
            return Err(NnlsError::NotSettled { steps });
        }
    }
    let residual_norm = state.residual_norm() * scaled.right_length;
    let x: Vec<f64> = std::iter::zip(&state.x, &scaled.lengths)
        .map(|(&value, &length)| if value == 0.0 { 0.0 } else { value * (scaled.right_length / length) })
        .collect();
    if x.iter().all(|value| value.is_finite()) && residual_norm.is_finite() {
        Ok(Solution { x, residual_norm })
    } else {
        Err(NnlsError::Overflow)
    }
}

/// The state of the active-set method on a problem with columns of unit length.
struct ActiveSet<'a> {
    triangle: &'a Triangle,
    x: Vec<f64>,
    /// Columns whose coefficient is free, in order of admission.
    passive: Vec<usize>,
    /// Columns that were tried against the present passive set and did not help.
    refused: Vec<bool>,
}

impl<'a> ActiveSet<'a> {
    fn new(triangle: &'a Triangle) -> Self {
        let columns = triangle.columns();
        Self { triangle, x: vec![0.0; columns], passive: Vec::new(), refused: vec![false; columns] }
    }

    /// The column outside the passive set along which the residual falls fastest, if any does.
    fn most_wanted(&self) -> Option<usize> {
        let residual = self.triangle.residual(&self.x);
        // With unit columns, rounding in a gradient stays below a few ulps of the terms it is made of.
        let rounding = 64.0 * f64::EPSILON * (1.0 + self.x.iter().map(|value| value.abs()).sum::<f64>());
        (0..self.x.len())
            .filter(|column| !self.refused[*column] && !self.passive.contains(column))
            .map(|column| (column, self.triangle.column_product(column, &residual)))
            .filter(|(_, gradient)| *gradient > rounding)
            .max_by(|left, right| left.1.total_cmp(&right.1))
            .map(|(column, _)| column)
    }

    /// Frees the coefficient of `candidate`, and fixes at 0 those that would turn negative.
    ///
    /// Returns false when the passive set became singular, which only broken rounding could cause.
    fn admit(&mut self, candidate: usize) -> bool {
        self.passive.push(candidate);
        let mut target = match self.triangle.subset_least_squares(&self.passive) {
            Some(target) if target.last().is_some_and(|value| *value > 0.0) => target,
            _ => {
                self.passive.pop();
                self.refused[candidate] = true;
                return true;
            }
        };
        while target.iter().any(|value| *value <= 0.0) {
            self.step_to_boundary(&target);
            match self.triangle.subset_least_squares(&self.passive) {
                Some(next) => target = next,
                None => return false,
            }
        }
        for (&column, &value) in std::iter::zip(&self.passive, &target) {
            self.x[column] = value;
        }
        self.refused.fill(false);
        true
    }

    /// Goes towards `target` until the first coefficient reaches 0 and drops what is there.
    fn step_to_boundary(&mut self, target: &[f64]) {
        let share_until_zero = |column: usize, value: f64| self.x[column] / (self.x[column] - value);
        let first = std::iter::zip(&self.passive, target)
            .filter(|(_, value)| **value <= 0.0)
            .map(|(&column, &value)| (column, share_until_zero(column, value)))
            .min_by(|left, right| left.1.total_cmp(&right.1));
        let Some((leaving, share)) = first else { return };
        for (&column, &value) in std::iter::zip(&self.passive, target) {
            self.x[column] = (self.x[column] + share * (value - self.x[column])).max(0.0);
        }
        self.x[leaving] = 0.0;
        let x = &self.x;
        self.passive.retain(|column| x[*column] > 0.0);
    }

    fn residual_norm(&self) -> f64 {
        self.triangle.residual(&self.x).iter().fold(0.0, |norm: f64, value| norm.hypot(*value))
    }
}
