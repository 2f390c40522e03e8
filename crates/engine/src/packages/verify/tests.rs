//! Verification finds every kind of change, and reads no more than it must.

use super::super::Sha256Digest;
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
    let report = verify(root.path(), table, Some("demo"), &mut Silent).unwrap().reports.remove(0);
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
        let digest = |bytes| Sha256Digest::of(bytes).to_string();
        fs::write(dir.join(RECORD_FILE), record.replace(&digest(old), &digest(new))).unwrap();
    };
    check(&demo_table(&wheel_bytes(MEMBERS)), spoil, &[(LIBRARY, MemberState::Tampered)]);
}

#[test]
fn says_what_cannot_be_verified() {
    let (root, dir) = installed_demo();
    let table = demo_table(&wheel_bytes(MEMBERS));
    let verify = |name, progress: &mut dyn Progress| verify(root.path(), &table, name, progress);
    assert!(matches!(verify(Some("other"), &mut Silent), Err(VerifyError::NotInstalled { .. })));
    let mut cancelled = Recorder { cancel_at: Some("checking"), ..Recorder::default() };
    assert!(matches!(verify(Some("demo"), &mut cancelled), Err(VerifyError::Cancelled)));
    assert_eq!(verify_changes(&dir, &table, &mut Silent).map(|report| report.is_intact()).ok(), Some(true));
    fs::write(dir.join(RECORD_FILE), "").unwrap();
    let unusable = |report: &VerifyReport| {
        assert_eq!((report.name.as_str(), report.version.as_str()), ("demo", "1.2.3"));
        assert!(
            matches!(&report.members[..], [(path, MemberState::Unreadable(_))] if path == RECORD_FILE),
            "{report:?}"
        );
    };
    unusable(&verify(None, &mut Silent).unwrap().reports[0]);
    unusable(&verify_changes(&dir, &table, &mut Silent).unwrap());
}

#[test]
fn strays_and_damaged_packages_hide_no_other() {
    let (root, dir) = installed_demo();
    let stray = |name: &str| root.path().join(name);
    fs::create_dir(stray("demo-1.2.3.partial")).unwrap();
    fs::create_dir(stray("foo-1.0")).unwrap();
    fs::write(stray("file"), "").unwrap();
    let table = demo_table(&wheel_bytes(MEMBERS));
    let verify = |name| verify(root.path(), &table, name, &mut Silent);
    let all = verify(None).unwrap();
    assert_eq!(all.reports.iter().map(VerifyReport::is_intact).collect::<Vec<_>>(), [true]);
    assert_eq!(all.strays, [stray("demo-1.2.3.partial"), stray("file"), stray("foo-1.0")]);
    let one = verify(Some("demo")).unwrap();
    assert_eq!((one.reports, one.strays), (all.reports, vec![stray("demo-1.2.3.partial")]));
    fs::remove_dir_all(dir).unwrap();
    assert!(matches!(verify(Some("demo")), Err(VerifyError::NotInstalled { .. })));
}

