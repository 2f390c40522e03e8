//! Hardware models: the time of a call from facts of the case.
//!
//! Invariant: a prediction is always a positive, finite time within its own interval, and says when
//! it lies outside what the model was fitted on.
//!
//! Reading order: `equation`, `fitting`, `error_estimate`, `parameter`.

mod equation;
mod error_estimate;
mod fitting;
mod parameter;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::ModelId;
use crate::model::{CaseFacts, Family, OperatorClass};
use crate::statistics::Interval;

pub use fitting::{ChipBounds, FitError, MINIMUM_ROWS, fit_form, fit_forms};
pub use parameter::{ParameterStatus, PhysicalParameter};

pub(crate) use error_estimate::conformal_halfwidth;

use equation::Work;

/// Version of the methods of this module; a change of any result raises it.
pub const METHOD_VERSION: u32 = 3;

/// Share by which a prediction's half-width grows with each doubling beyond the fitted range.
const GROWTH_PER_DOUBLING: f64 = 0.5;
/// Half-width added for each doubling beyond the fitted range, so that a perfect fit widens too.
const WIDTH_PER_DOUBLING: f64 = 0.05;
/// Doublings that a family without any measurement counts as.
const DOUBLINGS_FOR_UNSEEN_FAMILY: f64 = 1.0;
/// Doublings over which the interval grows no further.
const MOST_DOUBLINGS: f64 = 20.0;
/// The widest half-width in log space, a factor of a million either way.
const WIDEST: f64 = 13.8;

/// The equation of a hardware model.
///
/// `W` are the operations of the call, `D` the bytes of weights read, `C` the cache size in bytes,
/// `P` the parameters, `B` the batch size, `N` the nodes that run and `M` the bytes that they read and write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Form {
    /// `t = t0 + a·W + b·D`.
    #[serde(rename = "F1")]
    Roofline,
    /// `t = t0 + a·W + b1·min(D, C) + b2·max(D − C, 0)`.
    #[serde(rename = "F2")]
    TwoLevel,
    /// `ln t = c0 + c1·ln P + c2·ln B`, signs free.
    #[serde(rename = "F3")]
    LogLinear,
    /// `t = t0 + a_family·W + b·D`.
    #[serde(rename = "F4")]
    ByFamily,
    /// `t = t0 + k·N + Σ a_class·W_class + b·M` over matrix products, convolutions, depthwise convolutions and
    /// recurrent operators; what the others take goes with their nodes and bytes.
    #[serde(rename = "F5")]
    ByOperator,
}

impl Form {
    /// All forms, simplest first among those that are alike.
    pub const ALL: [Self; 5] =
        [Self::Roofline, Self::TwoLevel, Self::LogLinear, Self::ByFamily, Self::ByOperator];

    /// The short name, `F1` to `F5`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Roofline => "F1",
            Self::TwoLevel => "F2",
            Self::LogLinear => "F3",
            Self::ByFamily => "F4",
            Self::ByOperator => "F5",
        }
    }

    /// What the form is called in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::TwoLevel => "two-level memory",
            Self::LogLinear => "log-linear",
            Self::ByFamily => "throughput by family",
            Self::ByOperator => "work by operator",
        }
    }

    /// Names of [`Fit::coefficients`], in order.
    pub fn coefficient_names(self) -> &'static [&'static str] {
        equation::coefficient_names(self)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The work of a call by classes of operators, and the bytes that all its nodes move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorWork {
    /// Operations of matrix products and attention.
    pub matrix_flops: f64,
    /// Operations of convolutions, depthwise ones left out.
    pub convolution_flops: f64,
    /// Operations of depthwise convolutions.
    pub depthwise_flops: f64,
    /// Operations of recurrent operators.
    pub recurrent_flops: f64,
    /// Bytes that nodes read and write, each tensor once for each node.
    pub moved_bytes: f64,
}

impl From<&CaseFacts> for OperatorWork {
    /// Sums up what was counted in a model file; a count that is not finite or negative is left out.
    fn from(facts: &CaseFacts) -> Self {
        let mut work = Self::default();
        for it in &facts.by_class {
            let sum = match it.class {
                OperatorClass::MatMul | OperatorClass::Attention => &mut work.matrix_flops,
                OperatorClass::Conv => &mut work.convolution_flops,
                OperatorClass::DepthwiseConv => &mut work.depthwise_flops,
                OperatorClass::Recurrent => &mut work.recurrent_flops,
                _ => &mut 0.0,
            };
            *sum += equation::as_work(it.flops);
            work.moved_bytes += equation::as_work(it.bytes);
        }
        work
    }
}

/// A measured case, as far as the hardware models look at it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FitRow {
    /// The model; rows of one model are not independent of each other.
    pub model: ModelId,
    /// Operations of the call.
    pub flops: f64,
    /// Bytes of weights read in the call.
    pub weight_bytes: f64,
    /// Learned values of the model.
    pub parameters: f64,
    /// Batch size.
    pub batch: f64,
    /// Nodes that run in the call.
    pub nodes: f64,
    /// The work by classes of operators.
    pub operators: OperatorWork,
    /// Family of the model.
    pub family: Family,
    /// The measured time.
    pub time_ns: f64,
}

