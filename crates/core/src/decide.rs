//! Chooses the target for a case, and says why.
//!
//! Invariant: [`decide`] is a pure function of its arguments. It reads no clock, takes no lock and,
//! up to [`INLINE_TARGETS`] targets, allocates nothing.

use smallvec::SmallVec;

use crate::accuracy::AccuracyClass;
use crate::form::Form;
use crate::knowledge::{Exclusion, Knowledge, TargetIndex};
use crate::model::Case;
use crate::statistics::Interval;
use crate::workload::{Goal, Workload};

/// Number of targets up to which a decision is made without touching the heap.
pub const INLINE_TARGETS: usize = 16;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The case to run.
    pub case: &'a Case,
    /// In what state the target will be.
    pub workload: Workload,
    /// What the user wants most.
    pub goal: Goal,
    /// How exact the outputs must be.
    pub accuracy: AccuracyClass,
}

/// What the machine is like at the moment of the decision.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Context {
    /// Whether measured times are left out, so that the fitted models alone decide (a baseline).
    pub ignore_measurements: bool,
}

/// Where a predicted time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// This very case was measured on this target.
    Measured {
        /// In how many sessions.
        sessions: u32,
    },
    /// The target's hardware model.
    Fitted {
        /// The form of the model.
        form: Form,
        /// Whether the case lies outside of what the model was fitted on.
        extrapolated: bool,
    },
}

impl Source {
    /// `measured`, or the form's short name such as `F2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Fitted { form, .. } => form.name(),
        }
    }
}

/// A predicted time with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The time of one inference.
    pub time_ns: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// Where the figure comes from.
    pub source: Source,
}

/// A target as the decision saw it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'k> {
    /// The target.
    pub target: TargetIndex,
    /// Its predicted time; absent when it is excluded.
    pub outlook: Result<Prediction, &'k Exclusion>,
}

/// The answer: what was chosen, and how every target was seen.
#[derive(Debug, Clone)]
pub struct Decision<'k> {
    /// The chosen target; `None` when every target is excluded.
    pub chosen: Option<TargetIndex>,
    /// The next best target, where there is one.
    pub runner_up: Option<TargetIndex>,
    /// All targets, in the order of the knowledge.
    pub candidates: SmallVec<[Candidate<'k>; INLINE_TARGETS]>,
}

static NO_PREDICTION: Exclusion = Exclusion::NoPrediction;

/// Chooses the target with the least predicted time: measured where measured, else fitted.
///
/// Equal times go to the target listed first. The work is linear in the number of targets.
pub fn decide<'k>(knowledge: &'k Knowledge, query: &Query<'_>, context: &Context) -> Decision<'k> {
    let cells = if context.ignore_measurements { None } else { knowledge.cells(query.case.id) };
    let verdicts = knowledge.verdicts(query.case.id, query.case.model);
    let workload = query.workload.index();
    let mut candidates = SmallVec::new();
    let mut best: Option<(f64, TargetIndex)> = None;
    let mut second: Option<(f64, TargetIndex)> = None;
    for (index, entry) in knowledge.targets().iter().enumerate() {
        let target = TargetIndex(index as u16);
        let outlook = match verdicts.exclusion(index, query.accuracy) {
            Some(exclusion) => Err(exclusion),
            None => cells
                .and_then(|row| row[index].times[workload].as_ref())
                .map(|estimate| Prediction {
                    time_ns: estimate.time_ns,
                    interval: estimate.interval,
                    source: Source::Measured { sessions: estimate.sessions },
                })
                .or_else(|| {
                    let fit = entry.fits[workload].as_ref()?;
                    let fitted = fit.predict(&query.case.facts);
                    Some(Prediction {
                        time_ns: fitted.time_ns,
                        interval: Interval { low: fitted.low_ns, high: fitted.high_ns },
                        source: Source::Fitted { form: fit.form, extrapolated: fitted.extrapolated },
                    })
                })
                .ok_or(&NO_PREDICTION),
        };
        if let Ok(prediction) = outlook {
            let scored = Some((prediction.time_ns, target));
            if best.is_none_or(|(time, _)| prediction.time_ns < time) {
                second = best;
                best = scored;
            } else if second.is_none_or(|(time, _)| prediction.time_ns < time) {
                second = scored;
            }
        }
        candidates.push(Candidate { target, outlook });
    }
    Decision { chosen: best.map(|(_, t)| t), runner_up: second.map(|(_, t)| t), candidates }
}

