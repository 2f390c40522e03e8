//! `up`: the main job, without packages and without a network.

use serde_json::Value;

use crate::onnx_file::OneNode;
use crate::program::Sandbox;
use crate::running::Running;

/// Runs `up` to its end and checks what holds for every start: no more than progress is kept quiet by `--quiet`.
#[track_caller]
fn run(sandbox: &Sandbox) -> Value {
    let ran = sandbox.succeed(&["up", "--once", "--quiet", "--json"]);
    let report = ran.json();
    assert_eq!(report["schema"], "siliconroute.evaluation/1");
    assert_eq!(report["targets"], serde_json::json!(["cpu/rten"]));
    let decisions = report["decisions"].as_array().unwrap();
    assert!(!decisions.is_empty());
    for decision in decisions {
        assert_eq!(decision["chosen"], "cpu/rten", "{decision}");
        assert_eq!(decision["regret_pct"], 0.0, "{decision}");
    }
    assert_eq!(report["strategies"]["router"]["total"], decisions.len());
    let notices = report["notices"].as_array().unwrap();
    assert!(report["notices"].to_string().contains("models left out: silero-vad"), "{notices:?}");
    for notice in notices {
        let note = format!("note: {}", notice.as_str().unwrap());
        assert_eq!(ran.err.lines().filter(|line| **line == note).count(), 1, "{note} in {}", ran.err);
    }
    assert!(!ran.err.contains("measuring"), "{}", ran.err);
    report
}

/// Starts `up`, stops it with `stop` while it measures case number `case`, and gives how it ended.
fn stop_at(
    sandbox: &Sandbox,
    case: usize,
    stop: impl FnOnce(&mut Running),
) -> (std::process::ExitStatus, String, String) {
    let mut running = Running::start(sandbox, &["up", "--once", "--json"]);
    running.wait_for(&format!("measuring  {case}/"));
    stop(&mut running);
    running.end()
}

/// One home through all of it, since a start measures for some seconds.
#[test]
fn a_stopped_start_is_gone_on_with_by_the_next() {
    let sandbox = Sandbox::new();
    #[cfg(unix)]
    {
        let (status, out, messages) = stop_at(&sandbox, 2, |running| running.signal("INT"));
        assert_eq!(status.code(), Some(130), "{messages}");
        assert!(out.contains("siliconroute.error/1"), "{out}");
    }
    let (status, ..) = stop_at(&sandbox, 3, |running| running.child.kill().unwrap());
    assert!(!status.success(), "{status}");

    let finished = run(&sandbox);
    let again = run(&sandbox);
    let trials = |report: &Value| report["measured_trials"].as_u64().unwrap();
    let decisions = finished["decisions"].as_array().unwrap().len() as u64;
    assert!((decisions..3 * decisions).contains(&trials(&finished)), "{finished}");
    assert_eq!(trials(&again), 0, "a start with nothing new measures nothing");
    assert_eq!(again["decisions"], finished["decisions"]);
    sandbox.is_intact();
}

#[test]
fn refuses_a_model_of_ones_own_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    sandbox.write("good.onnx", OneNode::default().to_bytes());
    sandbox.write("bad.onnx", "bad");
    let ran = sandbox.refuse(2, &["bad.onnx"], &["up", "--once", "good.onnx", "bad.onnx"]);
    assert!(!ran.err.contains("measuring"), "{}", ran.err);
}

/// A browser in name alone: it writes down what it was asked to show.
#[cfg(target_os = "linux")]
#[test]
fn the_results_are_shown_in_the_browser_or_their_place_is_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let sandbox = Sandbox::new();
    let up = |programs: &str| {
        let mut command = sandbox.command(&["up", "--once", "--open"]);
        command.env("PATH", sandbox.path(programs));
        crate::program::Ran::of(command.output().unwrap())
    };
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    let page = sandbox.home().join("results.html");
    let alone = up("empty");
    assert_eq!(alone.code(), Some(0), "{}", alone.err);
    assert!(
        alone.err.contains("no browser was found") && alone.err.contains("results.html"),
        "{}",
        alone.err
    );
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("<td>cpu/rten</td>") && html.contains("trials were measured by this start"),
        "{html}"
    );

    let browser = sandbox.write("browser/xdg-open", "#!/bin/sh\nprintf %s \"$1\" >shown.txt\n");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = up("browser");
    assert!(!shown.err.contains("no browser"), "{}", shown.err);
    let told = sandbox.path("shown.txt");
    let asked = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::read_to_string(&told).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(asked.as_deref(), page.to_str());
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("nothing was measured by this start"), "{html}");
}
