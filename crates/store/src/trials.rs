//! Trials with their raw samples, and the summaries derived from them.
//!
//! Invariant: a trial is stored with all its samples or not at all, and is never changed afterwards.
//! Only the summary may be replaced, when the method that derives it changes.

mod energy;
mod read;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use siliconroute_core::accuracy::OutputDifference;
use siliconroute_core::energy::EnergyRun;
use siliconroute_core::reading::Reading;
use siliconroute_core::statistics;
use siliconroute_core::trial::{Before, Measurement, OutputCheck, Preparation, Sample, Trial};

pub use read::{StoredMeasurement, StoredTrial, TrialFilter};

use crate::Store;
use crate::catalogue::case_row;
use crate::column::{CampaignId, Json, Name, Seed, TargetId, TrialId};
use crate::error::{Fault, StoreError};

impl Store {
    /// Records a finished trial of a campaign with all its samples and their summary, or nothing of it.
    ///
    /// `target` is the row of the trial's target with the provider version that was measured.
    ///
    /// # Errors
    /// When the campaign, the target or the case was never recorded, when a sample has no calls or is longer
    /// than 292 years, when the conditions are not JSON, and as any write.
    pub fn record_trial(
        &self,
        campaign: CampaignId,
        target: TargetId,
        trial: &Trial,
    ) -> Result<TrialId, StoreError> {
        self.write("record a trial", |transaction| {
            check_target(transaction, target, trial)?;
            let case = case_row(transaction, trial.case)?;
            let id = insert_trial(transaction, campaign, target, case, trial)?;
            if let Ok(measurement) = &trial.outcome {
                insert_samples(transaction, id, &measurement.samples)?;
                insert_summary(transaction, id, summarise(&measurement.samples).as_ref())?;
                energy::insert_energy(transaction, id, &measurement.energy)?;
            }
            Ok(id)
        })
    }
}

/// Refuses a row that is not the trial's target.
fn check_target(transaction: &Transaction<'_>, target: TargetId, trial: &Trial) -> Result<(), Fault> {
    let key: Option<String> = transaction
        .prepare_cached("SELECT key FROM target WHERE id = ?1")?
        .query_row([target], |row| row.get(0))
        .optional()?;
    match key {
        Some(key) if key == trial.target.as_str() => Ok(()),
        Some(key) => {
            Err(Fault::Refused(format!("row {target} is the target {key}, the trial is of {}", trial.target)))
        }
        None => Err(Fault::Refused(format!("target {} was never recorded in row {target}", trial.target))),
    }
}

fn insert_trial(
    transaction: &Transaction<'_>,
    campaign: CampaignId,
    target: TargetId,
    case: i64,
    trial: &Trial,
) -> Result<TrialId, Fault> {
    let measured = trial.outcome.as_ref().ok();
    let failure = trial.outcome.as_ref().err();
    let busy_cores = measured.map(|m| finite(&m.busy_cores));
    let peak_resident = measured.map(|m| &m.peak_resident_bytes);
    let session_bytes = measured.map(|m| &m.session_bytes);
    let device_bytes = measured.map(|m| &m.device_bytes);
    let outputs = measured.map(|m| with_finite_error(&m.outputs));
    let samples = measured.map_or(0, |m| m.samples.len());
    transaction
        .prepare_cached(
            "INSERT INTO trial
                 (campaign_id, target_id, case_id, workload, purpose, started_unix_ms, order_seed, input_seed,
                  conditions, status, failure_kind, failure_detail, session_create_ns, first_run_ns, warmup_calls,
                  busy_cores, busy_cores_absence, peak_resident_bytes, peak_resident_absence, placement, outputs,
                  samples, session_bytes, session_bytes_absence, device_bytes, device_bytes_absence, suspect,
                  preparation)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                     ?22, ?23, ?24, ?25, ?26, ?27, ?28)",
        )?
        .execute(params![
            campaign,
            target,
            case,
            Name(trial.workload),
            Name(trial.purpose),
            trial.started_unix_ms,
            Seed(trial.order_seed),
            Seed(trial.input_seed),
            trial.conditions,
            if measured.is_some() { "ok" } else { "failed" },
            failure.map(|f| Name(f.kind)),
            failure.map(|f| &f.detail),
            measured.map(|m| m.session_create_ns),
            measured.map(|m| m.first_run_ns),
            measured.map(|m| m.warmup_calls),
            busy_cores.as_ref().and_then(|reading| reading.available()),
            busy_cores.as_ref().and_then(absence),
            peak_resident.and_then(|reading| reading.available()),
            peak_resident.and_then(absence),
            measured.map(|m| Json(&m.placement)),
            outputs.as_ref().map(Json),
            samples,
            session_bytes.and_then(|reading| reading.available()),
            session_bytes.and_then(absence),
            device_bytes.and_then(|reading| reading.available()),
            device_bytes.and_then(absence),
            trial.suspect,
            (trial.preparation != Preparation::Running).then_some(Json(&trial.preparation)),
        ])?;
    Ok(TrialId(transaction.last_insert_rowid()))
}

