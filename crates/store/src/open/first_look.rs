//! A look at a file that may be damaged or of another program, before SQLite may make or change anything beside it.
//!
//! Invariant: nothing is made beside the file, and no file that is in use is refused for what changed while it was looked at.
//! Files beside a database: <https://www.sqlite.org/tempfiles.html>.

use std::path::Path;

use super::{LOG_INDEX, beside, identify};
use crate::copy::{open_beside_nothing, stamps};
use crate::error::OpenError;

/// How often a file that changes while it is looked at is looked at anew.
const ATTEMPTS: u32 = 3;

/// Refuses a database that is damaged, of another program or of a newer version.
///
/// SQLite would make a log with its index beside such a file, or roll a journal back into it, only to find that out. Where an
/// index lies there already, others are or were at work, and it is for SQLite's locks to tell. Whatever else keeps the look
/// from being taken is found again, and told, when the file is opened.
pub(super) fn refuse_unusable(path: &Path, busy_timeout_ms: u32, supported: u32) -> Result<(), OpenError> {
    for _ in 0..ATTEMPTS {
        let before = stamps(path);
        let Ok(Some(original)) = open_beside_nothing(path, busy_timeout_ms) else { return Ok(()) };
        let sort = |error| OpenError::sort(path, busy_timeout_ms, error);
        let Err(refusal) = identify(&original.connection, path, supported) else { return Ok(()) };
        let is_at_rest = stamps(path) == before && !beside(path, LOG_INDEX).exists();
        match refusal.sorted(sort) {
            refusal @ (OpenError::NotADatabase { .. }
            | OpenError::WrongApplication { .. }
            | OpenError::NewerSchema { .. })
                if is_at_rest =>
            {
                return Err(refusal);
            }
            _ if is_at_rest => return Ok(()),
            _ => {}
        }
    }
    Ok(())
}
