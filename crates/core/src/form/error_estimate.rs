//! How well a form predicts what it was not fitted on.
//!
//! Invariant: a row's error comes from coefficients that never saw the row (or its model), exactly as
//! if the form had been fitted anew without it.

use super::fitting::Problem;
use super::groups_of_models;
use crate::nnls::Triangle;
use crate::statistics;

/// The fewest models for which leaving one out says something about the next.
const MINIMUM_MODELS: usize = 5;
/// Coverage of the prediction interval.
const COVERAGE: f64 = 0.95;

/// Predictions for rows that were left out, group by group.
#[derive(Clone)]
pub(super) struct OutOfSample(Vec<LeftOut>);

#[derive(Clone, Copy)]
struct LeftOut {
    row: usize,
    measured_ns: f64,
    predicted_ns: f64,
    /// Rows that were left out together with this one, itself counted.
    group_rows: usize,
}

impl OutOfSample {
    fn absolute_percentage_errors(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|row| 100.0 * (row.predicted_ns / row.measured_ns - 1.0).abs())
    }

    pub(super) fn mape_pct(&self) -> f64 {
        self.absolute_percentage_errors().sum::<f64>() / self.0.len() as f64
    }

    pub(super) fn median_ape_pct(&self) -> f64 {
        let errors: Vec<f64> = self.absolute_percentage_errors().collect();
        statistics::median(&errors).unwrap_or(f64::MAX)
    }

    /// The logarithms of measured over predicted times, by row.
    pub(super) fn log_errors(&self, rows: usize) -> Vec<f64> {
        let mut errors = vec![0.0; rows];
        self.0.iter().for_each(|it| errors[it.row] = (it.measured_ns / it.predicted_ns).ln());
        errors
    }

    /// Half-width of the prediction interval in log space; see [`super::Fit::log_halfwidth`].
    pub(super) fn log_halfwidth(&self) -> f64 {
        let errors = self
            .0
            .iter()
            .map(|row| ((row.predicted_ns / row.measured_ns).ln().abs(), 1.0 / row.group_rows as f64));
        conformal_halfwidth(errors.collect())
    }
}

/// The error that a row of a new group stays under with 95 % probability.
///
/// Each error comes with the share of its group that it makes up, so that the shares add up to the
/// number of groups.
pub(crate) fn conformal_halfwidth(mut errors: Vec<(f64, f64)>) -> f64 {
    errors.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    let Some((largest, _)) = errors.last().copied() else { return f64::MAX };
    let groups: f64 = errors.iter().map(|(_, share)| share).sum();
    let needed = (groups + 1.0) * COVERAGE;
    let mut reached = 0.0;
    for (error, share) in errors {
        reached += share;
        // The tolerance undoes the rounding of summed shares.
        if reached >= needed - 1e-9 {
            return error;
        }
    }
    largest * (1.0 / (1.0 - COVERAGE)).ln() / (groups + 1.0).ln()
}

/// Predicts each row from all other rows.
pub(super) fn leave_one_row_out(problem: &Problem<'_>) -> Result<OutOfSample, String> {
    let groups: Vec<Vec<usize>> = (0..problem.rows.len()).map(|row| vec![row]).collect();
    leave_groups_out(problem, &groups)
}

/// Predicts the rows of each model from the rows of all other models.
pub(super) fn leave_one_model_out(problem: &Problem<'_>) -> Result<OutOfSample, String> {
    let groups = groups_of_models(problem.rows);
    if groups.len() < MINIMUM_MODELS {
        return Err(format!("{} models are too few to leave one out", groups.len()));
    }
    leave_groups_out(problem, &groups)
}

// The triangle without a group is the merger of those of all groups before it and all after it. That
// is exact and as stable as a fit from scratch, where removing rows from the full triangle (downdating)
// loses digits just when the row matters most; and it costs no more than one pass over the rows.
fn leave_groups_out(problem: &Problem<'_>, groups: &[Vec<usize>]) -> Result<OutOfSample, String> {
    let empty = Triangle::new(problem.columns());
    let mut after = vec![empty.clone()];
    for group in groups.iter().rev() {
        let mut next = after.last().unwrap_or(&empty).clone();
        for &row in group {
            problem.push(&mut next, row, 1.0);
        }
        after.push(next);
    }
    after.pop();
    let mut before = empty;
    let mut results = Vec::with_capacity(problem.rows.len());
    for group in groups {
        let mut others = after.pop().unwrap_or_else(|| Triangle::new(problem.columns()));
        others.merge(&before);
        let coefficients = problem.solve(&others, |row| !group.contains(&row))?;
        for &row in group {
            results.push(LeftOut {
                row,
                measured_ns: problem.rows[row].time_ns,
                predicted_ns: problem.predict(&coefficients, row),
                group_rows: group.len(),
            });
            problem.push(&mut before, row, 1.0);
        }
    }
    Ok(OutOfSample(results))
}
