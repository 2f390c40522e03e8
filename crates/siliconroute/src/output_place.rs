//! Where a file that a user names really goes.
//!
//! Invariant: a link stays a link, and nothing but a regular file is ever replaced.

use std::io;
use std::path::{Path, PathBuf};

use siliconroute_engine::regular_file::check_regular;

/// As many links as Linux follows.
const MOST_LINKS: usize = 40;

/// The place that `path` stands for: itself, or where its links lead to, a regular file or nothing yet.
///
/// # Errors
/// When a folder, pipe, device or socket is there, or the system does not tell.
pub(crate) fn output_place(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => {
                place = folder_of(&place).join(std::fs::read_link(&place)?);
            }
            Ok(metadata) => return check_regular(&metadata).map(|()| place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(place),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its links lead in a circle"))
}

/// The folder that `path` lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
