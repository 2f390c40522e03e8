//! Reads trials, by default without their samples, so that a start takes milliseconds.
//!
//! Invariant: a summary that is handed out was derived by this program's method.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use siliconroute_core::identity::{CaseId, ModelId};
use siliconroute_core::knowledge::{MemoryFacts, MemoryTaken, TrialFacts};
use siliconroute_core::reading::Reading;
use siliconroute_core::statistics::{self, Summary};
use siliconroute_core::target::TargetKey;
use siliconroute_core::trial::{
    Before, Failure, OutputCheck, Placement, Preparation, Purpose, Sample, Trial,
};
use siliconroute_core::workload::Workload;

use super::energy::select_energy;
use super::{insert_summary, measurement, summarise};
use crate::Store;
use crate::column::{CampaignId, Json, Name, Seed, TargetId, TrialId};
use crate::error::{Fault, StoreError};

/// Which trials to read; a field that is not set lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialFilter {
    /// Trials of one campaign.
    pub campaign: Option<CampaignId>,
    /// Trials of campaigns on hosts with this hardware id.
    pub hardware_id: Option<String>,
    /// Trials of one target with one version of its provider.
    pub target: Option<TargetId>,
    /// Trials of one case.
    pub case: Option<CaseId>,
    /// Trials in one workload.
    pub workload: Option<Workload>,
    /// Trials made for one purpose.
    pub purpose: Option<Purpose>,
    /// Trials that began at this moment or later, in milliseconds since 1970 UTC.
    pub since_unix_ms: Option<i64>,
}

/// A recorded trial without its samples and conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTrial {
    /// The row.
    pub id: TrialId,
    /// The campaign.
    pub campaign: CampaignId,
    /// The target's row, which tells versions of its provider apart.
    pub target_id: TargetId,
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The case's model.
    pub model: ModelId,
    /// The workload.
    pub workload: Workload,
    /// How the target was before each sample.
    pub preparation: Preparation,
    /// Why the trial was made.
    pub purpose: Purpose,
    /// When it began, in milliseconds since 1970 UTC.
    pub started_unix_ms: i64,
    /// Why the trial teaches nothing, if it does not.
    pub suspect: Option<String>,
    /// What was measured, or why nothing was.
    pub outcome: Result<StoredMeasurement, Failure>,
}

/// What a recorded trial measured, with the statistics of its samples in their place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMeasurement {
    /// Wall time to create the session.
    pub session_create_ns: u64,
    /// Wall time of the first inference.
    pub first_run_ns: u64,
    /// Calls made before the first sample.
    pub warmup_calls: u64,
    /// Statistics of the samples; `None` when there are none.
    pub summary: Option<Summary>,
    /// Processor time used per second of wall time while sampling.
    pub busy_cores: Reading<f64>,
    /// The most memory that the process held.
    pub peak_resident_bytes: Reading<u64>,
    /// How much the session made the process grow.
    pub session_bytes: Reading<u64>,
    /// Memory of the chip that the process held.
    pub device_bytes: Reading<u64>,
    /// Which nodes ran where.
    pub placement: Reading<Placement>,
    /// The check of the outputs.
    pub outputs: OutputCheck,
}

impl StoredTrial {
    /// What it says of memory.
    pub fn memory(&self) -> MemoryFacts {
        let taken = match &self.outcome {
            Ok(measured) => Ok(MemoryTaken {
                peak_resident_bytes: measured.peak_resident_bytes.clone(),
                session_bytes: measured.session_bytes.clone(),
                device_bytes: measured.device_bytes.clone(),
            }),
            Err(failure) => Err(failure.clone()),
        };
        MemoryFacts { target: self.target.clone(), case: self.case, model: self.model, taken }
    }

    /// What knowledge is built from; `None` for a trial without samples.
    pub fn into_facts(self) -> Option<TrialFacts> {
        let outcome = match self.outcome {
            Ok(measured) => Ok((measured.summary?, measured.outputs)),
            Err(failure) => Err(failure),
        };
        let (target, case, model, workload) = (self.target, self.case, self.model, self.workload);
        Some(TrialFacts { target, case, model, workload, outcome })
    }
}

/// Columns of a [`StoredTrial`], in the order in which [`stored_trial`] reads them.
const COLUMNS: &str = "trial.id, trial.campaign_id, trial.target_id, target.key, model_case.digest, model.sha256,
    trial.workload, trial.purpose, trial.started_unix_ms, trial.failure_kind, trial.failure_detail,
    trial.session_create_ns, trial.first_run_ns, trial.warmup_calls, trial.busy_cores, trial.busy_cores_absence,
    trial.peak_resident_bytes, trial.peak_resident_absence, trial.placement, trial.outputs, trial.samples,
    trial_summary.method, trial_summary.document, trial.suspect, trial.session_bytes, trial.session_bytes_absence,
    trial.device_bytes, trial.device_bytes_absence, trial.preparation";

