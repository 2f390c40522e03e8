//! `up`: the main job, without packages and without a network.

use serde_json::Value;

use crate::onnx_file::OneNode;
use crate::program::Sandbox;

/// Runs `up` to its end and checks what holds for every start.
#[track_caller]
pub(crate) fn run(sandbox: &Sandbox) -> Value {
    let report = sandbox.document("siliconroute.evaluation/1", &["up", "--once"]);
    assert_eq!(report["targets"], serde_json::json!(["cpu/rten"]));
    let decisions = report["decisions"].as_array().unwrap();
    assert!(!decisions.is_empty());
    for decision in decisions {
        assert_eq!(decision["chosen"], "cpu/rten", "{decision}");
        assert_eq!(decision["regret_pct"], 0.0, "{decision}");
    }
    assert_eq!(report["strategies"]["router"]["total"], decisions.len());
    let notices = report["notices"].to_string();
    assert!(notices.contains("models left out: silero-vad"), "{notices}");
    report
}

#[test]
fn only_progress_is_kept_quiet() {
    let sandbox = Sandbox::new();
    let ran = sandbox.succeed(&["up", "--once", "--quiet", "--json"]);
    let report = ran.json();
    let notices = report["notices"].as_array().unwrap();
    assert!(!notices.is_empty());
    for notice in notices {
        let note = format!("note: {}", notice.as_str().unwrap());
        assert_eq!(ran.err.lines().filter(|line| **line == note).count(), 1, "{note} in {}", ran.err);
    }
    assert!(!ran.err.contains("measuring"), "{}", ran.err);
}

#[test]
fn refuses_a_model_of_ones_own_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    sandbox.write("good.onnx", OneNode::default().to_bytes());
    sandbox.write("bad.onnx", "bad");
    let ran = sandbox.refuse(2, &["bad.onnx"], &["up", "--once", "good.onnx", "bad.onnx"]);
    assert!(!ran.err.contains("measuring"), "{}", ran.err);
}
