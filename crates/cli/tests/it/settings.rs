//! Settings, flags, and the home itself.

use crate::program::{MODEL, Ran, Sandbox, text};

#[test]
fn every_setting_is_shown_with_its_origin() {
    let sandbox = Sandbox::new();
    sandbox.write("home/config.toml", "seed = 5\naccuracy = \"exact\"\n");
    let shown = sandbox.document("siliconroute.config/1", &["config", "show", "--seed", "9"]);
    let of = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        let setting = settings.iter().find(|setting| setting["key"] == key).unwrap();
        (setting["value"].as_str().unwrap().to_owned(), setting["origin"].as_str().unwrap().to_owned())
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(of("seed"), pair("9", "flag"));
    assert_eq!(of("accuracy"), pair("exact", "file"));
    assert_eq!(of("trial_budget_ms"), pair("1", "environment"));
    assert_eq!(of("offline"), pair("true", "flag"));
    assert_eq!(of("goal"), pair("fastest", "default"));
    insta::assert_snapshot!(sandbox.succeed(&["config", "show"]).out);
}

#[test]
fn refuses_a_settings_file_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    let check = |content: &[u8], parts: &[&str]| {
        sandbox.write("home/config.toml", content);
        for command in [&["config", "show"][..], &["devices"], &["up", "--once"]] {
            sandbox.refuse(2, parts, command);
        }
    };
    check(b"sed = 2", &["unknown setting `sed`", "config.toml", "the settings are", "seed"]);
    check(b"seed = \"x\"", &["`seed` (in `", "config.toml`)", "`x`", "a whole number"]);
    check(b"seed = -1", &["`seed` (in `", "config.toml`)", "`-1`", "a whole number"]);
    check(b"offline = \"maybe\"", &["`offline` (in `", "config.toml`)", "true or false"]);
    check(b"accuracy = \"best\"", &["exact, standard or relaxed"]);
    check(b"trial_budget_s = 0.1", &["unknown setting `trial_budget_s`"]);
    check(b"worker_memory_percent = 0", &["from 1 to 100"]);
    check(b"seed = [", &["config.toml", "not valid TOML: line 1, column 9: "]);
    check(b"\xff\xfe\x00", &["cannot read the settings", "config.toml"]);
    check(&vec![b'#'; (1 << 20) + 1], &["cannot read the settings", "config.toml", "1048577 bytes"]);
    let file = sandbox.path("home/config.toml");
    let in_the_way = |parts: &[&str]| {
        for command in [&["config", "show"][..], &["devices"]] {
            sandbox.refuse(2, &[&["cannot read the settings", "config.toml"][..], parts].concat(), command);
        }
    };
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    in_the_way(&["a folder, not a file"]);
    #[cfg(unix)]
    {
        std::fs::remove_dir(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        in_the_way(&["not a regular file"]);
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        in_the_way(&["not a regular file"]);
    }
}

#[test]
fn the_settings_file_is_named() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("home/config.toml");
    let shown = sandbox.succeed(&["config", "show"]);
    assert!(shown.err.contains(&format!("the settings file is {}", file.display())), "{}", shown.err);
    let document = sandbox.document("siliconroute.config/1", &["config", "show"]);
    assert_eq!(document["file"].as_str(), file.to_str());
    for help in [&["config", "show", "--help"][..], &["up", "--help"]] {
        assert!(sandbox.succeed(help).out.contains("config.toml"), "{help:?}");
    }
}

#[test]
fn refuses_an_environment_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    let check = |variable: &str, value: &str, parts: &[&str]| {
        let mut command = sandbox.command(&["devices", "--json"]);
        Ran::of(command.env(variable, value).output().unwrap()).is_refusal(2, parts);
    };
    check("SILICONROUTE_SPEED", "1", &["unknown setting `speed`", "`SILICONROUTE_SPEED`"]);
    check("SILICONROUTE_SEED", "one", &["`seed` (variable SILICONROUTE_SEED)", "`one`", "a whole number"]);
    check(
        "SILICONROUTE_TRIAL_BUDGET_MS",
        "0",
        &["`trial_budget_ms` (variable SILICONROUTE_TRIAL_BUDGET_MS)", "from 1 to 600000"],
    );
    check(
        "SILICONROUTE_ACCURACY",
        "",
        &["`accuracy` (variable SILICONROUTE_ACCURACY)", "exact, standard or relaxed"],
    );
}

