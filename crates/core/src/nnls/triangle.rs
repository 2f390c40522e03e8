//! The triangular factor of a least-squares problem, built up row by row.
//!
//! Invariant: `‖R·x − c‖ = ‖A·x − b‖` for every `x`, where `[R c]` is the stored triangle and `[A b]`
//! all rows folded in; see Golub and Van Loan, *Matrix Computations*, section 5.2.

/// Share of a column's length under which it counts as lying in the span of the others.
const DEPENDENT: f64 = 1e-10;

/// An upper triangle of `columns + 1` rows and columns, the last column being the right-hand side.
#[derive(Clone, Debug)]
pub(crate) struct Triangle {
    columns: usize,
    values: Vec<f64>,
}

/// A triangle whose columns and right-hand side have unit length (or length 0).
pub(crate) struct Scaled {
    pub(crate) triangle: Triangle,
    pub(crate) lengths: Vec<f64>,
    pub(crate) right_length: f64,
}

impl Triangle {
    /// A problem without rows.
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, values: vec![0.0; (columns + 1) * (columns + 1)] }
    }

    /// Columns, the right-hand side not counted.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Whether a column has a value other than 0.
    pub(crate) fn has_column(&self, column: usize) -> bool {
        self.length(column) > 0.0
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * (self.columns + 1) + column]
    }

    /// Folds in one row of `[A b]`; the row is used up as scratch space.
    pub(crate) fn push_row(&mut self, row: &mut [f64]) {
        let width = self.columns + 1;
        for pivot in 0..width {
            let entering = row[pivot];
            if entering == 0.0 {
                continue;
            }
            let stored = &mut self.values[pivot * width..(pivot + 1) * width];
            let length = stored[pivot].hypot(entering);
            let (cosine, sine) = (stored[pivot] / length, entering / length);
            stored[pivot] = length;
            for (kept, passing) in std::iter::zip(&mut stored[pivot + 1..], &mut row[pivot + 1..width]) {
                let (upper, lower) = (*kept, *passing);
                *kept = cosine * upper + sine * lower;
                *passing = cosine * lower - sine * upper;
            }
        }
    }

    /// Folds in all rows of another problem with the same columns.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mut scratch = vec![0.0; self.columns + 1];
        for row in other.values.chunks_exact(other.columns + 1) {
            scratch.copy_from_slice(row);
            self.push_row(&mut scratch);
        }
    }

    /// Length of a column of `A`, or of `b` for the last one.
    fn length(&self, column: usize) -> f64 {
        (0..=column).fold(0.0, |length: f64, row| length.hypot(self.at(row, column)))
    }

    /// Brings columns and right-hand side to unit length; `None` when a value is not finite.
    pub(crate) fn scaled(&self) -> Option<Scaled> {
        let width = self.columns + 1;
        let mut lengths: Vec<f64> = (0..width).map(|column| self.length(column)).collect();
        if lengths.iter().any(|length| !length.is_finite()) {
            return None;
        }
        let mut triangle = self.clone();
        for row in triangle.values.chunks_exact_mut(width) {
            for (value, &length) in std::iter::zip(row, &lengths) {
                *value = if length > 0.0 { *value / length } else { 0.0 };
            }
        }
        let right_length = lengths.pop()?;
        Some(Scaled { triangle, lengths, right_length })
    }

    /// `c − R·x`, its last entry being the part of `b` that no `x` can explain.
    pub(crate) fn residual(&self, x: &[f64]) -> Vec<f64> {
        self.values
            .chunks_exact(self.columns + 1)
            .map(|row| std::iter::zip(row, x).fold(row[self.columns], |rest, (value, x)| rest - value * x))
            .collect()
    }

    /// The same problem for `y = x − origin`: its right-hand side is what `origin` leaves over.
    pub(crate) fn shifted(&self, origin: &[f64]) -> Self {
        let mut shifted = self.clone();
        let rest = self.residual(origin);
        for (row, rest) in std::iter::zip(shifted.values.chunks_exact_mut(self.columns + 1), rest) {
            row[self.columns] = rest;
        }
        shifted
    }

    /// The scalar product of a column with a vector of `columns + 1` entries.
    pub(crate) fn column_product(&self, column: usize, vector: &[f64]) -> f64 {
        (0..=column).map(|row| self.at(row, column) * vector[row]).sum()
    }

    /// The unconstrained solution with only the named columns of a scaled triangle; `None` when the
    /// last of them is linearly dependent on those before it.
    pub(crate) fn subset_least_squares(&self, subset: &[usize]) -> Option<Vec<f64>> {
        self.subset(subset).back_substitute()
    }

    /// The shares of each column's length that lie outside the span of all other columns: the sine of
    /// its angle to them, 0 for a column that they replace exactly or that is 0 itself.
    pub(crate) fn independence(&self) -> Option<Vec<f64>> {
        let scaled = self.scaled()?;
        let shares = (0..self.columns).map(|column| {
            let mut order: Vec<usize> = (0..self.columns).filter(|other| *other != column).collect();
            order.push(column);
            scaled.triangle.subset(&order).at(self.columns - 1, self.columns - 1)
        });
        Some(shares.collect())
    }

    /// The unconstrained least-squares solution, dependent columns left at 0; `None` when it is not
    /// finite.
    pub(crate) fn least_squares(&self) -> Option<Vec<f64>> {
        let scaled = self.scaled()?;
        let mut used = Vec::new();
        for column in 0..self.columns {
            used.push(column);
            let independent = scaled.triangle.subset(&used).at(used.len() - 1, used.len() - 1);
            if independent <= DEPENDENT {
                used.pop();
            }
        }
        let values = scaled.triangle.subset_least_squares(&used)?;
        let mut x = vec![0.0; self.columns];
        for (&column, value) in std::iter::zip(&used, values) {
            x[column] = value * (scaled.right_length / scaled.lengths[column]);
        }
        x.iter().all(|value| value.is_finite()).then_some(x)
    }

    /// The problem restricted to some columns, in the given order.
    fn subset(&self, subset: &[usize]) -> Self {
        let mut part = Self::new(subset.len());
        let mut scratch = vec![0.0; subset.len() + 1];
        for row in self.values.chunks_exact(self.columns + 1) {
            for (value, &column) in std::iter::zip(&mut scratch, subset) {
                *value = row[column];
            }
            scratch[subset.len()] = row[self.columns];
            part.push_row(&mut scratch);
        }
        part
    }

    fn back_substitute(&self) -> Option<Vec<f64>> {
        let mut x = vec![0.0; self.columns];
        for row in (0..self.columns).rev() {
            let pivot = self.at(row, row);
            if pivot <= DEPENDENT {
                return None;
            }
            let known: f64 = (row + 1..self.columns).map(|column| self.at(row, column) * x[column]).sum();
            x[row] = (self.at(row, self.columns) - known) / pivot;
        }
        Some(x)
    }
}
