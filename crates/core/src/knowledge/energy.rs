//! How much energy an inference takes on a target, and what power the target draws.
//!
//! Invariant: a figure that was not measured on the case itself says so, and every figure carries its scope, since what
//! a package took and what a board took cannot be compared.

use serde::{Deserialize, Serialize};

use super::{Knowledge, TargetIndex};
use crate::decide::Prediction;
use crate::energy::{EnergyEstimate, EnergyScope};
use crate::identity::CaseId;
use crate::statistics::{self, Interval};
use crate::target::TargetKey;
use crate::workload::Workload;

/// The energy of one inference with its 95 % interval.
///
/// Both are net, beyond what rest takes: a machine that is on takes the rest's share whichever target works, so that
/// net joules alone tell targets apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// The energy, in joules.
    pub joules: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// What the figure is of; figures of two scopes are not compared.
    pub scope: EnergyScope,
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
    /// What the figures are of.
    pub scope: EnergyScope,
    /// Net energy of one inference, in joules.
    pub joules: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Power under load beyond that at rest, in watts.
    pub net_watts: f64,
    /// Power under load, the rest's share included, in watts.
    pub load_watts: f64,
}

impl EnergyFacts {
    /// What `estimate` says of `target` for `case` in `workload`.
    pub fn of(target: TargetKey, case: CaseId, workload: Workload, estimate: &EnergyEstimate) -> Self {
        Self {
            target,
            case,
            workload,
            scope: estimate.meter.scope,
            joules: estimate.joules,
            interval: estimate.interval,
            net_watts: estimate.load_watts - estimate.idle_watts,
            load_watts: estimate.load_watts,
        }
    }

    /// Whether the figures are quantities.
    pub(super) fn is_sound(&self) -> bool {
        let figures = [self.joules, self.interval.low, self.interval.high, self.net_watts, self.load_watts];
        figures.iter().all(|figure| figure.is_finite()) && self.joules > 0.0 && self.net_watts > 0.0
    }
}

/// Net energies of one target for one case, by workload and scope.
#[derive(Debug, Clone, Default)]
pub struct Energies([[Option<Energy>; 3]; 3]);

impl Energies {
    /// The measured energy in `workload` by a meter of `scope`.
    pub fn of(&self, workload: Workload, scope: EnergyScope) -> Option<Energy> {
        self.0[workload.index()][scope.index()]
    }

    /// Keeps what all measurements of one workload and scope say together: the median, with the hull of their
    /// intervals, as with times.
    pub(super) fn join(&mut self, workload: usize, scope: EnergyScope, facts: &[(f64, Interval)]) {
        let joules: Vec<f64> = facts.iter().map(|(joules, _)| *joules).collect();
        let Some(median) = statistics::median(&joules) else { return };
        let mut interval = Interval { low: median, high: median };
        for (_, own) in facts {
            interval = Interval { low: interval.low.min(own.low), high: interval.high.max(own.high) };
        }
        self.0[workload][scope.index()] = Some(Energy { joules: median, interval, scope, measured: true });
    }
}

/// The power that a target draws at work, over its measured cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Power {
    /// The middle net one, in watts.
    net: f64,
    /// The least and the most net one.
    range: Interval,
    /// The most with the rest's share in it.
    pub(super) most_load: f64,
}

impl Power {
    /// The energy of an inference that takes `time`.
    ///
    /// The interval takes the least power with the least time and the most with the most, which is wider than 95 %
    /// where the two are independent.
    pub(super) fn over(self, time: Prediction, scope: EnergyScope) -> Energy {
        let joules = |watts: f64, ns: f64| watts * ns * 1e-9;
        Energy {
            joules: joules(self.net, time.time_ns),
            interval: Interval {
                low: joules(self.range.low, time.interval.low),
                high: joules(self.range.high, time.interval.high),
            },
            scope,
            measured: false,
        }
    }
}

/// Powers of a target's measured cases, net and under load, by workload and scope.
#[derive(Debug, Clone, Default)]
pub(super) struct Powers {
    watts: [[Vec<(f64, f64)>; 3]; 3],
}

impl Powers {
    /// Takes over a measured case.
    pub(super) fn note(&mut self, facts: &EnergyFacts) {
        self.watts[facts.workload.index()][facts.scope.index()].push((facts.net_watts, facts.load_watts));
    }

    /// The power in each workload, by scope.
    pub(super) fn join(self) -> [[Option<Power>; 3]; 3] {
        self.watts.map(|by_scope| {
            by_scope.map(|mut watts| {
                watts.sort_by(|one, other| one.0.total_cmp(&other.0));
                let (low, high) = (watts.first()?.0, watts.last()?.0);
                let most_load = watts.iter().map(|(_, load)| *load).fold(f64::MIN, f64::max);
                let net = watts[watts.len() / 2].0;
                Some(Power { net, range: Interval { low, high }, most_load })
            })
        })
    }
}

impl Knowledge {
    /// Whether the energy of anything was measured.
    pub(crate) fn has_energies(&self) -> bool {
        self.has_energies
    }

    /// Whether anything is known of the energy of `target` in `workload` by meters of `scope`.
    pub fn knows_energy(&self, target: TargetIndex, workload: Workload, scope: EnergyScope) -> bool {
        let powers = self.powers.get(usize::from(target.0));
        powers.is_some_and(|powers| powers[workload.index()][scope.index()].is_some())
    }

    /// The net energy of an inference of `case` that takes `time`, by meters of `scope`: measured, else by the power
    /// that the target's other cases drew. `None` where nothing was measured in the workload and scope.
    pub fn energy(
        &self,
        case: CaseId,
        target: TargetIndex,
        workload: Workload,
        scope: EnergyScope,
        time: Prediction,
    ) -> Option<Energy> {
        let index = usize::from(target.0);
        // Where no power is known nothing was measured, and that is soon told.
        let power = self.powers.get(index)?[workload.index()][scope.index()]?;
        let measured =
            self.cells(case).and_then(|row| row.get(index)?.energies.as_ref()?.of(workload, scope));
        Some(measured.unwrap_or_else(|| power.over(time, scope)))
    }

    /// The most power that `target` was seen to draw at work, in watts with the rest's share in it, by the closest
    /// scope that tells. It was measured while sustained, which is what a target draws at most.
    pub fn load_watts(&self, target: TargetIndex) -> Option<f64> {
        let powers = self.powers.get(usize::from(target.0))?[Workload::Sustained.index()];
        powers.iter().flatten().next().map(|power| power.most_load)
    }
}
