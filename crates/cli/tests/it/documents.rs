//! `--json`: one document on standard output, whatever the command; and readers that go away.

use crate::program::{MODEL, Ran, Sandbox};

#[test]
fn every_command_prints_one_document() {
    let sandbox = Sandbox::new();
    sandbox.generate();
    sandbox.measure();
    for (schema, arguments) in [
        ("siliconroute.devices/1", &["devices"][..]),
        ("siliconroute.identification/1", &["devices", "identify", "cpu/rten", "--seconds", "0.5"]),
        ("siliconroute.packages/1", &["packages", "list"]),
        ("siliconroute.packages/1", &["packages", "verify"]),
        ("siliconroute.models/1", &["models", "list"]),
        ("siliconroute.models/1", &["models", "add", "mlp-128w-4l.onnx"]),
        ("siliconroute.models/1", &["models", "fetch", MODEL]),
        ("siliconroute.models/1", &["models", "generate", MODEL]),
        ("siliconroute.model/1", &["models", "inspect", MODEL]),
        ("siliconroute.telemetry/1", &["top", "--interval", "0.1"]),
        ("siliconroute.bench/1", &["bench", "-m", MODEL, "--iterations", "1"]),
        ("siliconroute.bench/1", &["bench", "-m", MODEL, "--iterations", "1", "-o", "json"]),
        ("siliconroute.tuning/1", &["tune"]),
        ("siliconroute.fits/1", &["fit"]),
        ("siliconroute.decision/1", &["route", "-m", MODEL]),
        ("siliconroute.run/1", &["run", "-m", MODEL]),
        ("siliconroute.decisions/1", &["route", "--list"]),
        ("siliconroute.replay/1", &["route", "--replay", "1"]),
        ("siliconroute.evaluation/1", &["evaluate", "--stored"]),
        ("siliconroute.export/1", &["export", "--knowledge", "knowledge.jsonl"]),
        ("siliconroute.origins/1", &["import", "--list"]),
        ("siliconroute.doctor/1", &["doctor"]),
        ("siliconroute.config/1", &["config", "show"]),
    ] {
        let ran = sandbox.succeed(&[arguments, &["--json", "--quiet"]].concat());
        assert_eq!(ran.json()["schema"], schema, "{arguments:?}");
        assert_eq!(ran.err, "", "{arguments:?}");
    }
}

#[test]
fn every_error_is_a_document_too() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.onnx", "bad");
    sandbox.write("full/store.sqlite", "no store");
    let usage = "usage";
    for (code, exit_code, arguments) in [
        (usage, 2, &["models", "inspect", "bad.onnx"][..]),
        (usage, 2, &["run", "-m", "nonsense"]),
        (usage, 2, &["bench", "-m", MODEL, "--workload", "nonsense"]),
        (usage, 2, &["bench", "-m", MODEL, "--time", "x"]),
        (usage, 2, &["bench"]),
        (usage, 2, &["route", "-m", MODEL, "--goal", "nonsense"]),
        (usage, 2, &["packages", "remove"]),
        (usage, 2, &["config", "show", "--nonsense"]),
        (usage, 2, &["bench", "-m", MODEL, "-o", "csv"]),
        (usage, 2, &["bench", "-m", MODEL, "-o", "table"]),
        (usage, 2, &["config"]),
        (usage, 2, &[]),
        ("nothing_suitable", 3, &["bench", "-m", MODEL, "-d", "npu"]),
        ("nothing_suitable", 3, &["models", "fetch", "silero-vad"]),
        ("store", 4, &["fit", "--home", "full"]),
    ] {
        let mut command = sandbox.bare_command();
        if !arguments.contains(&"--home") {
            command.arg("--home").arg(sandbox.home());
        }
        let ran = Ran::of(command.args(["--offline", "--json"]).args(arguments).output().unwrap());
        assert_eq!(ran.code(), Some(exit_code), "{arguments:?}: {}", ran.err);
        let document = ran.json();
        assert_eq!(document["schema"], "siliconroute.error/1", "{arguments:?}");
        let error = &document["error"];
        assert_eq!((&error["code"], &error["exit_code"]), (&code.into(), &exit_code.into()), "{error}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{error}");
        assert!(error["hint"].is_null() || !error["hint"].as_str().unwrap().is_empty(), "{error}");
        assert!(!ran.err.is_empty());
    }
    let form = sandbox.run(&["bench", "-m", MODEL, "-d", "npu", "-o", "json"]);
    assert_eq!(form.json()["error"]["code"], "nothing_suitable");
    let plain = sandbox.run(&["bench", "-m", MODEL, "-d", "npu"]);
    assert_eq!(plain.out, "");
}

#[test]
fn a_result_that_is_a_failure_is_one_document_with_the_error() {
    let sandbox = Sandbox::new();
    sandbox.write("home/config.toml", "seed = [");
    let ran = sandbox.run(&["doctor", "--json"]);
    let document = ran.json();
    assert_eq!(document["schema"], "siliconroute.doctor/1");
    assert_eq!((ran.code(), &document["error"]["exit_code"]), (Some(2), &2.into()), "{document}");
    assert!(ran.err.contains("error: broken: settings"), "{}", ran.err);
}

/// What was written is all or nothing for a reader that has gone.
#[test]
fn a_reader_that_has_gone_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["completions", "zsh"],
        &["config", "show"],
        &["devices", "--json"],
        &["models", "list"],
        &["packages", "list", "--json"],
        &["bench", "-m", MODEL, "--iterations", "1"],
        &["run", "-m", MODEL],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(arguments);
        let ran = Ran::of(command.stdout(writer).output().unwrap());
        assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.err);
        assert!(!ran.err.contains("error"), "{}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn closed_standard_streams_are_no_error() {
    let sandbox = Sandbox::new();
    for closed in [">&-", "2>&-", "<&-", ">&- 2>&- <&-"] {
        let mut command = std::process::Command::new("sh");
        sandbox.prepare(&mut command);
        let script = format!("exec \"$0\" --home home --offline devices {closed}");
        let ran = command.args(["-c", &script, env!("CARGO_BIN_EXE_siliconroute")]).output().unwrap();
        assert_eq!(Ran::of(ran).code(), Some(0), "{closed}");
    }
}

/// `/dev/full` takes a write as a full disk does.
#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for arguments in [
        &["--help"][..],
        &["config", "show", "--json"],
        &["completions", "bash"],
        &["devices"],
        &["doctor", "--json"],
        &["run", "-m", MODEL, "--json"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command(arguments);
        let ran = Ran::of(command.stdout(full).output().unwrap());
        assert_eq!(ran.code(), Some(1), "{arguments:?}");
        assert!(ran.err.contains("error: cannot write"), "{arguments:?}: {}", ran.err);
    }
}
