//! Installing is all or nothing, and removing too.

use std::sync::mpsc;
use std::time::Duration;

use super::super::lock::remove_leftovers;
use super::super::progress::Silent;
use super::super::record::list_installed;
use super::super::wheel_fixture::{
    FILE, FakeFetcher, LIBRARY, MEMBERS, Recorder, demo_package, demo_table, pin_of, wheel_bytes,
};
use super::*;

/// The names below `root`, without the lock file.
fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter(|name| name != ".lock").collect();
    names.sort();
    names
}

fn fetch_demo(root: &Path, bytes: &[u8], progress: &mut dyn Progress) -> Result<Installed, InstallError> {
    let (package, wheel) = demo_package(&wheel_bytes(MEMBERS));
    install(root, &package, &wheel, Source::Fetch(&FakeFetcher::new(bytes.to_vec())), 7, progress)
}

#[test]
fn installs_once_and_says_what_it_does() {
    let root = tempfile::tempdir().unwrap();
    let (package, wheel) = demo_package(&wheel_bytes(MEMBERS));
    let fetcher = FakeFetcher::new(wheel_bytes(MEMBERS));
    let mut progress = Recorder::default();
    let first = install(root.path(), &package, &wheel, Source::Fetch(&fetcher), 7, &mut progress).unwrap();
    assert_eq!(progress.steps.first().map(String::as_str), Some("checking"));
    assert_eq!(progress.steps.last().map(String::as_str), Some("done"));
    assert_eq!(names(root.path()), ["demo-1.2.3"]);
    assert_eq!(fs::read(&first.library).unwrap(), b"the library");
    let again = install(root.path(), &package, &wheel, Source::Fetch(&fetcher), 8, &mut Silent).unwrap();
    assert_eq!(again, first);
    assert_eq!(fetcher.asked.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn takes_a_wheel_from_the_user_even_when_built_for_another_python() {
    let root = tempfile::tempdir().unwrap();
    let (package, wheel) = demo_package(&wheel_bytes(MEMBERS));
    let file = root.path().join("any name");
    let mut members = MEMBERS.to_vec();
    members.push(("demo/state.cpython-313.so", b"differs"));
    fs::write(&file, wheel_bytes(&members)).unwrap();
    let root = root.path().join("packages");
    let installed = install(&root, &package, &wheel, Source::Wheel(&file), 7, &mut Silent).unwrap();
    assert_eq!(installed.source, InstalledFrom::WheelFile);
    assert_eq!(installed.wheel_sha256, Sha256Digest::of(&wheel_bytes(&members)));
    assert!(file.exists());
}

#[track_caller]
fn check_refused(outcome: Result<Installed, InstallError>, root: &Path, expected: &str) {
    let error = outcome.unwrap_err();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    assert!(text.contains(expected), "{text}");
    assert_eq!(names(root), [""; 0]);
}

#[test]
fn refuses_other_wheels_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let good = wheel_bytes(MEMBERS);
    let mut same_size = good.clone();
    same_size[40] ^= 1;
    check_refused(fetch_demo(root, &same_size, &mut Silent), root, "has sha256");
    check_refused(fetch_demo(root, &good[..good.len() - 1], &mut Silent), root, "bytes instead of");
    let outside = tempfile::tempdir().unwrap();
    let (package, wheel) = demo_package(&good);
    let hand_over = |bytes: &[u8]| {
        let file = outside.path().join(FILE);
        fs::write(&file, bytes).unwrap();
        install(root, &package, &wheel, Source::Wheel(&file), 7, &mut Silent)
    };
    check_refused(hand_over(&wheel_bytes(&[(LIBRARY, b"THE LIBRARY")])), root, "has sha256");
    check_refused(hand_over(&wheel_bytes(&[])), root, "has no file");
    let own_name = outside.path().join("my copy.whl");
    fs::write(&own_name, b"").unwrap();
    let outcome = install(root, &package, &wheel, Source::Wheel(&own_name), 7, &mut Silent);
    let hint = outcome.as_ref().unwrap_err().hint().unwrap();
    assert_eq!(hint, format!("hand over the file {FILE} as its makers published it"));
    check_refused(outcome, root, &format!("cannot unpack demo 1.2.3 from `{}`", own_name.display()));
    check_refused(hand_over(b""), root, "not a readable wheel");
    let missing = install(root, &package, &wheel, Source::Wheel(&outside.path().join("no")), 7, &mut Silent);
    check_refused(missing, root, "cannot read the wheel");
    check_refused(
        install(root, &package, &wheel, Source::Wheel(outside.path()), 7, &mut Silent),
        root,
        "cannot read the wheel",
    );
}

#[test]
fn a_wheel_handed_over_is_looked_at_also_where_the_package_is_installed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let good = wheel_bytes(MEMBERS);
    let (package, wheel) = demo_package(&good);
    let hand_over = |bytes: &[u8], now| {
        let file = outside.path().join(FILE);
        fs::write(&file, bytes).unwrap();
        install(root.path(), &package, &wheel, Source::Wheel(&file), now, &mut Silent)
    };
    let first = hand_over(&good, 7).unwrap();
    assert_eq!(hand_over(&good, 8).unwrap(), first);
    for wrong in [&b"no wheel"[..], &wheel_bytes(&[(LIBRARY, b"THE LIBRARY")])] {
        let error = hand_over(wrong, 9).unwrap_err();
        assert!(error.is_wrong_file(), "{error}");
    }
    assert_eq!(hand_over(&good, 10).unwrap(), first, "what was there stays");
}

