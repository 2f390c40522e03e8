//! What the sampler saw of the machine.
//!
//! Invariant: a batch is stored whole or not at all, and never changed; reasons that repeat are stored once.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::Store;
use crate::column::CampaignId;
use crate::error::{Fault, StoreError};

/// One look at the machine, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLook {
    /// When it was taken, in milliseconds since 1970 UTC.
    pub taken_unix_ms: i64,
    /// How long it took, in nanoseconds.
    pub took_ns: u64,
    /// What it found, as a JSON document.
    pub document: String,
    /// What it did not find, by its place in the document, with the reasons: a JSON document.
    pub absences: String,
}

/// One look as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLook {
    /// The campaign that ran.
    pub campaign: Option<CampaignId>,
    /// The look.
    pub look: NewLook,
}

impl Store {
    /// Records looks, of a campaign where one ran.
    ///
    /// # Errors
    /// When the campaign was never recorded, a document is not JSON, a time is over 292 years, and as any write.
    pub fn record_telemetry(
        &self,
        campaign: Option<CampaignId>,
        looks: &[NewLook],
    ) -> Result<(), StoreError> {
        if looks.is_empty() {
            return Ok(());
        }
        self.write("record what the sensors told", |transaction| {
            for look in looks {
                let absence = absence_row(transaction, &look.absences)?;
                transaction
                    .prepare_cached(
                        "INSERT INTO telemetry (campaign_id, taken_unix_ms, took_ns, document, absence_id)
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![campaign, look.taken_unix_ms, look.took_ns, look.document, absence])?;
            }
            Ok(())
        })
    }

    /// The looks that were taken at `since_unix_ms` or later, of one campaign where one is named, oldest first, at most
    /// `most`.
    ///
    /// # Errors
    /// As any read.
    pub fn telemetry(
        &self,
        campaign: Option<CampaignId>,
        since_unix_ms: i64,
        most: u32,
    ) -> Result<Vec<StoredLook>, StoreError> {
        self.read("read what the sensors told", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT campaign_id, taken_unix_ms, took_ns, telemetry.document, telemetry_absence.document
                 FROM telemetry JOIN telemetry_absence ON telemetry_absence.id = telemetry.absence_id
                 WHERE taken_unix_ms >= ?1 AND (?2 IS NULL OR campaign_id = ?2)
                 ORDER BY taken_unix_ms, telemetry.id LIMIT ?3",
            )?;
            let looks = query.query_map(params![since_unix_ms, campaign, most], |row| {
                let look = NewLook {
                    taken_unix_ms: row.get(1)?,
                    took_ns: row.get(2)?,
                    document: row.get(3)?,
                    absences: row.get(4)?,
                };
                Ok(StoredLook { campaign: row.get(0)?, look })
            })?;
            Ok(looks.collect::<Result<_, _>>()?)
        })
    }
}

/// The row of a set of reasons, made where it is new.
fn absence_row(transaction: &Transaction<'_>, document: &str) -> Result<i64, Fault> {
    let known: Option<i64> = transaction
        .prepare_cached("SELECT id FROM telemetry_absence WHERE document = ?1")?
        .query_row([document], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    transaction
        .prepare_cached("INSERT INTO telemetry_absence (document) VALUES (?1)")?
        .execute([document])?;
    Ok(transaction.last_insert_rowid())
}
