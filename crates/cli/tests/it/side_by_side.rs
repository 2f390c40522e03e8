//! Two programs in one home, and a program that is killed in the midst of its work.
//!
//! Invariant: whatever becomes of one, the home stays whole and the others go on.

use crate::program::{MODEL, Ran, Sandbox};
use crate::running::{ENDLESS, Running};

#[test]
fn a_killed_program_leaves_a_usable_home() {
    let sandbox = Sandbox::new();
    for part in ["targets", "measuring"] {
        let mut running = Running::start(&sandbox, ENDLESS);
        running.wait_for(part);
        running.child.kill().unwrap();
        let (status, ..) = running.end();
        assert!(!status.success(), "{status}");
        sandbox.is_intact();
        sandbox.measure();
        std::fs::remove_dir_all(sandbox.home()).unwrap();
    }
}

#[test]
fn a_second_program_waits_until_the_first_has_measured() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    let lock = std::fs::File::create(sandbox.home().join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    let arguments = ["bench", "-m", MODEL, "--json", "--iterations", "3"];
    let mut waiting = Running::start(&sandbox, &arguments);
    waiting.wait_for("another program is measuring");
    // What does not measure does not wait.
    sandbox.succeed(&["devices"]);
    sandbox.succeed(&["run", "-m", MODEL, "-d", "cpu/rten"]);
    // The file is closed: Wine reports a lock that another program takes at once as one that was not given back.
    drop(lock);
    let (status, out, messages) = waiting.end();
    assert_eq!(status.code(), Some(0), "{messages}");
    assert!(out.contains("siliconroute.bench/1"));
}

#[test]
fn several_programs_share_a_new_home() {
    let sandbox = Sandbox::new();
    let arguments = ["bench", "-m", MODEL, "--json", "--iterations", "3"];
    let running: Vec<_> = (0..3).map(|_| sandbox.start(&arguments)).collect();
    for child in running {
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code(), Some(0), "{}", ran.err);
        assert_eq!(ran.json()["benchmark_info"]["iterations"], 3);
    }
    sandbox.is_intact();
}
