//! Fitting all forms and choosing among them.
//!
//! Invariant: the chosen form has the lowest leave-one-out error of all that could be fitted, and the
//! errors of the others are kept.

use std::collections::{BTreeMap, BTreeSet};

use super::equation::{self, LONGEST_NS, MOST_COLUMNS, MOST_WORK, SHORTEST_NS, Work};
use super::error_estimate::{self, OutOfSample};
use super::{Domain, Fit, FitRow, Form, FormError, METHOD_VERSION, parameter};
use crate::nnls::{self, Triangle};

/// The fewest rows that a fit is made from: F1's three coefficients and one row to check them on.
pub const MINIMUM_ROWS: usize = 4;

/// Percentage points by which a later form must beat an earlier one; less is rounding.
const TIE_PCT: f64 = 1e-6;

/// Why no hardware model could be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// There are too few rows.
    #[error("{found} measured cases are too few to fit a hardware model: measure at least {needed}")]
    TooFewRows {
        /// Rows given.
        found: usize,
        /// Rows needed.
        needed: usize,
    },
    /// All rows have the same operations, bytes, parameters and batch size.
    #[error(
        "all {rows} measured cases do the same work, so no hardware model can be fitted: measure other sizes"
    )]
    NoVariation {
        /// Rows given.
        rows: usize,
    },
    /// A value of a row cannot be a measurement.
    #[error("row {row} has {field} = {value}, which is no measurement: leave the row out")]
    InvalidRow {
        /// Index of the row.
        row: usize,
        /// The field of [`FitRow`].
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// The cache size is negative or not finite.
    #[error("a cache of {bytes} bytes cannot be: give its size, or 0 when it is not known")]
    InvalidCacheSize {
        /// The size given.
        bytes: f64,
    },
    /// No form could be fitted.
    #[error("no hardware model fits the {rows} measured cases: {reasons}")]
    AllFailed {
        /// Rows given.
        rows: usize,
        /// The reason of each form.
        reasons: String,
    },
}

/// Fits all forms to the rows of one target and workload and keeps the best.
///
/// F1, F2 and F4 are fitted by non-negative least squares on rows weighted by `1/t`, F3 by ordinary
/// least squares on `ln t`, where that same relative weight is 1 for every row. Each form is judged by
/// the mean absolute percentage error of predicting every row from all others; the lowest wins, and
/// of equals the one that comes first in [`Form::ALL`]. `cache_bytes` is the size of the last-level
/// cache for F2, 0 when it is not known.
///
/// Deterministic: the bootstrap of the physical parameters has a fixed seed.
///
/// # Errors
/// When there are too few rows, when they do not vary, when a value is not a measurement (not finite,
/// negative, a time of 0), or when every form fails; see [`FitError`].
pub fn fit_forms(rows: &[FitRow], cache_bytes: f64) -> Result<Fit, FitError> {
    check(rows, cache_bytes)?;
    let mut errors = BTreeMap::new();
    let mut best: Option<(Form, OutOfSample)> = None;
    for form in Form::ALL {
        match Problem::new(form, rows, cache_bytes).and_then(|it| error_estimate::leave_one_row_out(&it)) {
            Ok(estimate) => {
                let error = estimate.mape_pct();
                errors.insert(form, FormError::MapePct(error));
                if best.as_ref().is_none_or(|(_, lowest)| error < lowest.mape_pct() - TIE_PCT) {
                    best = Some((form, estimate));
                }
            }
            Err(reason) => {
                errors.insert(form, FormError::Failed(reason));
            }
        }
    }
    let failed = |reasons: String| FitError::AllFailed { rows: rows.len(), reasons };
    let Some((form, by_row)) = best else {
        let reasons: Vec<String> = errors
            .iter()
            .filter_map(|(form, error)| match error {
                FormError::Failed(reason) => Some(format!("{form} {reason}")),
                FormError::MapePct(_) => None,
            })
            .collect();
        return Err(failed(reasons.join("; ")));
    };
    let problem = Problem::new(form, rows, cache_bytes).map_err(&failed)?;
    let triangle = problem.triangle();
    let coefficients = problem.solve(&triangle, |_| true).map_err(&failed)?;
    let by_model = error_estimate::leave_one_model_out(&problem).ok();
    Ok(Fit {
        form,
        parameters: parameter::physical_parameters(&problem, &triangle, &coefficients),
        coefficients,
        cache_bytes,
        rows: rows.len(),
        models: rows.iter().map(|row| row.model).collect::<BTreeSet<_>>().len(),
        errors,
        loo_mape_pct: by_row.mape_pct(),
        median_ape_pct: by_row.median_ape_pct(),
        model_out_mape_pct: by_model.as_ref().map(OutOfSample::mape_pct),
        log_halfwidth: by_model.as_ref().unwrap_or(&by_row).log_halfwidth(),
        domain: Domain::of(rows),
        method: METHOD_VERSION,
    })
}

