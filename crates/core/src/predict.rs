//! The time of a case that was not measured on a target, from everything that was measured on the machine.
//!
//! Invariant: every prediction has an interval and says what it rests on; nothing is predicted of a target that nothing
//! was measured on.
//!
//! A law of the target (a hardware model, or for the other workloads what their parts cost) gives a first time. What
//! the same model was off by at other shapes and on other targets corrects it. How far laws err, how alike the errors of
//! two targets are and how fast errors of shapes part is learned from models that were left out, so the sources are joined
//! in log space by inverse variance (best linear unbiased prediction: Robinson, "That BLUP is a good thing",
//! Statistical Science 6, 1991). Intervals are widened until they hold what was left out.
//!
//! Reading order: `law`, `likeness`, `of_model`, `learning`, `waking`.

mod law;
mod learning;
mod likeness;
mod of_model;
#[cfg(test)]
mod tests;
mod waking;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::form::{FitRow, Form};
use crate::identity::{CaseId, ModelId};
use crate::model::Case;
use crate::statistics::Interval;
use crate::workload::Workload;

use law::{FittedLaw, Known};
use likeness::Likeness;
use of_model::OfModel;

pub use learning::{Learning, Measured, Started};

/// Version of the methods of this module; a change of any result raises it.
pub const METHOD_VERSION: u32 = 1;

/// Standard normal quantile of a two-sided 95 % interval.
const NORMAL_95: f64 = 1.959_963_984_540_054;
/// The widest half-width of an interval in log space, a factor of a million either way.
const WIDEST: f64 = 13.8;

/// What gives the first time of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LawKind {
    /// A hardware model of the target.
    Form(Form),
    /// The creation of a session by nodes and bytes, and its first run.
    SessionStart,
    /// The sustained time and what waking and cold caches add to it.
    Waking,
    /// The sustained time, times the ratio of the target's measured cases.
    SlowDown,
}

impl LawKind {
    /// The short name, such as `F5` or `slow-down`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Form(form) => form.name(),
            Self::SessionStart => "session-start",
            Self::Waking => "waking",
            Self::SlowDown => "slow-down",
        }
    }

    /// What the law is called in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Form(form) => form.title(),
            Self::SessionStart => "session creation and first run",
            Self::Waking => "sustained time and waking",
            Self::SlowDown => "sustained time by the usual ratio",
        }
    }
}

/// What a prediction rests on. The weights are shares of the logarithm and add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Basis {
    /// The law of the target.
    pub law: LawKind,
    /// Whether the case lies outside of what the law was fitted on.
    pub extrapolated: bool,
    /// Measured times of the same model on the target itself.
    pub shapes: u16,
    /// How much they weigh.
    pub shapes_weight: f32,
    /// Measured times of the same model on other targets.
    pub elsewhere: u16,
    /// How much they weigh.
    pub elsewhere_weight: f32,
}

impl Basis {
    /// How much the law weighs.
    pub fn law_weight(&self) -> f32 {
        1.0 - self.shapes_weight - self.elsewhere_weight
    }

    /// The source that weighs most: `same-model`, `other-targets`, or the law's short name.
    pub fn name(&self) -> &'static str {
        let law = self.law_weight();
        if self.shapes_weight >= self.elsewhere_weight && self.shapes_weight > law {
            "same-model"
        } else if self.elsewhere_weight > law {
            "other-targets"
        } else {
            self.law.name()
        }
    }
}

/// A predicted time; `0 < interval.low ≤ time_ns ≤ interval.high`, all finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedTime {
    /// The time of one inference.
    pub time_ns: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// What it rests on.
    pub basis: Basis,
}

/// Predicts times of all targets of a machine.
#[derive(Debug, Default)]
pub struct Predictor {
    /// By target and workload.
    laws: Vec<[Option<FittedLaw>; 3]>,
    likeness: [Likeness; 3],
    models: HashMap<ModelId, [Option<OfModel>; 3]>,
}

/// A time in log space, with what is known of it.
#[derive(Debug, Clone, Copy)]
struct LogTime {
    mean: f64,
    half_width: f64,
    basis: Basis,
}