#[test]
fn the_environment_names_the_home() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.bare_command();
    command.env("SILICONROUTE_HOME", sandbox.path("elsewhere")).args(["devices", "--offline", "--json"]);
    assert_eq!(Ran::of(command.output().unwrap()).code(), Some(0));
    assert!(sandbox.path("elsewhere/store.sqlite").is_file());
}

#[test]
fn an_empty_home_variable_is_named() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str]| {
        let mut command = sandbox.bare_command();
        command.env("SILICONROUTE_HOME", "").args(["--offline", "--json"]).args(arguments);
        Ran::of(command.output().unwrap())
    };
    run(&["devices"]).is_refusal(2, &["the variable SILICONROUTE_HOME is empty", "hint: unset it"]);
    assert_eq!(run(&["doctor"]).json()["error"]["exit_code"], 2);
}

#[test]
fn a_usage_text_shows_no_flag_that_was_not_given() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.bare_command();
    command.env("SILICONROUTE_HOME", sandbox.home()).arg("bench");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code(), Some(2));
    assert!(ran.err.contains("Usage: siliconroute bench"), "{}", ran.err);
    assert!(!ran.err.contains("--home"), "{}", ran.err);
}

#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn a_relative_base_folder_is_ignored_and_told() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str], home: &std::path::Path| {
        let mut command = sandbox.bare_command();
        command.env("XDG_DATA_HOME", "data").env("HOME", home).args(arguments);
        Ran::of(command.output().unwrap())
    };
    let home = sandbox.path("me");
    let ran = run(&["devices", "--offline", "--json"], &home);
    assert_eq!(ran.code(), Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("note: XDG_DATA_HOME is ignored, since `data` is no absolute path"),
        "{}",
        ran.err
    );
    assert!(home.join(".local/share/siliconroute/store.sqlite").is_file());
    assert!(!sandbox.path("data").exists());
    let found = run(&["doctor", "--offline", "--json"], &home).json();
    let check = found["checks"].as_array().unwrap().iter().find(|check| check["subject"] == "environment");
    assert_eq!(check.unwrap()["health"], "advice", "{found}");
    let relative = run(&["devices", "--offline", "--json"], std::path::Path::new("me"));
    relative.is_refusal(4, &["no absolute home folder", "hint: name a folder with --home"]);
}

#[test]
fn doctor_goes_on_with_settings_or_a_home_that_cannot_be_used() {
    let sandbox = Sandbox::new();
    sandbox.write("home/config.toml", "seed = [");
    crate::stores::is_diagnosed(&sandbox, 2, "settings", &["config.toml", "not valid TOML"]);
    let sandbox = Sandbox::new();
    sandbox.write("home", "in the way");
    crate::stores::is_diagnosed(&sandbox, 4, "home", &["is a file, and the home needs a folder", "--home"]);
}

#[test]
fn refuses_a_home_that_is_no_folder() {
    let sandbox = Sandbox::new();
    let file = sandbox.write("file", "in the way");
    for home in [file.clone(), file.join("below")] {
        let mut command = sandbox.bare_command();
        command.args(["devices", "--offline", "--json", "--home", text(&home)]);
        let ran = Ran::of(command.output().unwrap());
        ran.is_refusal(
            4,
            &["is a file, and the home needs a folder", text(&file), "hint: move the file away"],
        );
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "in the way");
}

/// Nobody can make a folder there, not even the administrator.
#[cfg(target_os = "linux")]
#[test]
fn refuses_a_home_that_cannot_be_made() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.bare_command();
    command.args(["devices", "--offline", "--json", "--home", "/proc/siliconroute"]);
    let ran = Ran::of(command.output().unwrap());
    ran.is_refusal(4, &["cannot make the folder `/proc/siliconroute`", "hint: choose another folder"]);
}

