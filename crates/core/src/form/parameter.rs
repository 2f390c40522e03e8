//! The physical meaning of a fit's coefficients.
//!
//! Invariant: a parameter has a value only where the measured rows can tell it apart from the others.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::Form;
use super::equation::{MOST_COLUMNS, family_columns};
use super::fitting::Problem;
use crate::nnls::Triangle;
use crate::statistics::{self, Interval};

/// Bootstrap resamples (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979).
const RESAMPLES: usize = 200;
/// Seed of the bootstrap; fixed so that a fit can be repeated to the last digit.
const SEED: u64 = 0x5111_C042;
/// Share of a weighted column's length that must lie outside the span of the others. Timing noise of
/// 10 % makes a coefficient meaningless long before; this catches what is dependent by construction.
const SEPARABLE: f64 = 1e-3;
/// Distance from the value, as a share of it, within which a reliable interval ends.
const RELIABLE: f64 = 0.5;
const TAIL: f64 = 0.025;
/// Share of a ceiling within which a rate counts as being there; more than rounding, less than any error.
const AT_CEILING: f64 = 1e-6;

/// Whether a physical parameter may be quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterStatus {
    /// The 95 % interval lies within ± 50 % of the value.
    Reliable,
    /// The interval reaches beyond ± 50 %, or has no end.
    NotReliable,
    /// The coefficient is 0, or the rows cannot tell it from the others.
    NotSeparable,
    /// The rows ask for no less than the chip was measured to do at most, which is the value.
    AtCeiling,
}

/// A property of the target that a coefficient stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhysicalParameter {
    /// What it is, with its unit: `overhead_ms`, `throughput_gflops` (`_mlp`, `_conv`, `_attn`,
    /// `_recurrent` for F4; `_matrix`, `_convolution`, `_depthwise`, `_recurrent` for F5), `overhead_per_node_us`,
    /// `bandwidth_gb_per_s`, `cache_bandwidth_gb_per_s`, `dram_bandwidth_gb_per_s`.
    pub name: String,
    /// Its value; `None` when it is not separable.
    pub value: Option<f64>,
    /// The 95 % interval from a bootstrap over rows; `None` when it is not separable, at a ceiling, or has no end.
    pub interval: Option<Interval>,
    /// Whether the value may be quoted.
    pub status: ParameterStatus,
}

/// The parameters that a form's coefficients stand for.
pub(super) fn physical_parameters(
    problem: &Problem<'_>,
    triangle: &Triangle,
    coefficients: &[f64],
) -> Vec<PhysicalParameter> {
    let meanings = meanings(problem);
    if meanings.is_empty() {
        return Vec::new();
    }
    let independence = triangle.independence().unwrap_or_else(|| vec![0.0; problem.columns()]);
    let resampled = resample(problem);
    meanings
        .into_iter()
        .map(|(column, name, unit)| {
            let coefficient = coefficients[column];
            if coefficient <= 0.0 || independence[column] < SEPARABLE {
                let status = ParameterStatus::NotSeparable;
                return PhysicalParameter { name, value: None, interval: None, status };
            }
            let value = unit.convert(coefficient);
            let floor = problem.floors[column];
            if floor > 0.0 && coefficient <= floor * (1.0 + AT_CEILING) {
                let status = ParameterStatus::AtCeiling;
                return PhysicalParameter { name, value: Some(value), interval: None, status };
            }
            let interval = unit.interval(&resampled, column);
            let near = |end: f64| (end / value - 1.0).abs() <= RELIABLE;
            let status = match interval {
                Some(it) if near(it.low) && near(it.high) => ParameterStatus::Reliable,
                _ => ParameterStatus::NotReliable,
            };
            PhysicalParameter { name, value: Some(value), interval, status }
        })
        .collect()
}

/// How a coefficient becomes a parameter.
#[derive(Clone, Copy)]
enum Unit {
    /// Nanoseconds to milliseconds.
    Milliseconds,
    /// Nanoseconds to microseconds.
    Microseconds,
    /// Nanoseconds per operation (or byte) to 10⁹ operations (or bytes) per second: the reciprocal.
    PerNanosecond,
}