impl Decision<'_> {
    /// The prediction for `target`, unless it is excluded.
    pub fn prediction(&self, target: TargetIndex) -> Option<Prediction> {
        self.candidates.get(usize::from(target.0))?.outlook.ok()
    }

    /// Whether the intervals of the chosen target and the runner-up overlap.
    pub fn is_tie(&self) -> bool {
        let interval =
            |target: Option<TargetIndex>| target.and_then(|t| self.prediction(t)).map(|p| p.interval);
        match (interval(self.chosen), interval(self.runner_up)) {
            (Some(a), Some(b)) => a.overlaps(&b),
            _ => false,
        }
    }

    /// The reason in one plain sentence with the figures that decided.
    pub fn sentence(&self, knowledge: &Knowledge) -> String {
        let Some((chosen, best)) = self.chosen.and_then(|t| Some((t, self.prediction(t)?))) else {
            return "no target is suitable: each one is excluded for the reason beside it".to_owned();
        };
        let name = &knowledge.target(chosen).key;
        let basis = match best.source {
            Source::Measured { sessions: 1 } => "measured in 1 session".to_owned(),
            Source::Measured { sessions } => format!("measured in {sessions} sessions"),
            Source::Fitted { form, extrapolated: false } => {
                format!("predicted by {} ({})", form.name(), form.title())
            }
            Source::Fitted { form, extrapolated: true } => {
                format!("predicted by {} ({}), outside of the measured range", form.name(), form.title())
            }
        };
        let time = format_duration_ns(best.time_ns);
        let range = format!("95 % interval {}", format_interval_ns(best.interval, " to "));
        let needs = match best.source {
            Source::Measured { .. } => "needs",
            Source::Fitted { extrapolated: false, .. } => "is predicted to need",
            Source::Fitted { extrapolated: true, .. } => "may need",
        };
        let head = format!("{name} {needs} {time} ({basis}, {range})");
        match self.runner_up.and_then(|t| Some((t, self.prediction(t)?))) {
            None => format!("{head}; no other target is suitable"),
            Some((other, next)) => {
                let other = &knowledge.target(other).key;
                let ratio = next.time_ns / best.time_ns;
                let next_time = format_duration_ns(next.time_ns);
                if self.is_tie() {
                    format!("{head}; {other} with {next_time} is not separable from it")
                } else {
                    format!("{head}; the next, {other}, needs {next_time}, {ratio:.2} times as long")
                }
            }
        }
    }
}

/// Ends of an interval that lie further apart than this tell nothing.
const WIDEST_RATIO: f64 = 1e3;

/// Writes an interval of durations, its ends joined by `between`, or that it is too wide to tell anything: its
/// upper end is over 1000 times its lower one.
pub fn format_interval_ns(interval: Interval, between: &str) -> String {
    let Interval { low, high } = interval;
    // Not the other way round, so that NaN counts as wide.
    if high <= low * WIDEST_RATIO {
        format!("{}{between}{}", format_duration_ns(low), format_duration_ns(high))
    } else {
        "too wide to tell".to_owned()
    }
}

/// Writes a duration with three significant digits and a fitting unit; 0.01 ns is the least that is told apart.
pub fn format_duration_ns(ns: f64) -> String {
    if ns == 0.0 {
        return "0 ns".to_owned();
    }
    if ns > 0.0 && ns < 0.01 {
        return "< 0.01 ns".to_owned();
    }
    // Rounded first, so that 999.6 µs becomes 1.00 ms and not 1000 µs.
    let (value, unit) = match three_digits(ns) {
        _ if !ns.is_finite() => return "unknown".to_owned(),
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Rounds to three significant digits; 0, NaN and infinities stay.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let step = 10_f64.powi(value.abs().log10().floor() as i32 - 2);
    (value / step).round() * step
}

#[cfg(test)]
mod tests;
