//! `bench`, `route`, `fit` and `evaluate` on the smallest model.

use crate::onnx_file::OneNode;
use crate::program::{MODEL, Sandbox};

/// Replaces what differs from run to run and from machine to machine.
fn filtered(text: &str, check: impl FnOnce(&str)) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+(\.\d+)? (ns|µs|ms|s)\b", "[time]");
    settings.add_filter(r"[─┬┼┴═╪]{3,}", "──");
    settings.add_filter(r" {2,}", " ");
    settings.bind(|| check(text));
}

#[test]
fn a_measurement_has_all_its_parts() {
    let sandbox = Sandbox::new();
    let document = sandbox.measure();
    let info = &document["benchmark_info"];
    assert_eq!(info["model"], MODEL);
    assert_eq!(info["target"], "cpu/rten");
    assert_eq!(info["batch_size"], 1);
    assert_eq!(info["workload"], "sustained");
    assert!(info["iterations"].as_u64().unwrap() >= 30, "{info}");
    assert_eq!(document["model_info"]["input_shapes"], serde_json::json!([[1, 128]]));
    assert_eq!(document["model_info"]["parameters"], 4 * 128 * 128);
    let latency = |key: &str| document["latency_ms"][key].as_f64().unwrap();
    assert!(latency("min") <= latency("p50") && latency("p50") <= latency("max"), "{document}");
    // Samples that depend on each other as much as on a disturbed machine leave no interval.
    let unstable = document["unstable"] == true;
    let bound = |key: &str| document["latency_ms"][key].as_f64();
    match (bound("ci95_low"), bound("ci95_high")) {
        (Some(low), Some(high)) => assert!(low <= latency("p50") && latency("p50") <= high, "{document}"),
        absent => assert!(absent == (None, None) && unstable, "{document}"),
    }
    let samples = document["raw_samples_ms"].as_array().unwrap();
    assert_eq!(samples.len() as u64, info["iterations"].as_u64().unwrap());
    assert!(samples.iter().all(|sample| sample.as_f64().unwrap() > 0.0));
    assert_eq!(document["outputs"]["check"], "reference");
    assert!(document["conditions"].is_object());
}

#[test]
fn the_number_of_iterations_is_kept() {
    let sandbox = Sandbox::new();
    for count in ["1", "2", "7"] {
        let arguments = ["bench", "-m", MODEL, "--iterations", count, "--warmup", "0"];
        let document = sandbox.document("siliconroute.bench/1", &arguments);
        assert_eq!(document["benchmark_info"]["iterations"].to_string(), count);
        assert_eq!(document["calls_per_sample"], 1);
        assert_eq!(document["raw_samples_ms"].as_array().unwrap().len().to_string(), count);
    }
}

#[test]
fn every_case_is_measured_once() {
    let sandbox = Sandbox::new();
    sandbox.write("relu.onnx", OneNode::default().to_bytes());
    let document = sandbox.document(
        "siliconroute.bench/1",
        &["bench", "-m", MODEL, "-m", MODEL, "--batch", "1,2,1", "--iterations", "3"],
    );
    let results = document["results"].as_array().unwrap();
    let batches: Vec<_> = results.iter().map(|result| &result["benchmark_info"]["batch_size"]).collect();
    assert_eq!(batches, [1, 2]);
    sandbox.refuse(2, &["relu", "a batch of 4"], &["bench", "-m", "relu.onnx", "--batch", "1"]);
}

#[test]
fn results_have_the_form_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let form = |form: &str| {
        sandbox.succeed(&["bench", "-m", MODEL, "--iterations", "3", "--batch", "1,2", "-o", form]).out
    };
    let csv = form("csv");
    let mut lines = csv.lines();
    let columns = lines.next().unwrap();
    assert_eq!(
        columns,
        "model,bindings,target,median_ms,ci95_low_ms,ci95_high_ms,p95_ms,min_ms,max_ms,samples,spread_pct,\
         calls_per_s,outputs,accuracy_class,max_rel_err,note,failure"
    );
    assert!(lines.clone().all(|line| line.split(',').nth(12) == Some("reference")), "{csv}");
    assert_eq!(lines.clone().count(), 2);
    assert!(lines.all(|line| line.split(',').count() == columns.split(',').count()), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&form("json")).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    let md = form("md");
    assert_eq!(md.lines().count(), 4);
    assert!(md.lines().all(|line| line.matches('|').count() == 10), "{md}");
    assert!(form("table").contains("[batch=2]"));
}

#[test]
fn the_facts_of_a_model_are_shown() {
    let sandbox = Sandbox::new();
    sandbox.generate();
    let shown = sandbox.succeed(&["models", "inspect", "mlp-128w-4l.onnx", "--shape", "input:3,128"]).out;
    let folder = sandbox.path("mlp-128w-4l.onnx").canonicalize().unwrap();
    let shown = shown.replace(&folder.display().to_string(), "[file]");
    insta::assert_snapshot!(shown.replace(&sandbox.path("mlp-128w-4l.onnx").display().to_string(), "[file]"));
}

#[test]
fn what_was_measured_is_decided_on_and_explained() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    let decision = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    assert_eq!(decision["chosen"], "cpu/rten");
    assert_eq!(decision["candidates"][0]["source"], "measured");
    assert!(decision["verification"].is_null());
    let verified = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL, "--verify"]);
    assert_eq!(verified["verification"]["best"], "cpu/rten");
    assert_eq!(verified["verification"]["regret_pct"], 0.0);
    let stored = sandbox.document("siliconroute.evaluation/1", &["evaluate", "--stored"]);
    assert_eq!(stored["decisions"].as_array().unwrap().len(), 1);
    assert_eq!((&stored["decisions"][0]["candidates"], &stored["without_choice"]), (&1.into(), &1.into()));
    filtered(&sandbox.succeed(&["route", "-m", MODEL]).out, |text| insta::assert_snapshot!("route", text));
    filtered(&sandbox.succeed(&["evaluate", "--stored"]).out, |text| {
        insta::assert_snapshot!("evaluate", text);
    });
}

#[test]
fn nothing_measured_is_nothing_to_evaluate() {
    let sandbox = Sandbox::new();
    for arguments in [&["evaluate"][..], &["evaluate", "--stored"]] {
        let ran = sandbox.succeed(arguments);
        assert!(ran.err.contains("run `siliconroute up --once` first"), "{}", ran.err);
        let document = sandbox.document("siliconroute.evaluation/1", arguments);
        assert_eq!(document["decisions"], serde_json::json!([]));
    }
}

#[test]
fn what_is_not_fitted_says_why() {
    let sandbox = Sandbox::new();
    let fits = sandbox.document("siliconroute.fits/1", &["fit"]);
    assert_eq!(fits["fits"], serde_json::json!([]));
    let unfitted = fits["unfitted"].as_array().unwrap();
    assert!(unfitted.iter().all(|entry| entry["reason"].as_str().unwrap().contains("too few")), "{fits}");
    let text = sandbox.succeed(&["fit"]).out;
    assert!(!unfitted.is_empty());
    for entry in unfitted {
        let shown = text.lines().find(|line| line.contains(entry["workload"].as_str().unwrap())).unwrap();
        assert!(shown.contains(entry["reason"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn a_new_home_has_no_fault() {
    let sandbox = Sandbox::new();
    let found = sandbox.document("siliconroute.doctor/1", &["doctor"]);
    let checks = found["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["health"] != "broken"), "{found}");
    let advised = checks.iter().filter(|check| check["health"] != "good");
    assert!(advised.clone().count() > 0);
    assert!(advised.clone().all(|check| check["advice"].is_string()), "{found}");
}
