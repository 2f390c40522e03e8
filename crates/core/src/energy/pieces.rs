//! A meter's readings as energy over stretches of time.
//!
//! Invariant: the pieces of a window follow one another without overlap, and each rests on a reading that is news: a
//! value that a slow sensor merely holds makes no piece of its own.

use super::{EnergyMethod, MeterPoint, MeterSeries, TimeWindow};

/// Fewer pieces show no spread.
const FEWEST: usize = 3;

/// Part of a window that readings must span, and that no gap between two readings of power may reach.
const SPAN: f64 = 0.6;
const GAP: f64 = 0.4;

/// Energy over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub(super) begin_s: f64,
    pub(super) end_s: f64,
    pub(super) joules: f64,
}

/// The pieces of `window`, or why there are too few.
pub(super) fn pieces(series: &MeterSeries, window: TimeWindow) -> Result<Vec<Piece>, String> {
    let points = usable(series, window);
    let length = window.end_s - window.begin_s;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        let why = series.absence.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        return Err(format!("it told nothing{why}"));
    };
    if last.at_s - first.at_s < SPAN * length {
        let (told, seconds) = (last.at_s - first.at_s, length);
        return Err(format!("its readings span {told:.1} s of {seconds:.1} s"));
    }
    let pieces = match series.meter.method {
        EnergyMethod::Counter => of_counter(&points)?,
        EnergyMethod::Power | EnergyMethod::Battery => of_power(&points, GAP * length)?,
    };
    if pieces.len() < FEWEST {
        return Err(format!("it told {} new values in {length:.1} s, too few,", pieces.len()));
    }
    Ok(pieces)
}

/// The smallest step by which the sensor's power changes; 0 for counters, whose steps even out over a window.
pub(super) fn resolution(series: &MeterSeries) -> f64 {
    if series.meter.method == EnergyMethod::Counter {
        return 0.0;
    }
    let mut values: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let steps = values.iter().zip(values.iter().skip(1)).map(|(low, high)| high - low);
    steps.filter(|step| *step > 0.0).reduce(f64::min).unwrap_or(0.0)
}

/// The readings of the window that are numbers, each later than the one before.
fn usable(series: &MeterSeries, window: TimeWindow) -> Vec<MeterPoint> {
    let mut points: Vec<MeterPoint> = Vec::new();
    for point in &series.points {
        let inside = (window.begin_s..=window.end_s).contains(&point.at_s);
        let later = points.last().is_none_or(|last| point.at_s > last.at_s);
        if inside && later && point.value.is_finite() {
            points.push(*point);
        }
    }
    points
}

/// From one change of the counter to the next. Both ends of a piece are late by as much as the counter is.
fn of_counter(points: &[MeterPoint]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut last = points[0];
    for point in &points[1..] {
        if point.value < last.value {
            return Err("its counter went back".to_owned());
        }
        if point.value > last.value {
            pieces.push(Piece { begin_s: last.at_s, end_s: point.at_s, joules: point.value - last.value });
            last = *point;
        }
    }
    Ok(pieces)
}

/// From one new value to the next, each lasting until then. Power that never changes is taken as read each time.
fn of_power(points: &[MeterPoint], longest_gap: f64) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut begun) = (Vec::new(), points[0]);
    let steady = points.iter().all(|point| point.value.to_bits() == begun.value.to_bits());
    for (index, point) in points.iter().enumerate().skip(1) {
        let gap = point.at_s - points[index - 1].at_s;
        if gap > longest_gap {
            return Err(format!("it told nothing for {gap:.1} s"));
        }
        let news = point.value.to_bits() != begun.value.to_bits();
        if steady || news || index + 1 == points.len() {
            let joules = begun.value * (point.at_s - begun.at_s);
            pieces.push(Piece { begin_s: begun.at_s, end_s: point.at_s, joules });
            begun = *point;
        }
    }
    Ok(pieces)
}
