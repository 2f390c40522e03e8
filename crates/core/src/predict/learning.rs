//! From measured times to laws, likeness and what is known of each model.
//!
//! Invariant: how far a law errs is judged on models that it was not fitted to.

use std::collections::BTreeMap;

use super::Predictor;
use super::law::{COLUMNS, FittedLaw, Law, SlowDown, fit_parts};
use super::likeness::{Error, Likeness, work_of};
use super::of_model::OfModel;
use crate::form::{Fit, FitRow};
use crate::identity::CaseId;
use crate::model::{Case, Family};
use crate::statistics;
use crate::workload::Workload;

/// Least standard deviation in log space between a cold start and what another workload's session took to start.
const LEAST_START_NOISE: f64 = 0.1;
/// The same where no cold start was measured to compare with.
const UNKNOWN_START_NOISE: f64 = 0.4;

/// A measured time.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'c> {
    /// Position of the target.
    pub target: usize,
    /// The case.
    pub case: &'c Case,
    /// The workload.
    pub workload: Workload,
    /// The time of one inference.
    pub time_ns: f64,
}

/// What a session took to start, whatever was measured with it afterwards.
#[derive(Debug, Clone, Copy)]
pub struct Started<'c> {
    /// Position of the target.
    pub target: usize,
    /// The case.
    pub case: &'c Case,
    /// Time to create the session.
    pub create_ns: f64,
    /// Time of the first inference.
    pub first_run_ns: f64,
}

/// All that a predictor is made from.
#[derive(Debug, Clone, Default)]
pub struct Learning<'c> {
    /// The hardware models of each target, by workload.
    pub fits: Vec<[Option<&'c Fit>; 3]>,
    /// Measured times, at most one for a target, case and workload.
    pub measured: Vec<Measured<'c>>,
    /// Starts of sessions, at most one for a target and case.
    pub started: Vec<Started<'c>>,
}

/// Times of one target in one workload.
#[derive(Default)]
struct Times<'c> {
    cases: Vec<&'c Case>,
    rows: Vec<FitRow>,
    /// Logarithms of the sustained times, where any are known of.
    sustained: Vec<Option<f64>>,
    further_noise: Vec<f64>,
}

impl<'c> Times<'c> {
    fn push(&mut self, case: &'c Case, time_ns: f64, sustained: Option<f64>, further_noise: f64) {
        self.cases.push(case);
        self.rows.push(FitRow::from((&case.facts, case.model, time_ns)));
        self.sustained.push(sustained);
        self.further_noise.push(further_noise);
    }

    /// The sustained logarithms, if all are known.
    fn all_sustained(&self) -> Option<Vec<f64>> {
        self.sustained.iter().copied().collect()
    }
}

/// A law beside the logarithms of measured over predicted, for models left out.
type Judged = (Law, Vec<f64>);

pub(super) fn learn(learning: &Learning<'_>) -> Predictor {
    let targets = learning.fits.len();
    let none = || (0..targets).map(|_| [None, None, None]).collect();
    let mut predictor = Predictor { laws: none(), ..Predictor::default() };
    for workload in [Workload::Sustained, Workload::IdleLoaded, Workload::ColdStart] {
        let mut times = gather(learning, &predictor, workload);
        let starts = match workload {
            Workload::ColdStart => join_starts(learning, &predictor, &mut times),
            _ => Vec::new(),
        };
        let pooled = SlowDown::of(&times.iter().flat_map(ratios).collect::<Vec<_>>());
        let mut left_out = Vec::new();
        let mut seen = Vec::new();
        for (target, own) in times.iter().enumerate() {
            let fit = learning.fits[target][workload.index()];
            let start = starts.get(target).and_then(Option::as_ref);
            let slow_down = match workload {
                Workload::Sustained => None,
                _ => SlowDown::of(&ratios(own)),
            };
            let judged = candidates(own, fit, start, slow_down.as_ref())
                .into_iter()
                .min_by(|a, b| FittedLaw::error_of(&a.1).total_cmp(&FittedLaw::error_of(&b.1)));
            let has_sustained = predictor.laws[target][Workload::Sustained.index()].is_some();
            let mut law = match (judged, fit) {
                (Some((law, errors)), _) => {
                    let law = FittedLaw::of(law, &own.rows, &errors);
                    left_out.extend(to_errors(own, target, &law, &errors));
                    law
                }
                // The rows of a fit may not be among the known cases; then its own interval is all that is known.
                (None, Some(fit)) => FittedLaw::of_fit(fit),
                (None, None) => {
                    match slow_down.clone().or_else(|| pooled.clone()).filter(|_| has_sustained) {
                        // Rows of the sustained law stand for the domain where there are none.
                        Some(ratio) => FittedLaw::of_few(ratio, &domain_rows(own, learning, target)),
                        None => continue,
                    }
                }
            };
            law.slow_down = slow_down;
            let in_sample: Vec<f64> = (0..own.rows.len()).map(|index| error(&law.law, own, index)).collect();
            seen.extend(to_errors(own, target, &law, &in_sample));
            predictor.laws[target][workload.index()] = Some(law);
        }
        left_out.sort_by_key(|it| it.model);
        seen.sort_by_key(|it| it.model);
        let likeness = Likeness::learn(targets, &left_out);
        for of_model in seen.chunk_by(|a, b| a.model == b.model) {
            let known = predictor.models.entry(of_model[0].model).or_default();
            known[workload.index()] = OfModel::new(&likeness, of_model);
        }
        predictor.likeness[workload.index()] = likeness;
    }
    predictor
}