#[test]
fn refuses_wrong_flags() {
    let sandbox = Sandbox::new();
    let check = |arguments: &[&str], parts: &[&str]| {
        sandbox.refuse(2, parts, arguments);
    };
    check(&["frobnicate"], &["unrecognized subcommand 'frobnicate'", "--help"]);
    check(&["benhc"], &["'bench'"]);
    check(&["bench"], &["--model <MODEL>"]);
    check(&["bench", "-m", MODEL, "--frob"], &["unexpected argument '--frob'"]);
    check(&["bench", "-m", MODEL, "--output", "xml"], &["'xml'", "table, json, csv, md"]);
    check(&["bench", "-m", MODEL, "--iterations", "0"], &["'0'", "--iterations"]);
    check(&["bench", "-m", MODEL, "--batch", "two"], &["`two`", "--batch"]);
    check(&["bench", "-m", MODEL, "--batch", "0"], &["batch 0", "the least batch is 1"]);
    check(&["bench", "-m", MODEL, "--batch", "1,0"], &["batch 0"]);
    check(&["bench", "-m", MODEL, "--time", "nan"], &["--time NaN", "give seconds"]);
    check(&["bench", "-m", MODEL, "--time=-1"], &["--time -1", "give seconds"]);
    check(&["bench", "-m", MODEL, "--time", "1e300"], &["--time", "give seconds"]);
    check(&["bench", "-m", MODEL, "--workload", "sleepy"], &["unknown workload `sleepy`", "`sustained`"]);
    check(&["bench", "-m", MODEL, "--workload", "cold"], &["`sustained`", "`idle_loaded`", "`cold_start`"]);
    check(&["route", "-m", MODEL, "--batch", "0"], &["batch 0"]);
    check(&["route", "-m", MODEL, "--workload", "x"], &["`x`", "sustained, idle_loaded or cold_start"]);
    check(&["route", "-m", MODEL, "--goal", "x"], &["unknown goal `x`", "fastest"]);
    check(&["run", "-m", MODEL, "--accuracy", "x"], &["`x`", "exact, standard or relaxed"]);
    check(&["evaluate", "-m", MODEL, "--batch", "0"], &["batch 0"]);
    check(&["evaluate", "--batch", "4"], &["--model <MODEL>", "Usage: siliconroute evaluate"]);
    check(&["evaluate", "--stored", "--batch", "2"], &["--model <MODEL>"]);
    check(&["completions", "tcsh"], &["'tcsh'", "bash"]);
    check(&["devices", "--seed", "x"], &["'x'", "--seed"]);
    check(&["tune", "--no-autotune", "--recalibrate"], &["--recalibrate would be ignored"]);
    check(&["config", "show", "--recalibrate"], &["`config`", "--recalibrate would be ignored"]);
}

#[test]
fn refuses_sizes_that_no_machine_holds() {
    let sandbox = Sandbox::new();
    let check = |arguments: &[&str], parts: &[&str]| {
        for command in
            [&["run", "-m", MODEL, "-d", "cpu/rten"][..], &["route", "-m", MODEL], &["bench", "-m", MODEL]]
        {
            sandbox.refuse(2, parts, &[command, arguments].concat());
        }
    };
    check(&["--batch", "18446744073709551615"], &[MODEL, "too large"]);
    check(&["--batch", "4611686018427387904"], &[MODEL, "too large"]);
    check(&["--shape", "input:18446744073709551615,128"], &["input:18446744073709551615,128", "too many"]);
    check(&["--shape", "input:99999999999999,128"], &["too large"]);
    check(&["--shape", "input:99999999999999999999,128"], &["no whole number from 1 up"]);
    for command in [&["run", "-m", MODEL, "-d", "cpu/rten"][..], &["bench", "-m", MODEL]] {
        let big = [command, &["--batch", "100000000"]].concat();
        sandbox.refuse(2, &["over the limit", "bind smaller dimensions"], &big);
    }
}

#[test]
fn refuses_shapes_that_are_not_the_models() {
    let sandbox = Sandbox::new();
    let check = |shape: &str, parts: &[&str]| {
        for command in [&["models", "inspect", MODEL][..], &["route", "-m", MODEL], &["bench", "-m", MODEL]] {
            sandbox.refuse(2, parts, &[command, &["--shape", shape]].concat());
        }
    };
    check("input", &["`input`", "write NAME:SIZE"]);
    check("", &["write NAME:SIZE"]);
    check(":1,128", &["write NAME:SIZE"]);
    check("input:one,128", &["size `one` on axis 0"]);
    check("input:0,128", &["size `0` on axis 0"]);
    check("input:-1,128", &["size `-1` on axis 0"]);
    check("input:1", &["`input` has 2 axes", "has 1"]);
    check("input:1,128,1", &["`input` has 2 axes", "has 3"]);
    check("input:1,127", &["axis 1", "fixed at 128", "127"]);
    check("output:1,128", &["no input `output`", "it has input"]);
}
