//! Campaigns of served runs and their trials: begun by whoever serves, closed by others once that program is gone.
//!
//! Invariant: such a campaign names the lock that its program holds, and only one whose lock nobody holds is closed by another.

use serde::{Deserialize, Serialize};
use siliconroute_core::trial::{Failure, Measurement, Preparation, Purpose, Trial};
use siliconroute_core::{CaseId, TargetKey, Workload};
use siliconroute_hardware::detect_conditions;
use siliconroute_store::{CampaignId, NewCampaign, Store, StoreError, StoredCampaign, TargetId};

use crate::error::Error;
use crate::router::Router;
use crate::serving_lock::ServingLock;

/// A campaign that this program serves in.
#[derive(Debug)]
pub(crate) struct ServedCampaign {
    id: CampaignId,
    seed: u64,
    clock: fn() -> i64,
    /// Let go after the campaign was said to have ended.
    _held: ServingLock,
}

/// What was run because users asked for it.
#[derive(Debug)]
pub(crate) struct ServedRun {
    pub(crate) target: TargetKey,
    pub(crate) case: CaseId,
    pub(crate) workload: Workload,
    pub(crate) preparation: Preparation,
}

/// What stands in the place of a plan, since nobody knows what will be served.
#[derive(Debug, Default, Serialize, Deserialize)]
struct HeldBy {
    #[serde(default)]
    lock: Option<String>,
}

impl ServedCampaign {
    /// Begins one in `store`, which is the router's or another connection to the same file.
    pub(crate) fn begin(router: &Router, store: &Store) -> Result<Self, Error> {
        let held = router.home.lock_serving()?;
        let plan = HeldBy { lock: Some(held.name().to_owned()) };
        let id = store.begin_campaign(&NewCampaign {
            host: Some(router.record_machine()?),
            purpose: Purpose::Served,
            seed: router.settings.seed,
            program_version: crate::VERSION,
            program_commit: crate::COMMIT,
            started_unix_ms: (router.clock)(),
            plan: &serde_json::to_string(&plan).expect("a lock's name is text"),
        })?;
        Ok(Self { id, seed: router.settings.seed, clock: router.clock, _held: held })
    }

    /// Puts a run into the store as a trial of this moment; `outcome` is of inputs that were not the router's own.
    pub(crate) fn record(
        &self,
        store: &Store,
        row: TargetId,
        run: ServedRun,
        outcome: Result<Measurement, Failure>,
    ) -> Result<(), StoreError> {
        let ServedRun { target, case, workload, preparation } = run;
        let trial = Trial {
            target,
            case,
            workload,
            preparation,
            purpose: Purpose::Served,
            started_unix_ms: (self.clock)(),
            order_seed: self.seed,
            input_seed: 0,
            conditions: serde_json::to_string(&detect_conditions()).expect("conditions have only text keys"),
            suspect: None,
            outcome,
        };
        store.record_trial(self.id, row, &trial).map(drop)
    }

    /// Says that it has ended.
    pub(crate) fn finish(self, store: &Store) -> Result<(), StoreError> {
        store.finish_campaign(self.id, true, (self.clock)())
    }
}

impl Router {
    /// The running campaigns of served runs whose program is gone.
    pub(crate) fn servings_without_end(&self) -> Result<Vec<StoredCampaign>, StoreError> {
        let mut running = self.store.running_campaigns()?;
        running.retain(|it| {
            it.purpose == Purpose::Served && !lock_of(it).is_some_and(|it| self.home.is_serving(&it))
        });
        Ok(running)
    }

    /// Marks them as interrupted.
    pub(crate) fn close_servings_without_end(&self) -> Result<(), StoreError> {
        for campaign in self.servings_without_end()? {
            if let Some(lock) = lock_of(&campaign) {
                self.home.remove_serving(&lock);
            }
            self.store.close_campaign(campaign.id)?;
            tracing::info!("campaign {} had begun and ended with its program, which served", campaign.id);
        }
        Ok(())
    }
}

fn lock_of(campaign: &StoredCampaign) -> Option<String> {
    serde_json::from_str::<HeldBy>(&campaign.plan).unwrap_or_default().lock
}