/// The measured times of a workload by target, each target's sorted by case.
fn gather<'c>(learning: &Learning<'c>, predictor: &Predictor, workload: Workload) -> Vec<Times<'c>> {
    let mut measured: Vec<&Measured<'c>> = learning
        .measured
        .iter()
        .filter(|it| it.workload == workload && it.target < learning.fits.len() && it.time_ns >= 1.0)
        .collect();
    measured.sort_by_key(|it| (it.target, it.case.model, it.case.id));
    let mut times: Vec<Times<'c>> = learning.fits.iter().map(|_| Times::default()).collect();
    for it in measured {
        let sustained = match workload {
            Workload::Sustained => None,
            _ => sustained_of(predictor, it.case, it.target),
        };
        times[it.target].push(it.case, it.time_ns, sustained, 0.0);
    }
    times
}

fn sustained_of(predictor: &Predictor, case: &Case, target: usize) -> Option<f64> {
    predictor.predict(case, target, Workload::Sustained).map(|it| it.time_ns.ln())
}

/// Ratios to the sustained times.
fn ratios(times: &Times<'_>) -> Vec<(Family, f64)> {
    let of = |index: usize| {
        let row = &times.rows[index];
        Some((row.family, row.time_ns / times.sustained[index]?.exp()))
    };
    (0..times.rows.len()).filter(|&index| times.further_noise[index] == 0.0).filter_map(of).collect()
}

/// The log error of a law on a row that it was fitted to.
fn error(law: &Law, times: &Times<'_>, index: usize) -> f64 {
    let sustained = times.sustained[index].unwrap_or(0.0);
    times.rows[index].time_ns.ln() - law.evaluate(&times.rows[index], sustained).0
}

fn to_errors(times: &Times<'_>, target: usize, law: &FittedLaw, errors: &[f64]) -> Vec<Error> {
    let of = |(index, error): (usize, &f64)| Error {
        target,
        case: times.cases[index].id,
        model: times.rows[index].model,
        work: work_of(&times.rows[index]),
        scaled: error / law.deviation,
        deviation: law.deviation,
        further_noise: times.further_noise[index],
    };
    errors.iter().enumerate().map(of).collect()
}

/// Rows whose range a slow-down may be used in.
fn domain_rows(own: &Times<'_>, learning: &Learning<'_>, target: usize) -> Vec<FitRow> {
    if !own.rows.is_empty() {
        return own.rows.clone();
    }
    let sustained = learning
        .measured
        .iter()
        .filter(|it| it.target == target && it.workload == Workload::Sustained)
        .map(|it| FitRow::from((&it.case.facts, it.case.model, it.time_ns)));
    sustained.collect()
}

/// The laws that compete, with their errors on left-out models.
fn candidates(
    times: &Times<'_>,
    fit: Option<&Fit>,
    start: Option<&Judged>,
    slow_down: Option<&SlowDown>,
) -> Vec<Judged> {
    let mut found = Vec::new();
    if let Some(fit) = fit
        && let Some(errors) = fit.left_out(&times.rows)
    {
        found.push((Law::Form(Box::new(fit.clone())), errors));
    }
    found.extend(start.cloned());
    let Some(sustained) = times.all_sustained().filter(|of| !of.is_empty()) else { return found };
    let times_ns: Vec<f64> = times.rows.iter().map(|row| row.time_ns).collect();
    if start.is_none()
        && let Some((coefficients, left_out)) = fit_parts(&times.rows, &times_ns, Some(&sustained))
    {
        let errors =
            left_out.into_iter().enumerate().map(|(index, own)| error(&Law::Waking(own), times, index));
        found.push((Law::Waking(coefficients), errors.collect()));
    }
    let several = times.rows.iter().any(|row| row.model != times.rows[0].model);
    if let Some(slow_down) = slow_down.filter(|_| several) {
        let of_others = |index: usize| {
            let model = times.rows[index].model;
            let ratio = |other: &usize| {
                (times.rows[*other].family, times.rows[*other].time_ns / sustained[*other].exp())
            };
            let others = (0..times.rows.len()).filter(|other| times.rows[*other].model != model);
            let others: Vec<(Family, f64)> = others.map(|other| ratio(&other)).collect();
            SlowDown::of(&others).map(|it| error(&Law::SlowDown(it), times, index))
        };
        if let Some(errors) = (0..times.rows.len()).map(of_others).collect::<Option<Vec<f64>>>() {
            found.push((Law::SlowDown(slow_down.clone()), errors));
        }
    }
    found
}

