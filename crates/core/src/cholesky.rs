//! Factor, solution and inverse of symmetric positive definite matrices.
//!
//! Invariant: a factor exists only of a matrix that is positive definite to rounding; nothing is added to a
//! matrix to make it so.
//!
//! Method: Golub and Van Loan, *Matrix Computations* (4th edition), section 4.2.

#[cfg(test)]
mod tests;

/// A symmetric matrix, all its entries stored row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Symmetric {
    order: usize,
    entries: Vec<f64>,
}

/// A matrix that has no Cholesky factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the covariance is not positive definite at row {row}: leave out rows that repeat others")]
pub struct NotPositiveDefinite {
    /// The first row at which the pivot is not positive.
    pub row: usize,
}

impl Symmetric {
    /// The matrix whose entry at row `i` and column `j ≤ i` is `entry(i, j)`.
    pub fn from_lower(order: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let mut entries = vec![0.0; order * order];
        for row in 0..order {
            for column in 0..=row {
                let value = entry(row, column);
                entries[row * order + column] = value;
                entries[column * order + row] = value;
            }
        }
        Self { order, entries }
    }

    /// Rows, which are as many as columns.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The entry at `row` and `column`, both below [`Self::order`].
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.order + column]
    }

    /// A row, which is a column too.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.entries[row * self.order..][..self.order]
    }

    /// The factor `L` with `L·Lᵀ` equal to this matrix.
    ///
    /// Cost: `order³ ÷ 3` multiplications.
    ///
    /// # Errors
    /// When a pivot is not positive or not a number.
    pub fn cholesky(&self) -> Result<Cholesky, NotPositiveDefinite> {
        let order = self.order;
        let mut lower = vec![0.0; order * order];
        for row in 0..order {
            let (above, own) = lower.split_at_mut(row * order);
            for column in 0..row {
                let other = &above[column * order..][..=column];
                own[column] = (self.at(row, column) - dot(&own[..column], other)) / other[column];
            }
            let pivot = self.at(row, row) - dot(&own[..row], &own[..row]);
            // Rounding can leave a hair above 0 where the exact pivot is 0.
            if pivot.is_nan() || pivot <= f64::EPSILON * self.at(row, row) {
                return Err(NotPositiveDefinite { row });
            }
            own[row] = pivot.sqrt();
        }
        Ok(Cholesky { order, lower })
    }
}

/// The lower triangular factor of a positive definite matrix.
#[derive(Debug, Clone)]
pub struct Cholesky {
    order: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Solves `A·x = b` for the matrix `A` that was factored; `b` has as many entries as `A` has rows.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.solve_lower(b);
        for row in (0..self.order).rev() {
            x[row] /= self.lower[row * self.order + row];
            let value = x[row];
            let factors = &self.lower[row * self.order..][..row];
            x[..row].iter_mut().zip(factors).for_each(|(x, factor)| *x -= factor * value);
        }
        x
    }

    /// Solves `L·x = b` for the factor `L`.
    pub fn solve_lower(&self, b: &[f64]) -> Vec<f64> {
        let mut x = Vec::with_capacity(self.order);
        for (row, b) in b.iter().enumerate().take(self.order) {
            let factors = &self.lower[row * self.order..][..=row];
            x.push((b - dot(&factors[..row], &x)) / factors[row]);
        }
        x
    }

    /// The logarithm of the determinant of `L`, half that of the matrix that was factored.
    pub fn log_determinant_of_factor(&self) -> f64 {
        (0..self.order).map(|row| self.lower[row * self.order + row].ln()).sum()
    }

    /// The product `L·x` of the factor and a vector.
    #[cfg(test)]
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        (0..self.order).map(|row| dot(&self.lower[row * self.order..][..=row], x)).collect()
    }

    /// The inverse of the matrix that was factored.
    pub fn inverse(&self) -> Symmetric {
        let order = self.order;
        // Row j holds column j of L⁻¹, so that every sum below runs over neighbours in memory.
        let mut columns = vec![0.0; order * order];
        for (column, own) in columns.chunks_exact_mut(order.max(1)).enumerate() {
            for row in column..order {
                let factors = &self.lower[row * order..][..=row];
                let unit = if row == column { 1.0 } else { 0.0 };
                own[row] = (unit - dot(&factors[column..row], &own[column..row])) / factors[row];
            }
        }
        Symmetric::from_lower(order, |row, column| {
            dot(&columns[row * order + row..][..order - row], &columns[column * order + row..][..order - row])
        })
    }
}

/// The scalar product of two vectors, over the shorter of them.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    // Four sums that do not wait for one another; the order of additions is fixed, so results repeat.
    let mut sums = [0.0; 4];
    let (a_chunks, b_chunks) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
