//! The schema's versions and the steps between them.
//!
//! Invariant: a step that has been released is never edited; a change of the schema is a new step.
//! Each step is one transaction, so a store is always at one version, never between two.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

/// Marks a SQLite file as a store of this program: `SROU`.
pub const APPLICATION_ID: u32 = 0x5352_4F55;

/// The schema version that this program reads and writes.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Step `n` leads from version `n` to `n + 1`.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_initial.sql"),
    include_str!("../migrations/0002_json_or_null.sql"),
    include_str!("../migrations/0003_workloads.sql"),
    include_str!("../migrations/0004_chip_figures.sql"),
    include_str!("../migrations/0005_telemetry.sql"),
    include_str!("../migrations/0006_model_tunings.sql"),
    include_str!("../migrations/0007_imported_knowledge.sql"),
    include_str!("../migrations/0008_served_runs.sql"),
    include_str!("../migrations/0009_decision_outcomes.sql"),
    include_str!("../migrations/0010_doubts.sql"),
];

/// Brings an empty or older store to the version after the last of `steps`.
///
/// Another process may do the same at the same time: the version is read anew under the write lock.
pub(crate) fn migrate(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    // A step may write a table anew, which would count as the loss of every row that others refer to.
    // <https://www.sqlite.org/lang_altertable.html#otheralter>
    let enforced = connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false)?;
    let migrated = run_steps(connection, steps);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, enforced)?;
    migrated
}

fn run_steps(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    for (from, step) in (0_i64..).zip(steps) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&transaction)? == from {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", from + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// The schema version of an open database; 0 when it is new.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The application id of an open database; 0 when it is new or of a program that sets none.
pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<u32> {
    let signed: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(signed.cast_unsigned())
}

#[cfg(test)]
mod tests;
