//! What meters of energy read for a trial.
//!
//! Invariant: the readings themselves are kept; joules per inference are made of them anew each time.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use siliconroute_core::energy::{EnergyRun, NOT_MEASURED};
use siliconroute_core::reading::Reading;

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
