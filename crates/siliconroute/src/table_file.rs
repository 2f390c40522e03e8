//! Tables in CSV files: cells by column name, and errors that say where.
//!
//! Invariant: a cell that is missing or no number of the kind asked for is an error with its line and column,
//! never a guess.

use std::path::{Path, PathBuf};

/// The largest table that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any table of this kind.
    #[error("`{}` has {bytes} bytes, a table has at most {MOST_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file is no table: rows of different lengths, or no UTF-8.
    #[error("`{}` is no table: {reason}", path.display())]
    NoTable {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// A column is missing.
    #[error("`{}` lacks the column `{column}`; its columns are: {found}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The columns that are there.
        found: String,
    },
    /// A cell holds what it must not.
    #[error("`{}` line {line}, column `{column}`: `{value}` {reason}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// The cell's text, shortened.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing in the file to work with.
    #[error("`{}` {reason}", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
}

/// A table in memory.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    columns: Vec<String>,
    rows: Vec<(u64, csv::StringRecord)>,
}

/// One row of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableRow<'t> {
    table: &'t Table,
    line: u64,
    record: &'t csv::StringRecord,
}

/// Characters of a bad cell that an error shows.
const SHOWN_CHARACTERS: usize = 40;

impl Table {
    /// Reads the file at `path`, which must have the columns `required`.
    pub(crate) fn load(path: &Path, required: &[&'static str]) -> Result<Self, TableError> {
        let read = |source| TableError::Read { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(read)?.len();
        if bytes > MOST_BYTES {
            return Err(TableError::TooLarge { path: path.to_owned(), bytes });
        }
        let text = std::fs::read(path).map_err(read)?;
        Self::parse(path, &text, required)
    }

    /// Reads a table from its bytes.
    pub(crate) fn parse(path: &Path, text: &[u8], required: &[&'static str]) -> Result<Self, TableError> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let no_table =
            |error: &csv::Error| TableError::NoTable { path: path.to_owned(), reason: error.to_string() };
        let columns: Vec<String> =
            reader.headers().map_err(|error| no_table(&error))?.iter().map(str::to_owned).collect();
        if let Some(column) = required.iter().find(|column| !columns.iter().any(|it| it == *column)) {
            let found = columns.join(", ").chars().take(5 * SHOWN_CHARACTERS).collect();
            return Err(TableError::NoColumn { path: path.to_owned(), column, found });
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| no_table(&error))?;
            rows.push((record.position().map_or(0, csv::Position::line), record));
        }
        Ok(Self { path: path.to_owned(), columns, rows })
    }

    /// Whether there is a column of this name.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|it| it == column)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = TableRow<'_>> {
        self.rows.iter().map(|(line, record)| TableRow { table: self, line: *line, record })
    }

    /// An error about the table as a whole.
    pub(crate) fn nothing(&self, reason: impl Into<String>) -> TableError {
        TableError::Nothing { path: self.path.clone(), reason: reason.into() }
    }
}

impl<'t> TableRow<'t> {
    /// The text of a cell, which may be empty; a column that the table lacks is empty everywhere.
    pub(crate) fn text(&self, column: &str) -> &'t str {
        let position = self.table.columns.iter().position(|it| it == column);
        position.and_then(|position| self.record.get(position)).unwrap_or_default()
    }

    /// The text of a cell that must not be empty.
    pub(crate) fn word(&self, column: &'static str) -> Result<&'t str, TableError> {
        let text = self.text(column);
        if text.is_empty() { Err(self.wrong(column, "is empty")) } else { Ok(text) }
    }

    /// A number within `range`.
    pub(crate) fn number(
        &self,
        column: &'static str,
        range: std::ops::RangeInclusive<f64>,
    ) -> Result<f64, TableError> {
        let value: f64 = self.word(column)?.parse().ok().ok_or_else(|| self.wrong(column, "is no number"))?;
        if !range.contains(&value) {
            let reason = format!("is not between {} and {}", range.start(), range.end());
            return Err(self.wrong(column, reason));
        }
        Ok(value)
    }

    /// A whole number from 0 on.
    pub(crate) fn count(&self, column: &'static str) -> Result<u64, TableError> {
        self.word(column)?.parse().ok().ok_or_else(|| self.wrong(column, "is no whole number"))
    }

    /// An error about one cell.
    pub(crate) fn wrong(&self, column: &'static str, reason: impl Into<String>) -> TableError {
        let text = self.text(column);
        let mut value: String = text.chars().take(SHOWN_CHARACTERS).collect();
        if text.chars().count() > SHOWN_CHARACTERS {
            value.push('…');
        }
        let path = self.table.path.clone();
        TableError::Cell { path, line: self.line, column, value, reason: reason.into() }
    }
}
