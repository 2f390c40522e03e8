//! The laws that give the first time of a prediction.
//!
//! Invariant: what a law's errors are told by comes from models that it did not see.

use super::{LawKind, NORMAL_95, WIDEST};
use crate::form::{self, Domain, Fit, FitRow};
use crate::model::Family;
use crate::nnls::{self, Triangle};
use crate::statistics::{self, Interval};

/// The fewest measured cases that a law of parts is fitted to.
const LEAST_CASES: usize = 6;
/// The fewest cases of a family that have a slow-down of their own.
const LEAST_OF_FAMILY: usize = 3;
/// Half-width in log space of a slow-down that one case alone tells.
const ONE_CASE: f64 = 1.1;
/// Share by which an interval grows with each doubling beyond the fitted range, as for forms.
const GROWTH_PER_DOUBLING: f64 = 0.5;
/// Half-width added for each doubling.
const WIDTH_PER_DOUBLING: f64 = 0.05;
const MOST_DOUBLINGS: f64 = 20.0;

/// A law with how far it errs.
#[derive(Debug, Clone)]
pub(super) struct FittedLaw {
    pub(super) law: Law,
    /// What it was fitted on.
    pub(super) domain: Domain,
    /// Root mean square of its log errors on models that were left out.
    pub(super) deviation: f64,
    /// Half-width of the 95 % interval for a new model, inside the domain.
    pub(super) half_width: f64,
    /// How much longer measured cases took than sustained.
    pub(super) slow_down: Option<SlowDown>,
}

/// A first time.
#[derive(Debug, Clone, Copy)]
pub(super) struct First {
    pub(super) mean: f64,
    pub(super) half_width: f64,
    pub(super) deviation: f64,
    /// The part of the half-width that comes from the sustained time.
    pub(super) inherited: f64,
    pub(super) extrapolated: bool,
}

/// A sustained time in log space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) mean: f64,
    pub(super) half_width: f64,
}

/// How a first time comes about.
#[derive(Debug, Clone)]
pub(super) enum Law {
    Form(Box<Fit>),
    /// `(c0 + c1·nodes + c2·bytes + f0 + f1·nodes + f2·bytes + f3·sustained)·ratio`, creation and first run fitted apart.
    SessionStart {
        create: [f64; COLUMNS],
        first_run: [f64; COLUMNS],
        ln_ratio: f64,
    },
    /// `c0 + c1·nodes + c2·bytes + c3·sustained`.
    Waking([f64; COLUMNS]),
    SlowDown(SlowDown),
}

/// How much longer the measured cases of a target took than in the sustained workload.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowDown {
    /// Median ratio over all cases.
    pub ratio: f64,
    /// The least and the greatest ratio.
    pub range: Interval,
    /// Cases.
    pub cases: usize,
    /// Median ratio of each family with at least 3 cases, with their number.
    pub by_family: Vec<(Family, f64, usize)>,
}

impl SlowDown {
    /// Sums up ratios; `None` without any.
    pub(super) fn of(ratios: &[(Family, f64)]) -> Option<Self> {
        let all: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(0.0, f64::max);
        let mut families: Vec<Family> = ratios.iter().map(|(family, _)| *family).collect();
        families.sort_unstable();
        families.dedup();
        let by_family = families.into_iter().filter_map(|family| {
            let own: Vec<f64> = ratios.iter().filter(|it| it.0 == family).map(|it| it.1).collect();
            (own.len() >= LEAST_OF_FAMILY).then_some((family, statistics::median(&own)?, own.len()))
        });
        Some(Self {
            ratio: statistics::median(&all)?,
            range: Interval { low: least, high: most },
            cases: all.len(),
            by_family: by_family.collect(),
        })
    }

    /// The ratio for a family: its own, else that of all cases.
    pub fn for_family(&self, family: Family) -> f64 {
        self.by_family.iter().find(|it| it.0 == family).map_or(self.ratio, |it| it.1)
    }
}

impl Law {
    pub(super) fn kind(&self) -> LawKind {
        match self {
            Self::Form(fit) => LawKind::Form(fit.form),
            Self::SessionStart { .. } => LawKind::SessionStart,
            Self::Waking(_) => LawKind::Waking,
            Self::SlowDown(_) => LawKind::SlowDown,
        }
    }

    pub(super) fn needs_sustained(&self) -> bool {
        !matches!(self, Self::Form(_))
    }

    /// `ln t`, and its derivative by the logarithm of the sustained time.
    pub(super) fn evaluate(&self, row: &FitRow, sustained: f64) -> (f64, f64) {
        let of_parts = |coefficients: &[f64; COLUMNS]| {
            let columns = columns(row, sustained);
            let sum: f64 = std::iter::zip(coefficients, columns).map(|(c, value)| c * value).sum();
            (sum, coefficients[3] * columns[3])
        };
        match self {
            Self::Form(fit) => (fit.time_of_row(row).ln(), 0.0),
            Self::SessionStart { create, first_run, ln_ratio } => {
                let ((create, _), (first, run)) = (of_parts(create), of_parts(first_run));
                let total = (create + first).max(1.0);
                (total.ln() + ln_ratio, run / total)
            }
            Self::Waking(coefficients) => {
                let (total, run) = of_parts(coefficients);
                let total = total.max(1.0);
                (total.ln(), run / total)
            }
            Self::SlowDown(slow_down) => (sustained + slow_down.for_family(row.family).ln(), 1.0),
        }
    }
}

