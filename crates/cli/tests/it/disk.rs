//! A disk that is full, played by a limit on the size of every file that the program writes.
//!
//! Invariant: after whatever went wrong the home is as usable as before.
#![cfg(unix)]

use std::process::Command;

use crate::program::{MODEL, Ran, Sandbox, not_tested};

/// Runs a command whose files may have at most `blocks` blocks of 512 or 1024 bytes.
pub(crate) fn run_limited(sandbox: &Sandbox, blocks: u32, arguments: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    sandbox.prepare(&mut command);
    // The program itself lets a write beyond the limit fail, for which the system would end it.
    let script = "ulimit -f \"$1\"; shift; exec \"$0\" --home home --offline \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_siliconroute"), &blocks.to_string()]).args(arguments);
    Ran::of(command.output().unwrap())
}

#[test]
fn a_full_disk_is_told_and_does_no_harm() {
    let mut failures = 0;
    for blocks in [0, 1, 8, 32, 64, 100, 150, 200, 240, 300, 400, 500] {
        let sandbox = Sandbox::new();
        let ran = run_limited(&sandbox, blocks, &["bench", "-m", MODEL, "--iterations", "3", "--json"]);
        if ran.code() == Some(0) {
            ran.json();
        } else {
            failures += 1;
            // Whichever file of the home finds no room first.
            assert_eq!(ran.code(), Some(4), "{blocks}: {:?} {}", ran.status, ran.err);
            ran.is_refusal(4, &["cannot"]);
        }
        sandbox.is_intact();
        sandbox.document("siliconroute.bench/1", &["bench", "-m", MODEL, "--iterations", "3"]);
    }
    assert!(failures >= 8, "only {failures} limits were too low");
}

#[test]
fn a_limit_on_the_size_of_files_is_named() {
    let check = |sandbox: &Sandbox, blocks, code, arguments: &[&str]| {
        let ran = run_limited(sandbox, blocks, &[arguments, &["--json"]].concat());
        assert_eq!(ran.code(), Some(code), "{arguments:?}: {:?} {}", ran.status, ran.err);
        let error = &ran.json()["error"];
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("ulimit -f")), "{error}");
    };
    for blocks in [0, 10, 100] {
        check(&Sandbox::new(), blocks, 4, &["bench", "-m", MODEL]);
    }
    let sandbox = Sandbox::new();
    sandbox.measure();
    check(&sandbox, 1000, 4, &["models", "inspect", "mlp-512w-4l"]);
    // What the user wants elsewhere says nothing of the home.
    check(&sandbox, 1000, 1, &["models", "generate", "mlp-512w-4l", "--to", "."]);
    check(&sandbox, 1, 1, &["run", "-m", MODEL, "-d", "cpu/rten", "--write", "out.npz"]);
}

#[test]
fn a_full_disk_in_a_home_that_is_in_use_does_no_harm() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for blocks in [0, 8, 70, 100, 240] {
        let ran = run_limited(&sandbox, blocks, &["bench", "-m", MODEL, "--iterations", "40", "--json"]);
        if ran.code() != Some(0) {
            assert_eq!(ran.code(), Some(4), "{blocks}: {:?} {}", ran.status, ran.err);
            ran.is_refusal(4, &["cannot"]);
        }
        sandbox.is_intact();
        let route = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL]);
        assert_eq!(route["chosen"], "cpu/rten");
    }
}

#[test]
fn too_few_open_files_are_not_taken_for_a_read_only_home() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    let mut told = 0;
    for files in 3..12 {
        let mut command = Command::new("sh");
        sandbox.prepare(&mut command);
        let script = format!("ulimit -n {files}; exec \"$0\" --home home --offline --json devices");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_siliconroute")]);
        let ran = Ran::of(command.output().unwrap());
        assert!(!ran.err.contains("allow writing"), "{files}: {}", ran.err);
        told += u32::from(ran.err.contains("open files"));
    }
    assert!(told > 0, "no limit was too low");
    sandbox.is_intact();
}