#[test]
fn a_wrong_wheel_comes_with_a_hint() {
    let root = tempfile::tempdir().unwrap();
    let error = fetch_demo(root.path(), b"short", &mut Silent).unwrap_err();
    assert_eq!(error.hint().unwrap(), "the package index serves other files than this program was made with");
    let unreachable = FetchError::Unreachable { program: "pip".to_owned(), reason: "no route".to_owned() };
    let error = InstallError::Fetch {
        package: "demo 1.2.3".to_owned(),
        name: "demo".to_owned(),
        source: Box::new(unreachable),
    };
    assert_eq!(
        error.hint().unwrap(),
        "run again when the network is back; or hand over its wheel with \
         `siliconroute packages install demo --wheel FILE`"
    );
}

#[test]
fn cancelling_at_any_step_leaves_nothing() {
    for step in ["checking", "unpacking demo/", "unpacking demo.libs", "unpacking demo-"] {
        let root = tempfile::tempdir().unwrap();
        let mut progress = Recorder { cancel_at: Some(step), ..Recorder::default() };
        let outcome = fetch_demo(root.path(), &wheel_bytes(MEMBERS), &mut progress);
        assert!(matches!(outcome, Err(InstallError::Cancelled { .. })), "{step}");
        assert_eq!(names(root.path()), [""; 0], "{step}");
    }
}

#[test]
fn replaces_a_damaged_package_and_clears_leftovers() {
    let root = tempfile::tempdir().unwrap();
    for leftover in [".tmp-dead/tree/demo", ".trash-dead/folder", "demo-1.2.3/demo"] {
        fs::create_dir_all(root.path().join(leftover)).unwrap();
    }
    fs::write(root.path().join("demo-1.2.3/demo/half.so"), "half").unwrap();
    let installed = fetch_demo(root.path(), &wheel_bytes(MEMBERS), &mut Silent).unwrap();
    assert_eq!(names(root.path()), ["demo-1.2.3"]);
    assert!(!installed.dir.join("demo/half.so").exists());
}

/// Installs while another holds the lock; `meanwhile` runs once the installer waits, then the lock is freed.
fn install_while_locked(root: &Path, meanwhile: impl FnOnce()) -> (Result<Installed, InstallError>, u32) {
    let lock = FolderLock::acquire(root, &mut Silent).unwrap();
    let (waiting, seen) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut progress = Recorder::default();
            let mut told = Some(waiting);
            progress.on_step = Some(Box::new(move |step| {
                if let Some(waiting) = told.take_if(|_| step == "waiting") {
                    waiting.send(()).unwrap();
                }
            }));
            let (package, wheel) = demo_package(&wheel_bytes(MEMBERS));
            let fetcher = FakeFetcher::new(wheel_bytes(MEMBERS));
            let outcome = install(root, &package, &wheel, Source::Fetch(&fetcher), 7, &mut progress);
            (outcome, fetcher.asked.load(std::sync::atomic::Ordering::Relaxed))
        });
        seen.recv_timeout(Duration::from_mins(1)).unwrap();
        meanwhile();
        drop(lock);
        waiter.join().unwrap()
    })
}

#[test]
fn waits_for_another_installer() {
    let root = tempfile::tempdir().unwrap();
    let (outcome, asked) = install_while_locked(root.path(), || {});
    assert!(outcome.is_ok());
    assert_eq!(asked, 1);
}

