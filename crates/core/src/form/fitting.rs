//! Fitting all forms and choosing among them.
//!
//! Invariant: the chosen form has the lowest error for left-out models (or rows, with few models) of all that could be
//! fitted, the errors of the others are kept, and no coefficient claims more than the chip was measured to do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::equation::{self, LONGEST_NS, MOST_COLUMNS, MOST_WORK, SHORTEST_NS, Work};
use super::error_estimate::{self, OutOfSample};
use super::{Domain, Fit, FitRow, Form, FormError, METHOD_VERSION, OperatorWork, parameter};
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

/// What a chip was measured to be capable of, which no hardware model of it may exceed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ChipBounds {
    /// Size of the last-level cache for F2, 0 when it is not known.
    pub cache_bytes: f64,
    /// The most operations per nanosecond.
    pub flops_per_ns: Option<f64>,
    /// The most bytes read per nanosecond, wherever they lie.
    pub bytes_per_ns: Option<f64>,
    /// The most bytes read per nanosecond from beyond the last-level cache.
    pub memory_bytes_per_ns: Option<f64>,
}

impl From<f64> for ChipBounds {
    /// The bounds of a chip of which only the cache size in bytes is known.
    fn from(cache_bytes: f64) -> Self {
        Self { cache_bytes, ..Self::default() }
    }
}

impl ChipBounds {
    /// The least that each coefficient of `form` can be on such a chip.
    fn floors(&self, form: Form) -> [f64; MOST_COLUMNS] {
        let least = |rate: Option<f64>| rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| 1.0 / rate);
        let (flop, byte, far_byte) =
            (least(self.flops_per_ns), least(self.bytes_per_ns), least(self.memory_bytes_per_ns));
        match form {
            Form::Roofline => [0.0, flop, byte, 0.0, 0.0, 0.0, 0.0],
            Form::TwoLevel => [0.0, flop, byte, far_byte, 0.0, 0.0, 0.0],
            Form::LogLinear => [0.0; MOST_COLUMNS],
            Form::ByFamily => [0.0, flop, flop, flop, flop, byte, 0.0],
            Form::ByOperator => [0.0, 0.0, flop, flop, flop, flop, byte],
        }
    }
}

/// Fits all forms to the rows of one target and workload and keeps the best.
///
/// F1, F2, F4 and F5 are fitted by non-negative least squares on rows weighted by `1/t`, F3 by ordinary
/// least squares on `ln t`, where that same relative weight is 1 for every row. Each form is judged by
/// the mean absolute percentage error of predicting the rows of every model from those of all others, or with
/// fewer than 5 models every row from all others; the lowest wins, and of equals the one that comes first in
/// [`Form::ALL`]. No coefficient claims a higher rate than `bounds` allow.
///
/// Deterministic: the bootstrap of the physical parameters has a fixed seed.
///
/// # Errors
/// When there are too few rows, when they do not vary, when a value is not a measurement (not finite,
/// negative, a time of 0), or when every form fails; see [`FitError`].
pub fn fit_forms(rows: &[FitRow], bounds: impl Into<ChipBounds>) -> Result<Fit, FitError> {
    fit_best(&Form::ALL, rows, bounds.into())
}

/// Fits one form, whatever the others could do; see [`fit_forms`].
///
/// # Errors
/// As for [`fit_forms`].
pub fn fit_form(form: Form, rows: &[FitRow], bounds: impl Into<ChipBounds>) -> Result<Fit, FitError> {
    fit_best(&[form], rows, bounds.into())
}

fn fit_best(forms: &[Form], rows: &[FitRow], bounds: ChipBounds) -> Result<Fit, FitError> {
    check(rows, bounds.cache_bytes)?;
    let mut errors = BTreeMap::new();
    let mut model_out_errors = BTreeMap::new();
    let mut best: Option<(Form, Estimates)> = None;
    for &form in forms {
        match Problem::new(form, rows, bounds).and_then(|it| Estimates::of(&it)) {
            Ok(estimates) => {
                errors.insert(form, FormError::MapePct(estimates.by_row.mape_pct()));
                if let Some(by_model) = &estimates.by_model {
                    model_out_errors.insert(form, by_model.mape_pct());
                }
                let error = estimates.decisive().mape_pct();
                if best.as_ref().is_none_or(|(_, lowest)| error < lowest.decisive().mape_pct() - TIE_PCT) {
                    best = Some((form, estimates));
                }
            }
            Err(reason) => {
                errors.insert(form, FormError::Failed(reason));
            }
        }
    }
    let failed = |reasons: String| FitError::AllFailed { rows: rows.len(), reasons };
    let Some((form, estimates)) = best else {
        let reasons: Vec<String> = errors
            .iter()
            .filter_map(|(form, error)| match error {
                FormError::Failed(reason) => Some(format!("{form} {reason}")),
                FormError::MapePct(_) => None,
            })
            .collect();
        return Err(failed(reasons.join("; ")));
    };
    let problem = Problem::new(form, rows, bounds).map_err(&failed)?;
    let triangle = problem.triangle();
    let coefficients = problem.solve(&triangle, |_| true).map_err(&failed)?;
    let Estimates { by_row, by_model } = &estimates;
    Ok(Fit {
        form,
        parameters: parameter::physical_parameters(&problem, &triangle, &coefficients),
        coefficients,
        cache_bytes: bounds.cache_bytes,
        bounds,
        rows: rows.len(),
        models: rows.iter().map(|row| row.model).collect::<BTreeSet<_>>().len(),
        errors,
        model_out_errors,
        loo_mape_pct: by_row.mape_pct(),
        median_ape_pct: by_row.median_ape_pct(),
        model_out_mape_pct: by_model.as_ref().map(OutOfSample::mape_pct),
        log_halfwidth: estimates.decisive().log_halfwidth(),
        domain: Domain::of(rows),
        method: METHOD_VERSION,
    })
}