#[test]
fn what_only_reads_works_on_a_full_disk() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for (blocks, refusal) in [(0, "cannot be written"), (8, "no space is left")] {
        let ran = run_limited(&sandbox, blocks, &["route", "-m", MODEL, "--json"]);
        assert_eq!(ran.code(), Some(0), "{blocks}: {}", ran.err);
        assert_eq!(ran.json()["chosen"], "cpu/rten");
        assert!(ran.err.contains("nothing of this is kept"), "{}", ran.err);
        let ran = run_limited(&sandbox, blocks, &["bench", "-m", MODEL, "--json"]);
        ran.is_refusal(4, &[refusal, "choose another"]);
    }
    sandbox.is_intact();
}

/// Mounts a small disk as the home, in a namespace that ends with the command.
#[cfg(target_os = "linux")]
#[test]
fn a_model_that_is_larger_than_the_disk_is_refused_with_numbers_and_advice() {
    const MOUNT: &str = "mkdir -p home && mount -t tmpfs -o size=20m none home && \"$0\" \"$@\"; \
                         code=$?; find home -name '*2048*' -o -name '.tmp*' >&2; exit $code";
    let sandbox = Sandbox::new();
    let inside = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        sandbox.prepare(&mut command);
        command.args(["--map-root-user", "--mount", "sh", "-c", MOUNT, program]).args(arguments);
        command.output()
    };
    if !inside("true", &[]).is_ok_and(|output| output.status.success()) {
        not_tested("this system mounts no disk for a test");
        return;
    }
    let program = env!("CARGO_BIN_EXE_siliconroute");
    let inspect = |model| ["--home", "home", "--offline", "models", "inspect", model, "--json"];
    let ran = Ran::of(inside(program, &inspect("mlp-2048w-4l")).unwrap());
    ran.is_refusal(
        4,
        &["no space for", "mlp-2048w-4l.onnx", "64.0 MiB", "MiB are free", "hint: free some space", "--home"],
    );
    assert!(!ran.err.lines().any(|line| line.starts_with("home/")), "half-written: {}", ran.err);
    assert_eq!(Ran::of(inside(program, &inspect(MODEL)).unwrap()).code(), Some(0));
}

/// A benchmark on a disk that is nearly full, from no room at all to enough.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_nearly_full_gives_one_exit_code_however_full_it_is() {
    const MOUNT: &str =
        "size=$1; shift; mkdir -p home && mount -t tmpfs -o size=$size none home && \"$0\" \"$@\"";
    let sandbox = Sandbox::new();
    let inside = |size: &str, program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        sandbox.prepare(&mut command);
        command.args(["--map-root-user", "--mount", "sh", "-c", MOUNT, program, size]).args(arguments);
        command.output()
    };
    if !inside("1m", "true", &[]).is_ok_and(|output| output.status.success()) {
        not_tested("this system mounts no disk for a test");
        return;
    }
    let bench = ["--home", "home", "--offline", "bench", "-m", MODEL, "--iterations", "3", "--json"];
    let mut codes = Vec::new();
    for size in ["4k", "8k", "32k", "100k", "200k", "400k", "800k", "2m", "9m", "64m"] {
        let ran = Ran::of(inside(size, env!("CARGO_BIN_EXE_siliconroute"), &bench).unwrap());
        assert!(matches!(ran.code(), Some(0 | 4)), "{size}: {:?} {}", ran.status, ran.err);
        if ran.code() == Some(4) {
            let error = ran.json()["error"].clone();
            assert!(
                error["hint"].as_str().is_some_and(|hint| hint.contains("free some space")),
                "{size}: {error}"
            );
        }
        codes.push(ran.code());
    }
    assert_eq!((codes[0], codes.last()), (Some(4), Some(&Some(0))), "{codes:?}");
    assert!(codes.is_sorted_by(|fuller, emptier| fuller >= emptier), "{codes:?}");
}

#[test]
fn outputs_that_do_not_fit_on_the_disk_leave_nothing_behind() {
    let sandbox = Sandbox::new();
    let run = ["run", "-m", MODEL, "-d", "cpu/rten", "--batch", "2000", "--write", "out.npz", "--json"];
    sandbox.succeed(&run);
    let before = std::fs::read(sandbox.path("out.npz")).unwrap();
    let ran = run_limited(&sandbox, 400, &run);
    ran.is_refusal(1, &["out.npz"]);
    assert_eq!(std::fs::read(sandbox.path("out.npz")).unwrap(), before);
    let names: Vec<_> =
        std::fs::read_dir(sandbox.path(".")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
