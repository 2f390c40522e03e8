//! Good wheels are unpacked exactly, bad ones leave nothing that could be used.

use std::io::Cursor;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::super::progress::Silent;
use super::super::wheel_fixture::{LIBRARY, MEMBERS, Recorder, member, wheel_bytes};
use super::*;

fn pins() -> Vec<MemberPin> {
    MEMBERS.iter().map(|(path, bytes)| member(path, bytes)).collect()
}

fn unpack(bytes: &[u8], pins: &[MemberPin]) -> (tempfile::TempDir, Result<(), UnpackError>) {
    let dir = tempfile::tempdir().unwrap();
    let outcome = unpack_members(Cursor::new(bytes), pins, dir.path(), &mut Silent);
    (dir, outcome)
}

#[test]
fn unpacks_the_named_members_and_nothing_else() {
    let mut pins = pins();
    pins[0].also = vec!["demo/libdemo.so.1".to_owned(), "elsewhere/libdemo.so".to_owned()];
    let (dir, outcome) = unpack(&wheel_bytes(MEMBERS), &pins);
    outcome.unwrap();
    for (path, bytes) in MEMBERS {
        assert_eq!(fs::read(dir.path().join(path)).unwrap(), *bytes);
    }
    for also in &pins[0].also {
        assert_eq!(fs::read(dir.path().join(also)).unwrap(), MEMBERS[0].1);
    }
    assert!(!dir.path().join("demo/__init__.py").exists());
}

#[track_caller]
fn check_refused(bytes: &[u8], pins: &[MemberPin], expected: &str) {
    let (_dir, outcome) = unpack(bytes, pins);
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn refuses_members_that_differ_from_their_pins() {
    let good = wheel_bytes(MEMBERS);
    check_refused(&wheel_bytes(&[(LIBRARY, b"the librarx")]), &pins()[..1], "has sha256");
    check_refused(
        &wheel_bytes(&[(LIBRARY, b"longer than the library")]),
        &pins()[..1],
        "has 23 bytes instead of 11",
    );
    check_refused(&good, &[member("demo/other.so", b"x")], "has no file `demo/other.so`");
    check_refused(&good, &[member("../evil.so", b"x")], "pinned wrongly");
    check_refused(b"no zip at all", &pins(), "not a readable wheel");
    check_refused(b"", &pins(), "not a readable wheel");
}

#[test]
fn no_truncated_or_altered_archive_panics_or_passes() {
    let good = wheel_bytes(MEMBERS);
    for length in 0..good.len() {
        let (_dir, outcome) = unpack(&good[..length], &pins());
        assert!(outcome.is_err(), "cut at {length}");
    }
    // One member and every third byte, because each unpacked file is flushed to disk.
    let pins = &pins()[..1];
    for position in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[position] ^= 0xff;
        // Some bytes do not matter, such as times; what is unpacked must be right all the same.
        if let (dir, Ok(())) = unpack(&bad, pins) {
            assert_eq!(fs::read(dir.path().join(LIBRARY)).unwrap(), MEMBERS[0].1, "byte {position}");
        }
    }
}

#[test]
fn refuses_links_folders_and_paths_that_lead_out() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink(LIBRARY, "/etc/passwd", SimpleFileOptions::default()).unwrap();
    zip.add_directory("demo/folder", SimpleFileOptions::default()).unwrap();
    zip.start_file("../evil.so", SimpleFileOptions::default()).unwrap();
    zip.write_all(b"x").unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    check_refused(&bytes, &[member(LIBRARY, b"/etc/passwd")], "is not a plain file");
    check_refused(&bytes, &[member("../evil.so", b"x")], "pinned wrongly");
    check_refused(&bytes, &[member("evil.so", b"x")], "has no file");
}

#[test]
fn a_declared_size_that_lies_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let pin = member("a", b"four");
    let copy = |bytes: &[u8], pin: &MemberPin| {
        let mut written = Vec::new();
        let outcome = copy_checked(bytes, &mut written, pin, dir.path(), &Silent);
        assert!(written.len() as u64 <= pin.size_bytes);
        outcome
    };
    assert!(copy(b"four", &pin).is_ok());
    assert!(matches!(copy(b"fo", &pin), Err(UnpackError::WrongSize { found: 2, .. })));
    assert!(matches!(copy(&vec![b'f'; 1 << 20], &pin), Err(UnpackError::WrongSize { found: 5, .. })));
}

/// A disk with room for `room` bytes.
struct SmallDisk {
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = bytes.len().min(self.room);
        self.room -= written;
        if written == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(written) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_named_as_such() {
    let pin = member("a", b"four");
    let error = copy_checked(b"four".as_slice(), &mut SmallDisk { room: 3 }, &pin, Path::new("p"), &Silent);
    assert!(matches!(error, Err(UnpackError::DiskFull { size_bytes: 4, .. })));
}

#[test]
fn stops_when_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let mut progress = Recorder { cancel_at: Some("unpacking demo.libs"), ..Recorder::default() };
    let outcome = unpack_members(Cursor::new(wheel_bytes(MEMBERS)), &pins(), dir.path(), &mut progress);
    assert!(matches!(outcome, Err(UnpackError::Cancelled)));
    assert_eq!(progress.steps, [format!("unpacking {LIBRARY}"), "unpacking demo.libs/libhelp.so".to_owned()]);
}