impl From<(&CaseFacts, ModelId, f64)> for FitRow {
    /// Joins the facts of a case, its model and the time measured for it in nanoseconds.
    fn from((facts, model, time_ns): (&CaseFacts, ModelId, f64)) -> Self {
        Self {
            model,
            flops: facts.flops,
            weight_bytes: facts.weight_bytes as f64,
            parameters: facts.parameters as f64,
            batch: facts.batch as f64,
            nodes: facts.nodes as f64,
            operators: OperatorWork::from(facts),
            family: facts.family,
            time_ns,
        }
    }
}

/// How well a form predicts rows it was not fitted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormError {
    /// Mean absolute percentage error when each row is predicted from all others.
    MapePct(f64),
    /// The form could not be fitted, and why.
    Failed(String),
}

/// The range of cases that a fit is based on, ends included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// Operations of a call.
    pub flops: Interval,
    /// Bytes of weights.
    pub weight_bytes: Interval,
    /// Learned values.
    pub parameters: Interval,
    /// Batch size.
    pub batch: Interval,
    /// Nodes of a call. No form counts them, so a model of many small nodes is one that nothing is known of.
    #[serde(default = "any_number")]
    pub nodes: Interval,
    /// Families with at least one row, in order.
    pub families: Vec<Family>,
}

/// The range of a fit that was stored before nodes were counted.
fn any_number() -> Interval {
    Interval { low: 0.0, high: f64::MAX }
}

/// A fitted hardware model of one target in one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The form with the lowest error for models that were left out, or for rows with fewer than 5 models.
    pub form: Form,
    /// Its coefficients in the order of [`Form::coefficient_names`]: nanoseconds, nanoseconds per
    /// operation, nanoseconds per byte; natural logarithms for F3.
    ///
    /// A coefficient that no row can tell is borrowed: a family (F4) or class of operators (F5) without rows gets
    /// the throughput that fits all rows together under the other coefficients found, and weights beyond the
    /// cache cost what those inside do while none were measured (F2).
    pub coefficients: Vec<f64>,
    /// The cache size that was assumed; 0 when unknown, F2 is not tried then.
    pub cache_bytes: f64,
    /// What the chip was measured to be capable of, which the coefficients respect.
    #[serde(default)]
    pub bounds: ChipBounds,
    /// Rows fitted.
    pub rows: usize,
    /// Different models among them.
    pub models: usize,
    /// The leave-one-out error of every form.
    pub errors: BTreeMap<Form, FormError>,
    /// The same when each model is predicted from the other models; empty with fewer than 5 models.
    #[serde(default)]
    pub model_out_errors: BTreeMap<Form, f64>,
    /// Leave-one-out mean absolute percentage error of [`Self::form`].
    pub loo_mape_pct: f64,
    /// Median of its leave-one-out absolute percentage errors.
    pub median_ape_pct: f64,
    /// Mean absolute percentage error when each model is predicted from the other models; `None` with
    /// fewer than 5 models.
    pub model_out_mape_pct: Option<f64>,
    /// Half-width of the 95 % prediction interval of `ln t` within the domain.
    ///
    /// It is taken from the absolute log errors of predictions for left-out models, of which there are
    /// m, the rows of each model sharing a weight of 1: the smallest error up to which the weights add
    /// up to `(m + 1)·0.95`. With one row per model that is the `⌈(m + 1)·0.95⌉`-th smallest, the
    /// jackknife interval with the finite-sample rank of split-conformal prediction (Barber, Candès,
    /// Ramdas and Tibshirani, "Predictive inference with the jackknife+", Annals of Statistics 49,
    /// 2021); the weights keep many rows of few models from passing for many models (Dunn, Wasserman
    /// and Ramdas, "Distribution-free prediction sets for two-layer hierarchical models", 2023). With
    /// m < 19 no error is that large; then it is the largest one times `ln 20 ÷ ln(m + 1)`, as if the
    /// errors fell off exponentially. With fewer than 5 models, rows take the place of models.
    pub log_halfwidth: f64,
    /// Physical parameters of the form; none for F3, whose coefficients have no physical meaning.
    pub parameters: Vec<PhysicalParameter>,
    /// What was measured.
    pub domain: Domain,
    /// The [`METHOD_VERSION`] that computed this.
    pub method: u32,
}

/// A predicted time with its 95 % interval, in nanoseconds; `0 < low ≤ time ≤ high`, all finite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FittedTime {
    /// The predicted time.
    pub time_ns: f64,
    /// Lower end of the interval.
    pub low_ns: f64,
    /// Upper end of the interval.
    pub high_ns: f64,
    /// Whether the case lies outside the measured range, or its family was never measured.
    pub extrapolated: bool,
}

