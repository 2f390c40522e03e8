//! Where two targets change places along the size of a family or the batch.
//!
//! Invariant: a crossing lies between measured neighbours of which it is known which target is faster, or within twice
//! the measured range, and then says so.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::identity::ModelId;
use crate::knowledge::{Knowledge, TargetIndex};
use crate::model::{Case, Family, OperatorClass};
use crate::statistics::Interval;
use crate::workload::Workload;

/// The factor beyond the measured range up to which a crossing is looked for.
const BEYOND: f64 = 2.0;
/// The fewest models of one structure that make a series by size.
const LEAST_SIZES: usize = 3;
/// The fewest batch sizes of one model that make a series.
const LEAST_BATCHES: usize = 2;

/// What changes along a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The parameters of models of one structure.
    Parameters,
    /// The batch size of one model.
    Batch,
}

/// Cases that differ in one respect alone.
#[derive(Debug, Clone)]
pub struct Series<'c> {
    /// What the cases have in common, in words.
    pub label: String,
    /// What they differ in.
    pub axis: Axis,
    /// The cases by their place on the axis, least first, no place twice.
    pub cases: Vec<(f64, &'c Case)>,
}

/// Measured times of two targets at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The place, over 0.
    pub at: f64,
    /// Time of the first target, with its interval.
    pub first: (f64, Interval),
    /// Time of the second.
    pub second: (f64, Interval),
}

/// Which of two targets is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Side {
    First,
    Second,
}

/// A place where two targets change places.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Crossing {
    /// The place.
    pub at: f64,
    /// The measured neighbours at which it is known which is faster; beyond the measured range, its end and the
    /// end of what was looked at.
    pub between: Interval,
    /// Which is faster below.
    pub below: Side,
    /// Whether the place lies beyond the measured range.
    pub extrapolated: bool,
}

/// How two targets compare along a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// One is faster everywhere within twice the measured range.
    AlwaysFaster(Side),
    /// They change places, least first.
    Crosses(Vec<Crossing>),
    /// Their intervals overlap at every measured place.
    NotSeparable,
}

/// Finds the series among `cases`.
///
/// Models are of one structure when they have the same family, batch and number of nodes of every class of operators.
pub fn find_series<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Vec<Series<'c>> {
    type Structure = (Family, u64, Vec<(OperatorClass, u64)>);
    let mut sizes: BTreeMap<Structure, Vec<&Case>> = BTreeMap::new();
    let mut batches: BTreeMap<(ModelId, Vec<Vec<u64>>), Vec<&Case>> = BTreeMap::new();
    for case in cases {
        let classes = case.facts.by_class.iter().map(|work| (work.class, work.nodes)).collect();
        sizes.entry((case.facts.family, case.facts.batch, classes)).or_default().push(case);
        let rest = |shape: &Vec<u64>| shape.iter().skip(1).copied().collect();
        let inputs = case.facts.inputs.iter().map(|input| rest(&input.shape)).collect();
        batches.entry((case.model, inputs)).or_default().push(case);
    }
    let mut found = Vec::new();
    for ((family, batch, classes), cases) in sizes {
        let nodes: u64 = classes.iter().map(|(_, nodes)| nodes).sum();
        let cases = placed(cases, |case| case.facts.parameters as f64);
        if cases.len() >= LEAST_SIZES {
            let label = format!("{family} of {nodes} nodes at batch {batch}");
            found.push(Series { label, axis: Axis::Parameters, cases });
        }
    }
    for cases in batches.into_values() {
        let cases = placed(cases, |case| case.facts.batch as f64);
        if cases.len() >= LEAST_BATCHES {
            let label = cases[0].1.model_name.clone();
            found.push(Series { label, axis: Axis::Batch, cases });
        }
    }
    found
}

/// Cases by place, the first of equal ones.
fn placed(cases: Vec<&Case>, place: impl Fn(&Case) -> f64) -> Vec<(f64, &Case)> {
    let mut placed: Vec<(f64, &Case)> = cases.into_iter().map(|case| (place(case), case)).collect();
    placed.retain(|(at, _)| *at > 0.0);
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.id.cmp(&b.1.id)));
    placed.dedup_by(|later, earlier| later.0 <= earlier.0);
    placed
}

impl Series<'_> {
    /// The measured times of two targets along the series.
    pub fn points(
        &self,
        knowledge: &Knowledge,
        workload: Workload,
        first: TargetIndex,
        second: TargetIndex,
    ) -> Vec<Point> {
        let time = |case: &Case, target| {
            let known = knowledge.estimate(case.id, target, workload)?;
            Some((known.time_ns, known.interval))
        };
        let point = |(at, case): &(f64, &Case)| {
            Some(Point { at: *at, first: time(case, first)?, second: time(case, second)? })
        };
        self.cases.iter().filter_map(point).collect()
    }
}

/// Compares two targets along their measured points, which stand in the order of their places; `None` for fewer than
/// two.
///
/// Between measured places, logarithms of times are joined by straight lines over the logarithm of the place; beyond,
/// the last line goes on up to twice the range, but to no place below 1.
pub fn compare(points: &[Point]) -> Option<Finding> {
    if points.len() < 2 {
        return None;
    }
    let difference = |point: &Point| (point.first.0 / point.second.0).ln();
    let known: Vec<usize> =
        (0..points.len()).filter(|&index| !points[index].first.1.overlaps(&points[index].second.1)).collect();
    let (Some(&lowest), Some(&highest)) = (known.first(), known.last()) else {
        return Some(Finding::NotSeparable);
    };
    let side = |value: f64| if value < 0.0 { Side::First } else { Side::Second };
    let mut crossings = Vec::new();
    let end = |outer: usize, inner: usize, factor: f64| {
        let (last, before) = (&points[outer], &points[inner]);
        let slope = (difference(last) - difference(before)) / (last.at / before.at).ln();
        let limit = (last.at * factor).max(1.0);
        let at = last.at * (-difference(last) / slope).exp();
        let inside = if factor > 1.0 { last.at < at && at <= limit } else { limit <= at && at < last.at };
        inside.then_some((at, limit))
    };
    // Where the outermost places cannot be told apart, nothing beyond them can.
    if lowest == 0
        && let Some((at, limit)) = end(0, 1, 1.0 / BEYOND)
    {
        let above = side(difference(&points[0]));
        let below = if above == Side::First { Side::Second } else { Side::First };
        let between = Interval { low: limit, high: points[0].at };
        crossings.push(Crossing { at, between, below, extrapolated: true });
    }
    for pair in known.windows(2) {
        let (low, high) = (pair[0], pair[1]);
        let below = side(difference(&points[low]));
        if below == side(difference(&points[high])) {
            continue;
        }
        let between = Interval { low: points[low].at, high: points[high].at };
        let root = points[low..=high].windows(2).find_map(|pair| {
            let (a, b) = (difference(&pair[0]), difference(&pair[1]));
            let changes = side(b) != below;
            changes.then(|| pair[0].at * (pair[1].at / pair[0].at).powf(a / (a - b)))
        });
        crossings.extend(root.map(|at| Crossing { at, between, below, extrapolated: false }));
    }
    let last = points.len() - 1;
    if highest == last
        && let Some((at, limit)) = end(last, last - 1, BEYOND)
    {
        let between = Interval { low: points[last].at, high: limit };
        let below = side(difference(&points[last]));
        crossings.push(Crossing { at, between, below, extrapolated: true });
    }
    if crossings.is_empty() {
        return Some(Finding::AlwaysFaster(side(difference(&points[highest]))));
    }
    Some(Finding::Crosses(crossings))
}
