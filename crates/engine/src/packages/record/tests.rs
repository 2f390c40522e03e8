//! Records are read with suspicion, and one bad package does not hide the others.

use super::super::install::{Source, install};
use super::super::progress::Silent;
use super::super::wheel_fixture::{FakeFetcher, LIBRARY, MEMBERS, demo_package, demo_table, wheel_bytes};
use super::*;

fn list(root: &Path) -> Vec<Result<Installed, RecordError>> {
    list_installed(root, &demo_table(&wheel_bytes(MEMBERS)))
}

fn installed_demo() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let bytes = wheel_bytes(MEMBERS);
    let (package, wheel) = demo_package(&bytes);
    let fetcher = FakeFetcher::new(bytes);
    let installed =
        install(root.path(), &package, &wheel, Source::Fetch(&fetcher), 1_700_000_000, &mut Silent).unwrap();
    (root, installed.dir)
}

#[test]
fn a_folder_that_does_not_exist_has_no_packages() {
    assert!(list(Path::new("/nonexistent/packages")).is_empty());
}

#[test]
fn lists_what_was_installed() {
    let (root, dir) = installed_demo();
    fs::create_dir(root.path().join(".tmp-dead")).unwrap();
    let mut list = list(root.path());
    let installed = list.remove(0).unwrap();
    assert!(list.is_empty());
    assert_eq!(installed.library, dir.join(LIBRARY));
    assert_eq!(installed.search_path, Some(dir.join("demo")));
    assert_eq!((installed.name.as_str(), installed.version.as_str()), ("demo", "1.2.3"));
    assert_eq!(installed.installed_at_unix_s, 1_700_000_000);
    assert_eq!(installed.source, InstalledFrom::Index);
    assert_eq!(installed.providers[0].name, "DemoExecutionProvider");
    assert_eq!(installed.size_bytes, MEMBERS.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
}

#[track_caller]
fn check_damaged(spoil: impl FnOnce(&Path), expected: &str) {
    let (root, dir) = installed_demo();
    spoil(&dir);
    let error = list(root.path()).remove(0).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

fn edit(dir: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(dir.join(RECORD_FILE)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(dir.join(RECORD_FILE), text.replace(from, to)).unwrap();
}

#[test]
fn reports_damaged_packages() {
    check_damaged(|dir| fs::remove_file(dir.join(RECORD_FILE)).unwrap(), "cannot read the record");
    check_damaged(|dir| fs::write(dir.join(RECORD_FILE), "{").unwrap(), "not JSON");
    check_damaged(|dir| fs::write(dir.join(RECORD_FILE), "[1]").unwrap(), "no schema");
    check_damaged(
        |dir| fs::write(dir.join(RECORD_FILE), vec![b' '; 3 << 20]).unwrap(),
        "cannot read the record",
    );
    check_damaged(|dir| fs::write(dir.join(RECORD_FILE), [0xff; 9]).unwrap(), "not JSON");
    #[cfg(unix)]
    check_damaged(
        |dir| {
            fs::remove_file(dir.join(RECORD_FILE)).unwrap();
            std::os::unix::fs::symlink("/dev/zero", dir.join(RECORD_FILE)).unwrap();
        },
        "cannot read the record",
    );
    check_damaged(|dir| edit(dir, "demo.libs/libhelp.so", "../../etc/passwd"), "plain relative path");
    check_damaged(|dir| edit(dir, r#""library": "demo"#, r#""library": "dem"#), "none of its files");
    check_damaged(
        |dir| edit(dir, r#""version": "1.2.3""#, r#""version": "1.2.4""#),
        "belongs into `demo-1.2.4`",
    );
    check_damaged(
        |dir| edit(dir, r#""size_bytes": 11"#, r#""size_bytes": 12"#),
        "lacks `demo/libdemo.so.1.2.3`",
    );
    check_damaged(|dir| fs::remove_file(dir.join("demo/libdemo.so")).unwrap(), "lacks `demo/libdemo.so`");
}

#[test]
fn refuses_a_newer_schema() {
    check_damaged(|dir| edit(dir, r#""schema": 1"#, r#""schema": 2, "more": true"#), "schema 2");
}

#[test]
fn a_stray_is_named_and_hides_nothing() {
    let (root, dir) = installed_demo();
    let stray = |name: &str| root.path().join(name);
    for folder in ["aaa-1", "demo-1.2.3.partial", "demo-2.0", "Not a package"] {
        fs::create_dir(stray(folder)).unwrap();
    }
    fs::copy(dir.join(RECORD_FILE), stray("demo-1.2.3.partial").join(RECORD_FILE)).unwrap();
    fs::write(stray("demo-2.0").join(RECORD_FILE), "{").unwrap();
    fs::write(stray("stray.txt"), "").unwrap();
    let (usable, others): (Vec<_>, Vec<_>) = list(root.path()).into_iter().partition(Result::is_ok);
    assert_eq!(usable.len(), 1);
    let strays: Vec<_> = others
        .into_iter()
        .map(|entry| match entry.unwrap_err() {
            RecordError::Stray { path, reason } => (path, reason),
            other => panic!("{other}"),
        })
        .collect();
    let expected = ["Not a package", "aaa-1", "demo-1.2.3.partial", "demo-2.0", "stray.txt"];
    assert_eq!(strays.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>(), expected.map(stray));
    assert_eq!(strays[2].1, "it belongs into `demo-1.2.3`");
    assert_eq!(strays[4].1, "it is no folder");
}

#[test]
fn a_package_of_the_table_without_a_record_is_damaged_and_no_stray() {
    let (root, dir) = installed_demo();
    fs::remove_file(dir.join(RECORD_FILE)).unwrap();
    assert!(matches!(list(root.path())[..], [Err(RecordError::Unreadable { .. })]));
}
