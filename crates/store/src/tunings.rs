//! Tunings: the settings of threads that suit a case on a machine, by target.
//!
//! Invariant: a machine, case and target have at most one tuning, the latest.

use rusqlite::params;
use siliconroute_core::identity::{CaseId, ModelId};
use siliconroute_core::model::Bindings;
use siliconroute_core::target::{CpuSettings, TargetKey};

use crate::Store;
use crate::catalogue::case_row;
use crate::column::{CampaignId, Json};
use crate::error::StoreError;

/// A tuning to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewTuning<'a> {
    /// The machine.
    pub hardware_id: &'a str,
    /// The case; it must be known.
    pub case: CaseId,
    /// The target, without settings.
    pub target: &'a TargetKey,
    /// The version of its provider.
    pub provider_version: &'a str,
    /// The settings that suit.
    pub settings: &'a CpuSettings,
    /// The campaign that compared them with the defaults, where there was one.
    pub campaign: Option<CampaignId>,
    /// What was tried and what came of it, as a JSON document.
    pub document: &'a str,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A recorded tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTuning {
    /// The machine.
    pub hardware_id: String,
    /// The case.
    pub case: CaseId,
    /// The case's model.
    pub model: ModelId,
    /// The name that users know the model by.
    pub model_name: String,
    /// The case's free dimensions.
    pub bindings: Bindings,
    /// The target, without settings.
    pub target: TargetKey,
    /// The version of its provider.
    pub provider_version: String,
    /// The settings that suit.
    pub settings: CpuSettings,
    /// The campaign that compared them with the defaults, where there was one.
    pub campaign: Option<CampaignId>,
    /// What was tried and what came of it, as a JSON document.
    pub document: String,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

impl Store {
    /// Records a tuning in place of an earlier one of the same machine, case and target.
    pub fn record_tuning(&self, new: &NewTuning<'_>) -> Result<(), StoreError> {
        self.write("record a tuning", |transaction| {
            let case = case_row(transaction, new.case)?;
            transaction
                .prepare_cached(
                    "INSERT INTO model_tuning
                         (hardware_id, case_id, target_key, provider_version, settings, campaign_id, document,
                          created_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT (hardware_id, case_id, target_key) DO UPDATE SET
                         provider_version = excluded.provider_version,
                         settings = excluded.settings,
                         campaign_id = excluded.campaign_id,
                         document = excluded.document,
                         created_unix_ms = excluded.created_unix_ms",
                )?
                .execute(params![
                    new.hardware_id,
                    case,
                    new.target.as_str(),
                    new.provider_version,
                    Json(new.settings),
                    new.campaign,
                    new.document,
                    new.created_unix_ms,
                ])?;
            Ok(())
        })
    }

    /// The tunings of models called `model_name`, of all machines, in the order in which they were first made.
    pub fn tunings(&self, model_name: &str) -> Result<Vec<StoredTuning>, StoreError> {
        self.read("read the tunings", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT hardware_id, model_case.digest, model.sha256, model.name, bindings, target_key,
                        provider_version, settings, campaign_id, document, created_unix_ms
                 FROM model_tuning
                 JOIN model_case ON model_case.id = model_tuning.case_id
                 JOIN model ON model.id = model_case.model_id
                 WHERE model.name = ?1
                 ORDER BY model_tuning.id",
            )?;
            let tunings = query.query_map([model_name], |row| {
                Ok(StoredTuning {
                    hardware_id: row.get(0)?,
                    case: CaseId(row.get(1)?),
                    model: ModelId(row.get(2)?),
                    model_name: row.get(3)?,
                    bindings: row.get::<_, Json<Bindings>>(4)?.0,
                    target: TargetKey(row.get(5)?),
                    provider_version: row.get(6)?,
                    settings: row.get::<_, Json<CpuSettings>>(7)?.0,
                    campaign: row.get(8)?,
                    document: row.get(9)?,
                    created_unix_ms: row.get(10)?,
                })
            })?;
            Ok(tunings.collect::<Result<_, _>>()?)
        })
    }

    /// Removes the tunings of a model on a machine, those of all its cases; gives how many there were.
    pub fn forget_tunings(&self, hardware_id: &str, model: ModelId) -> Result<usize, StoreError> {
        self.write("forget tunings", |transaction| {
            Ok(transaction
                .prepare_cached(
                    "DELETE FROM model_tuning WHERE hardware_id = ?1 AND case_id IN (
                         SELECT model_case.id FROM model_case JOIN model ON model.id = model_case.model_id
                         WHERE model.sha256 = ?2
                     )",
                )?
                .execute(params![hardware_id, model.0])?)
        })
    }
}
