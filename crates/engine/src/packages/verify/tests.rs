//! Verification finds every kind of change.

use super::super::install::{Source, install};
use super::super::progress::Silent;
use super::super::wheel_fixture::{
    FakeFetcher, LIBRARY, MEMBERS, Recorder, demo_package, demo_table, wheel_bytes,
};
use super::*;

fn installed_demo() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let (package, wheel) = demo_package(&wheel_bytes(MEMBERS));
    let fetcher = FakeFetcher::new(wheel_bytes(MEMBERS));
    let dir = install(root.path(), &package, &wheel, Source::Fetch(&fetcher), 0, &mut Silent).unwrap().dir;
    (root, dir)
}

fn empty_table() -> Table {
    Table::parse("schema = 1").unwrap()
}

#[track_caller]
fn check(table: &Table, spoil: impl FnOnce(&Path), expected: &[(&str, MemberState)]) {
    let (root, dir) = installed_demo();
    spoil(&dir);
    let report = verify(root.path(), table, "demo", &mut Silent).unwrap().remove(0);
    let bad: Vec<_> =
        report.members.iter().filter(|(_, state)| *state != MemberState::Intact).cloned().collect();
    let expected: Vec<_> = expected.iter().map(|(path, state)| ((*path).to_owned(), state.clone())).collect();
    assert_eq!(bad, expected);
    assert_eq!(report.is_intact(), expected.is_empty());
    assert_eq!(report.against_table, !table.packages().is_empty());
}

#[test]
fn finds_changed_missing_and_foreign_files() {
    let known = demo_table(&wheel_bytes(MEMBERS));
    for table in [&known, &empty_table()] {
        check(table, |_| {}, &[]);
        let tampered = [("demo.libs/libhelp.so", MemberState::Tampered)];
        check(table, |dir| fs::write(dir.join(tampered[0].0), "A sibling").unwrap(), &tampered);
        check(table, |dir| fs::write(dir.join(tampered[0].0), "longer than it was").unwrap(), &tampered);
        let missing = [("demo/libdemo.so", MemberState::Missing)];
        check(table, |dir| fs::remove_file(dir.join(missing[0].0)).unwrap(), &missing);
        let foreign = [("demo/evil.so", MemberState::Unexpected)];
        check(table, |dir| fs::write(dir.join(foreign[0].0), "x").unwrap(), &foreign);
    }
}

#[test]
fn a_record_changed_together_with_its_library_is_noticed() {
    let spoil = |dir: &Path| {
        fs::remove_file(dir.join("demo/libdemo.so")).unwrap();
        fs::write(dir.join("demo/libdemo.so"), "the library").unwrap();
        fs::write(dir.join(LIBRARY), "THE LIBRARY").unwrap();
        let record = fs::read_to_string(dir.join(RECORD_FILE)).unwrap();
        let (old, new) = (b"the library".as_slice(), b"THE LIBRARY".as_slice());
        let digest = |bytes| super::super::Sha256Digest::of(bytes).to_string();
        fs::write(dir.join(RECORD_FILE), record.replace(&digest(old), &digest(new))).unwrap();
    };
    check(&demo_table(&wheel_bytes(MEMBERS)), spoil, &[(LIBRARY, MemberState::Tampered)]);
}

#[test]
fn says_what_cannot_be_verified() {
    let (root, dir) = installed_demo();
    let table = empty_table();
    let verify = |name: &str, progress: &mut dyn Progress| verify(root.path(), &table, name, progress);
    assert!(matches!(verify("other", &mut Silent), Err(VerifyError::NotInstalled { .. })));
    let mut cancelled = Recorder { cancel_at: Some("checking"), ..Recorder::default() };
    assert!(matches!(verify("demo", &mut cancelled), Err(VerifyError::Cancelled)));
    fs::write(dir.join(RECORD_FILE), "").unwrap();
    assert!(matches!(verify("demo", &mut Silent), Err(VerifyError::Record { .. })));
}