fn check(rows: &[FitRow], cache_bytes: f64) -> Result<(), FitError> {
    if !(0.0..=MOST_WORK).contains(&cache_bytes) {
        return Err(FitError::InvalidCacheSize { bytes: cache_bytes });
    }
    for (index, row) in rows.iter().enumerate() {
        let fields = [
            ("flops", row.flops, 0.0..=MOST_WORK),
            ("weight_bytes", row.weight_bytes, 0.0..=MOST_WORK),
            ("parameters", row.parameters, 0.0..=MOST_WORK),
            ("batch", row.batch, 0.0..=MOST_WORK),
            ("time_ns", row.time_ns, SHORTEST_NS..=LONGEST_NS),
        ];
        if let Some((field, value, _)) = fields.into_iter().find(|(_, value, valid)| !valid.contains(value)) {
            return Err(FitError::InvalidRow { row: index, field, value });
        }
    }
    if rows.len() < MINIMUM_ROWS {
        return Err(FitError::TooFewRows { found: rows.len(), needed: MINIMUM_ROWS });
    }
    let domain = Domain::of(rows);
    let ranges = [domain.flops, domain.weight_bytes, domain.parameters, domain.batch];
    if ranges.iter().all(|range| range.low >= range.high) {
        return Err(FitError::NoVariation { rows: rows.len() });
    }
    Ok(())
}

/// One form together with the rows it is fitted to.
pub(super) struct Problem<'a> {
    pub(super) form: Form,
    pub(super) rows: &'a [FitRow],
    pub(super) cache_bytes: f64,
    /// The weighted columns and right-hand side of each row.
    weighted: Vec<[f64; MOST_COLUMNS + 1]>,
}

impl<'a> Problem<'a> {
    /// Sets up the form's columns; refuses it when the rows cannot decide them.
    pub(super) fn new(form: Form, rows: &'a [FitRow], cache_bytes: f64) -> Result<Self, String> {
        if form == Form::TwoLevel && cache_bytes <= 0.0 {
            return Err("needs the cache size, which is not known".to_owned());
        }
        let count = equation::column_count(form);
        let weighted: Vec<[f64; MOST_COLUMNS + 1]> = rows
            .iter()
            .map(|row| {
                let columns = equation::columns(form, cache_bytes, &Work::of_row(row));
                let (weight, right) =
                    if form == Form::LogLinear { (1.0, row.time_ns.ln()) } else { (1.0 / row.time_ns, 1.0) };
                let mut weighted = [0.0; MOST_COLUMNS + 1];
                for (value, column) in std::iter::zip(&mut weighted[..count], columns) {
                    *value = weight * column;
                }
                weighted[count] = right;
                weighted
            })
            .collect();
        let used = (0..count).filter(|column| weighted.iter().any(|row| row[*column] > 0.0)).count();
        if rows.len() <= used {
            return Err(format!("has {used} coefficients and needs more than the {} rows", rows.len()));
        }
        Ok(Self { form, rows, cache_bytes, weighted })
    }

    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        equation::column_count(self.form)
    }

    /// Folds one row into a triangle, as if it were measured `times` times.
    pub(super) fn push(&self, triangle: &mut Triangle, row: usize, times: f64) {
        let mut scratch = self.weighted[row];
        let scale = times.sqrt();
        for value in &mut scratch {
            *value *= scale;
        }
        triangle.push_row(&mut scratch[..=self.columns()]);
    }

    /// The triangle of all rows.
    pub(super) fn triangle(&self) -> Triangle {
        let mut triangle = Triangle::new(self.columns());
        (0..self.rows.len()).for_each(|row| self.push(&mut triangle, row, 1.0));
        triangle
    }

    /// The coefficients for the rows folded into `triangle`, which are those that `included` names.
    pub(super) fn solve(
        &self,
        triangle: &Triangle,
        included: impl Fn(usize) -> bool,
    ) -> Result<Vec<f64>, String> {
        if self.form == Form::LogLinear {
            return triangle.least_squares().ok_or_else(|| "overflows".to_owned());
        }
        let mut coefficients = nnls::solve(triangle).map_err(|error| error.to_string())?.x;
        match self.form {
            Form::TwoLevel if !triangle.has_column(3) => coefficients[3] = coefficients[2],
            Form::ByFamily => self.borrow_throughput(triangle, &mut coefficients, included),
            _ => {}
        }
        Ok(coefficients)
    }

    /// Gives each family without rows the compute coefficient that fits all rows together, under the
    /// overhead and bandwidth already found.
    fn borrow_throughput(
        &self,
        triangle: &Triangle,
        coefficients: &mut [f64],
        included: impl Fn(usize) -> bool,
    ) {
        let unseen: Vec<usize> = equation::family_columns()
            .map(|(_, column)| column)
            .filter(|it| !triangle.has_column(*it))
            .collect();
        if unseen.is_empty() {
            return;
        }
        let (overhead, per_byte) = (coefficients[0], coefficients[5]);
        let (mut product, mut square) = (0.0, 0.0);
        for (_, row) in self.rows.iter().enumerate().filter(|(index, _)| included(*index)) {
            let work = row.flops / row.time_ns;
            product += work * (1.0 - (overhead + per_byte * row.weight_bytes) / row.time_ns);
            square += work * work;
        }
        let pooled = if square > 0.0 { (product / square).max(0.0) } else { 0.0 };
        for column in unseen {
            coefficients[column] = pooled;
        }
    }

    /// The prediction for one row in nanoseconds.
    pub(super) fn predict(&self, coefficients: &[f64], row: usize) -> f64 {
        equation::evaluate(self.form, coefficients, self.cache_bytes, &Work::of_row(&self.rows[row]))
    }
}