#[test]
fn takes_over_what_another_process_installed_meanwhile() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ready = fetch_demo(other.path(), &wheel_bytes(MEMBERS), &mut Silent).unwrap();
    let target = root.path().join("demo-1.2.3");
    let (outcome, asked) = install_while_locked(root.path(), || fs::rename(&ready.dir, &target).unwrap());
    assert_eq!(outcome.unwrap().dir, target);
    assert_eq!(asked, 0);
}

/// Cancels when it has been asked a few times whether to.
#[derive(Default)]
struct Patient {
    waiting: u32,
    asked: std::cell::Cell<u32>,
}

impl Progress for Patient {
    fn step(&mut self, step: Step<'_>) {
        self.waiting += u32::from(step == Step::Waiting);
    }

    fn is_cancelled(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() > 3
    }
}

#[test]
fn waiting_is_said_once() {
    let root = tempfile::tempdir().unwrap();
    fetch_demo(root.path(), &wheel_bytes(MEMBERS), &mut Silent).unwrap();
    let _lock = FolderLock::acquire(root.path(), &mut Silent).unwrap();
    let mut patient = Patient::default();
    let error = remove(root.path(), "demo", &mut patient).unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!((patient.waiting, patient.asked.get()), (1, 4));
}

#[test]
fn leftovers_are_removed_unless_somebody_is_installing() {
    let root = tempfile::tempdir().unwrap();
    let leave = || {
        fs::create_dir_all(root.path().join(".tmp-dead/tree/demo")).unwrap();
        fs::create_dir_all(root.path().join(".trash-dead/folder")).unwrap();
        fs::create_dir_all(root.path().join(".verified")).unwrap();
        fs::write(root.path().join(".tmp-file"), "").unwrap();
        fs::write(root.path().join(".verified/gone-1.0.json"), "").unwrap();
    };
    leave();
    let lock = FolderLock::acquire(root.path(), &mut Silent).unwrap();
    assert_eq!(names(root.path()), [".verified"]);
    assert_eq!(names(&root.path().join(".verified")), [""; 0]);
    leave();
    remove_leftovers(root.path());
    assert_eq!(names(root.path()).len(), 4);
    drop(lock);
    remove_leftovers(root.path());
    assert_eq!(names(root.path()), [".verified"]);
    remove_leftovers(&root.path().join("no such folder"));
    assert_eq!(names(root.path()), [".verified"]);
}

#[test]
fn waiting_can_be_cancelled() {
    let root = tempfile::tempdir().unwrap();
    let _lock = FolderLock::acquire(root.path(), &mut Silent).unwrap();
    let mut progress = Recorder { cancel_at: Some("waiting"), ..Recorder::default() };
    let outcome = fetch_demo(root.path(), &wheel_bytes(MEMBERS), &mut progress);
    assert!(matches!(outcome, Err(InstallError::Cancelled { .. })));
}

#[test]
fn removes_every_version_even_damaged_ones() {
    let root = tempfile::tempdir().unwrap();
    fetch_demo(root.path(), &wheel_bytes(MEMBERS), &mut Silent).unwrap();
    for folder in ["demo-1.0", "demonstration-1.0", "other"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    let removed = remove(root.path(), "demo", &mut Silent).unwrap();
    assert_eq!(removed, [root.path().join("demo-1.0"), root.path().join("demo-1.2.3")]);
    assert_eq!(names(root.path()), ["demonstration-1.0", "other"]);
    let table = demo_table(&wheel_bytes(MEMBERS));
    assert!(list_installed(root.path(), &table).iter().all(Result::is_err));
}

#[test]
fn refuses_to_remove_what_is_not_installed() {
    let root = tempfile::tempdir().unwrap();
    let below = root.path().join("packages");
    for name in ["demo", "", "..", "../packages", "."] {
        assert!(matches!(remove(&below, name, &mut Silent), Err(RemoveError::NotInstalled { .. })), "{name}");
    }
    assert!(!below.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let outcome = fetch_demo(&file, &wheel_bytes(MEMBERS), &mut Silent);
    assert!(matches!(outcome, Err(InstallError::Lock { .. })));
}

#[test]
fn fixture_pin_matches_its_wheel() {
    let bytes = wheel_bytes(MEMBERS);
    assert_eq!(demo_package(&bytes).1.pin, pin_of(&bytes));
}
