//! What meters of energy read for a trial.
//!
//! Invariant: the readings themselves are kept; joules per inference are made of them anew each time.

use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};
use siliconroute_core::energy::{EnergyRun, NOT_MEASURED};
use siliconroute_core::reading::Reading;

use super::TrialFilter;
use crate::Store;
use crate::column::{Json, TrialId};
use crate::error::{Fault, StoreError};

impl Store {
    /// What meters read for a trial.
    ///
    /// # Errors
    /// As any read.
    pub fn energy(&self, trial: TrialId) -> Result<Reading<EnergyRun>, StoreError> {
        self.read("read the energy of a trial", |connection| select_energy(connection, trial))
    }
}

impl Store {
    /// What meters read for the trials that pass `filter`; those without a run of energy are left out.
    ///
    /// # Errors
    /// As any read.
    pub fn energy_runs(&self, filter: &TrialFilter) -> Result<Vec<(TrialId, EnergyRun)>, StoreError> {
        self.read("read the energy of trials", |connection| {
            let (condition, arguments) = filter.condition();
            let sql = format!(
                "SELECT trial.id, trial_energy.run FROM trial_energy
                     JOIN trial ON trial.id = trial_energy.trial_id
                     JOIN model_case ON model_case.id = trial.case_id
                 WHERE trial_energy.run IS NOT NULL AND {condition} ORDER BY trial.started_unix_ms, trial.id"
            );
            let mut query = connection.prepare_cached(&sql)?;
            let runs = query.query_map(params_from_iter(arguments), |row| {
                Ok((TrialId(row.get(0)?), row.get::<_, Json<EnergyRun>>(1)?.0))
            })?;
            Ok(runs.collect::<Result<_, _>>()?)
        })
    }
}

pub(super) fn insert_energy(
    transaction: &Transaction<'_>,
    trial: TrialId,
    energy: &Reading<EnergyRun>,
) -> Result<(), Fault> {
    let (run, absence) = match energy {
        Reading::Unavailable(reason) if reason == NOT_MEASURED => return Ok(()),
        Reading::Unavailable(reason) => (None, Some(reason)),
        Reading::Available(run) => (Some(Json(run)), None),
    };
    transaction
        .prepare_cached("INSERT INTO trial_energy (trial_id, run, absence) VALUES (?1, ?2, ?3)")?
        .execute(params![trial, run, absence])?;
    Ok(())
}

pub(super) fn select_energy(connection: &Connection, trial: TrialId) -> Result<Reading<EnergyRun>, Fault> {
    let row: Option<(Option<Json<EnergyRun>>, Option<String>)> = connection
        .prepare_cached("SELECT run, absence FROM trial_energy WHERE trial_id = ?1")?
        .query_row([trial], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match row {
        Some((Some(Json(run)), _)) => Reading::Available(run),
        Some((None, absence)) => Reading::Unavailable(absence.unwrap_or_default()),
        None => Reading::unavailable(NOT_MEASURED),
    })
}
