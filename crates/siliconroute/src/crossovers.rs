//! Where targets of this machine change places along the size of a family or the batch.
//!
//! Invariant: every pair of targets that was measured along a series has a finding.

use serde::Serialize;
use siliconroute_core::crossover::{Axis, Finding, Side, compare, find_series};
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::{Case, TargetKey, Workload};

use crate::learn::Learned;

/// How two targets compare along a series of measured cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossover {
    /// What the cases have in common.
    pub series: String,
    /// What they differ in.
    pub axis: Axis,
    /// The workload.
    pub workload: Workload,
    /// One target.
    pub first: TargetKey,
    /// The other.
    pub second: TargetKey,
    /// How they compare.
    pub finding: Finding,
    /// Whether either of the two is the fastest of all at some measured case of the series.
    pub decides: bool,
}

impl Crossover {
    /// The target on a side.
    pub fn target(&self, side: Side) -> &TargetKey {
        match side {
            Side::First => &self.first,
            Side::Second => &self.second,
        }
    }
}

impl Learned {
    /// Compares all targets along all series of measured cases.
    pub fn crossovers(&self) -> Vec<Crossover> {
        let knowledge = &self.knowledge;
        let mut measured: Vec<&Case> =
            self.cases.values().filter(|case| knowledge.cells(case.id).is_some()).collect();
        measured.sort_by_key(|case| case.id);
        let targets = knowledge.targets().len();
        let mut found = Vec::new();
        for series in find_series(measured) {
            for workload in Workload::ALL {
                let fastest: Vec<usize> = series
                    .cases
                    .iter()
                    .filter_map(|(_, case)| {
                        let time = |target: &usize| {
                            let known = knowledge.estimate(case.id, TargetIndex(*target as u16), workload);
                            known.map_or(f64::INFINITY, |it| it.time_ns)
                        };
                        (0..targets).min_by(|a, b| time(a).total_cmp(&time(b)))
                    })
                    .collect();
                for first in 0..targets {
                    for second in first + 1..targets {
                        let [one, other] = [first, second].map(|index| TargetIndex(index as u16));
                        let points = series.points(knowledge, workload, one, other);
                        let Some(finding) = compare(&points) else { continue };
                        found.push(Crossover {
                            series: series.label.clone(),
                            axis: series.axis,
                            workload,
                            first: knowledge.target(one).key.clone(),
                            second: knowledge.target(other).key.clone(),
                            finding,
                            decides: fastest.contains(&first) || fastest.contains(&second),
                        });
                    }
                }
            }
        }
        found
    }
}
