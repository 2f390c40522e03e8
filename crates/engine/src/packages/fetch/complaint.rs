//! Reads out of pip's and uv's messages what went wrong.
//!
//! Invariant: pip says "no matching distribution" also when it is offline, so signs of a dead network are
//! looked for first.

use std::path::Path;

use super::{FetchError, disk_full};
use crate::packages::pin::WheelPin;

/// The longest reason passed on, in characters.
const LONGEST: usize = 300;
/// The longest line that is passed on whole where a sign in it was recognised, in bytes.
const READABLE: usize = 140;

const OFFLINE: &[&str] = &[
    "failed to establish a new connection",
    "newconnectionerror",
    "connecttimeouterror",
    "connection refused",
    "connection reset",
    "connection aborted",
    "name or service not known",
    "temporary failure in name resolution",
    "nodename nor servname",
    "getaddrinfo failed",
    "no address associated with hostname",
    "network is unreachable",
    "no route to host",
    "read timed out",
    "cannot connect to proxy",
    "tunnel connection failed",
    "sslerror",
    "certificate_verify_failed",
    "invalid peer certificate",
    "client error (connect)",
    "dns error",
];
const NOT_OFFERED: &[&str] = &["no matching distribution found", "could not find a version that satisfies"];
const DISK_FULL: &[&str] =
    &["no space left on device", "disk quota exceeded", "not enough space on the disk"];

/// What a program complained about, with its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Complaint {
    Unreachable(String),
    NotOffered(String),
    DiskFull(String),
    Other(String),
}

impl Complaint {
    /// The program's own words.
    pub(super) fn reason(&self) -> &str {
        let (Self::Unreachable(text) | Self::NotOffered(text) | Self::DiskFull(text) | Self::Other(text)) =
            self;
        text
    }

    /// The error to report for a download that failed so.
    pub(super) fn into_error(self, program: String, wheel: &WheelPin, dir: &Path) -> FetchError {
        match self {
            Self::Unreachable(reason) => FetchError::Unreachable { program, reason },
            Self::NotOffered(reason) => FetchError::NotOffered { file: wheel.file().to_owned(), reason },
            Self::DiskFull(_) => disk_full(wheel, dir),
            Self::Other(reason) => FetchError::Failed { program, reason },
        }
    }
}

/// Reads the messages of a program that failed.
pub(super) fn read_complaint(messages: &str) -> Complaint {
    let lines: Vec<String> = messages.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let telling = |signs: &[&str]| {
        lines.iter().rev().find_map(|line| {
            let lower = line.to_ascii_lowercase();
            let sign = signs.iter().find(|sign| lower.contains(**sign))?;
            // pip wraps what happened into the names of Python objects; the sign alone is then clearer.
            Some(if line.len() > READABLE { (*sign).to_owned() } else { line.clone() })
        })
    };
    if let Some(line) = telling(DISK_FULL) {
        return Complaint::DiskFull(line);
    }
    if let Some(line) = telling(OFFLINE) {
        return Complaint::Unreachable(line);
    }
    if let Some(line) = telling(NOT_OFFERED) {
        return Complaint::NotOffered(line);
    }
    let is_error = |line: &&String| line.to_ascii_lowercase().starts_with("error");
    let last = lines.iter().rfind(is_error).or(lines.last());
    Complaint::Other(last.cloned().unwrap_or_else(|| "it gave no reason".to_owned()))
}

/// A line without colours and control characters, cut to a readable length.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A colour runs from ESC to the next letter.
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else if !character.is_control() {
            text.push(character);
        }
    }
    text.trim().chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(messages: &str, expected: &Complaint) {
        assert_eq!(read_complaint(messages), *expected);
    }

    #[test]
    fn tells_offline_from_not_offered() {
        let gone = "ERROR: No matching distribution found for a==1";
        let retry = "WARNING: Retrying after connection broken by 'NewConnectionError: [Errno 111] Connection refused'";
        check(&format!("{retry}\n{gone}\n"), &Complaint::Unreachable(retry.to_owned()));
        check(&format!("Looking in links: x\n{gone}\n\n"), &Complaint::NotOffered(gone.to_owned()));
        let long = format!("{} Failed to establish a new connection {gone}", "x".repeat(READABLE));
        check(&long, &Complaint::Unreachable("failed to establish a new connection".to_owned()));
        let uv = "  cause: client error (Connect)";
        check(&format!("error: Failed to fetch\n{uv}"), &Complaint::Unreachable(uv.trim().to_owned()));
    }

    #[test]
    fn passes_on_the_last_error_without_colours() {
        check("\u{1b}[31mERROR: odd\u{1b}[0m\n[notice] new pip", &Complaint::Other("ERROR: odd".to_owned()));
        check("just this\n \n", &Complaint::Other("just this".to_owned()));
        check("", &Complaint::Other("it gave no reason".to_owned()));
        let full = "ERROR: Could not install: [Errno 28] No space left on device";
        check(full, &Complaint::DiskFull(full.to_owned()));
        check(&"é".repeat(999), &Complaint::Other("é".repeat(LONGEST)));
    }
}