fn insert_samples(transaction: &Transaction<'_>, trial: TrialId, samples: &[Sample]) -> Result<(), Fault> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO sample (trial_id, sequence, round, calls, total_ns, before) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (sequence, sample) in samples.iter().enumerate() {
        let before = (sample.before != Before::Running).then_some(Json(&sample.before));
        insert.execute(params![trial, sequence, sample.round, sample.calls, sample.total_ns, before])?;
    }
    Ok(())
}

/// Keeps the summary of a trial in place of an older one; a trial without samples has none.
fn insert_summary(
    transaction: &Connection,
    trial: TrialId,
    summary: Option<&statistics::Summary>,
) -> Result<(), Fault> {
    let Some(summary) = summary else { return Ok(()) };
    transaction
        .prepare_cached(
            "INSERT INTO trial_summary (trial_id, method, document) VALUES (?1, ?2, ?3)
             ON CONFLICT (trial_id) DO UPDATE SET method = excluded.method, document = excluded.document",
        )?
        .execute(params![trial, statistics::METHOD_VERSION, Json(summary)])?;
    Ok(())
}

/// The statistics of a trial's samples; `None` when there are none.
fn summarise(samples: &[Sample]) -> Option<statistics::Summary> {
    let times: Vec<f64> = samples.iter().map(Sample::per_call_ns).collect();
    statistics::summarise(&times)
}

/// Why a reading is absent.
fn absence<T>(reading: &Reading<T>) -> Option<&str> {
    match reading {
        Reading::Available(_) => None,
        Reading::Unavailable(reason) => Some(reason),
    }
}

/// SQLite would keep NaN as NULL, which is no number and no reason either.
fn finite(reading: &Reading<f64>) -> Reading<f64> {
    match reading {
        Reading::Available(value) if !value.is_finite() => {
            Reading::unavailable(format!("the reading was {value}, which is no quantity"))
        }
        other => other.clone(),
    }
}

/// JSON has no infinity; the largest number fails every accuracy class just as an endless error does.
fn with_finite_error(check: &OutputCheck) -> OutputCheck {
    let bounded = |value: f64| if value.is_finite() { value } else { f64::MAX };
    match check {
        OutputCheck::Compared { reference, difference } => OutputCheck::Compared {
            reference: reference.clone(),
            difference: OutputDifference {
                max_relative_error: bounded(difference.max_relative_error),
                same_top1: difference.same_top1,
                reference_magnitude: bounded(difference.reference_magnitude),
            },
        },
        other => other.clone(),
    }
}

/// The measurement of a trial whose samples were read.
fn measurement(stored: StoredMeasurement, samples: Vec<Sample>, energy: Reading<EnergyRun>) -> Measurement {
    Measurement {
        session_create_ns: stored.session_create_ns,
        first_run_ns: stored.first_run_ns,
        warmup_calls: stored.warmup_calls,
        samples,
        busy_cores: stored.busy_cores,
        peak_resident_bytes: stored.peak_resident_bytes,
        session_bytes: stored.session_bytes,
        device_bytes: stored.device_bytes,
        placement: stored.placement,
        outputs: stored.outputs,
        energy,
    }
}

#[cfg(test)]
mod tests;
