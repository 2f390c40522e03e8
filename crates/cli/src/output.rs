//! What is printed: tables for people, one JSON document for programs, errors with their hints.
//!
//! Invariant: a reader that closes the pipe ends the output, not the program with a panic; a result that
//! cannot be written for any other reason is never passed over.

use std::cell::OnceCell;
use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;
use siliconroute::Error;
pub(crate) use siliconroute::machine::brief;
use siliconroute::machine::describe_error;

/// Where results and messages go.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    lost: OnceCell<io::Error>,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, lost: OnceCell::new() }
    }

    /// Prints a line of the result.
    pub(crate) fn line(&self, text: impl Display) {
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            // The first failure says why; those that follow from it add nothing.
            let _first = self.lost.get_or_init(|| error);
        }
    }

    /// Why a part of the result could not be written, as on a full disk.
    pub(crate) fn lost(&self) -> Option<&io::Error> {
        self.lost.get()
    }

    /// Prints the one JSON document of the result.
    pub(crate) fn document(&self, document: &impl Serialize) {
        match serde_json::to_string_pretty(document) {
            Ok(text) => self.line(text),
            Err(error) => self.message(format!("error: the result cannot be written as JSON: {error}")),
        }
    }

    /// Tells the user something beside the result.
    pub(crate) fn message(&self, text: impl Display) {
        let mut err = io::stderr().lock();
        // Where even messages cannot be written, there is nobody to tell.
        if let Err(error) = writeln!(err, "{text}") {
            tracing::debug!("a message is lost: {error}");
        }
    }

    /// Tells the user something that may surprise, unless only the result is wanted.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            self.message(format!("note: {text}"));
        }
    }

    /// Tells what went wrong, why, and what to do.
    pub(crate) fn error(&self, error: &Error) {
        self.message(format!("error: {}", describe_error(error)));
        if let Some(hint) = error.hint() {
            self.message(format!("hint: {hint}"));
        }
    }
}

/// Starts a table with these columns; names that begin with `#` are aligned to the right.
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|name| name.trim_start_matches('#')));
    for (index, name) in columns.iter().enumerate() {
        if name.starts_with('#')
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A cell of an optional value; absence shows as a dash.
pub(crate) fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> Cell {
    Cell::new(value.map_or_else(|| "–".to_owned(), show))
}

/// Milliseconds with a fitting unit.
pub(crate) fn milliseconds(ms: f64) -> String {
    siliconroute_core::decide::format_duration_ns(ms * 1e6)
}

/// Bytes with a binary unit.
pub(crate) fn bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.1} GiB", value / 1_073_741_824.0),
    }
}

/// A large count of a unit, such as `4.09 GFLOP` or `64 FLOP`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let count = count(value);
    let space = if count.ends_with(char::is_alphabetic) { "" } else { " " };
    format!("{count}{space}{unit}")
}

/// A large count with a decimal prefix, such as `4.09 G`.
pub(crate) fn count(value: f64) -> String {
    match value {
        v if v < 1e3 => format!("{v:.0}"),
        v if v < 1e6 => format!("{:.2} k", v / 1e3),
        v if v < 1e9 => format!("{:.2} M", v / 1e6),
        v => format!("{:.2} G", v / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_stands_apart_from_a_number_and_joins_a_prefix() {
        for (value, expected) in [
            (64.0, "64 FLOP"),
            (999.0, "999 FLOP"),
            (1e3, "1.00 kFLOP"),
            (4.09e9, "4.09 GFLOP"),
            (0.0, "0 FLOP"),
        ] {
            assert_eq!(quantity(value, "FLOP"), expected);
        }
    }
}