/// How well a form predicts rows and models that were left out.
struct Estimates {
    by_row: OutOfSample,
    /// Absent with too few models.
    by_model: Option<OutOfSample>,
}

impl Estimates {
    fn of(problem: &Problem<'_>) -> Result<Self, String> {
        let by_model = error_estimate::leave_one_model_out(problem).ok();
        // With one row for each model, leaving out either is the same.
        let by_row = match &by_model {
            Some(by_model) if super::groups_of_models(problem.rows).len() == problem.rows.len() => {
                by_model.clone()
            }
            _ => error_estimate::leave_one_row_out(problem)?,
        };
        Ok(Self { by_row, by_model })
    }

    /// The estimate that forms are chosen by: new models are what predictions are for.
    fn decisive(&self) -> &OutOfSample {
        self.by_model.as_ref().unwrap_or(&self.by_row)
    }
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
            ("nodes", row.nodes, 0.0..=MOST_WORK),
            ("matrix_flops", row.operators.matrix_flops, 0.0..=MOST_WORK),
            ("convolution_flops", row.operators.convolution_flops, 0.0..=MOST_WORK),
            ("depthwise_flops", row.operators.depthwise_flops, 0.0..=MOST_WORK),
            ("recurrent_flops", row.operators.recurrent_flops, 0.0..=MOST_WORK),
            ("moved_bytes", row.operators.moved_bytes, 0.0..=MOST_WORK),
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
    /// The least that each coefficient can be.
    pub(super) floors: [f64; MOST_COLUMNS],
    /// The weighted columns and right-hand side of each row.
    weighted: Vec<[f64; MOST_COLUMNS + 1]>,
}

impl<'a> Problem<'a> {
    /// Sets up the form's columns; refuses it when the rows cannot decide them.
    pub(super) fn new(form: Form, rows: &'a [FitRow], bounds: impl Into<ChipBounds>) -> Result<Self, String> {
        let bounds = bounds.into();
        let cache_bytes = bounds.cache_bytes;
        if form == Form::TwoLevel && cache_bytes <= 0.0 {
            return Err("needs the cache size, which is not known".to_owned());
        }
        if form == Form::ByOperator && rows.iter().all(|row| row.operators == OperatorWork::default()) {
            return Err("needs the work by operators, which was not counted".to_owned());
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
        Ok(Self { form, rows, cache_bytes, floors: bounds.floors(form), weighted })
    }

    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        equation::column_count(self.form)
    }

    /// Whether any row has work in a column.
    pub(super) fn has_column(&self, column: usize) -> bool {
        self.weighted.iter().any(|row| row[column] > 0.0)
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
        // With x = floor + y, the y ≥ 0 that fits what the floors leave over.
        let floors = &self.floors[..self.columns()];
        let solved = if floors.iter().any(|floor| *floor > 0.0) {
            nnls::solve(&triangle.shifted(floors))
        } else {
            nnls::solve(triangle)
        };
        let mut coefficients = solved.map_err(|error| error.to_string())?.x;
        std::iter::zip(&mut coefficients, floors).for_each(|(coefficient, floor)| *coefficient += floor);
        match self.form {
            Form::TwoLevel if !triangle.has_column(3) => {
                coefficients[3] = coefficients[2].max(self.floors[3]);
            }
            Form::ByFamily | Form::ByOperator => {
                self.borrow_throughput(triangle, &mut coefficients, included);
            }
            _ => {}
        }
        Ok(coefficients)
    }

    /// Gives each class of work without rows the compute coefficient that fits all rows together, under the
    /// other coefficients already found.
    fn borrow_throughput(
        &self,
        triangle: &Triangle,
        coefficients: &mut [f64],
        included: impl Fn(usize) -> bool,
    ) {
        let classes = equation::class_columns(self.form);
        let unseen: Vec<usize> = classes.clone().filter(|it| !triangle.has_column(*it)).collect();
        if unseen.is_empty() {
            return;
        }
        let (mut product, mut square) = (0.0, 0.0);
        for (_, row) in self.weighted.iter().enumerate().filter(|(index, _)| included(*index)) {
            let work: f64 = row[classes.clone()].iter().sum();
            let rest: f64 = (0..self.columns())
                .filter(|column| !classes.contains(column))
                .map(|column| coefficients[column] * row[column])
                .sum();
            product += work * (1.0 - rest);
            square += work * work;
        }
        let pooled = if square > 0.0 { (product / square).max(0.0) } else { 0.0 };
        for column in unseen {
            coefficients[column] = pooled.max(self.floors[column]);
        }
    }

    /// The prediction for one row in nanoseconds.
    pub(super) fn predict(&self, coefficients: &[f64], row: usize) -> f64 {
        equation::evaluate(self.form, coefficients, self.cache_bytes, &Work::of_row(&self.rows[row]))
    }
}
