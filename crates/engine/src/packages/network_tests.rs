//! The real pip fetches real wheels. Needs pip or uv and a package index; off unless the feature
//! `network-tests` is on, and then never skipped.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::progress::Silent;
use super::{
    MemberState, PipFetcher, Platform, Sha256Digest, Source, Table, Wheel, fetch_wheel, install,
    list_installed, unpack_members, verify,
};

fn fetcher() -> PipFetcher {
    PipFetcher::new(&std::env::var_os("PATH").expect("tests run with a search path"))
}

#[test]
fn installs_the_main_runtime_library_of_this_platform() {
    let root = tempfile::tempdir().unwrap();
    let table = Table::embedded();
    let package = table.get("onnxruntime").unwrap();
    let wheel = package.wheel(Platform::current().unwrap()).unwrap();
    let installed = install(root.path(), package, wheel, Source::Fetch(&fetcher()), 0, &mut Silent).unwrap();
    assert_eq!(list_installed(root.path(), table).remove(0).unwrap(), installed);
    let report = verify(root.path(), table, Some("onnxruntime"), &mut Silent).unwrap().reports.remove(0);
    assert!(report.against_table);
    assert!(report.members.iter().all(|(_, state)| *state == MemberState::Intact), "{report:?}");
}

/// The hash that the index states of a wheel, asked for as a user's pip would.
///
/// The option and its module are one word: pyenv runs `pip install` and `-m pip install`, dry or not, with a rewriting
/// of its shims at the end, and two of those at once fail each other.
fn hash_in_the_index(wheel: &Wheel) -> Result<Sha256Digest, String> {
    let dir = tempfile::tempdir().map_err(in_words)?;
    let mut pip = Command::new("python3");
    pip.args([
        "-mpip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
    ]);
    pip.args(["--disable-pip-version-check", "--report", "-", "--target"]).arg(dir.path());
    pip.args(wheel.pin.tags().pip_options());
    let done = pip
        .arg(format!("{}=={}", wheel.pin.distribution(), wheel.pin.version()))
        .output()
        .map_err(in_words)?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    let report: serde_json::Value =
        serde_json::from_slice(&done.stdout).map_err(|error| error.to_string())?;
    let hash = &report["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"];
    hash.as_str().and_then(|hash| hash.parse().ok()).ok_or_else(|| format!("no hash in {report}"))
}

/// Works on all wheels of the table, a few at a time, and panics with all that is wrong.
fn check_all(check: impl Fn(&Wheel) -> Result<(), String> + Sync) {
    let wheels: Vec<&Wheel> = Table::embedded().packages().iter().flat_map(|p| &p.wheels).collect();
    let next = AtomicUsize::new(0);
    let wrong: Mutex<Vec<String>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(wheel) = wheels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = check(wheel) {
                        wrong
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(format!("{}: {error}", wheel.pin.file()));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty() && !wheels.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_has_every_wheel_of_the_table_with_the_pinned_hash() {
    check_all(|wheel| {
        let found = hash_in_the_index(wheel)?;
        if found == wheel.pin.sha256() { Ok(()) } else { Err(format!("the index states {found}")) }
    });
}

/// All wheels together are some gigabytes. A hash stands for the same bytes for ever, so one that was found to hold its
/// files is not fetched again where `SRCI_CACHE` names a folder to note that in.
#[test]
fn every_wheel_of_the_table_holds_the_files_to_take_out() {
    let notes = std::env::var_os("SRCI_CACHE").map(|cache| PathBuf::from(cache).join("checked-wheels"));
    if let Some(notes) = &notes {
        fs::create_dir_all(notes).unwrap();
    }
    check_all(|wheel| {
        let subject = format!("{} {:?}", wheel.pin.sha256(), wheel.members);
        let note = notes.as_ref().map(|notes| notes.join(Sha256Digest::of(subject.as_bytes()).to_string()));
        if note.as_ref().is_some_and(|note| note.is_file()) {
            return Ok(());
        }
        let dir = tempfile::tempdir().unwrap();
        let path = fetch_wheel(&fetcher(), &wheel.pin, dir.path(), &mut Silent).map_err(in_words)?;
        let into = dir.path().join("unpacked");
        fs::create_dir(&into).unwrap();
        unpack_members(File::open(path).unwrap(), &wheel.members, &into, &mut Silent).map_err(in_words)?;
        if let Some(note) = note {
            fs::write(note, wheel.pin.file()).unwrap();
        }
        Ok(())
    });
}

fn in_words(error: impl std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
