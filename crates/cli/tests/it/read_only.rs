//! A home that can only be read: what reads works, what keeps something is refused, and nothing changes.
//!
//! Invariant: the setting shows it to whoever runs the tests; a real read-only mount does where the system lets
//! the tests make one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use crate::program::not_tested;
use crate::program::{MODEL, Ran, Sandbox, text};

/// What helps where the system stands against writing.
#[cfg(unix)]
const ALLOW: &str = "hint: allow writing to the home, or choose another with --home or SILICONROUTE_HOME";

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
    found
}

/// A measured home, and beside it a model of one's own that the home does not know.
fn measured() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.measure();
    sandbox.write("own.onnx", crate::onnx_file::OneNode::default().to_bytes());
    let (_other, knowledge) = crate::knowledge::exported();
    sandbox.write("knowledge.jsonl", std::fs::read(knowledge).unwrap());
    sandbox
}

/// Runs every kind of command with `run` and expects of each what a read-only home allows.
fn check(sandbox: &Sandbox, hint: &str, run: impl Fn(&[&str]) -> Ran) {
    let home = sandbox.home();
    let before = contents(&home);
    for command in [
        &["devices"][..],
        &["doctor"],
        &["fit"],
        &["tune"],
        &["models", "list"],
        &["models", "inspect", MODEL],
        &["models", "inspect", "own.onnx"],
        &["models", "inspect", "mlp-64w-2l"],
        &["models", "generate", MODEL, "--to", "."],
        &["packages", "list"],
        &["packages", "verify"],
        &["config", "show"],
        &["evaluate", "--stored"],
        &["export", "--knowledge", "exported.jsonl"],
        &["import", "--list"],
        &["route", "-m", MODEL],
        &["run", "-m", MODEL],
        &["run", "-m", "own.onnx", "-d", "cpu/rten"],
    ] {
        let ran = run(&[command, &["--json"]].concat());
        assert_eq!(ran.code(), Some(0), "{command:?}: {}", ran.err);
        ran.json();
    }
    let route = run(&["route", "-m", MODEL, "--json"]);
    let decision = route.json();
    assert_eq!((&decision["chosen"], &decision["id"]), (&"cpu/rten".into(), &serde_json::Value::Null));
    assert!(!decision["not_recorded"].as_str().unwrap().is_empty(), "{decision}");
    let explained = run(&["route", "-m", MODEL, "--explain"]);
    assert!(explained.out.contains("not recorded, so it cannot be made again"), "{}", explained.out);
    assert!(!explained.out.contains("recorded as decision"), "{}", explained.out);
    assert!(route.err.contains("nothing of this is kept"), "{}", route.err);
    for command in [
        &["bench", "-m", MODEL][..],
        &["evaluate"],
        &["route", "-m", MODEL, "--verify"],
        &["up", "--once"],
        &["models", "add", "own.onnx"],
        &["import", "--knowledge", "knowledge.jsonl"],
        &["import", "--forget", "1"],
        &["models", "fetch"],
        &["models", "generate"],
        &["packages", "install", "onnxruntime"],
        &["packages", "remove", "onnxruntime"],
    ] {
        let parts = ["cannot ", "nothing can be kept in the home", text(&home), hint];
        run(&[command, &["--json"]].concat()).is_refusal(4, &parts);
    }
    run(&["route", "-m", "magika", "--json"])
        .is_refusal(3, &["magika", "nothing can be kept in the home", "hint: "]);
    assert!(contents(&home) == before, "the home was changed");
}

#[test]
fn a_home_that_is_only_to_be_read_is_read_and_not_changed() {
    let sandbox = measured();
    check(&sandbox, "hint: set `read_only` (variable SILICONROUTE_READ_ONLY) to false", |arguments| {
        Ran::of(sandbox.command(arguments).env("SILICONROUTE_READ_ONLY", "true").output().unwrap())
    });
}

#[test]
fn a_read_only_setting_is_named_with_the_file_that_holds_it() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("home/config.toml", "read_only = true");
    let ran = sandbox.refuse(4, &["hint: set `read_only` (in `", text(&file)], &["bench", "-m", MODEL]);
    assert!(!ran.err.contains("allow writing"), "{}", ran.err);
}

#[test]
fn a_home_that_is_not_there_can_be_read_as_an_empty_one() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["devices", "--json"]);
    assert_eq!(Ran::of(command.env("SILICONROUTE_READ_ONLY", "true").output().unwrap()).code(), Some(0));
    assert!(!sandbox.home().exists());
}

/// Mounts the home read-only in a namespace of each command's own, which ends with it.
#[cfg(target_os = "linux")]
#[test]
fn a_home_on_a_read_only_disk_is_read() {
    use std::process::Command;
    const MOUNT: &str = "mount --bind home home && mount -o remount,bind,ro home && exec \"$0\" \"$@\"";
    let sandbox = measured();
    let inside = |program: &str, arguments: &[&str]| {
        let mut command = Command::new("unshare");
        sandbox.prepare(&mut command);
        // Nobody but the administrator may mount, except in a user namespace.
        command.args(["--map-root-user", "--mount", "sh", "-c", MOUNT, program]).args(arguments);
        command.output()
    };
    match inside("touch", &["home/written"]) {
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("Read-only file system") => {}
        other => {
            not_tested(&format!("this system makes no read-only mount for a test: {other:?}"));
            return;
        }
    }
    let home = sandbox.home();
    check(&sandbox, ALLOW, |arguments| {
        let arguments = [&["--home", text(&home), "--offline"], arguments].concat();
        Ran::of(inside(env!("CARGO_BIN_EXE_siliconroute"), &arguments).unwrap())
    });
}

/// Whom permissions do not bind, such as the administrator, does not see this one.
#[cfg(unix)]
#[test]
fn a_home_without_permission_to_write_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = measured();
    let permit = |mode: u32| {
        for folder in ["home", "home/cache", "home/models", "home/packages"] {
            std::fs::set_permissions(sandbox.path(folder), std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    permit(0o555);
    if std::fs::File::create_new(sandbox.path("home/written")).is_ok() {
        permit(0o755);
        not_tested("permissions do not bind this user");
        return;
    }
    check(&sandbox, ALLOW, |arguments| sandbox.run(arguments));
    permit(0o755);
}
