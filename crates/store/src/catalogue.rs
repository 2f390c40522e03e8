//! Hosts, chips, targets, models and cases: what measurements are about.
//!
//! Invariant: recording the same thing twice keeps one row; what refers to it stays valid.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};
use siliconroute_core::chip::{Chip, ChipKey, ChipKind};
use siliconroute_core::identity::{CaseId, ModelId};
use siliconroute_core::model::{Bindings, Case, CaseFacts, ModelFacts};
use siliconroute_core::target::{ProviderName, Target, TargetKey};

use crate::Store;
use crate::column::{HostId, Json, Name, TargetId};
use crate::error::{Fault, StoreError};

/// A model to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct ModelRecord<'a> {
    /// The model's facts, its identity among them.
    pub facts: &'a ModelFacts,
    /// The name that users know it by.
    pub name: &'a str,
    /// Where it was seen.
    pub path: Option<&'a Path>,
    /// Its licence, where known.
    pub licence: Option<&'a str>,
    /// Where it came from, where known.
    pub source: Option<&'a str>,
}

/// A recorded model.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredModel {
    /// The model's facts, its identity among them.
    pub facts: ModelFacts,
    /// The name that users know it by.
    pub name: String,
    /// Where it was last seen.
    pub path: Option<PathBuf>,
    /// Its licence, where known.
    pub licence: Option<String>,
    /// Where it came from, where known.
    pub source: Option<String>,
}

/// A recorded target.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTarget {
    /// The row.
    pub id: TargetId,
    /// The target.
    pub target: Target,
    /// Provider, its version and its options in one text.
    pub fingerprint: String,
    /// When it was last recorded, in milliseconds since 1970 UTC.
    pub recorded_unix_ms: i64,
}

/// What looking for targets found the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDiscovery {
    /// The finding, a JSON document.
    pub document: String,
    /// When it was found, in milliseconds since 1970 UTC.
    pub recorded_unix_ms: i64,
}

impl Store {
    /// Records the host; other facts under the same hardware id are another row.
    ///
    /// `facts` is a JSON document.
    pub fn record_host(
        &self,
        hardware_id: &str,
        facts: &str,
        recorded_unix_ms: i64,
    ) -> Result<HostId, StoreError> {
        let mut hash = Sha256::new();
        hash.update(hardware_id);
        hash.update([0]);
        hash.update(facts);
        let digest: [u8; 32] = hash.finalize().into();
        self.write("record the host", |transaction| {
            let id = transaction
                .prepare_cached(
                    "INSERT INTO host (hardware_id, facts, digest, recorded_unix_ms) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (digest) DO UPDATE SET recorded_unix_ms = excluded.recorded_unix_ms
                     RETURNING id",
                )?
                .query_row(params![hardware_id, facts, digest, recorded_unix_ms], |row| row.get(0))?;
            Ok(id)
        })
    }

