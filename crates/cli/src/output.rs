//! What is printed: tables for people, one JSON document for programs, errors with their hints.
//!
//! Invariant: text from outside goes through [`visible()`] here and nowhere else; a reader that closes the pipe
//! ends the output, not the program with a panic; a result that cannot be written is never passed over; there
//! is at most one document.

mod listing;
mod screen;
mod visible;

use std::cell::{Cell, OnceCell};
use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};
use siliconroute::machine::describe_error;
pub(crate) use siliconroute::wording::binary_size as bytes;
use siliconroute::{Error, ErrorKind};

pub(crate) use listing::{Listing, escape_html, optional, table};
pub(crate) use screen::Screen;
pub(crate) use visible::{VisibleErrors, visible, visible_lines};

/// Where results and messages go.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    lost: OnceCell<io::Error>,
    closed: Cell<bool>,
    documented: Cell<bool>,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, lost: OnceCell::new(), closed: Cell::new(false), documented: Cell::new(false) }
    }

    /// Prints a line of the result.
    pub(crate) fn line(&self, text: impl Display) {
        self.verbatim(&visible(&text.to_string()));
    }

    /// Prints a text of the result, on a terminal broken between its words.
    pub(crate) fn paragraph(&self, text: impl Display) {
        let text = text.to_string();
        let text = visible(&text);
        match terminal_size::terminal_size_of(io::stdout()) {
            Some((width, _)) => {
                self.verbatim(&listing::broken(&text, width.0, listing::PARAGRAPH).join("\n"));
            }
            None => self.verbatim(&text),
        }
    }

    /// Prints a table; nothing of one without rows.
    pub(crate) fn table(&self, listing: &Listing) {
        if listing.is_empty() {
            return;
        }
        let width = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
        self.verbatim(&listing.text(width));
    }

    /// Prints text of this program's own that has to stay as it is.
    pub(crate) fn verbatim(&self, text: &str) {
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            self.cannot_write(error);
        }
    }

    /// Takes note that a part of the result could not be written.
    pub(crate) fn cannot_write(&self, error: io::Error) {
        self.closed.set(true);
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.lose(error);
        }
    }

    /// Whether writing more of the result is in vain, so that one without end should end.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn lose(&self, error: io::Error) {
        // The first failure says why; those that follow from it add nothing.
        let _first = self.lost.get_or_init(|| error);
    }

    /// Why a part of the result could not be written, as on a full disk.
    pub(crate) fn lost(&self) -> Option<&io::Error> {
        self.lost.get()
    }

    /// Prints the one JSON document of a result that is a failure as well, where there is a `failure`.
    pub(crate) fn document_with(&self, mut document: Value, failure: Option<&Error>) {
        if let Some(failure) = failure {
            let hint = failure.hint();
            document["error"] = error_object(failure.kind(), &describe_error(failure), hint.as_deref());
        }
        self.document(&document);
    }

    /// Prints the one JSON document of the result.
    pub(crate) fn document(&self, document: &impl Serialize) {
        self.documented.set(true);
        match serde_json::to_string_pretty(document) {
            // JSON has escapes of its own, and programs want the names as they are.
            Ok(text) => self.verbatim(&text),
            Err(error) => self.lose(error.into()),
        }
    }

    /// Tells the user something beside the result.
    pub(crate) fn message(&self, text: impl Display) {
        let mut err = io::stderr().lock();
        // Where even messages cannot be written, there is nobody to tell.
        if let Err(error) = writeln!(err, "{}", visible(&text.to_string())) {
            tracing::debug!("a message is lost: {error}");
        }
    }

    /// Tells the user something that changes what the result means, which is never kept quiet.
    pub(crate) fn note(&self, text: impl Display) {
        self.message(format!("note: {text}"));
    }

    /// Tells something in lines of this program's own making, whose parts may come from outside.
    pub(crate) fn lines(&self, text: &str) {
        text.trim_end().split('\n').for_each(|line| self.message(line));
    }

    /// Tells what went wrong, why, and what to do.
    pub(crate) fn error(&self, error: &Error) {
        let (message, hint) = (describe_error(error), error.hint());
        self.failure_document(error.kind(), &message, hint.as_deref());
        self.message(format!("error: {message}"));
        if let Some(hint) = hint {
            self.message(format!("hint: {hint}"));
        }
    }

    /// Where a program reads the result, it reads the failure there too, unless the result has told it.
    pub(crate) fn failure_document(&self, kind: ErrorKind, message: &str, hint: Option<&str>) {
        if self.json && !self.documented.get() {
            let error = error_object(kind, message, hint);
            self.document(&json!({"schema": "siliconroute.error/1", "error": error}));
        }
    }
}

fn error_object(kind: ErrorKind, message: &str, hint: Option<&str>) -> Value {
    json!({"code": kind.code(), "exit_code": kind.exit_code(), "message": message, "hint": hint})
}

/// Milliseconds with a fitting unit.
pub(crate) fn milliseconds(ms: f64) -> String {
    siliconroute_core::decide::format_duration_ns(ms * 1e6)
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
mod tests;
