//! The real pip fetches real wheels. Needs pip or uv and a package index; off unless the feature
//! `network-tests` is on, and then never skipped.

use std::path::Path;

use super::progress::Silent;
use super::{MemberState, PipFetcher, Platform, Source, Table, fetch_wheel, install, list_installed, verify};

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

/// Each kind of tag once: for another Python, for any Python, for other systems.
#[test]
fn pip_chooses_exactly_the_pinned_wheels_for_every_platform() {
    let table = Table::embedded();
    let wheels = table.packages().iter().flat_map(|package| &package.wheels);
    let mut fetched = 0;
    for wheel in wheels.filter(|wheel| wheel.pin.size_bytes() < (8 << 20)) {
        let dir = tempfile::tempdir().unwrap();
        let path = fetch_wheel(&fetcher(), &wheel.pin, dir.path(), &mut Silent).unwrap();
        assert_eq!(path.file_name(), Path::new(wheel.pin.file()).file_name());
        fetched += 1;
    }
    assert!(fetched > 0);
}