    /// Records chips; what is new about a known chip replaces what was known.
    pub fn record_chips(&self, chips: &[Chip], recorded_unix_ms: i64) -> Result<(), StoreError> {
        self.write("record the chips", |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO chip (key, document, recorded_unix_ms) VALUES (?1, ?2, ?3)
                 ON CONFLICT (key) DO UPDATE
                 SET document = excluded.document, recorded_unix_ms = excluded.recorded_unix_ms",
            )?;
            for chip in chips {
                insert.execute(params![chip.key.as_str(), Json(chip), recorded_unix_ms])?;
            }
            Ok(())
        })
    }

    /// The recorded chips, by key.
    pub fn chips(&self) -> Result<Vec<Chip>, StoreError> {
        self.read("read the chips", |connection| {
            let mut query = connection.prepare_cached("SELECT document FROM chip ORDER BY key")?;
            let chips = query.query_map([], |row| Ok(row.get::<_, Json<Chip>>(0)?.0))?;
            Ok(chips.collect::<Result<_, _>>()?)
        })
    }

    /// Records a target; its chip must be known. Another provider version or option is another row.
    pub fn record_target(&self, target: &Target, recorded_unix_ms: i64) -> Result<TargetId, StoreError> {
        self.write("record a target", |transaction| {
            let id = transaction
                .prepare_cached(
                    "INSERT INTO target
                         (key, provider, provider_version, chip_key, chip_kind, options, recorded_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (key, provider_version, options) DO UPDATE
                     SET recorded_unix_ms = excluded.recorded_unix_ms
                     RETURNING id",
                )?
                .query_row(
                    params![
                        target.key.as_str(),
                        target.provider.as_str(),
                        target.provider_version,
                        target.chip.as_str(),
                        Name(target.chip_kind),
                        Json(&target.options),
                        recorded_unix_ms,
                    ],
                    |row| row.get(0),
                )?;
            Ok(id)
        })
    }

    /// All targets ever recorded, in the order in which they were first seen.
    pub fn targets(&self) -> Result<Vec<StoredTarget>, StoreError> {
        self.read("read the targets", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT id, key, provider, provider_version, chip_key, chip_kind, options, fingerprint,
                        recorded_unix_ms
                 FROM target ORDER BY id",
            )?;
            Ok(query.query_map([], stored_target)?.collect::<Result<_, _>>()?)
        })
    }

    /// Keeps the result of looking for targets, a JSON document, under what it depends on.
    pub fn save_discovery(
        &self,
        fingerprint: &str,
        document: &str,
        recorded_unix_ms: i64,
    ) -> Result<(), StoreError> {
        self.write("keep the discovered targets", |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO discovery (fingerprint, document, recorded_unix_ms) VALUES (?1, ?2, ?3)
                     ON CONFLICT (fingerprint) DO UPDATE
                     SET document = excluded.document, recorded_unix_ms = excluded.recorded_unix_ms",
                )?
                .execute(params![fingerprint, document, recorded_unix_ms])?;
            Ok(())
        })
    }

    /// The result of looking for targets that was kept under `fingerprint`.
    pub fn load_discovery(&self, fingerprint: &str) -> Result<Option<StoredDiscovery>, StoreError> {
        self.read("read the discovered targets", |connection| {
            let found = connection
                .prepare_cached("SELECT document, recorded_unix_ms FROM discovery WHERE fingerprint = ?1")?
                .query_row([fingerprint], |row| {
                    Ok(StoredDiscovery { document: row.get(0)?, recorded_unix_ms: row.get(1)? })
                })
                .optional()?;
            Ok(found)
        })
    }

    /// Records a model; a path, licence or source that is not given leaves the known one.
    pub fn record_model(&self, model: &ModelRecord<'_>, recorded_unix_ms: i64) -> Result<(), StoreError> {
        self.write("record a model", |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO model (sha256, name, facts, last_seen_path, licence, source, recorded_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (sha256) DO UPDATE SET
                         name = excluded.name,
                         facts = excluded.facts,
                         last_seen_path = coalesce(excluded.last_seen_path, last_seen_path),
                         licence = coalesce(excluded.licence, licence),
                         source = coalesce(excluded.source, source),
                         recorded_unix_ms = excluded.recorded_unix_ms",
                )?
                .execute(params![
                    model.facts.id.0,
                    model.name,
                    Json(model.facts),
                    model.path.and_then(Path::to_str),
                    model.licence,
                    model.source,
                    recorded_unix_ms,
                ])?;
            Ok(())
        })
    }

    /// The recorded models, in the order in which they were first seen.
    pub fn models(&self) -> Result<Vec<StoredModel>, StoreError> {
        self.read("read the models", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT facts, name, last_seen_path, licence, source FROM model ORDER BY id",
            )?;
            Ok(query.query_map([], stored_model)?.collect::<Result<_, _>>()?)
        })
    }

    /// The recorded model of this identity.
    pub fn model(&self, id: ModelId) -> Result<Option<StoredModel>, StoreError> {
        self.read("read a model", |connection| {
            let found = connection
                .prepare_cached(
                    "SELECT facts, name, last_seen_path, licence, source FROM model WHERE sha256 = ?1",
                )?
                .query_row([id.0], stored_model)
                .optional()?;
            Ok(found)
        })
    }

    /// Remembers which model a file held when it had this size and time of change.
    ///
    /// A path that is not Unicode is not remembered, so that such a file is read again each time.
    pub fn record_model_file(
        &self,
        path: &Path,
        size_bytes: u64,
        modified_unix_ns: i64,
        model: ModelId,
    ) -> Result<(), StoreError> {
        let Some(path) = path.to_str() else { return Ok(()) };
        self.write("remember a model's file", |transaction| {
            let model = model_row(transaction, model)?;
            transaction
                .prepare_cached(
                    "INSERT INTO model_file (path, size_bytes, modified_unix_ns, model_id) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (path) DO UPDATE SET
                         size_bytes = excluded.size_bytes,
                         modified_unix_ns = excluded.modified_unix_ns,
                         model_id = excluded.model_id",
                )?
                .execute(params![path, size_bytes, modified_unix_ns, model])?;
            Ok(())
        })
    }

    /// The model that the file at `path` holds, if it still has the size and time of change seen before.
    pub fn model_by_file(
        &self,
        path: &Path,
        size_bytes: u64,
        modified_unix_ns: i64,
    ) -> Result<Option<StoredModel>, StoreError> {
        let Some(path) = path.to_str() else { return Ok(None) };
        self.read("look a model's file up", |connection| {
            let found = connection
                .prepare_cached(
                    "SELECT facts, name, last_seen_path, licence, source
                     FROM model_file JOIN model ON model.id = model_file.model_id
                     WHERE path = ?1 AND size_bytes = ?2 AND modified_unix_ns = ?3",
                )?
                .query_row(params![path, size_bytes, modified_unix_ns], stored_model)
                .optional()?;
            Ok(found)
        })
    }

    /// Records a case; its model must be known. New facts of a known case replace the old ones.
    pub fn record_case(&self, case: &Case, recorded_unix_ms: i64) -> Result<(), StoreError> {
        self.write("record a case", |transaction| {
            let model = model_row(transaction, case.model)?;
            transaction
                .prepare_cached(
                    "INSERT INTO model_case (digest, model_id, bindings, facts, recorded_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (digest) DO UPDATE
                     SET facts = excluded.facts, recorded_unix_ms = excluded.recorded_unix_ms",
                )?
                .execute(params![
                    case.id.0,
                    model,
                    Json(&case.bindings),
                    Json(&case.facts),
                    recorded_unix_ms
                ])?;
            Ok(())
        })
    }

    /// The recorded cases, in the order in which they were first seen.
    pub fn cases(&self) -> Result<Vec<Case>, StoreError> {
        self.read("read the cases", |connection| {
            let mut query = connection.prepare_cached(&format!("{SELECT_CASE} ORDER BY model_case.id"))?;
            let mut rows = query.query([])?;
            let mut cases = Vec::new();
            while let Some(row) = rows.next()? {
                cases.push(stored_case(row)?);
            }
            Ok(cases)
        })
    }

    /// The case with this identity, if it was recorded.
    pub fn case(&self, id: CaseId) -> Result<Option<Case>, StoreError> {
        self.read("read a case", |connection| {
            let mut query = connection.prepare_cached(&format!("{SELECT_CASE} WHERE digest = ?1"))?;
            let mut rows = query.query([id.0])?;
            rows.next()?.map(stored_case).transpose()
        })
    }
}