impl Unit {
    fn convert(self, coefficient: f64) -> f64 {
        match self {
            Self::Milliseconds => coefficient / 1e6,
            Self::Microseconds => coefficient / 1e3,
            Self::PerNanosecond => 1.0 / coefficient,
        }
    }

    fn interval(self, resampled: &[[f64; MOST_COLUMNS]], column: usize) -> Option<Interval> {
        let mut values: Vec<f64> = resampled.iter().map(|coefficients| coefficients[column]).collect();
        values.sort_unstable_by(f64::total_cmp);
        let low = self.convert(statistics::quantile(&values, TAIL)?);
        let high = self.convert(statistics::quantile(&values, 1.0 - TAIL)?);
        let interval = Interval { low: low.min(high), high: low.max(high) };
        (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
    }
}

fn meanings(problem: &Problem<'_>) -> Vec<(usize, String, Unit)> {
    let fixed = |column, name: &str, unit| (column, name.to_owned(), unit);
    let overhead = fixed(0, "overhead_ms", Unit::Milliseconds);
    match problem.form {
        Form::Roofline => vec![
            overhead,
            fixed(1, "throughput_gflops", Unit::PerNanosecond),
            fixed(2, "bandwidth_gb_per_s", Unit::PerNanosecond),
        ],
        Form::TwoLevel => vec![
            overhead,
            fixed(1, "throughput_gflops", Unit::PerNanosecond),
            fixed(2, "cache_bandwidth_gb_per_s", Unit::PerNanosecond),
            fixed(3, "dram_bandwidth_gb_per_s", Unit::PerNanosecond),
        ],
        Form::LogLinear => Vec::new(),
        Form::ByFamily => {
            let measured = |family| problem.rows.iter().any(|row| row.family == family);
            let throughputs = family_columns()
                .filter(|(family, _)| measured(*family))
                .map(|(family, column)| (column, format!("throughput_gflops_{family}"), Unit::PerNanosecond));
            let bandwidth = fixed(5, "bandwidth_gb_per_s", Unit::PerNanosecond);
            std::iter::once(overhead).chain(throughputs).chain([bandwidth]).collect()
        }
        Form::ByOperator => {
            let classes = [
                (2, "throughput_gflops_matrix"),
                (3, "throughput_gflops_convolution"),
                (4, "throughput_gflops_depthwise"),
                (5, "throughput_gflops_recurrent"),
            ];
            let measured = classes
                .into_iter()
                .filter(|(column, _)| problem.has_column(*column))
                .map(|(column, name)| fixed(column, name, Unit::PerNanosecond));
            let per_node = fixed(1, "overhead_per_node_us", Unit::Microseconds);
            let bandwidth = fixed(6, "bandwidth_gb_per_s", Unit::PerNanosecond);
            [overhead, per_node].into_iter().chain(measured).chain([bandwidth]).collect()
        }
    }
}

/// Coefficients of the form on rows drawn with replacement; a resample that cannot be solved is left out.
fn resample(problem: &Problem<'_>) -> Vec<[f64; MOST_COLUMNS]> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let count = problem.rows.len();
    let mut times = vec![0.0; count];
    let mut resampled = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        times.fill(0.0);
        for _ in 0..count {
            // The high half of the product is uniform on 0..count to within count/2⁶⁴.
            let drawn = (u128::from(random.next_u64()) * count as u128) >> 64;
            times[drawn as usize] += 1.0;
        }
        let mut triangle = Triangle::new(problem.columns());
        for (row, &drawn) in times.iter().enumerate().filter(|(_, drawn)| **drawn > 0.0) {
            problem.push(&mut triangle, row, drawn);
        }
        if let Ok(solution) = problem.solve(&triangle, |row| times[row] > 0.0) {
            let mut coefficients = [0.0; MOST_COLUMNS];
            std::iter::zip(&mut coefficients, solution).for_each(|(slot, value)| *slot = value);
            resampled.push(coefficients);
        }
    }
    resampled
}