impl FittedLaw {
    /// The first time of a case.
    pub(super) fn first(&self, row: &FitRow, sustained: Option<Known>) -> First {
        let (mean, share) = self.law.evaluate(row, sustained.map_or(0.0, |known| known.mean));
        let doublings = self.domain.doublings_beyond_row(row);
        let k = doublings.min(MOST_DOUBLINGS);
        let widen = |width: f64| width * (1.0 + GROWTH_PER_DOUBLING * k) + WIDTH_PER_DOUBLING * k;
        let inherited = share * sustained.map_or(0.0, |known| known.half_width);
        First {
            mean,
            half_width: widen(self.half_width).hypot(inherited).min(WIDEST),
            deviation: widen(self.deviation),
            inherited,
            extrapolated: doublings > 0.0,
        }
    }

    /// A law with its errors on left-out models, the logarithms of measured over predicted, by row.
    pub(super) fn of(law: Law, rows: &[FitRow], errors: &[f64]) -> Self {
        let shares = form::shares_of_models(rows);
        let weighted = std::iter::zip(errors, &shares);
        let (square, weight) = weighted.fold((0.0, 0.0), |(square, weight), (error, share)| {
            (square + share * error * error, weight + share)
        });
        let sizes = std::iter::zip(errors, &shares).map(|(error, share)| (error.abs(), *share));
        let half_width = match &law {
            Law::Form(fit) => fit.log_halfwidth,
            _ => form::conformal_halfwidth(sizes.collect()),
        };
        // An error is never known to be less than what sessions differ by.
        let deviation = (square / f64::max(weight, 1.0)).sqrt().max(0.02);
        Self { law, domain: Domain::of(rows), deviation, half_width: half_width.min(WIDEST), slow_down: None }
    }

    /// A form by what it says of itself.
    pub(super) fn of_fit(fit: &Fit) -> Self {
        let half_width = fit.log_halfwidth;
        let half_width = if half_width >= 0.0 { half_width.min(WIDEST) } else { WIDEST };
        let (law, domain) = (Law::Form(Box::new(fit.clone())), fit.domain.clone());
        Self { law, domain, deviation: (half_width / NORMAL_95).max(0.02), half_width, slow_down: None }
    }

    /// A slow-down that so few cases tell that none can be left out.
    pub(super) fn of_few(slow_down: SlowDown, rows: &[FitRow]) -> Self {
        let spread = (slow_down.range.high / slow_down.range.low).ln();
        let half_width = spread.max(ONE_CASE);
        let law = Law::SlowDown(slow_down);
        let deviation = half_width / NORMAL_95;
        Self { law, domain: Domain::of(rows), deviation, half_width, slow_down: None }
    }

    /// Mean absolute relative error of logarithms of measured over predicted.
    pub(super) fn error_of(errors: &[f64]) -> f64 {
        errors.iter().map(|error| ((-error).exp() - 1.0).abs()).sum::<f64>() / errors.len().max(1) as f64
    }
}

/// Columns of the laws of parts: 1, nodes, bytes of weights, the sustained time.
pub(super) const COLUMNS: usize = 4;

fn columns(row: &FitRow, sustained: f64) -> [f64; COLUMNS] {
    [1.0, row.nodes, row.weight_bytes, sustained.clamp(0.0, 41.4).exp()]
}

/// Fits `time_ns` of the rows to their parts by non-negative least squares on relative errors, to all rows and
/// to those of all models but each row's own; `None` with too few cases.
///
/// `sustained` are logarithms; without them that part is left out.
pub(super) fn fit_parts(
    rows: &[FitRow],
    times_ns: &[f64],
    sustained: Option<&[f64]>,
) -> Option<([f64; COLUMNS], Vec<[f64; COLUMNS]>)> {
    if rows.len() < LEAST_CASES {
        return None;
    }
    let push = |triangle: &mut Triangle, index: usize| {
        let mut values = columns(&rows[index], sustained.map_or(0.0, |of| of[index]));
        if sustained.is_none() {
            values[3] = 0.0;
        }
        let mut scratch = [0.0; COLUMNS + 1];
        std::iter::zip(&mut scratch, values).for_each(|(slot, value)| *slot = value / times_ns[index]);
        scratch[COLUMNS] = 1.0;
        triangle.push_row(&mut scratch);
    };
    let solve = |triangle: &Triangle| {
        let x = nnls::solve(triangle).ok()?.x;
        <[f64; COLUMNS]>::try_from(x).ok()
    };
    let mut all = Triangle::new(COLUMNS);
    (0..rows.len()).for_each(|index| push(&mut all, index));
    let mut left_out = vec![[0.0; COLUMNS]; rows.len()];
    for group in form::groups_of_models(rows) {
        let mut others = Triangle::new(COLUMNS);
        (0..rows.len()).filter(|index| !group.contains(index)).for_each(|index| push(&mut others, index));
        let solution = solve(&others)?;
        for index in group {
            left_out[index] = solution;
        }
    }
    Some((solve(&all)?, left_out))
}
