//! Fitted hardware models: derived, and kept with the digest of what they were fitted on.
//!
//! Invariant: the same input fitted by the same method keeps one row.

use rusqlite::params;
use siliconroute_core::form::Fit;
use siliconroute_core::target::TargetKey;
use siliconroute_core::workload::Workload;

use crate::Store;
use crate::column::{Json, Name, TargetId};
use crate::error::StoreError;

/// A fit to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewFit<'a> {
    /// The target.
    pub target: TargetId,
    /// The workload.
    pub workload: Workload,
    /// The fit.
    pub fit: &'a Fit,
    /// SHA-256 of the rows that it was fitted on.
    pub input_digest: [u8; 32],
    /// When it was fitted, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A recorded fit.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredFit {
    /// The target's row.
    pub target_id: TargetId,
    /// The target.
    pub target: TargetKey,
    /// The workload.
    pub workload: Workload,
    /// The fit.
    pub fit: Fit,
    /// SHA-256 of the rows that it was fitted on.
    pub input_digest: [u8; 32],
    /// When it was fitted, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

impl Store {
    /// Records a fit; the same input fitted again by the same method replaces the row.
    pub fn record_fit(&self, new: &NewFit<'_>) -> Result<(), StoreError> {
        self.write("record a fit", |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO fit
                         (target_id, workload, form, document, method, input_digest, created_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (target_id, workload, input_digest, method) DO UPDATE SET
                         form = excluded.form,
                         document = excluded.document,
                         created_unix_ms = excluded.created_unix_ms",
                )?
                .execute(params![
                    new.target,
                    Name(new.workload),
                    new.fit.form.name(),
                    Json(new.fit),
                    new.fit.method,
                    new.input_digest,
                    new.created_unix_ms,
                ])?;
            Ok(())
        })
    }

    /// The latest fit of each target and workload.
    ///
    /// One that this version of the program cannot read is left out: it is derived, so it is fitted anew.
    /// Whether one is still of use is for the caller to say, from its method and its input digest.
    pub fn latest_fits(&self) -> Result<Vec<StoredFit>, StoreError> {
        self.read("read the fits", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT target_id, target.key, workload, document, input_digest, created_unix_ms
                 FROM (
                     SELECT *, row_number() OVER (
                         PARTITION BY target_id, workload ORDER BY created_unix_ms DESC, id DESC
                     ) AS age
                     FROM fit
                 ) AS latest
                 JOIN target ON target.id = latest.target_id
                 WHERE age = 1
                 ORDER BY target_id, workload",
            )?;
            let mut rows = query.query([])?;
            let mut fits = Vec::new();
            while let Some(row) = rows.next()? {
                let document: String = row.get(3)?;
                let Ok(fit) = serde_json::from_str(&document) else { continue };
                fits.push(StoredFit {
                    target_id: row.get(0)?,
                    target: TargetKey(row.get(1)?),
                    workload: row.get::<_, Name<Workload>>(2)?.0,
                    fit,
                    input_digest: row.get(4)?,
                    created_unix_ms: row.get(5)?,
                });
            }
            Ok(fits)
        })
    }
}