/// Fits starts of sessions, which every trial shows, and adds those of cases whose cold start was not measured to
/// the times, as much noisier ones. Gives the law of each target with its errors on left-out models.
fn join_starts<'c>(
    learning: &Learning<'c>,
    predictor: &Predictor,
    times: &mut [Times<'c>],
) -> Vec<Option<Judged>> {
    let mut by_target: Vec<BTreeMap<CaseId, &Started<'c>>> = vec![BTreeMap::new(); times.len()];
    for start in learning.started.iter().filter(|it| it.create_ns + it.first_run_ns >= 1.0) {
        if let Some(own) = by_target.get_mut(start.target) {
            own.insert(start.case.id, start);
        }
    }
    let differences: Vec<Vec<f64>> = std::iter::zip(&*times, &by_target)
        .map(|(times, starts)| {
            let of = |(row, case): (&FitRow, &&Case)| {
                let start = starts.get(&case.id)?;
                Some((row.time_ns / (start.create_ns + start.first_run_ns)).ln())
            };
            std::iter::zip(&times.rows, &times.cases).filter_map(of).collect()
        })
        .collect();
    let pooled: Vec<f64> = differences.iter().flatten().copied().collect();
    let mut laws = Vec::new();
    for (target, (own, starts)) in std::iter::zip(times.iter_mut(), by_target).enumerate() {
        let known = if differences[target].is_empty() { &pooled } else { &differences[target] };
        let ln_ratio = statistics::median(known).unwrap_or(0.0);
        let noise = match known.len() {
            0 | 1 => UNKNOWN_START_NOISE,
            _ => {
                let deviations: Vec<f64> = known.iter().map(|it| (it - ln_ratio).abs()).collect();
                // 1.4826 makes the median deviation the standard deviation of normal errors.
                (1.4826 * statistics::median(&deviations).unwrap_or(0.0)).max(LEAST_START_NOISE)
            }
        };
        for (case, start) in &starts {
            if !own.cases.iter().any(|it| it.id == *case) {
                let sustained = sustained_of(predictor, start.case, target);
                let time_ns = (start.create_ns + start.first_run_ns) * ln_ratio.exp();
                own.push(start.case, time_ns, sustained, noise * noise);
            }
        }
        laws.push(fit_starts(own, &starts, ln_ratio));
    }
    laws
}

/// Fits creation and first run apart.
fn fit_starts(times: &Times<'_>, starts: &BTreeMap<CaseId, &Started<'_>>, ln_ratio: f64) -> Option<Judged> {
    let known: Vec<usize> =
        (0..times.rows.len()).filter(|&index| starts.contains_key(&times.cases[index].id)).collect();
    let rows: Vec<FitRow> = known.iter().map(|&index| times.rows[index]).collect();
    let of = |value: fn(&Started<'_>) -> f64| -> Vec<f64> {
        known.iter().map(|&index| value(starts[&times.cases[index].id]).max(1.0)).collect()
    };
    let sustained: Option<Vec<f64>> = known.iter().map(|&index| times.sustained[index]).collect();
    let (create, create_left_out) = fit_parts(&rows, &of(|it| it.create_ns), None)?;
    let (first_run, first_left_out) = fit_parts(&rows, &of(|it| it.first_run_ns), Some(&sustained?))?;
    let law = |create: [f64; COLUMNS], first_run| Law::SessionStart { create, first_run, ln_ratio };
    // A case without a known start is judged by the law of all, which it had no part in.
    let mut errors: Vec<f64> =
        (0..times.rows.len()).map(|index| error(&law(create, first_run), times, index)).collect();
    for (position, &index) in known.iter().enumerate() {
        let left_out = law(create_left_out[position], first_left_out[position]);
        errors[index] = error(&left_out, times, index);
    }
    Some((law(create, first_run), errors))
}