const SELECT_CASE: &str = "SELECT digest, model.sha256, model.name, bindings, model_case.facts
     FROM model_case JOIN model ON model.id = model_case.model_id";

/// Reads a row of [`SELECT_CASE`].
fn stored_case(row: &Row<'_>) -> Result<Case, Fault> {
    let recorded = CaseId(row.get(0)?);
    let bindings = row.get::<_, Json<Bindings>>(3)?.0;
    let facts = row.get::<_, Json<CaseFacts>>(4)?.0;
    let case = Case::new(ModelId(row.get(1)?), row.get(2)?, bindings, facts);
    if case.id == recorded {
        Ok(case)
    } else {
        Err(Fault::Corrupt(format!("case {recorded} does not belong to its bindings")))
    }
}

/// The row of a model that must have been recorded.
fn model_row(connection: &Connection, model: ModelId) -> Result<i64, Fault> {
    connection
        .prepare_cached("SELECT id FROM model WHERE sha256 = ?1")?
        .query_row([model.0], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Fault::Refused(format!("model {model} was never recorded")))
}

/// The row of a case that must have been recorded.
pub(crate) fn case_row(connection: &Connection, case: CaseId) -> Result<i64, Fault> {
    connection
        .prepare_cached("SELECT id FROM model_case WHERE digest = ?1")?
        .query_row([case.0], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Fault::Refused(format!("case {case} was never recorded")))
}

fn stored_model(row: &Row<'_>) -> rusqlite::Result<StoredModel> {
    Ok(StoredModel {
        facts: row.get::<_, Json<ModelFacts>>(0)?.0,
        name: row.get(1)?,
        path: row.get::<_, Option<String>>(2)?.map(PathBuf::from),
        licence: row.get(3)?,
        source: row.get(4)?,
    })
}

fn stored_target(row: &Row<'_>) -> rusqlite::Result<StoredTarget> {
    let target = Target {
        key: TargetKey(row.get(1)?),
        provider: ProviderName(row.get(2)?),
        provider_version: row.get(3)?,
        chip: ChipKey(row.get(4)?),
        chip_kind: row.get::<_, Name<ChipKind>>(5)?.0,
        options: row.get::<_, Json<BTreeMap<String, String>>>(6)?.0,
    };
    Ok(StoredTarget { id: row.get(0)?, target, fingerprint: row.get(7)?, recorded_unix_ms: row.get(8)? })
}