/// Whether the package is found unchanged, and whether any file was read for it.
fn look(dir: &Path, table: &Table) -> (bool, bool) {
    struct Reads(std::cell::Cell<bool>);
    impl Progress for Reads {
        fn step(&mut self, _: Step<'_>) {}
        // Asked while a file is read and at no other time.
        fn is_cancelled(&self) -> bool {
            self.0.set(true);
            false
        }
    }
    let mut reads = Reads(std::cell::Cell::new(false));
    let report = verify_changes(dir, table, &mut reads).unwrap();
    (report.is_intact(), reads.0.get())
}

/// Writes `bytes` over a file and gives it the time of change that it had.
#[cfg(unix)]
fn replace_in_secret(path: &Path, bytes: &[u8]) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    fs::write(path, bytes).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn files_are_read_again_only_after_a_change() {
    let table = demo_table(&wheel_bytes(MEMBERS));
    let (_root, dir) = installed_demo();
    assert_eq!(look(&dir, &table), (true, true));
    assert_eq!(look(&dir, &table), (true, false));
    let help = dir.join("demo.libs/libhelp.so");
    fs::write(&help, "a sibling").unwrap();
    assert_eq!(look(&dir, &table), (true, true), "the same bytes under another stamp");
    assert_eq!(look(&dir, &table), (true, false));
    fs::write(&help, "A sibling").unwrap();
    for _ in 0..2 {
        assert_eq!(look(&dir, &table), (false, true), "a change is not sealed");
    }
    fs::write(&help, "a sibling").unwrap();
    assert_eq!(look(&dir, &table), (true, true));
    fs::write(dir.join("demo/evil.so"), "x").unwrap();
    assert_eq!(look(&dir, &table), (false, false), "a foreign file is seen without reading");
}

#[cfg(unix)]
#[test]
fn a_change_that_hides_its_time_is_noticed() {
    let table = demo_table(&wheel_bytes(MEMBERS));
    let (_root, dir) = installed_demo();
    assert_eq!(look(&dir, &table), (true, true));
    replace_in_secret(&dir.join("demo.libs/libhelp.so"), b"A sibling");
    assert_eq!(look(&dir, &table), (false, true));
    let (_root, dir) = installed_demo();
    assert_eq!(look(&dir, &table), (true, true));
    let other = dir.with_file_name(".other");
    fs::write(&other, "A sibling").unwrap();
    let help = dir.join("demo.libs/libhelp.so");
    let modified = fs::metadata(&help).unwrap().modified().unwrap();
    File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, &help).unwrap();
    assert_eq!(look(&dir, &table), (false, true));
}

#[test]
fn a_full_verification_seals_and_breaks_seals() {
    let table = demo_table(&wheel_bytes(MEMBERS));
    let (root, dir) = installed_demo();
    let intact = || {
        verify(root.path(), &table, None, &mut Silent).unwrap().reports.iter().all(VerifyReport::is_intact)
    };
    assert!(intact());
    assert_eq!(look(&dir, &table), (true, false));
    fs::write(dir.join(LIBRARY), "THE LIBRARY").unwrap();
    assert!(!intact());
    assert!(Seal::load(&dir, pins_of(&Record::load(&dir).unwrap(), &table).0).is_none());
}

#[test]
fn a_seal_that_says_nothing_only_costs_reading() {
    let table = demo_table(&wheel_bytes(MEMBERS));
    let (root, dir) = installed_demo();
    let seal = root.path().join(".verified/demo-1.2.3.json");
    assert_eq!(look(&dir, &table), (true, true));
    let good = fs::read_to_string(&seal).unwrap();
    let other_pins = Sha256Digest::of(b"other").to_string();
    let pins = serde_json::from_str::<serde_json::Value>(&good).unwrap()["pins"].as_str().unwrap().to_owned();
    for spoiled in [
        String::new(),
        "[".repeat(1 << 21),
        good.replace("\"schema\":1", "\"schema\":2"),
        good.replace(&pins, &other_pins),
        good.replace("\"size_bytes\"", "\"size\""),
        good.replace("\"inode\":", "\"inode\":1"),
    ] {
        assert_ne!(spoiled, good);
        fs::write(&seal, spoiled).unwrap();
        assert_eq!(look(&dir, &table), (true, true));
        assert_eq!(look(&dir, &table), (true, false));
    }
    fs::remove_dir_all(root.path().join(".verified")).unwrap();
    fs::write(root.path().join(".verified"), "in the way").unwrap();
    assert_eq!(look(&dir, &table), (true, true));
    assert_eq!(look(&dir, &table), (true, true));
}

#[test]
fn a_removed_package_leaves_no_seal() {
    let table = demo_table(&wheel_bytes(MEMBERS));
    let (root, dir) = installed_demo();
    assert_eq!(look(&dir, &table), (true, true));
    super::super::remove(root.path(), "demo", &mut Silent).unwrap();
    assert_eq!(fs::read_dir(root.path().join(".verified")).unwrap().count(), 0);
}
