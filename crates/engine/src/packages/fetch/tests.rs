//! Fetching with programs that behave and programs that do not.

use super::super::progress::Silent;
use super::super::wheel_fixture::{FILE, FakeFetcher, MEMBERS, Recorder, pin_of, wheel_bytes};
use super::*;

#[test]
fn a_fetched_wheel_is_compared_with_its_pin() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = wheel_bytes(MEMBERS);
    let fetcher = FakeFetcher::new(bytes.clone());
    let path = fetch_wheel(&fetcher, &pin_of(&bytes), dir.path(), &mut Silent).unwrap();
    assert_eq!(path, dir.path().join(FILE));
    let other = pin_of(&wheel_bytes(&[]));
    let error = fetch_wheel(&fetcher, &other, dir.path(), &mut Silent).unwrap_err();
    assert!(matches!(error, FetchError::Check(CheckError::WrongSize { .. })));
    let mut cancelled = Recorder { cancel_at: Some("checking"), ..Recorder::default() };
    let error = fetch_wheel(&fetcher, &pin_of(&bytes), dir.path(), &mut cancelled).unwrap_err();
    assert!(matches!(error, FetchError::Cancelled));
}

#[test]
fn a_machine_without_pip_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let fetcher = PipFetcher::new(OsStr::new(""));
    let error = fetcher.fetch(&pin_of(b"x"), dir.path(), &mut Silent).unwrap_err();
    assert!(matches!(error, FetchError::NoFetcher { .. }));
    assert_eq!(error.hint(), Some("install Python with pip, or uv"));
    let missing = fetcher.with_program(&dir.path().join("pip"));
    let error = missing.fetch(&pin_of(b"x"), dir.path(), &mut Silent).unwrap_err();
    assert!(matches!(error, FetchError::NoFetcher { tried } if tried.len() == 1));
}

#[cfg(unix)]
mod with_scripts {
    //! `pip` is a shell script here.

    use std::process::Command;

    use super::*;

    /// Fetches with a `pip` that runs `script` for `pip download`, its arguments in `$@`, and the finished
    /// wheel at `$WHEEL`.
    fn fetch_with(
        script: &str,
        deadline: Duration,
        progress: &mut dyn Progress,
    ) -> (Vec<u8>, Result<Vec<u8>, FetchError>) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = wheel_bytes(MEMBERS);
        let (bin, wheel) = (dir.path().join("bin"), dir.path().join("finished.whl"));
        fs::create_dir(&bin).unwrap();
        fs::write(&wheel, &bytes).unwrap();
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\nWHEEL='{}'\nwhile [ \"$1\" != -d ]; do shift; done\n{script}\n",
            wheel.display()
        );
        // Written by another process: while this one has it open for writing, a fork of some other test would
        // keep it from being run.
        let write = r#"printf '%s' "$0" > "$1" && chmod 755 "$1""#;
        let status = Command::new("/bin/sh").args(["-c", write, &text]).arg(bin.join("pip")).status();
        assert!(status.unwrap().success());
        let path = std::env::join_paths([bin.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        let fetcher = PipFetcher::new(&path).with_deadline(deadline);
        let into = dir.path().join("into");
        fs::create_dir(&into).unwrap();
        let outcome = fetch_wheel(&fetcher, &pin_of(&bytes), &into, progress);
        (bytes, outcome.map(|path| fs::read(path).unwrap()))
    }

    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn delivers_what_pip_saved() {
        let mut progress = Recorder::default();
        let script = format!("[ \"$3\" = engine-demo==1.2.3 ] && cp \"$WHEEL\" \"$2/{FILE}\"");
        let (bytes, outcome) = fetch_with(&script, LONG, &mut progress);
        assert_eq!(outcome.unwrap(), bytes);
        assert_eq!(progress.steps, ["fetching", "checking"]);
    }

    #[track_caller]
    fn check_failure(script: &str, expected: &str) -> FetchError {
        let error = fetch_with(script, LONG, &mut Silent).1.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        error
    }

    #[test]
    fn tells_failures_apart() {
        let error =
            check_failure("echo 'NewConnectionError: Connection refused' >&2; exit 1", "cannot be reached");
        assert!(error.is_cured_by_wheel() && !error.hint().unwrap().contains("--wheel"));
        check_failure(
            "echo 'ERROR: No matching distribution found' >&2; exit 1",
            "offers no engine_demo-1.2.3",
        );
        check_failure("echo 'OSError: [Errno 28] No space left on device' >&2; exit 1", "disk is full");
        check_failure("echo oddity >&2; exit 3", "failed: oddity");
        check_failure("kill -9 $$", "failed: it gave no reason");
        check_failure("touch $2/other.whl", "delivered [\"other.whl\"] instead of engine_demo-1.2.3");
        check_failure(&format!("echo no wheel > \"$2/{FILE}\""), "not the expected one");
    }

    #[test]
    fn ends_a_pip_that_takes_too_long_with_all_it_started() {
        let script = "sleep 600 & sleep 600";
        let (_, outcome) = fetch_with(script, Duration::from_millis(300), &mut Silent);
        assert!(matches!(outcome, Err(FetchError::TimedOut { .. })), "{outcome:?}");
    }

    #[test]
    fn ends_pip_when_cancelled() {
        let mut progress = Recorder { cancel_at: Some("fetching"), ..Recorder::default() };
        let (_, outcome) = fetch_with("sleep 600", LONG, &mut progress);
        assert!(matches!(outcome, Err(FetchError::Cancelled)), "{outcome:?}");
    }
}
