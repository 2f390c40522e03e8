//! Figures of chips: what they were measured to be capable of.
//!
//! Invariant: rows are only added; of one kind the latest counts.

use rusqlite::{Row, params};
use siliconroute_core::chip::ChipKey;
use siliconroute_core::chip_figure::ChipFigure;

use crate::Store;
use crate::column::{Json, Name};
use crate::error::StoreError;

/// A recorded figure.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredChipFigure {
    /// The figure.
    pub figure: ChipFigure,
    /// When it was measured, in milliseconds since 1970 UTC.
    pub measured_unix_ms: i64,
}

impl Store {
    /// Records figures of a chip of one machine; the chip must be known.
    ///
    /// # Errors
    /// When the chip is unknown, a value is not a positive number, or the store fails; then none is recorded.
    pub fn record_chip_figures(
        &self,
        chip: &ChipKey,
        hardware_id: &str,
        figures: &[ChipFigure],
        measured_unix_ms: i64,
    ) -> Result<(), StoreError> {
        self.write("record figures of a chip", |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO chip_figure
                     (chip_key, hardware_id, quantity, level, working_set_bytes, threads, value, samples, method,
                      measured_unix_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?;
            for figure in figures {
                insert.execute(params![
                    chip.as_str(),
                    hardware_id,
                    Name(figure.quantity),
                    figure.level.map(Name),
                    figure.working_set_bytes,
                    figure.threads,
                    figure.value,
                    Json(&figure.samples),
                    figure.method,
                    measured_unix_ms,
                ])?;
            }
            Ok(())
        })
    }

    /// The latest figures of a chip of one machine: one for each quantity, level and number of threads.
    ///
    /// # Errors
    /// When the store fails.
    pub fn chip_figures(
        &self,
        chip: &ChipKey,
        hardware_id: &str,
    ) -> Result<Vec<StoredChipFigure>, StoreError> {
        self.read("read the figures of a chip", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT quantity, level, working_set_bytes, threads, value, samples, method, measured_unix_ms
                 FROM chip_figure
                 WHERE id IN (
                     SELECT max(id) FROM chip_figure WHERE chip_key = ?1 AND hardware_id = ?2
                     GROUP BY quantity, level, threads
                 )
                 ORDER BY quantity, level, threads",
            )?;
            let figures = query.query_map([chip.as_str(), hardware_id], stored_figure)?;
            Ok(figures.collect::<Result<_, _>>()?)
        })
    }
}

fn stored_figure(row: &Row<'_>) -> rusqlite::Result<StoredChipFigure> {
    let figure = ChipFigure {
        quantity: row.get::<_, Name<_>>(0)?.0,
        level: row.get::<_, Option<Name<_>>>(1)?.map(|name| name.0),
        working_set_bytes: row.get(2)?,
        threads: row.get(3)?,
        value: row.get(4)?,
        samples: row.get::<_, Json<Vec<f64>>>(5)?.0,
        method: row.get(6)?,
    };
    Ok(StoredChipFigure { figure, measured_unix_ms: row.get(7)? })
}
