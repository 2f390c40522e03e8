//! Where a file that a user names really goes.
//!
//! Invariant: a link stays a link, nothing but a regular file is ever replaced, and a file is written whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use siliconroute_engine::regular_file::check_regular;

use crate::space::{file_limit_hint, is_disk_full};

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

/// What to do about a file that cannot be written; `None` where the system's own words are all there is to say.
pub(crate) fn writing_hint(source: &io::Error) -> Option<&'static str> {
    match source.kind() {
        _ if is_disk_full(source) => Some("free some space on that disk, or write to another one"),
        io::ErrorKind::NotFound => Some("make its folder first, or name another place"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a place that you may write to")
        }
        _ => file_limit_hint(source),
    }
}

/// Runs `write` on a temporary file beside the place that `path` stands for and renames it into place.
///
/// # Errors
/// What `write` says, and as `unwritable` makes it of what the system says.
pub(crate) fn write_whole<E>(
    path: &Path,
    unwritable: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), E>,
) -> Result<(), E> {
    let destination = output_place(path).map_err(&unwritable)?;
    let folder = folder_of(&destination);
    // A folder that is not there is told as such, and not as a temporary file's own name in it.
    std::fs::metadata(folder).map_err(&unwritable)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".siliconroute-");
    #[cfg(unix)]
    {
        // The temporary file's usual mode keeps it from everyone else; a result gets the mode of any new file.
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.tempfile_in(folder).map_err(&unwritable)?;
    let mut writer = BufWriter::new(temporary.as_file_mut());
    write(&mut writer)?;
    writer.flush().map_err(&unwritable)?;
    drop(writer);
    temporary.as_file().sync_all().map_err(&unwritable)?;
    temporary.persist(&destination).map_err(|failure| unwritable(failure.error))?;
    Ok(())
}
