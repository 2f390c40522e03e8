//! Help texts, completions, and the exit codes that the help promises.

use siliconroute::ErrorKind;

use crate::program::Sandbox;

/// The commands in the order of the help.
const COMMANDS: &[&str] = &[
    "up",
    "devices",
    "packages",
    "models",
    "tune",
    "top",
    "bench",
    "fit",
    "route",
    "run",
    "evaluate",
    "export",
    "import",
    "tune",
    "doctor",
    "config",
    "completions",
];

#[test]
fn the_help_of_the_program_says_what_it_does() {
    let help = Sandbox::new().succeed(&["--help"]).out;
    for command in COMMANDS {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command}: {help}");
    }
    insta::assert_snapshot!(help);
}

#[test]
fn every_command_has_its_help() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let help = sandbox.succeed(&[command, "--help"]).out;
        insta::assert_snapshot!(format!("help_{command}"), help);
    }
    for (command, inner) in [
        ("devices", "identify"),
        ("packages", "install"),
        ("packages", "remove"),
        ("packages", "verify"),
        ("models", "add"),
        ("models", "fetch"),
        ("models", "inspect"),
        ("models", "generate"),
    ] {
        let help = sandbox.succeed(&[command, inner, "--help"]).out;
        insta::assert_snapshot!(format!("help_{command}_{inner}"), help);
    }
    assert!(!sandbox.home().exists(), "asking for help leaves nothing behind");
}

#[test]
fn the_help_lists_the_exit_code_of_every_kind_of_error() {
    let help = Sandbox::new().succeed(&["--help"]).out;
    let (_, listed) = help.split_once("Exit codes:\n").unwrap();
    let listed: Vec<u8> =
        listed.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u8>().ok()).collect();
    let kinds = [
        ErrorKind::WorkFailed,
        ErrorKind::Usage,
        ErrorKind::NothingSuitable,
        ErrorKind::Store,
        ErrorKind::Interrupted,
    ];
    let mut expected = vec![0];
    expected.extend(kinds.map(ErrorKind::exit_code));
    assert_eq!(listed, expected);
}

#[test]
fn no_command_is_wrong_usage() {
    let sandbox = Sandbox::new();
    for arguments in [&[][..], &["packages"], &["models"], &["config"]] {
        let ran = sandbox.run(arguments);
        assert_eq!((ran.code(), ran.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.err.contains("Usage: siliconroute"), "{}", ran.err);
    }
}

#[test]
fn the_version_is_one_line() {
    let version = Sandbox::new().succeed(&["--version"]).out;
    assert_eq!(version, format!("siliconroute {}\n", siliconroute::VERSION));
}

#[test]
fn completions_know_every_command() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.succeed(&["completions", shell]).out;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("offline"), "{shell}");
    }
    assert!(!sandbox.home().exists());
}
