//! What other machines measured: files that were imported, and the times in them.
//!
//! Invariant: an imported time lies in tables of its own and always has its origin; a file is imported whole or not at
//! all, and can be forgotten without a trace.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use siliconroute_core::fleet::{FleetCase, FleetTime};
use siliconroute_core::identity::{CaseId, ModelId};

use crate::Store;
use crate::column::{Json, Name, OriginId};
use crate::error::{Fault, StoreError};

/// A file of another machine's measurements, to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewOrigin<'a> {
    /// SHA-256 of the file.
    pub digest: [u8; 32],
    /// The file, as the user knows it.
    pub file: &'a str,
    /// The machine's hardware id.
    pub hardware_id: &'a str,
    /// Its operating system.
    pub os: &'a str,
    /// The version of the program that wrote the file.
    pub program_version: &'a str,
    /// The day on which it was written, counted from 1970-01-01 in UTC.
    pub exported_unix_day: i64,
    /// When it is imported, in milliseconds since 1970 UTC.
    pub imported_unix_ms: i64,
    /// The cases.
    pub cases: &'a [FleetCase],
    /// The times, of these cases alone.
    pub times: &'a [FleetTime],
}

/// An imported file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOrigin {
    /// The number by which it can be forgotten.
    pub id: OriginId,
    /// The file, as the user knew it.
    pub file: String,
    /// The machine's hardware id.
    pub hardware_id: String,
    /// Its operating system.
    pub os: String,
    /// The version of the program that wrote the file.
    pub program_version: String,
    /// The day on which it was written, counted from 1970-01-01 in UTC.
    pub exported_unix_day: i64,
    /// When it was imported, in milliseconds since 1970 UTC.
    pub imported_unix_ms: i64,
    /// Cases in it.
    pub cases: u64,
    /// Times in it.
    pub times: u64,
}

/// An imported time with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredImport {
    /// Where it came from.
    pub origin: OriginId,
    /// What was measured.
    pub time: FleetTime,
}

impl Store {
    /// Records an imported file with all that is in it, or nothing; says whether it was new.
    ///
    /// # Errors
    /// When a time is of no case of the file or is there twice, and as any write.
    pub fn record_origin(&self, new: &NewOrigin<'_>) -> Result<(OriginId, bool), StoreError> {
        self.write("import knowledge", |transaction| {
            let known: Option<OriginId> = transaction
                .prepare_cached("SELECT id FROM knowledge_origin WHERE digest = ?1")?
                .query_row([new.digest], |row| row.get(0))
                .optional()?;
            match known {
                Some(id) => Ok((id, false)),
                None => Ok((insert_origin(transaction, new)?, true)),
            }
        })
    }

    /// The imported files, in the order in which they came.
    pub fn origins(&self) -> Result<Vec<StoredOrigin>, StoreError> {
        self.read("read the origins of knowledge", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT id, file, hardware_id, os, program_version, exported_unix_day, imported_unix_ms,
                        (SELECT count(*) FROM imported_case WHERE origin_id = knowledge_origin.id),
                        (SELECT count(*) FROM imported_time WHERE origin_id = knowledge_origin.id)
                 FROM knowledge_origin ORDER BY id",
            )?;
            Ok(query.query_map([], stored_origin)?.collect::<Result<_, _>>()?)
        })
    }

    /// Removes an imported file with all that came with it; gives what it was, `None` where there is none.
    pub fn forget_origin(&self, id: OriginId) -> Result<Option<StoredOrigin>, StoreError> {
        let origin = self.origins()?.into_iter().find(|origin| origin.id == id);
        self.write("forget imported knowledge", |transaction| {
            for table in ["imported_time", "imported_case"] {
                transaction.execute(&format!("DELETE FROM {table} WHERE origin_id = ?1"), [id])?;
            }
            let removed = transaction.execute("DELETE FROM knowledge_origin WHERE id = ?1", [id])?;
            Ok(origin.filter(|_| removed > 0))
        })
    }

    /// The imported times of the cases that this machine knows, in the order in which they came.
    pub fn imported_times(&self) -> Result<Vec<StoredImport>, StoreError> {
        self.read("read the imported times", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT origin_id, document FROM imported_time
                 WHERE case_digest IN (SELECT digest FROM model_case) ORDER BY id",
            )?;
            let times = query.query_map([], |row| {
                Ok(StoredImport { origin: row.get(0)?, time: row.get::<_, Json<FleetTime>>(1)?.0 })
            })?;
            Ok(times.collect::<Result<_, _>>()?)
        })
    }

    /// The digests of all imported times with their origins.
    pub fn imported_digests(&self) -> Result<Vec<(OriginId, [u8; 32])>, StoreError> {
        self.read("read the imported times", |connection| {
            let mut query = connection.prepare_cached("SELECT origin_id, digest FROM imported_time")?;
            let digests = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(digests.collect::<Result<_, _>>()?)
        })
    }

    /// The cases that came with an imported file.
    pub fn imported_cases(&self, origin: OriginId) -> Result<Vec<FleetCase>, StoreError> {
        self.read("read the imported cases", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT digest, sha256, facts FROM imported_case WHERE origin_id = ?1 ORDER BY digest",
            )?;
            let cases = query.query_map([origin], |row| {
                let (id, model) = (CaseId(row.get(0)?), ModelId(row.get(1)?));
                Ok(FleetCase { id, model, facts: row.get::<_, Json<_>>(2)?.0 })
            })?;
            Ok(cases.collect::<Result<_, _>>()?)
        })
    }
}

fn insert_origin(transaction: &Transaction<'_>, new: &NewOrigin<'_>) -> Result<OriginId, Fault> {
    let id: OriginId = transaction
        .prepare_cached(
            "INSERT INTO knowledge_origin
                 (digest, file, hardware_id, os, program_version, exported_unix_day, imported_unix_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             RETURNING id",
        )?
        .query_row(
            params![
                new.digest,
                new.file,
                new.hardware_id,
                new.os,
                new.program_version,
                new.exported_unix_day,
                new.imported_unix_ms,
            ],
            |row| row.get(0),
        )?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO imported_case (origin_id, digest, sha256, facts) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for case in new.cases {
        insert.execute(params![id, case.id.0, case.model.0, Json(&case.facts)])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO imported_time (origin_id, digest, case_digest, workload, median_ns, document)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for time in new.times {
        let (digest, workload) = (time.digest(), Name(time.workload));
        insert.execute(params![id, digest, time.case.0, workload, time.median_ns, Json(time)])?;
    }
    Ok(id)
}

fn stored_origin(row: &Row<'_>) -> rusqlite::Result<StoredOrigin> {
    Ok(StoredOrigin {
        id: row.get(0)?,
        file: row.get(1)?,
        hardware_id: row.get(2)?,
        os: row.get(3)?,
        program_version: row.get(4)?,
        exported_unix_day: row.get(5)?,
        imported_unix_ms: row.get(6)?,
        cases: row.get(7)?,
        times: row.get(8)?,
    })
}
