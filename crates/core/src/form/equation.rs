//! The equations of the forms, as columns of a linear model.
//!
//! Invariant: `evaluate` is the only place where a form's coefficients meet a case, for fitting,
//! error estimates and predictions alike.

use super::{FitRow, Form, OperatorWork};
use crate::model::{CaseFacts, Family};

/// The most columns that a form has.
pub(super) const MOST_COLUMNS: usize = 7;

/// No inference is faster than this, in nanoseconds.
pub(super) const SHORTEST_NS: f64 = 1.0;
/// No inference is slower than this, in nanoseconds (31 years).
pub(super) const LONGEST_NS: f64 = 1e18;
/// Operations, bytes or parameters over this are no facts of a model.
pub(super) const MOST_WORK: f64 = 1e30;

const FAMILIES: [Family; 4] = [Family::Mlp, Family::Conv, Family::Attn, Family::Recurrent];

/// What the equations know of a call; all values finite and not negative.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) flops: f64,
    pub(super) weight_bytes: f64,
    pub(super) parameters: f64,
    pub(super) batch: f64,
    pub(super) nodes: f64,
    pub(super) operators: OperatorWork,
    pub(super) family: Family,
}

impl Work {
    pub(super) fn of_case(facts: &CaseFacts) -> Self {
        Self {
            flops: as_work(facts.flops),
            weight_bytes: facts.weight_bytes as f64,
            parameters: facts.parameters as f64,
            batch: facts.batch as f64,
            nodes: facts.nodes as f64,
            operators: OperatorWork::from(facts),
            family: facts.family,
        }
    }

    pub(super) fn of_row(row: &FitRow) -> Self {
        Self {
            flops: row.flops,
            weight_bytes: row.weight_bytes,
            parameters: row.parameters,
            batch: row.batch,
            nodes: row.nodes,
            operators: row.operators,
            family: row.family,
        }
    }
}

/// A count of operations or bytes; one that cannot be counts as none.
pub(super) fn as_work(count: f64) -> f64 {
    if count.is_finite() { count.clamp(0.0, MOST_WORK) } else { 0.0 }
}

/// Names of a form's coefficients, one per column.
pub(super) fn coefficient_names(form: Form) -> &'static [&'static str] {
    match form {
        Form::Roofline => &["overhead_ns", "ns_per_flop", "ns_per_byte"],
        Form::TwoLevel => &["overhead_ns", "ns_per_flop", "ns_per_cached_byte", "ns_per_dram_byte"],
        Form::LogLinear => &["ln_ns", "per_ln_parameters", "per_ln_batch"],
        Form::ByFamily => &[
            "overhead_ns",
            "ns_per_flop_mlp",
            "ns_per_flop_conv",
            "ns_per_flop_attn",
            "ns_per_flop_recurrent",
            "ns_per_byte",
        ],
        Form::ByOperator => &[
            "overhead_ns",
            "ns_per_node",
            "ns_per_flop_matrix",
            "ns_per_flop_convolution",
            "ns_per_flop_depthwise",
            "ns_per_flop_recurrent",
            "ns_per_byte",
        ],
    }
}

/// Number of a form's columns.
pub(super) fn column_count(form: Form) -> usize {
    coefficient_names(form).len()
}

/// The column of F4 that carries the work of `family`.
pub(super) fn family_column(family: Family) -> usize {
    match family {
        Family::Mlp => 1,
        Family::Conv => 2,
        Family::Attn => 3,
        Family::Recurrent => 4,
    }
}

/// The columns of a form that carry work of one class each, any of which no row may have.
pub(super) fn class_columns(form: Form) -> std::ops::Range<usize> {
    match form {
        Form::ByFamily => 1..5,
        Form::ByOperator => 2..6,
        Form::Roofline | Form::TwoLevel | Form::LogLinear => 0..0,
    }
}

/// The families and their columns of F4.
pub(super) fn family_columns() -> impl Iterator<Item = (Family, usize)> {
    FAMILIES.into_iter().map(|family| (family, family_column(family)))
}

/// The columns of one row; those beyond [`column_count`] are 0.
pub(super) fn columns(form: Form, cache_bytes: f64, work: &Work) -> [f64; MOST_COLUMNS] {
    let mut columns = [0.0; MOST_COLUMNS];
    columns[0] = 1.0;
    match form {
        Form::Roofline => {
            columns[1] = work.flops;
            columns[2] = work.weight_bytes;
        }
        Form::TwoLevel => {
            columns[1] = work.flops;
            columns[2] = work.weight_bytes.min(cache_bytes);
            columns[3] = (work.weight_bytes - cache_bytes).max(0.0);
        }
        Form::LogLinear => {
            columns[1] = work.parameters.max(1.0).ln();
            columns[2] = work.batch.max(1.0).ln();
        }
        Form::ByFamily => {
            columns[family_column(work.family)] = work.flops;
            columns[5] = work.weight_bytes;
        }
        Form::ByOperator => {
            let by = &work.operators;
            columns[1] = work.nodes;
            columns[2] = by.matrix_flops;
            columns[3] = by.convolution_flops;
            columns[4] = by.depthwise_flops;
            columns[5] = by.recurrent_flops;
            columns[6] = by.moved_bytes;
        }
    }
    columns
}

/// The time of a call in nanoseconds, between 1 ns and 31 years.
///
/// Coefficients that are missing count as 0.
pub(super) fn evaluate(form: Form, coefficients: &[f64], cache_bytes: f64, work: &Work) -> f64 {
    let columns = columns(form, cache_bytes, work);
    let sum: f64 =
        std::iter::zip(coefficients, columns).map(|(coefficient, value)| coefficient * value).sum();
    let time_ns = if form == Form::LogLinear { sum.exp() } else { sum };
    if time_ns.is_nan() { LONGEST_NS } else { time_ns.clamp(SHORTEST_NS, LONGEST_NS) }
}
