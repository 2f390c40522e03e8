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
    let unstable = document["latency_ms"]["unstable"] == true;
    let bound = |key: &str| document["latency_ms"][key].as_f64();
    match (bound("ci95_low"), bound("ci95_high")) {
        (Some(low), Some(high)) => assert!(low <= latency("p50") && latency("p50") <= high, "{document}"),
        absent => assert!(absent == (None, None) && unstable, "{document}"),
    }
    let samples = document["raw_samples_ms"].as_array().unwrap();
    assert_eq!(samples.len() as u64, info["samples"].as_u64().unwrap());
    let calls = document["calls_per_sample"].as_u64().unwrap();
    assert_eq!(info["iterations"].as_u64().unwrap(), calls * samples.len() as u64, "{info}");
    assert_eq!((&document["interrupted"], &document["error"]), (&false.into(), &serde_json::Value::Null));
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
        "model,bindings,target,workload,preparation,median_ms,ci_low_ms,ci_high_ms,p95_ms,min_ms,max_ms,samples,\
         sessions,session_spread_pct,spread_pct,items_per_s,ratio_to_first,ratio_low,ratio_high,outputs,\
         accuracy_class,max_rel_err,note,failure,peak_resident_bytes,session_bytes,device_bytes,\
         joules_per_inference,joules_low,joules_high,gross_joules_per_inference,energy_method,energy_scope,energy_absence,\
         ratio_least_round,ratio_largest_round"
    );
    assert!(lines.clone().all(|line| line.split(',').nth(19) == Some("reference")), "{csv}");
    assert_eq!(lines.clone().count(), 2);
    assert!(lines.all(|line| line.split(',').count() == columns.split(',').count()), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&form("json")).unwrap();
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    let md = form("md");
    assert_eq!(md.lines().count(), 4);
    assert!(md.lines().all(|line| line.matches('|').count() == 14), "{md}");
    assert!(form("table").contains("[batch=2]"));
}

/// A model that is sound and that no engine knows an operator of.
fn write_unknown_operator(sandbox: &Sandbox) {
    let model = OneNode { operator: "NoSuchOperator", ..OneNode::default() };
    sandbox.write("unknown.onnx", model.to_bytes());
}

#[test]
fn a_benchmark_without_any_measurement_has_its_error_in_its_document() {
    let sandbox = Sandbox::new();
    write_unknown_operator(&sandbox);
    let ran = sandbox.run(&["bench", "-m", "unknown.onnx", "--json"]);
    let document = ran.json();
    assert_eq!(document["schema"], "siliconroute.bench/1");
    let error = &document["error"];
    assert_eq!(ran.code().map(serde_json::Value::from).as_ref(), Some(&error["exit_code"]), "{error}");
    assert_eq!((ran.code(), &error["code"]), (Some(2), &"usage".into()), "{error}");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("unknown") && said.contains("cpu/rten"), "{said}");
    let text = sandbox.run(&["bench", "-m", "unknown.onnx"]);
    assert_eq!(text.code(), Some(2));
    assert!(text.err.lines().any(|line| line.starts_with("error: not measured: unknown")), "{}", text.err);
    assert!(text.err.lines().any(|line| line.starts_with("hint: ")), "{}", text.err);
}

#[test]
fn a_benchmark_with_a_case_that_nothing_measures_fails() {
    let sandbox = Sandbox::new();
    write_unknown_operator(&sandbox);
    let both = ["bench", "-m", MODEL, "-m", "unknown.onnx", "--iterations", "3"];
    let ran = sandbox.run(&both);
    assert_eq!(ran.code(), Some(1), "{}", ran.err);
    assert!(ran.err.contains("error: not measured: unknown") && ran.err.contains("cpu/rten"), "{}", ran.err);
    assert!(ran.out.contains(MODEL), "what was measured is printed: {}", ran.out);
    let document = sandbox.run(&[&both[..], &["--json"]].concat()).json();
    assert_eq!(document["error"]["exit_code"], 1, "{document}");
    assert_eq!(document["results"].as_array().unwrap().len(), 2, "{document}");
}

#[test]
fn a_target_is_compared_with_itself_and_with_another_setting() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "-m", MODEL, "--sessions", "2", "--compare"];
    let compared = |pair: &str| {
        let mut arguments = bench.to_vec();
        arguments.push(pair);
        let document = sandbox.document("siliconroute.bench/1", &arguments);
        assert_eq!(document["configurations"].as_array().unwrap().len(), 2, "{document}");
        document["comparisons"][0].clone()
    };
    let same = compared("cpu/rten,cpu/rten");
    assert_eq!((&same["first"], &same["second"]), (&"cpu/rten+again".into(), &"cpu/rten".into()));
    assert_eq!((&same["comparison"]["sessions"], &same["comparison"]["rounds"]), (&2.into(), &12.into()));
    let other = compared("cpu/rten+threads=1,cpu/rten");
    assert_eq!(other["first"], "cpu/rten+threads=1");
    assert!(other["comparison"]["ratio"].as_f64().unwrap() > 0.0);
    // The two campaigns can be compared as well, on the one target that both measured.
    let ran = sandbox.succeed(&["bench", "--compare", "1,2"]);
    assert!(ran.out.contains("cpu/rten in campaign 1"), "{}", ran.out);
    sandbox.refuse(2, &["no campaign 9"], &["bench", "--compare", "1,9"]);
    sandbox.refuse(2, &["campaign 1 twice"], &["bench", "--compare", "1,1"]);
    for flags in [&["-m", MODEL][..], &["--batch", "2"], &["--plan"]] {
        sandbox.refuse(2, &["would be ignored"], &[&["bench", "--compare", "1,2"], flags].concat());
    }
    sandbox.refuse(2, &["two targets or two campaigns"], &["bench", "-m", MODEL, "--compare", "cpu/rten"]);
    sandbox.refuse(2, &["+spin", "+threads=N"], &["bench", "-m", MODEL, "-d", "cpu/rten+spin"]);
    sandbox.refuse(2, &["--model"], &["bench", "--compare", "cpu/rten,cpu/rten"]);
}

