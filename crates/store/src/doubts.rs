//! Doubts: times that runs have shown to have changed since they were measured.
//!
//! Invariant: a machine, target, case and workload have at most one doubt, the latest. Doubts stay: whoever reads them sees by
//! the trials since whether the time was measured again.

use rusqlite::params;
use siliconroute_core::identity::CaseId;
use siliconroute_core::target::TargetKey;
use siliconroute_core::workload::Workload;

use crate::Store;
use crate::catalogue::case_row;
use crate::column::{Name, TargetId};
use crate::error::StoreError;

/// A doubt to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewDoubt<'a> {
    /// The machine.
    pub hardware_id: &'a str,
    /// The target.
    pub target: TargetId,
    /// The case; it must be known.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// The new time over the one from before.
    pub ratio: f64,
    /// When it was noticed, in milliseconds since 1970 UTC.
    pub since_unix_ms: i64,
}

/// A recorded doubt.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDoubt {
    /// The target's row.
    pub target_id: TargetId,
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// The new time over the one from before.
    pub ratio: f64,
    /// When it was noticed, in milliseconds since 1970 UTC.
    pub since_unix_ms: i64,
}

impl Store {
    /// Records a doubt in place of an earlier one of the same time.
    pub fn record_doubt(&self, new: &NewDoubt<'_>) -> Result<(), StoreError> {
        self.write("record a doubt", |transaction| {
            let case = case_row(transaction, new.case)?;
            transaction
                .prepare_cached(
                    "INSERT INTO doubt (hardware_id, target_id, case_id, workload, ratio, since_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT (hardware_id, target_id, case_id, workload) DO UPDATE SET
                         ratio = excluded.ratio,
                         since_unix_ms = excluded.since_unix_ms",
                )?
                .execute(params![
                    new.hardware_id,
                    new.target,
                    case,
                    Name(new.workload),
                    new.ratio,
                    new.since_unix_ms,
                ])?;
            Ok(())
        })
    }

    /// The doubts of a machine, in the order in which they first came up.
    pub fn doubts(&self, hardware_id: &str) -> Result<Vec<StoredDoubt>, StoreError> {
        self.read("read the doubts", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT target_id, target.key, model_case.digest, workload, ratio, since_unix_ms
                 FROM doubt
                 JOIN target ON target.id = doubt.target_id
                 JOIN model_case ON model_case.id = doubt.case_id
                 WHERE hardware_id = ?1
                 ORDER BY doubt.id",
            )?;
            let doubts = query.query_map([hardware_id], |row| {
                Ok(StoredDoubt {
                    target_id: row.get(0)?,
                    target: TargetKey(row.get(1)?),
                    case: CaseId(row.get(2)?),
                    workload: row.get::<_, Name<Workload>>(3)?.0,
                    ratio: row.get(4)?,
                    since_unix_ms: row.get(5)?,
                })
            })?;
            Ok(doubts.collect::<Result<_, _>>()?)
        })
    }
}
