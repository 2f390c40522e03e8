//! How much energy an inference takes on a target.
//!
//! Invariant: a figure that was not measured on the case itself says so.

use serde::{Deserialize, Serialize};

use crate::decide::Prediction;
use crate::identity::CaseId;
use crate::statistics::Interval;
use crate::target::TargetKey;
use crate::workload::Workload;

/// The energy of one inference with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The energy.
    pub joules: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// Whether it was measured on this case; else it is the predicted time by the power of the target's other cases.
    pub measured: bool,
}

/// A measured energy.
#[derive(Debug, Clone, PartialEq)]
pub struct EnergyFacts {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// What was measured.
    pub energy: Energy,
}

/// The power that a target draws at work, over its measured cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Power {
    /// The middle one.
    watts: f64,
    /// The least and the most.
    range: Interval,
}

impl Power {
    /// The energy of an inference that takes `time`.
    ///
    /// The interval takes the least power with the least time and the most with the most, which is wider than 95 %
    /// where the two are independent.
    pub(super) fn over(self, time: Prediction) -> Energy {
        let joules = |watts: f64, ns: f64| watts * ns * 1e-9;
        Energy {
            joules: joules(self.watts, time.time_ns),
            interval: Interval {
                low: joules(self.range.low, time.interval.low),
                high: joules(self.range.high, time.interval.high),
            },
            measured: false,
        }
    }
}

/// Powers of a target's measured cases, by workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Powers {
    watts: [Vec<f64>; 3],
}

impl Powers {
    /// Takes over a measured case.
    pub(super) fn note(&mut self, workload: usize, energy: Energy, time_ns: f64) {
        let watts = energy.joules / (time_ns * 1e-9);
        if watts.is_finite() && watts > 0.0 {
            self.watts[workload].push(watts);
        }
    }

    /// The power in each workload.
    pub(super) fn join(self) -> [Option<Power>; 3] {
        self.watts.map(|mut watts| {
            watts.sort_by(f64::total_cmp);
            let (low, high) = (*watts.first()?, *watts.last()?);
            Some(Power { watts: watts[watts.len() / 2], range: Interval { low, high } })
        })
    }
}
