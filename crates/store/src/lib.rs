//! The store: one SQLite file that keeps what was measured, learned and decided on this machine.
//!
//! Invariant: a write is complete or absent, and a raw sample is never changed or deleted. No other
//! crate touches SQLite; rows and domain types are different types, translated here.
//!
//! Reading order: `error`, `open`, `copy`, `schema`, `column`, `catalogue`, `chip_figures`, `campaigns`, `trials`, `fits`,
//! `decisions`, `doubts`, `telemetry`, `tunings`, `imports`, `check`.

// Lets unit tests share sample data with the integration tests and the benchmark.
#[cfg(test)]
extern crate self as siliconroute_store;

#[cfg(test)]
#[path = "../tests/it/sample_data.rs"]
#[expect(dead_code, reason = "the integration tests use the rest")]
mod sample_data;

mod campaigns;
mod catalogue;
mod check;
mod chip_figures;
mod column;
mod copy;
mod decisions;
mod doubts;
mod error;
mod fits;
mod imports;
mod open;
mod schema;
mod telemetry;
mod trials;
mod tunings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use campaigns::{CampaignState, NewCampaign, StoredCampaign};
pub use catalogue::{ModelRecord, StoredDiscovery, StoredModel, StoredTarget};
pub use chip_figures::StoredChipFigure;
pub use column::{CampaignId, DecisionId, HostId, OriginId, TargetId, TrialId, VerificationId};
pub use decisions::{
    DamagedDecision, NewDecision, NewOutcome, NewVerification, StoredDecision, StoredOutcome,
    StoredVerification,
};
pub use doubts::{NewDoubt, StoredDoubt};
pub use error::{Cause, OpenError, StoreError};
pub use fits::{NewFit, StoredFit};
pub use imports::{NewOrigin, StoredImport, StoredOrigin};
pub use open::OpenOptions;
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use telemetry::{NewLook, StoredLook};
pub use trials::{StoredMeasurement, StoredTrial, TrialFilter};
pub use tunings::{NewTuning, StoredTuning};

use error::Fault;

/// An open store.
///
/// Threads may share it: calls wait for one another. Other processes may hold the same file open;
/// a write waits for theirs as long as [`OpenOptions::busy_timeout_ms`] says.
pub struct Store {
    connection: Mutex<Connection>,
    path: PathBuf,
    read_only: bool,
}

impl Store {
    /// Opens the store at `path`, and creates it or brings its schema up to date unless it is read-only.
    ///
    /// A file that is no store of this program, or a newer one, is left untouched.
    ///
    /// # Errors
    /// See [`OpenError`]; each kind has a hint for the user.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let connection = open::open(path, options, schema::MIGRATIONS)?;
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned(), read_only: options.read_only })
    }

    /// Opens a private copy of the store at `path`, an empty one where there is none yet.
    ///
    /// The original is only read, wherever it lies and whoever may write there. What is written to the copy is
    /// lost with it. An older store is brought up to date in the copy.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_copy(path: &Path, busy_timeout_ms: u32) -> Result<Self, OpenError> {
        let connection = copy::open_copy(path, busy_timeout_ms, schema::MIGRATIONS)?;
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned(), read_only: false })
    }

    /// Opens a store of no measurements, which stands in for an unusable one at `path` and goes with the process.
    ///
    /// # Errors
    /// When there is not even the memory for it.
    pub fn open_empty(path: &Path) -> Result<Self, OpenError> {
        let connection = copy::open_empty(path, schema::MIGRATIONS)?;
        Ok(Self { connection: Mutex::new(connection), path: path.to_owned(), read_only: false })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the store was opened for reading alone.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Runs `work` in one transaction that takes the write lock at once: all of it or nothing.
    fn write<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut connection = self.lock();
        let attempt = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        };
        attempt().map_err(|fault: Fault| fault.during(operation, &self.path))
    }

    /// Runs queries.
    fn read<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        work(&self.lock()).map_err(|fault| fault.during(operation, &self.path))
    }

    /// A panic while the lock was held has rolled its transaction back, so the connection is sound.
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