#[test]
fn what_would_be_ignored_is_refused() {
    let sandbox = Sandbox::new();
    let compare = &["--compare", "cpu/rten,cpu/rten+threads=1"][..];
    for (flags, named) in [
        (&["--rests", "1"][..], "idle_loaded"),
        (&["--files", "dropped"], "cold_start"),
        (&["--repetitions", "4"], "idle_loaded or cold_start"),
        (&["--workload", "cold_start", "--precision", "1"], "sustained"),
        (&["--workload", "idle_loaded,cold_start", "--time", "1"], "sustained"),
        (&["--workload", "idle_loaded", "--iterations", "9"], "sustained"),
        (&["--workload", "cold_start", "--energy"], "sustained"),
        (&["--iterations", "9", "--precision", "1"], "--precision"),
        (&["--plan", "-o", "csv"], "--output"),
        (&[compare, &["-o", "csv"]].concat(), "--output"),
        (&[compare, &["--precision", "1"]].concat(), "--precision"),
    ] {
        sandbox.refuse(2, &[named], &[&["bench", "-m", MODEL], flags].concat());
    }
}

#[test]
fn the_three_workloads_are_measured_together() {
    let sandbox = Sandbox::new();
    let arguments = [
        "bench",
        "-m",
        MODEL,
        "--workload",
        "all",
        "--rests",
        "0.1,0.2",
        "--time",
        "0.05",
        "--files",
        "warm",
    ];
    let document = sandbox.document("siliconroute.bench/1", &arguments);
    let all = document["configurations"].as_array().unwrap();
    let seen: Vec<_> = all.iter().map(|one| (one["workload"].clone(), one["samples"].as_u64())).collect();
    assert_eq!(seen.len(), 4, "{document}");
    assert!(seen[1..].iter().all(|(_, samples)| *samples == Some(3)), "{seen:?}");
    let cold = &all[3]["cold_start"];
    for part in ["process_ms", "library_ms", "session_ms", "first_run_ms", "first_output_ms"] {
        assert!(cold[part].as_f64().is_some(), "{cold}");
    }
    let rested = &document["results"][1];
    assert!(rested["before_samples"][0]["resting"]["gap_ns"].as_u64().unwrap() >= 100_000_000, "{rested}");
}

#[test]
fn a_plan_is_shown_and_a_budget_kept() {
    let sandbox = Sandbox::new();
    let plan = sandbox.document("siliconroute.plan/1", &["bench", "-m", MODEL, "--batch", "1-4*2", "--plan"]);
    assert_eq!(plan["jobs"].as_array().unwrap().len(), 3);
    assert!(plan["expected_s"].as_f64().unwrap() > 0.0);
    let text = sandbox.succeed(&["bench", "-m", MODEL, "--plan", "--budget", "0.1"]).out;
    assert!(text.contains("more than the budget"), "{text}");
    sandbox.refuse(2, &["--budget -1 is no length of time"], &["bench", "-m", MODEL, "--budget", "-1"]);
    sandbox.refuse(2, &["--budget"], &["bench", "-m", MODEL, "--budget", "0"]);
    sandbox.refuse(2, &["--precision"], &["bench", "-m", MODEL, "--precision", "0"]);
}

#[test]
fn a_budget_without_room_is_told_with_one_that_would_do() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "-m", MODEL, "--batch", "1,2,4", "--time", "0.01"];
    let small = [&bench[..], &["--budget", "0.001"]].concat();
    let ran = sandbox.run(&[&small[..], &["--json"]].concat());
    assert_eq!(ran.code(), Some(1), "{}", ran.err);
    let hint = ran.json()["error"]["hint"].as_str().unwrap().to_owned();
    let plan = sandbox.document("siliconroute.plan/1", &[&bench[..], &["--plan"]].concat());
    let needed = plan["expected_s"].as_f64().unwrap().ceil().max(1.0);
    assert!(hint.contains(&format!("give --budget {needed:.0},")), "{hint} for {plan}");
    assert!(ran.err.contains(&format!("hint: {hint}")), "{}", ran.err);
    // Sessions that the budget left out fail nothing, and are told alike.
    let fewer = ["bench", "-m", MODEL, "--sessions", "1000", "--time", "0.01", "--budget", "1"];
    let told = sandbox.succeed(&fewer).err;
    assert!(told.contains("of 1000 sessions") && told.contains("give --budget "), "{told}");
}

#[test]
fn throughput_counts_all_sessions() {
    let sandbox = Sandbox::new();
    let arguments = ["bench", "-m", MODEL, "--concurrency", "2", "--time", "0.2"];
    let document = sandbox.document("siliconroute.bench/1", &arguments);
    assert_eq!(document["benchmark_info"]["target"], "cpu/rten+concurrency=2");
    let csv =
        sandbox.succeed(&["bench", "-m", MODEL, "--concurrency", "2", "--time", "0.2", "-o", "csv"]).out;
    let rate: f64 = csv.lines().nth(1).unwrap().split(',').nth(15).unwrap().parse().unwrap();
    assert!(rate > 0.0, "{csv}");
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
        assert_eq!(ran.out, "", "no empty tables");
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