/// How many [`COLUMNS`] there are.
const COLUMN_COUNT: usize = 29;

/// The tables of [`COLUMNS`].
const TABLES: &str = "trial
    JOIN target ON target.id = trial.target_id
    JOIN model_case ON model_case.id = trial.case_id
    JOIN model ON model.id = model_case.model_id
    LEFT JOIN trial_summary ON trial_summary.trial_id = trial.id";

impl Store {
    /// The trials that pass `filter`, oldest first, with their statistics.
    ///
    /// Statistics derived by another version of the method are derived anew from the samples, and kept if the
    /// store can be written.
    pub fn trial_summaries(&self, filter: &TrialFilter) -> Result<Vec<StoredTrial>, StoreError> {
        let (trials, outdated) = self.read("read the trials", |connection| {
            let (mut trials, stale) = select_trials(connection, filter)?;
            let mut outdated = Vec::new();
            for (index, replace) in stale {
                let trial = &mut trials[index];
                let summary = summarise(&select_samples(connection, trial.id)?);
                if replace {
                    outdated.push((trial.id, summary.clone()));
                }
                if let Ok(measured) = &mut trial.outcome {
                    measured.summary = summary;
                }
            }
            Ok((trials, outdated))
        })?;
        if !outdated.is_empty() && !self.is_read_only() {
            let kept = self.write("keep new summaries", |transaction| {
                outdated
                    .iter()
                    .try_for_each(|(trial, summary)| insert_summary(transaction, *trial, summary.as_ref()))
            });
            match kept {
                // The reader has what it asked for; the next one derives the summaries again.
                Ok(())
                | Err(StoreError::Busy { .. } | StoreError::Full { .. } | StoreError::ReadOnly { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(trials)
    }

    /// The raw samples of a trial, in the order in which they were taken; none for an unknown trial.
    pub fn samples(&self, trial: TrialId) -> Result<Vec<Sample>, StoreError> {
        self.read("read the samples", |connection| select_samples(connection, trial))
    }

    /// A trial as it was recorded, with its samples and conditions.
    pub fn trial(&self, id: TrialId) -> Result<Option<Trial>, StoreError> {
        self.read("read a trial", |connection| {
            let sql = format!(
                "SELECT {COLUMNS}, trial.order_seed, trial.input_seed, trial.conditions FROM {TABLES} WHERE trial.id = ?1"
            );
            let found = connection
                .prepare_cached(&sql)?
                .query_row([id], |row| {
                    let seeds = (row.get::<_, Seed>(COLUMN_COUNT)?, row.get::<_, Seed>(COLUMN_COUNT + 1)?);
                    let conditions = row.get(COLUMN_COUNT + 2)?;
                    Ok((stored_trial(row)?.0, seeds, conditions))
                })
                .optional()?;
            let Some((stored, (Seed(order_seed), Seed(input_seed)), conditions)) = found else { return Ok(None) };
            let outcome = match stored.outcome {
                Ok(measured) => {
                    let (samples, energy) = (select_samples(connection, id)?, select_energy(connection, id)?);
                    Ok(measurement(measured, samples, energy))
                }
                Err(failure) => Err(failure),
            };
            Ok(Some(Trial {
                target: stored.target,
                case: stored.case,
                workload: stored.workload,
                preparation: stored.preparation,
                purpose: stored.purpose,
                started_unix_ms: stored.started_unix_ms,
                order_seed,
                input_seed,
                conditions,
                suspect: stored.suspect,
                outcome,
            }))
        })
    }
}

impl TrialFilter {
    /// The condition of a query and its arguments.
    pub(super) fn condition(&self) -> (String, Vec<Value>) {
        let name = |name: &str| Value::Text(name.to_owned());
        let parts = [
            ("trial.campaign_id = ?", self.campaign.map(|id| Value::Integer(id.0))),
            (
                "trial.campaign_id IN
                     (SELECT campaign.id FROM campaign JOIN host ON host.id = host_id WHERE hardware_id = ?)",
                self.hardware_id.as_deref().map(name),
            ),
            ("trial.target_id = ?", self.target.map(|id| Value::Integer(id.0))),
            ("model_case.digest = ?", self.case.map(|case| Value::Blob(case.0.to_vec()))),
            ("trial.workload = ?", self.workload.map(|workload| name(workload.name()))),
            ("trial.purpose = ?", self.purpose.map(|purpose| name(purpose.name()))),
            ("trial.started_unix_ms >= ?", self.since_unix_ms.map(Value::Integer)),
        ];
        let (mut conditions, mut arguments) = (vec!["TRUE"], Vec::new());
        for (condition, argument) in parts {
            if let Some(argument) = argument {
                conditions.push(condition);
                arguments.push(argument);
            }
        }
        (conditions.join(" AND "), arguments)
    }
}

/// What a stored summary is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Freshness {
    /// It was derived by this program's method, or there is nothing to summarise.
    Current,
    /// It was derived by an older method, or cannot be read.
    Older,
    /// A newer version of the program derived it; replacing it would make the two undo each other's work.
    Newer,
}

/// Trials without usable statistics: position, and whether the stored ones are to be replaced.
type Stale = Vec<(usize, bool)>;

fn select_trials(connection: &Connection, filter: &TrialFilter) -> Result<(Vec<StoredTrial>, Stale), Fault> {
    let (condition, arguments) = filter.condition();
    let sql =
        format!("SELECT {COLUMNS} FROM {TABLES} WHERE {condition} ORDER BY trial.started_unix_ms, trial.id");
    let mut query = connection.prepare_cached(&sql)?;
    let mut rows = query.query(params_from_iter(arguments))?;
    let (mut trials, mut stale) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let (trial, freshness) = stored_trial(row)?;
        if freshness != Freshness::Current {
            stale.push((trials.len(), freshness == Freshness::Older));
        }
        trials.push(trial);
    }
    Ok((trials, stale))
}

fn select_samples(connection: &Connection, trial: TrialId) -> Result<Vec<Sample>, Fault> {
    let mut query = connection.prepare_cached(
        "SELECT round, calls, total_ns, before FROM sample WHERE trial_id = ?1 ORDER BY sequence",
    )?;
    let samples = query.query_map([trial], |row| {
        let before = row.get::<_, Option<Json<Before>>>(3)?.map_or(Before::Running, |Json(before)| before);
        Ok(Sample { round: row.get(0)?, calls: row.get(1)?, total_ns: row.get(2)?, before })
    })?;
    Ok(samples.collect::<Result<_, _>>()?)
}

/// Reads [`COLUMNS`].
fn stored_trial(row: &Row<'_>) -> rusqlite::Result<(StoredTrial, Freshness)> {
    let (outcome, freshness) = if let Some(Name(kind)) = row.get(9)? {
        (Err(Failure { kind, detail: row.get(10)? }), Freshness::Current)
    } else {
        let (summary, freshness) = stored_summary(row)?;
        let measurement = StoredMeasurement {
            session_create_ns: row.get(11)?,
            first_run_ns: row.get(12)?,
            warmup_calls: row.get(13)?,
            summary,
            busy_cores: reading(row.get(14)?, row.get(15)?),
            peak_resident_bytes: reading(row.get(16)?, row.get(17)?),
            session_bytes: reading(row.get(24)?, row.get(25)?),
            device_bytes: reading(row.get(26)?, row.get(27)?),
            placement: row.get::<_, Json<Reading<Placement>>>(18)?.0,
            outputs: row.get::<_, Json<OutputCheck>>(19)?.0,
        };
        (Ok(measurement), freshness)
    };
    let trial = StoredTrial {
        id: row.get(0)?,
        campaign: row.get(1)?,
        target_id: row.get(2)?,
        target: TargetKey(row.get(3)?),
        case: CaseId(row.get(4)?),
        model: ModelId(row.get(5)?),
        workload: row.get::<_, Name<Workload>>(6)?.0,
        purpose: row.get::<_, Name<Purpose>>(7)?.0,
        started_unix_ms: row.get(8)?,
        preparation: row
            .get::<_, Option<Json<Preparation>>>(28)?
            .map_or_else(Preparation::default, |Json(it)| it),
        suspect: row.get(23)?,
        outcome,
    };
    Ok((trial, freshness))
}

/// The stored summary if it was derived by this program's method.
fn stored_summary(row: &Row<'_>) -> rusqlite::Result<(Option<Summary>, Freshness)> {
    let samples: u64 = row.get(20)?;
    if samples == 0 {
        return Ok((None, Freshness::Current));
    }
    let method: i64 = row.get::<_, Option<i64>>(21)?.unwrap_or(0);
    if method > i64::from(statistics::METHOD_VERSION) {
        return Ok((None, Freshness::Newer));
    }
    if method < i64::from(statistics::METHOD_VERSION) {
        return Ok((None, Freshness::Older));
    }
    let document: String = row.get(22)?;
    Ok(match serde_json::from_str(&document) {
        Ok(summary) => (Some(summary), Freshness::Current),
        Err(_) => (None, Freshness::Older),
    })
}

/// Joins the two columns of a reading.
fn reading<T>(value: Option<T>, absence: Option<String>) -> Reading<T> {
    match value {
        Some(value) => Reading::Available(value),
        None => Reading::Unavailable(absence.unwrap_or_default()),
    }
}
