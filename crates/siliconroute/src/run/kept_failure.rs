//! Failures of inferences that users asked for, kept as trials, so that other processes leave such a target out, too.
//!
//! Invariant: an inference does not fail for want of a record.

use siliconroute_core::trial::{Failure, Preparation, Purpose, Trial};
use siliconroute_core::{Case, TargetKey, Workload};
use siliconroute_hardware::detect_conditions;

use crate::error::Error;
use crate::router::{Router, Targets};
use crate::served::ServedCampaign;

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
        let conditions = serde_json::to_string(&detect_conditions()).expect("conditions have only text keys");
        let trial = Trial {
            target: target.clone(),
            case: case.id,
            workload,
            preparation: Preparation::Running,
            purpose: Purpose::Served,
            started_unix_ms: (self.clock)(),
            order_seed: self.settings.seed,
            input_seed: 0,
            conditions,
            suspect: None,
            outcome: Err(failure.clone()),
        };
        self.store.record_trial(campaign.id, row, &trial)?;
        Ok(campaign.finish(&self.store)?)
    }
}
