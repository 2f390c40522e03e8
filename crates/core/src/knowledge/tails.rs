//! How slow the slow calls of a target are.
//!
//! Invariant: what is told of a case that was not measured rests on the target's measured ones.

use super::{Knowledge, TargetIndex};
use crate::decide::{Prediction, Source};
use crate::identity::CaseId;
use crate::statistics::Summary;
use crate::workload::Workload;

/// How far the slow calls of a session lie above its usual ones; `None` where it has too few to tell.
pub(super) fn tail(session: &Summary) -> Option<f64> {
    let ratio = session.p95_ns? / session.median_ns;
    ratio.is_finite().then_some(ratio.max(1.0))
}

impl Knowledge {
    /// The time that an inference keeps within with 95 % certainty, given its usual time: the slower of the interval's
    /// upper end and, where the case was measured, the 95th percentile of its calls; else the upper end by as much as
    /// the target's slow calls usually lie above the others.
    pub fn within_ns(&self, case: CaseId, target: TargetIndex, workload: Workload, usual: Prediction) -> f64 {
        let (index, workload) = (usize::from(target.0), workload.index());
        if let Source::Measured { .. } = usual.source {
            let cell = self.cells(case).and_then(|row| row.get(index));
            return cell.map_or(0.0, |cell| cell.p95_ns[workload]).max(usual.interval.high);
        }
        let tail = self.tails.get(index).and_then(|by| by[workload]).unwrap_or(1.0);
        usual.interval.high * tail
    }
}
