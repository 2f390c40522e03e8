//! Failures of inferences that users asked for, kept as trials, so that other processes leave such a target out, too.
//!
//! Invariant: an inference does not fail for want of a record.

use siliconroute_core::trial::{Failure, Preparation};
use siliconroute_core::{Case, TargetKey, Workload};

use crate::error::Error;
use crate::router::{Router, Targets};
use crate::served::{ServedCampaign, ServedRun};

impl Router {
    pub(super) fn try_keep_failure(
        &self,
        targets: &Targets,
        asked: (&Case, Workload),
        target: &TargetKey,
        failure: &Failure,
    ) {
        if self.read_only().is_some() {
            return;
        }
        if let Err(error) = self.keep_failure(targets, asked, target, failure) {
            tracing::warn!("the failure of {target} is not recorded: {error}");
        }
    }

    fn keep_failure(
        &self,
        targets: &Targets,
        (case, workload): (&Case, Workload),
        target: &TargetKey,
        failure: &Failure,
    ) -> Result<(), Error> {
        let Some(&row) = targets.rows.get(target) else { return Ok(()) };
        let campaign = ServedCampaign::begin(self, &self.store)?;
        let (target, preparation) = (target.clone(), Preparation::Running);
        let run = ServedRun { target, case: case.id, workload, preparation };
        campaign.record(&self.store, row, run, Err(failure.clone()))?;
        Ok(campaign.finish(&self.store)?)
    }
}
