//! The file in which one machine tells others what it measured: JSON lines, versioned, with a checksum at the end.
//!
//! Invariant: a file is untrusted. It is read whole or refused with the line at fault; whatever is in it, reading takes
//! no more memory than a small multiple of its size. What is written could be read back.
//!
//! docs/knowledge-file.md describes the format. Reading order: `wire` (the lines), `check` (what a value may be), `read`,
//! `write`.

mod check;
mod read;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use std::path::PathBuf;

use siliconroute_core::fleet::{FleetCase, FleetTime};

use crate::output_place::writing_hint;

pub use write::KnowledgeBytes;

/// The name and version of the format.
pub const SCHEMA: &str = "siliconroute.knowledge/1";

/// The largest file that is read.
pub const MOST_BYTES: u64 = 64 << 20;

/// The longest line that is read, which has room for the inputs of a case.
pub const MOST_LINE_BYTES: usize = 64 << 10;

/// The most lines that are read.
pub const MOST_LINES: usize = 200_000;

/// What a machine tells of itself and of its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct KnowledgeFile {
    /// The version of the program that wrote it.
    pub program_version: String,
    /// The day on which it was written, counted from 1970-01-01 in UTC.
    pub exported_unix_day: i64,
    /// The machine's hardware id.
    pub hardware_id: String,
    /// Its operating system.
    pub os: String,
    /// Cases, each once.
    pub cases: Vec<FleetCase>,
    /// What sessions measured, each once, of these cases alone.
    pub times: Vec<FleetTime>,
}

/// A file whose bytes are no knowledge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeFault {
    /// A line holds what it must not.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Another version of the program wrote it.
    #[error("its format is `{found}`, and this program reads `{SCHEMA}`")]
    Version {
        /// The format that the file names.
        found: String,
    },
    /// It ends before its end.
    #[error("it is cut off after line {lines}: its last line must be the end record with the checksum")]
    Truncated {
        /// Whole lines in it.
        lines: usize,
    },
    /// Its bytes were changed.
    #[error("it was changed since it was written: its bytes do not have the checksum of its last line")]
    Changed,
}

/// Why a knowledge file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeFileError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is no knowledge file, or a damaged one.
    #[error("`{}` is no usable knowledge file, and nothing of it is imported", path.display())]
    Fault {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KnowledgeFault,
    },
    /// It cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing to tell others.
    #[error("there is nothing to export: {reason}")]
    Nothing {
        /// What is missing.
        reason: String,
    },
}

impl KnowledgeFileError {
    /// What the user can do about it, where there is something to say beyond the message.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Write { source, .. } => writing_hint(source),
            Self::Read { .. } => None,
            Self::Fault { source: KnowledgeFault::Version { .. }, .. } => {
                Some("update this program, or have the file written by its version")
            }
            Self::Fault { source: KnowledgeFault::Truncated { .. } | KnowledgeFault::Changed, .. } => {
                Some("copy the file again from where it was written")
            }
            Self::Fault { .. } => Some("such files are written by `siliconroute export --knowledge FILE`"),
            Self::Nothing { .. } => Some("`siliconroute up --once` measures the starter models"),
        }
    }
}