impl Fit {
    /// Predicts the time of one call of a case.
    ///
    /// Within the domain the interval is `t·exp(∓h)` with `h =` [`Self::log_halfwidth`]. Beyond it,
    /// with `k` the doublings (of operations, weight bytes and batch together) that lie between the
    /// case and the domain, plus one for a family that was never measured, `h·(1 + k/2) + 0.05·k` takes
    /// its place. Facts that are not finite or negative count as 0. A time never falls below 1 ns.
    pub fn predict(&self, facts: &CaseFacts) -> FittedTime {
        let work = Work::of_case(facts);
        let time_ns = self.time_of(&work);
        let doublings = self.domain.doublings_beyond(&work);
        let extrapolated = doublings > 0.0;
        let k = doublings.min(MOST_DOUBLINGS);
        let half_width = self.log_halfwidth * (1.0 + GROWTH_PER_DOUBLING * k) + WIDTH_PER_DOUBLING * k;
        // A half-width that is NaN can only come from a damaged store; it must not look certain.
        let half_width = if half_width >= 0.0 { half_width.min(WIDEST) } else { WIDEST };
        let factor = half_width.exp();
        FittedTime { time_ns, low_ns: time_ns / factor, high_ns: time_ns * factor, extrapolated }
    }
}

impl Fit {
    fn time_of(&self, work: &Work) -> f64 {
        equation::evaluate(self.form, &self.coefficients, self.cache_bytes, work)
    }

    /// The time that the fit gives for a row's facts, in nanoseconds.
    pub(crate) fn time_of_row(&self, row: &FitRow) -> f64 {
        self.time_of(&Work::of_row(row))
    }

    /// The logarithms of measured over predicted times when the rows of each model are predicted by the form from those
    /// of all others, or each row with fewer than 5 models; `None` where the form cannot be fitted so.
    pub(crate) fn left_out(&self, rows: &[FitRow]) -> Option<Vec<f64>> {
        let problem = fitting::Problem::new(self.form, rows, self.bounds).ok()?;
        let by_model = error_estimate::leave_one_model_out(&problem);
        let estimate = by_model.or_else(|_| error_estimate::leave_one_row_out(&problem)).ok()?;
        Some(estimate.log_errors(rows.len()))
    }
}

/// Positions of the rows of each model.
pub(crate) fn groups_of_models(rows: &[FitRow]) -> Vec<Vec<usize>> {
    let mut by_model: BTreeMap<ModelId, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        by_model.entry(row.model).or_default().push(index);
    }
    by_model.into_values().collect()
}

/// The share of its model that each row makes up.
pub(crate) fn shares_of_models(rows: &[FitRow]) -> Vec<f64> {
    let mut shares = vec![0.0; rows.len()];
    for group in groups_of_models(rows) {
        for &index in &group {
            shares[index] = 1.0 / group.len() as f64;
        }
    }
    shares
}

impl Domain {
    /// The range of some rows, which must not be empty.
    pub(crate) fn of(rows: &[FitRow]) -> Self {
        let range = |value: fn(&FitRow) -> f64| {
            rows.iter().map(value).fold(
                Interval { low: f64::INFINITY, high: f64::NEG_INFINITY },
                |range, value| Interval { low: range.low.min(value), high: range.high.max(value) },
            )
        };
        let mut families: Vec<Family> = rows.iter().map(|row| row.family).collect();
        families.sort_unstable();
        families.dedup();
        Self {
            flops: range(|row| row.flops),
            weight_bytes: range(|row| row.weight_bytes),
            parameters: range(|row| row.parameters),
            batch: range(|row| row.batch),
            nodes: range(|row| row.nodes),
            families,
        }
    }

    /// Doublings between the domain and the facts of a row, 0 within it.
    pub(crate) fn doublings_beyond_row(&self, row: &FitRow) -> f64 {
        self.doublings_beyond(&Work::of_row(row))
    }

    /// Doublings between the domain and a case, 0 within it.
    fn doublings_beyond(&self, work: &Work) -> f64 {
        let beyond = |range: &Interval, value: f64| {
            if value > range.high {
                (value.max(1.0) / range.high.max(1.0)).log2().max(f64::MIN_POSITIVE)
            } else if value < range.low {
                (range.low.max(1.0) / value.max(1.0)).log2().max(f64::MIN_POSITIVE)
            } else {
                0.0
            }
        };
        let unseen = if self.families.contains(&work.family) { 0.0 } else { DOUBLINGS_FOR_UNSEEN_FAMILY };
        // Parameters are left out: they go with the weight bytes and would count twice.
        beyond(&self.flops, work.flops)
            + beyond(&self.weight_bytes, work.weight_bytes)
            + beyond(&self.batch, work.batch)
            + beyond(&self.nodes, work.nodes)
            + unseen
    }
}
