//! Stores that cannot be used, and what becomes of them: nothing.

use std::path::Path;

use crate::program::{MODEL, Sandbox, text};

/// Every command that needs the store refuses it with the same words, and `doctor` finds it broken.
#[track_caller]
fn check(sandbox: &Sandbox, parts: &[&str]) {
    is_diagnosed(sandbox, 4, "store", &[&[text(&sandbox.store())][..], parts].concat());
    for command in [
        &["devices"][..],
        &["models", "list"],
        &["packages", "list"],
        &["bench", "-m", MODEL],
        &["fit"],
        &["route", "-m", MODEL],
        &["run", "-m", MODEL],
        &["evaluate"],
        &["up", "--once"],
    ] {
        sandbox.refuse(4, &[&[text(&sandbox.store()), "hint: "][..], parts].concat(), command);
    }
}

/// `doctor` ends with `code`, says all of `parts` about the broken `subject`, and examines everything else.
#[track_caller]
pub(crate) fn is_diagnosed(sandbox: &Sandbox, code: i32, subject: &str, parts: &[&str]) {
    let ran = sandbox.run(&["doctor", "--json"]);
    assert_eq!(ran.code(), Some(code), "{}{}", ran.err, ran.out);
    let found = ran.json();
    let checks = found["checks"].as_array().unwrap();
    let check = |subject: &str| checks.iter().find(|check| check["subject"] == subject);
    let broken = check(subject).unwrap();
    assert_eq!(broken["health"], "broken", "{broken}");
    let said = format!("{} {}", broken["finding"].as_str().unwrap(), broken["advice"].as_str().unwrap());
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
    for other in ["home", "settings", "store", "cpu/rten", "knowledge"] {
        assert!(check(other).is_some(), "no {other}: {found}");
    }
    assert_eq!(check("cpu/rten").unwrap()["health"], "good", "{found}");
    let others = checks.iter().filter(|check| check["subject"] != subject);
    assert!(others.into_iter().all(|check| check["health"] != "broken"), "{found}");
}

/// Replaces bytes of a file.
fn patch(path: &Path, at: usize, bytes: &[u8]) {
    let mut content = std::fs::read(path).unwrap();
    content[at..at + bytes.len()].copy_from_slice(bytes);
    std::fs::write(path, content).unwrap();
}

/// Bytes without any pattern that a file format could know.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn refuses_noise_and_leaves_it_alone() {
    let sandbox = Sandbox::new();
    let bytes = noise(10_000);
    sandbox.write("home/store.sqlite", &bytes);
    check(&sandbox, &["damaged or no SQLite database", "left untouched", "move the file away"]);
    sandbox.write("home/config.toml", "seed = [");
    let ran = sandbox.run(&["doctor", "--json"]);
    assert_eq!(ran.code(), Some(4), "{}", ran.out);
    assert_eq!(ran.out.matches("\"broken\"").count(), 2, "{}", ran.out);
    assert_eq!(std::fs::read(sandbox.store()).unwrap(), bytes);
}

#[test]
fn refuses_a_newer_schema_and_leaves_it_alone() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    patch(&sandbox.store(), 60, &99_u32.to_be_bytes());
    let bytes = std::fs::read(sandbox.store()).unwrap();
    check(&sandbox, &["schema version 99", "update this program"]);
    assert_eq!(std::fs::read(sandbox.store()).unwrap(), bytes);
}

#[test]
fn refuses_the_database_of_another_program() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    patch(&sandbox.store(), 68, b"GPKG");
    check(&sandbox, &["another application", "left untouched"]);
}

#[test]
fn refuses_a_damaged_schema() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    patch(&sandbox.store(), 100, &noise(40_000));
    check(&sandbox, &["damaged", "move the file away"]);
}

#[test]
fn refuses_a_truncated_store() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    let bytes = std::fs::read(sandbox.store()).unwrap();
    for keep in [50, 100, 5_000, bytes.len() / 2] {
        std::fs::write(sandbox.store(), &bytes[..keep]).unwrap();
        is_diagnosed(&sandbox, 4, "store", &["damaged", "move the file away"]);
        let path = sandbox.store();
        sandbox.refuse(4, &["damaged", "move the file away", text(&path)], &["route", "-m", MODEL]);
    }
    std::fs::write(sandbox.store(), bytes).unwrap();
    sandbox.is_intact();
}

#[test]
fn damage_within_the_tables_is_never_a_panic() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    let bytes = std::fs::read(sandbox.store()).unwrap();
    let page = 4096;
    // Every page is read by one of them, and neighbours are mostly pages of the same table.
    let commands = [&["route", "-m", MODEL][..], &["doctor"]];
    for (start, command) in (page..bytes.len()).step_by(page).zip(commands.into_iter().cycle()) {
        std::fs::write(sandbox.store(), &bytes).unwrap();
        patch(&sandbox.store(), start, &noise(page.min(bytes.len() - start)));
        let ran = sandbox.run(command);
        assert!(matches!(ran.code(), Some(0 | 1 | 3 | 4)), "{:?}: {}", ran.status, ran.err);
        assert!(ran.code() == Some(0) || !ran.err.is_empty() || ran.out.contains("broken"), "{}", ran.out);
    }
}

#[test]
fn refuses_a_folder_in_the_stores_place() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.store()).unwrap();
    check(&sandbox, &["this is not a file", "check that the path is right"]);
}

/// The administrator may write what is read-only for everyone else, so what is right depends on who asks.
#[cfg(unix)]
#[test]
fn a_read_only_store_is_refused_to_whom_it_is_read_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    std::fs::set_permissions(sandbox.store(), std::fs::Permissions::from_mode(0o444)).unwrap();
    if std::fs::File::options().append(true).open(sandbox.store()).is_ok() {
        sandbox.is_intact();
    } else {
        sandbox.succeed(&["devices"]);
        sandbox.refuse(4, &["cannot record", "read-only", "allow writing"], &["bench", "-m", MODEL]);
    }
}

#[test]
fn an_empty_file_becomes_a_store() {
    let sandbox = Sandbox::new();
    sandbox.write("home/store.sqlite", "");
    sandbox.is_intact();
}

#[test]
fn a_store_in_the_way_of_nothing_is_not_needed() {
    let sandbox = Sandbox::new();
    sandbox.write("home/store.sqlite", noise(100));
    sandbox.succeed(&["config", "show"]);
    sandbox.succeed(&["completions", "bash"]);
    sandbox.succeed(&["--version"]);
}

#[test]
fn a_home_that_is_moved_keeps_what_was_measured() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    std::fs::rename(sandbox.home(), sandbox.path("moved")).unwrap();
    let mut command = sandbox.bare_command();
    command.args(["--offline", "route", "--json", "-m", MODEL, "--home"]).arg(sandbox.path("moved"));
    let ran = crate::program::Ran::of(command.output().unwrap());
    assert_eq!(ran.json()["chosen"], "cpu/rten", "{}", ran.err);
}
