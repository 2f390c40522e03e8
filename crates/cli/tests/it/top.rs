//! `top`: as a document, as lines, as a live view.

use crate::program::{MODEL, Ran, Sandbox};

const SCHEMA: &str = "siliconroute.telemetry/1";

#[test]
fn one_look_tells_everything_or_why_not() {
    let sandbox = Sandbox::new();
    let document = sandbox.document(SCHEMA, &["top", "--once", "--interval", "0.1"]);
    let looks = document["looks"].as_array().unwrap();
    assert_eq!(
        (looks.len(), &document["interrupted"], &document["period_s"]),
        (1, &false.into(), &0.1.into())
    );
    let look = &looks[0];
    // Each is a value or a reason, whatever machine this is.
    for place in [
        "/cpu/busy_percent",
        "/cpu/clock_mhz",
        "/cpu/temperature_celsius",
        "/cpu/throttling",
        "/free_memory_bytes",
        "/power/source",
        "/power/battery_percent",
        "/power/battery_discharge_watts",
        "/temperatures_celsius",
        "/chips",
        "/meters",
    ] {
        let reading = look.pointer(place).and_then(|it| it.as_object()).unwrap_or_else(|| panic!("{place}"));
        let reason = reading.get("unavailable").map(|reason| reason.as_str().unwrap());
        assert!(reading.contains_key("available") || !reason.unwrap().is_empty(), "{place}: {look}");
    }
    let chips = look["chips"]["available"].as_array().unwrap();
    assert_eq!(chips[0]["chip"], "cpu");
    let battery = look["meters"]["available"].as_array().unwrap().iter().find(|it| it["name"] == "battery");
    assert_eq!(battery.unwrap()["scope"], "machine");
    let table = sandbox.succeed(&["top", "--once", "--interval", "0.1"]).out;
    assert!(table.contains("│ memory free") && table.contains("not available: "), "{table}");
}

#[test]
fn looks_for_some_time_are_a_series() {
    let sandbox = Sandbox::new();
    let document = sandbox.document(SCHEMA, &["top", "--seconds", "0.5", "--interval", "0.1"]);
    let looks = document["looks"].as_array().unwrap();
    assert_eq!(looks.len(), 5);
    let times: Vec<i64> = looks.iter().map(|look| look["taken_unix_ms"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let plain = sandbox.succeed(&["top", "--seconds", "0.3", "--interval", "0.1"]);
    assert_eq!(plain.out.lines().count(), 3);
    assert!(plain.out.lines().all(|line| line.contains("| memory: ")), "{}", plain.out);
    assert!(!plain.out.contains('\u{1b}'), "{}", plain.out);
    assert!(plain.err.contains("not available: "), "{}", plain.err);
}

#[test]
fn a_watch_ends_when_it_should_however_seldom_it_looks() {
    let sandbox = Sandbox::new();
    sandbox.refuse(
        2,
        &["--interval 5 is longer than --seconds 0.3"],
        &["top", "--seconds", "0.3", "--interval", "5"],
    );
    let document = sandbox.document(SCHEMA, &["top", "--seconds", "0.2"]);
    assert_eq!((document["looks"].as_array().unwrap().len(), &document["period_s"]), (1, &0.2.into()));
}

#[test]
fn what_is_recorded_is_in_the_store() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["top", "--seconds", "0.5", "--interval", "0.1", "--record"]);
    let looks = stored_looks(&sandbox);
    assert!(looks >= 5, "{looks}");
    sandbox.is_intact();
}

/// Looks in the store's file: only the store's crate knows SQLite.
fn stored_looks(sandbox: &Sandbox) -> usize {
    let bytes = std::fs::read(sandbox.store()).unwrap();
    // A look's document has this key once.
    let key = b"\"took_ms\"";
    bytes.windows(key.len()).filter(|window| window == key).count()
}

