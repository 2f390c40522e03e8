//! Opens files that a user names or that lie in a folder of the user's: only regular ones, and never too much of them.
//!
//! Invariant: nothing here waits for a pipe's other end or reads a device that has no end.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// Opens `path` for reading if it is, or leads to, a regular file.
///
/// # Errors
/// What the system says, or that it is a folder, pipe, device or socket.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    // Opening a pipe would already wait for a writer.
    check_regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    Ok((file, metadata))
}

/// Reads a regular file of at most `limit_bytes`.
///
/// # Errors
/// As [`open_regular`], and where the file is larger.
pub fn read_regular(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let too_large = |bytes: u64| {
        let reason = format!("it has {bytes} bytes or more, and no such file has over {limit_bytes}");
        io::Error::new(io::ErrorKind::FileTooLarge, reason)
    };
    let (file, metadata) = open_regular(path)?;
    if metadata.len() > limit_bytes {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    // A file may grow while it is read.
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}

/// Opens the lock file at `path`, which is made where there is none.
///
/// # Errors
/// What the system says, or that something else than a regular file is in the way.
pub fn open_lock(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(metadata) => check_regular(&metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Windows locks no file that is open for appending alone.
    File::options().create(true).read(true).append(true).open(path)
}

/// Refuses what is no regular file.
///
/// # Errors
/// Says what it is instead.
pub fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let reason = if metadata.is_dir() {
        "it is a folder, not a file"
    } else {
        "it is a pipe, a device or a socket, not a regular file"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_regular(&path, 4).unwrap(), b"1234");
        assert_eq!(read_regular(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_regular(&folder.path().join("none"), 3).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read_regular(folder.path(), 3).unwrap_err().to_string().contains("a folder"));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_device_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let refused = |error: io::Error| error.to_string().contains("not a regular file");
            assert!(refused(open_regular(path).unwrap_err()), "{path:?}");
            assert!(refused(read_regular(path, 3).unwrap_err()), "{path:?}");
            assert!(refused(open_lock(path).unwrap_err()), "{path:?}");
        }
    }
}
