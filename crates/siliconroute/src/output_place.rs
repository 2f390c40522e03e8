//! Where a file that a user names really goes.
//!
//! Invariant: a link stays a link, nothing but a regular file is ever replaced, and a file is written whole or not at all. Of what lies
//! beside it, only temporary files of this program that nobody writes any more are removed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use siliconroute_engine::regular_file::{check_regular, open_regular};

use crate::space::{file_limit_hint, is_disk_full};

/// The name of a temporary file is this and random letters and digits.
const PREFIX: &str = ".siliconroute-";
const RANDOM: usize = 6;

/// A temporary file that nobody has locked is a dead program's only after this time: until then it may be about to be locked.
const SETTLED: Duration = Duration::from_hours(1);

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
    remove_leftovers(folder);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        // The temporary file's usual mode keeps it from everyone else; a result gets the mode of any new file.
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.tempfile_in(folder).map_err(&unwritable)?;
    // Where nothing can be locked, others find nothing to be free either.
    if let Err(error) = temporary.as_file().try_lock() {
        tracing::debug!("{} is not locked: {error}", temporary.path().display());
    }
    let mut writer = BufWriter::new(temporary.as_file_mut());
    write(&mut writer)?;
    writer.flush().map_err(&unwritable)?;
    drop(writer);
    temporary.as_file().sync_all().map_err(&unwritable)?;
    temporary.persist(&destination).map_err(|failure| unwritable(failure.error))?;
    Ok(())
}

/// Removes temporary files that programs have left in `folder` which were ended while they wrote.
fn remove_leftovers(folder: &Path) {
    // What cannot be looked at stays.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| is_temporary(&entry.file_name())) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && is_left(&path)
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::debug!("{} stays: {error}", path.display());
        }
    }
}

fn is_temporary(name: &OsStr) -> bool {
    let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    random.is_some_and(|it| it.len() == RANDOM && it.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Whether nobody holds the file, and nobody was about to.
fn is_left(path: &Path) -> bool {
    let Ok((file, metadata)) = open_regular(path) else { return false };
    let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age > SETTLED) && file.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_dead_program_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let make = |name: &str, hours: u64| {
            let file = File::create(place(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
            file
        };
        let kept = [
            (".siliconroute-Young0", 0),
            (".siliconroute-Held00", 2),
            (".siliconroute-longer0", 2),
            (".siliconroute-a.b-c0", 2),
            ("siliconroute-abcdef", 2),
        ];
        for (name, hours) in kept {
            make(name, hours);
        }
        let held = File::open(place(".siliconroute-Held00")).unwrap();
        held.lock().unwrap();
        make(".siliconroute-Left00", 2);
        std::fs::create_dir(place(".siliconroute-Folder")).unwrap();

        let write = || write_whole(&place("out"), |error| error, |writer| writer.write_all(b"whole"));
        write().unwrap();
        assert!(!place(".siliconroute-Left00").exists());
        assert!(kept.iter().all(|(name, _)| place(name).exists()) && place(".siliconroute-Folder").exists());
        assert_eq!(std::fs::read(place("out")).unwrap(), b"whole");
        // Once nobody holds it, it is one of those that were left.
        drop(held);
        write().unwrap();
        assert!(!place(".siliconroute-Held00").exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), kept.len() + 1);
    }
}