#[test]
fn refuses_times_that_make_no_sense() {
    let sandbox = Sandbox::new();
    for (flag, value) in [
        ("--seconds", "0"),
        ("--seconds", "-3"),
        ("--interval", "0.01"),
        ("--interval", "61"),
        ("--interval", "-1"),
        ("--interval", "inf"),
    ] {
        let which = format!("which {value} is not");
        sandbox.refuse(2, &[flag, "must be from", &which], &["top", flag, value]);
    }
    sandbox.refuse(2, &["--seconds", "which NaN is not"], &["top", "--seconds", "nan"]);
    for (flag, value) in [("--power-budget", "0"), ("--power-budget", "100001"), ("--ram-budget", "0")] {
        sandbox.refuse(2, &[flag, "give one from "], &["route", "-m", MODEL, flag, value]);
    }
    for flag in ["--deadline", "--throughput"] {
        sandbox.refuse(2, &[flag, "give one from 1e-9 to 1e15"], &["route", "-m", MODEL, flag, "-5"]);
    }
    sandbox.refuse(2, &["--once", "--seconds"], &["top", "--once", "--seconds", "1"]);
    sandbox.refuse(2, &["--energy"], &["bench", "-m", MODEL, "--energy-windows", "15,30"]);
    for windows in ["15", "15,30,1", "1,30", "15,nan"] {
        let arguments = ["bench", "-m", MODEL, "--energy", "--energy-windows", windows];
        sandbox.refuse(2, &["--energy-windows", "from 5 to 3600"], &arguments);
    }
}

#[test]
fn a_benchmark_without_meters_says_what_is_missing() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "-m", MODEL, "--iterations", "3", "--energy", "--energy-windows", "5,5"];
    // Meters are given three looks to tell something.
    let benchmark = |form: &[&str]| {
        let mut command = sandbox.command(&[&bench[..], form].concat());
        let ran = Ran::of(command.env("SILICONROUTE_TELEMETRY_PERIOD_MS", "100").output().unwrap());
        assert_eq!(ran.code(), Some(0), "{}", ran.err);
        ran
    };
    let document = benchmark(&["--json"]).json();
    assert_eq!(document["schema"], "siliconroute.bench/1");
    let energy = &document["energy"];
    let told = energy["joules_per_inference"].as_f64().is_some_and(|joules| joules > 0.0);
    let reason = energy["unavailable"].as_str();
    assert!(told != reason.is_some(), "{energy}");
    if let Some(reason) = reason {
        assert!(!reason.is_empty() && document["latency_ms"]["p50"].as_f64().unwrap() > 0.0, "{document}");
        let table = benchmark(&[]);
        assert!(table.err.contains("note: energy on cpu/rten is not available: "), "{}", table.err);
        let csv = benchmark(&["-o", "csv"]).out;
        let row = csv.lines().nth(1).unwrap();
        assert!(row.contains(",,,,,,,\"") && !row.ends_with(",0"), "{row}");
    }
}

#[cfg(unix)]
mod interrupted {
    use super::*;
    use crate::running::Running;

    #[test]
    fn a_live_view_that_the_user_ends_is_done() {
        let sandbox = Sandbox::new();
        let mut running = Running::start(&sandbox, &["top", "--interval", "0.1"]);
        running.wait_for("not available: ");
        running.signal("INT");
        let (status, _, messages) = running.end();
        assert_eq!(status.code(), Some(0), "{messages}");
    }

    #[test]
    fn a_series_that_the_user_ends_early_says_so() {
        let sandbox = Sandbox::new();
        let arguments = ["top", "--interval", "0.1", "--seconds", "600", "--json", "-v"];
        let mut running = Running::start(&sandbox, &arguments);
        running.wait_for("watching");
        running.signal("INT");
        let (status, out, messages) = running.end();
        assert_eq!(status.code(), Some(130), "{messages}");
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&document["schema"], &document["interrupted"]), (&SCHEMA.into(), &true.into()));
        assert_eq!(document["error"]["code"], "interrupted");
        let message = document["error"]["message"].as_str().unwrap();
        assert_eq!(message, "interrupted; the looks until then are all there are");
        assert!(!messages.contains("bench"), "{messages}");
    }

    #[test]
    fn a_view_that_nobody_reads_any_more_ends() {
        let sandbox = Sandbox::new();
        let mut running = Running::start(&sandbox, &["top", "--interval", "0.1"]);
        running.wait_for("not available: ");
        drop(running.child.stdout.take());
        let status = running.child.wait().unwrap();
        assert_eq!(status.code(), Some(0));
    }
}
