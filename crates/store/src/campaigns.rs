//! Planned sets of trials and how they ended.
//!
//! Invariant: a campaign is running until it is said to have ended; a reader takes a running one for incomplete.

use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use siliconroute_core::trial::Purpose;

use crate::Store;
use crate::column::{CampaignId, HostId, Name, Seed};
use crate::error::{Fault, StoreError};

/// A campaign that begins.
#[derive(Debug, Clone, Copy)]
pub struct NewCampaign<'a> {
    /// The host, where it was recorded.
    pub host: Option<HostId>,
    /// Why its trials are made.
    pub purpose: Purpose,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Version of the program.
    pub program_version: &'a str,
    /// The commit that the program was built from, where known.
    pub program_commit: Option<&'a str>,
    /// When it begins, in milliseconds since 1970 UTC.
    pub started_unix_ms: i64,
    /// What is to be measured, as a JSON document.
    pub plan: &'a str,
}

/// How a campaign stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignState {
    /// Begun, and not known to have ended.
    Running,
    /// All of its plan was done.
    Finished,
    /// It ended before its plan was done.
    Interrupted,
}

/// A recorded campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCampaign {
    /// The row.
    pub id: CampaignId,
    /// The hardware id of its host, where it was recorded.
    pub hardware_id: Option<String>,
    /// Why its trials were made.
    pub purpose: Purpose,
    /// Seed of the order of trials.
    pub seed: u64,
    /// Version of the program.
    pub program_version: String,
    /// The commit that the program was built from, where known.
    pub program_commit: Option<String>,
    /// When it began, in milliseconds since 1970 UTC.
    pub started_unix_ms: i64,
    /// When it ended; `None` while it is running.
    pub finished_unix_ms: Option<i64>,
    /// How it stands.
    pub state: CampaignState,
    /// What was to be measured, as a JSON document.
    pub plan: String,
    /// Trials recorded, failed ones included.
    pub trials: u64,
}

/// Ends running campaigns when they were last heard of.
const CLOSE: &str = "UPDATE campaign SET state = 'interrupted', finished_unix_ms = max(
         started_unix_ms,
         coalesce((SELECT max(started_unix_ms) FROM trial WHERE campaign_id = campaign.id), 0))
     WHERE state = 'running'";

impl Store {
    /// Records the beginning of a campaign.
    pub fn begin_campaign(&self, campaign: &NewCampaign<'_>) -> Result<CampaignId, StoreError> {
        self.write("begin a campaign", |transaction| {
            let id = transaction
                .prepare_cached(
                    "INSERT INTO campaign
                         (host_id, purpose, seed, program_version, program_commit, started_unix_ms, state, plan)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7)
                     RETURNING id",
                )?
                .query_row(
                    params![
                        campaign.host,
                        Name(campaign.purpose),
                        Seed(campaign.seed),
                        campaign.program_version,
                        campaign.program_commit,
                        campaign.started_unix_ms,
                        campaign.plan,
                    ],
                    |row| row.get(0),
                )?;
            Ok(id)
        })
    }

    /// Records the end of a running campaign: whether its plan was done (`complete`) or cut short.
    ///
    /// # Errors
    /// When the campaign does not exist or has already ended, and as any write.
    pub fn finish_campaign(
        &self,
        campaign: CampaignId,
        complete: bool,
        finished_unix_ms: i64,
    ) -> Result<(), StoreError> {
        let state = if complete { CampaignState::Finished } else { CampaignState::Interrupted };
        self.write("finish a campaign", |transaction| {
            let changed = transaction
                .prepare_cached(
                    "UPDATE campaign SET state = ?2, finished_unix_ms = ?3 WHERE id = ?1 AND state = 'running'",
                )?
                .execute(params![campaign, Name(state), finished_unix_ms])?;
            match changed {
                0 => Err(Fault::Refused(format!("campaign {campaign} is not running"))),
                _ => Ok(()),
            }
        })
    }

    /// Marks as interrupted the running campaigns that measure, and says how many there were; for whoever holds the
    /// lock under which alone such campaigns run. They ended when they were last heard of: at the begin of their last
    /// trial, or of their own. Campaigns of served runs need no such lock and stay as they are.
    pub fn close_abandoned_campaigns(&self) -> Result<usize, StoreError> {
        self.write("close abandoned campaigns", |transaction| {
            let changed = transaction
                .prepare_cached(&format!("{CLOSE} AND purpose <> ?1"))?
                .execute([Name(Purpose::Served)])?;
            Ok(changed)
        })
    }

    /// Does the same to one campaign, of any purpose; one that has ended stays as it is.
    pub fn close_campaign(&self, campaign: CampaignId) -> Result<(), StoreError> {
        self.write("close an abandoned campaign", |transaction| {
            transaction.prepare_cached(&format!("{CLOSE} AND id = ?1"))?.execute([campaign])?;
            Ok(())
        })
    }

    /// All campaigns, oldest first.
    pub fn campaigns(&self) -> Result<Vec<StoredCampaign>, StoreError> {
        self.campaigns_where("1")
    }

    /// Those that were not said to have ended, oldest first.
    pub fn running_campaigns(&self) -> Result<Vec<StoredCampaign>, StoreError> {
        self.campaigns_where("state = 'running'")
    }

    fn campaigns_where(&self, condition: &'static str) -> Result<Vec<StoredCampaign>, StoreError> {
        self.read("read the campaigns", |connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT campaign.id, host.hardware_id, purpose, seed, program_version, program_commit,
                        started_unix_ms, finished_unix_ms, state, plan,
                        (SELECT count(*) FROM trial WHERE trial.campaign_id = campaign.id)
                 FROM campaign LEFT JOIN host ON host.id = campaign.host_id
                 WHERE {condition}
                 ORDER BY campaign.id"
            ))?;
            Ok(query.query_map([], stored_campaign)?.collect::<Result<_, _>>()?)
        })
    }
}

fn stored_campaign(row: &Row<'_>) -> rusqlite::Result<StoredCampaign> {
    Ok(StoredCampaign {
        id: row.get(0)?,
        hardware_id: row.get(1)?,
        purpose: row.get::<_, Name<Purpose>>(2)?.0,
        seed: row.get::<_, Seed>(3)?.0,
        program_version: row.get(4)?,
        program_commit: row.get(5)?,
        started_unix_ms: row.get(6)?,
        finished_unix_ms: row.get(7)?,
        state: row.get::<_, Name<CampaignState>>(8)?.0,
        plan: row.get(9)?,
        trials: row.get(10)?,
    })
}