impl Predictor {
    /// Learns from what was measured.
    pub fn learn(learning: &Learning<'_>) -> Self {
        learning::learn(learning)
    }

    /// The law that first times of `target` in `workload` come from.
    pub fn law(&self, target: usize, workload: Workload) -> Option<LawKind> {
        Some(self.laws.get(target)?[workload.index()].as_ref()?.law.kind())
    }

    /// The slow-down of `target` in `workload` against the sustained time, where that is what predicts it or was
    /// measured.
    pub fn slow_down(&self, target: usize, workload: Workload) -> Option<&SlowDown> {
        self.laws.get(target)?[workload.index()].as_ref()?.slow_down.as_ref()
    }

    /// Predicts the time of a case on a target; `None` where no law is known.
    ///
    /// Cost: the square of the number of times known of the model, of which at most [`MOST_TIMES_OF_MODEL`] count.
    pub fn predict(&self, case: &Case, target: usize, workload: Workload) -> Option<PredictedTime> {
        self.predict_from(case, target, workload, self.models.get(&case.model))
    }

    /// The same from the law of the target alone, as if the model had never been measured.
    pub fn predict_by_law(&self, case: &Case, target: usize, workload: Workload) -> Option<PredictedTime> {
        self.predict_from(case, target, workload, None)
    }

    fn predict_from(
        &self,
        case: &Case,
        target: usize,
        workload: Workload,
        of_model: Option<&[Option<OfModel>; 3]>,
    ) -> Option<PredictedTime> {
        let row = FitRow::from((&case.facts, case.model, 1.0));
        let LogTime { mean, half_width, basis } = self.log_time(&row, case.id, of_model, target, workload)?;
        // No inference is shorter than a nanosecond or longer than 31 years.
        let mean = mean.clamp(0.0, 41.4);
        let half_width = if half_width >= 0.0 { half_width.min(WIDEST) } else { WIDEST };
        let interval = Interval { low: (mean - half_width).exp(), high: (mean + half_width).exp() };
        Some(PredictedTime { time_ns: mean.exp(), interval, basis })
    }

    fn log_time(
        &self,
        row: &FitRow,
        case: CaseId,
        of_model: Option<&[Option<OfModel>; 3]>,
        target: usize,
        workload: Workload,
    ) -> Option<LogTime> {
        let law = self.laws.get(target)?[workload.index()].as_ref()?;
        let sustained = if law.law.needs_sustained() {
            Some(self.log_time(row, case, of_model, target, Workload::Sustained)?)
        } else {
            None
        };
        let known = sustained.as_ref().map(|it| Known { mean: it.mean, half_width: it.half_width });
        let first = law.first(row, known);
        let basis = Basis {
            law: law.law.kind(),
            extrapolated: first.extrapolated || sustained.is_some_and(|it| it.basis.extrapolated),
            shapes: 0,
            shapes_weight: 0.0,
            elsewhere: 0,
            elsewhere_weight: 0.0,
        };
        let likeness = &self.likeness[workload.index()];
        let own = of_model.and_then(|by_workload| by_workload[workload.index()].as_ref());
        let Some(correction) = own.and_then(|own| own.correct(likeness, row, case, target, law.deviation))
        else {
            return Some(LogTime { mean: first.mean, half_width: first.half_width, basis });
        };
        let scale = first.deviation;
        let half_width = (likeness.quantile * scale * correction.variance.sqrt()).min(first.half_width);
        Some(LogTime {
            mean: first.mean + law.deviation * correction.mean,
            // What the law takes from the sustained time is as unsure as that is.
            half_width: half_width.hypot(first.inherited),
            basis: Basis {
                shapes: correction.shapes,
                shapes_weight: correction.shapes_weight as f32,
                elsewhere: correction.elsewhere,
                elsewhere_weight: correction.elsewhere_weight as f32,
                ..basis
            },
        })
    }
}

pub use law::SlowDown;
pub use of_model::MOST_TIMES_OF_MODEL;
pub use waking::{USUAL_REST_NS, WakingCurve};
