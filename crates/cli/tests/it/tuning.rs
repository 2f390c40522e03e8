//! `tune` and the flags around it, on the machine that runs the test: what is said and kept, not how fast anything is.

use serde_json::Value;

use crate::program::{MODEL, Ran, Sandbox};

fn tune(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    sandbox.document("siliconroute.tuning/1", &[&["tune"], arguments].concat())
}

#[test]
fn a_machine_is_tuned_once_and_again_on_request() {
    let sandbox = Sandbox::new();
    let first = tune(&sandbox, &[]);
    assert_eq!((&first["cached"], &first["source"]), (&false.into(), &"measured".into()));
    let measurements = first["measurements"].as_array().unwrap();
    assert!(!measurements.is_empty());
    for measurement in measurements {
        assert!(measurement["gb_per_s"].as_f64().unwrap() > 0.0, "{measurement}");
        assert!(!measurement["samples_ms"].as_array().unwrap().is_empty(), "{measurement}");
    }
    let chosen = measurements
        .iter()
        .find(|it| (&it["threads"], &it["policy"]) == (&first["threads"], &first["policy"]));
    assert!(chosen.is_some(), "{first}");
    assert!(!first["figures"].as_array().unwrap().is_empty());
    let id = first["hardware_id"].as_str().unwrap();
    assert!(sandbox.home().join("runtime").join(format!("{id}.json")).is_file());
    let second = tune(&sandbox, &["--all-policies"]);
    assert_eq!((&second["cached"], &second["source"]), (&true.into(), &"kept".into()));
    for kept in ["threads", "policy", "tied", "measurements", "measured_unix_ms", "figures"] {
        assert_eq!(second[kept], first[kept], "{kept}");
    }
    let third = tune(&sandbox, &["--recalibrate"]);
    assert_eq!(third["cached"], false);
}

#[test]
fn a_person_sees_a_table_and_bars() {
    let sandbox = Sandbox::new();
    let shown = sandbox.succeed(&["tune"]).out;
    for part in ["GB/s", "chosen", "█", "kept in", "read bandwidth", "measured in"] {
        assert!(shown.contains(part), "`{part}` is not in: {shown}");
    }
    assert!(sandbox.succeed(&["tune"]).out.contains("as measured on"));
}

#[test]
fn another_command_tunes_anew_first_on_request() {
    let sandbox = Sandbox::new();
    let ran = sandbox.succeed(&["fit", "--recalibrate"]);
    assert!(ran.err.contains("tuning"), "{}", ran.err);
    assert_eq!(tune(&sandbox, &[])["cached"], true);
}

#[test]
fn without_tuning_four_threads_are_told_and_nothing_is_kept() {
    let sandbox = Sandbox::new();
    let untuned = tune(&sandbox, &["--no-autotune"]);
    assert_eq!((&untuned["threads"], &untuned["policy"]), (&4.into(), &"Static".into()));
    assert_eq!((&untuned["cached"], &untuned["tie"]), (&false.into(), &false.into()));
    assert!(untuned["measurements"].as_array().unwrap().is_empty());
    assert!(!sandbox.home().join("runtime").exists());
    assert!(sandbox.succeed(&["tune", "--no-autotune"]).out.contains("tuning is switched off"));
}

#[test]
fn a_damaged_file_is_told_put_aside_and_replaced() {
    let sandbox = Sandbox::new();
    let id = tune(&sandbox, &[])["hardware_id"].as_str().unwrap().to_owned();
    sandbox.write(&format!("home/runtime/{id}.json"), "{\"half\": ");
    let ran = sandbox.succeed(&["tune", "--json", "--quiet"]);
    assert!(ran.err.contains("the file is damaged and put aside"), "{}", ran.err);
    assert_eq!(ran.json()["cached"], false);
    let aside = sandbox.path(&format!("home/runtime/{id}.json.unusable"));
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{\"half\": ");
    assert_eq!(tune(&sandbox, &[])["cached"], true);
}

#[test]
fn the_profile_is_told_with_and_without_a_command_and_makes_no_home() {
    let sandbox = Sandbox::new();
    let mut bare = sandbox.bare_command();
    let alone = Ran::of(bare.arg("--profile-info").output().unwrap());
    assert_eq!((alone.code(), alone.err.as_str()), (Some(0), ""));
    let profile = alone.json();
    let keys: Vec<&String> = profile.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["hardware_id", "host"]);
    assert!(profile["host"]["logical_cores"].as_u64().unwrap() >= 1);
    assert_eq!(sandbox.succeed(&["run", "-m", MODEL, "--profile-info"]).json(), profile);
    assert!(!sandbox.home().exists());
}
