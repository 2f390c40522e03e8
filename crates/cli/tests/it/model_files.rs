//! Model files that cannot be used, and what the user is told of them.

use crate::onnx_file::OneNode;
use crate::program::{MODEL, Sandbox, text};

/// Every command that takes a model says the same of a file that cannot be used.
#[track_caller]
fn check(sandbox: &Sandbox, file: &str, parts: &[&str]) {
    for command in [
        &["models", "inspect", file][..],
        &["models", "add", file],
        &["bench", "-m", file],
        &["route", "-m", file],
        &["run", "-m", file],
        &["evaluate", "-m", file],
        &["up", "--once", file],
    ] {
        let ran = sandbox.refuse(2, &[&[file][..], parts].concat(), command);
        let message = ran.err.lines().find(|line| line.starts_with("error: ")).unwrap();
        assert_eq!(message.matches(file).count(), 1, "{message}");
    }
}

#[test]
fn refuses_a_text() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.onnx", "these are notes and no model at all\n");
    check(&sandbox, "notes.onnx", &["is not an ONNX model"]);
}

#[test]
fn refuses_a_truncated_model_wherever_it_is_cut() {
    let sandbox = Sandbox::new();
    let whole = std::fs::read(sandbox.generate()).unwrap();
    for keep in [1, 10, 100, 1000, whole.len() / 2, whole.len() - 1] {
        let file = sandbox.write("cut.onnx", &whole[..keep]);
        sandbox.refuse(2, &["cut.onnx", "cut short", "fetch it again"], &["models", "inspect", text(&file)]);
    }
    check(&sandbox, "cut.onnx", &["cut short", "fetch it again"]);
}

#[test]
fn refuses_an_empty_file() {
    let sandbox = Sandbox::new();
    sandbox.write("empty.onnx", "");
    check(&sandbox, "empty.onnx", &["is empty"]);
}

#[test]
fn refuses_a_missing_file() {
    check(&Sandbox::new(), "missing.onnx", &["does not exist"]);
}

#[test]
fn refuses_a_folder() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("folder.onnx")).unwrap();
    check(&sandbox, "folder.onnx", &["is a folder", "give the path of the .onnx file in it"]);
}

#[test]
fn refuses_missing_external_data() {
    let sandbox = Sandbox::new();
    let model = OneNode { operator: "Add", weight_at: Some("weights.data"), ..OneNode::default() };
    sandbox.write("outside.onnx", model.to_bytes());
    check(&sandbox, "outside.onnx", &["weights.data", "does not exist", "put it beside the model"]);
}

#[test]
fn refuses_external_data_that_is_too_short() {
    let sandbox = Sandbox::new();
    let model = OneNode { operator: "Add", weight_at: Some("weights.data"), ..OneNode::default() };
    sandbox.write("outside.onnx", model.to_bytes());
    sandbox.write("weights.data", [0; 15]);
    check(&sandbox, "outside.onnx", &["weights.data", "which has 15"]);
}

#[test]
fn reads_external_data_beside_the_model() {
    let sandbox = Sandbox::new();
    let model = OneNode { operator: "Add", weight_at: Some("weights.data"), ..OneNode::default() };
    sandbox.write("outside.onnx", model.to_bytes());
    let weights: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    sandbox.write("weights.data", weights);
    sandbox.write("in.json", r#"{"x": [10, 20, 30, 40]}"#);
    let ran = sandbox.document(
        "siliconroute.run/1",
        &["run", "-m", "outside.onnx", "-d", "cpu/rten", "--input", "in.json"],
    );
    assert_eq!(ran["outputs"][0]["values"], serde_json::json!([11.0, 22.0, 33.0, 44.0]));
}

#[test]
fn refuses_external_data_outside_of_the_models_folder() {
    let sandbox = Sandbox::new();
    sandbox.write("secret.bin", [0; 16]);
    for location in ["../secret.bin", text(&sandbox.path("secret.bin"))] {
        let model = OneNode { operator: "Add", weight_at: Some(location), ..OneNode::default() };
        sandbox.write("inner/outside.onnx", model.to_bytes());
        sandbox.refuse(2, &["outside.onnx", "`w`"], &["models", "inspect", "inner/outside.onnx"]);
    }
}

#[cfg(unix)]
#[test]
fn refuses_external_data_that_a_link_takes_outside_of_the_models_folder() {
    let sandbox = Sandbox::new();
    sandbox.write("secret.bin", [0; 16]);
    let model = OneNode { operator: "Add", weight_at: Some("weights.bin"), ..OneNode::default() };
    sandbox.write("inner/linked.onnx", model.to_bytes());
    std::os::unix::fs::symlink("../secret.bin", sandbox.path("inner/weights.bin")).unwrap();
    check(&sandbox, "inner/linked.onnx", &["`w`", "weights.bin", "outside the model's folder"]);
}

#[cfg(unix)]
#[test]
fn says_what_is_no_file_and_does_not_wait_for_it() {
    let sandbox = Sandbox::new();
    check(&sandbox, "/dev/zero", &["is a device, not a model file"]);
    let made = std::process::Command::new("mkfifo").arg(sandbox.path("pipe.onnx")).status().unwrap();
    assert!(made.success());
    check(&sandbox, "pipe.onnx", &["is a pipe, not a model file"]);
}

#[test]
fn refuses_a_model_that_breaks_the_rules_of_the_format() {
    let sandbox = Sandbox::new();
    let usual = OneNode::default;
    for (model, part) in [
        (OneNode { opset: 0, ..usual() }, "operator set 0"),
        (OneNode { opset: 9_999, ..usual() }, "operator set 9999"),
        (OneNode { opset: u64::MAX, ..usual() }, "operator set -1"),
        (OneNode { inputs: &["x", "x"], ..usual() }, "declares the input `x` twice"),
        (OneNode { inputs: &["y"], ..usual() }, "defined already"),
        (OneNode { outputs: &["z"], ..usual() }, "nothing gives its output `z`"),
        (OneNode { operator: "", ..usual() }, "names no operator"),
    ] {
        sandbox.write("odd.onnx", model.to_bytes());
        check(&sandbox, "odd.onnx", &["is no valid ONNX model", part]);
    }
}

/// A model that can be read but run by nothing: its facts are there, and the target's refusal is told.
#[track_caller]
fn runs_nowhere(model: &OneNode<'_>, part: &str) {
    let sandbox = Sandbox::new();
    sandbox.write("odd.onnx", model.to_bytes());
    sandbox.document("siliconroute.model/1", &["models", "inspect", "odd.onnx"]);
    let refused = ["no engine takes odd", "cpu/rten", part];
    sandbox.refuse(2, &refused, &["run", "-m", "odd.onnx", "-d", "cpu/rten"]);
    let ran = sandbox.run(&["bench", "-m", "odd.onnx", "--json"]);
    assert_eq!(ran.code(), Some(2), "{}", ran.err);
    let failure = ran.json()["failure"].to_string();
    assert!(failure.contains(part), "{failure}");
    for command in ["route", "run"] {
        sandbox.refuse(2, &refused, &[command, "-m", "odd.onnx"]);
    }
    sandbox.is_intact();
}

#[test]
fn tells_of_an_unknown_operator() {
    runs_nowhere(&OneNode { operator: "Frobnicate", ..OneNode::default() }, "Frobnicate");
}

#[test]
fn an_operator_set_that_is_newer_than_the_engines_is_assumed_to_be_like_theirs() {
    let sandbox = Sandbox::new();
    sandbox.write("new.onnx", OneNode { opset: 28, ..OneNode::default() }.to_bytes());
    let facts = sandbox.document("siliconroute.model/1", &["models", "inspect", "new.onnx"]);
    assert!(facts["case"]["facts"]["assumptions"].to_string().contains("operator set 28"), "{facts}");
}

#[test]
fn a_model_without_outputs_says_so() {
    let sandbox = Sandbox::new();
    sandbox.write("mute.onnx", OneNode { outputs: &[], ..OneNode::default() }.to_bytes());
    let ran = sandbox.succeed(&["run", "-m", "mute.onnx", "-d", "cpu/rten"]);
    assert!(ran.out.contains("the model has no output that is a tensor"), "{}", ran.out);
}

#[test]
fn a_model_may_change_between_two_commands() {
    let sandbox = Sandbox::new();
    sandbox.write("model.onnx", OneNode::default().to_bytes());
    let before = sandbox.document("siliconroute.model/1", &["models", "inspect", "model.onnx"]);
    sandbox.write("model.onnx", OneNode { operator: "Sigmoid", ..OneNode::default() }.to_bytes());
    let after = sandbox.document("siliconroute.model/1", &["models", "inspect", "model.onnx"]);
    assert_ne!(before["facts"]["id"], after["facts"]["id"]);
}

#[test]
fn a_name_with_spaces_and_letters_from_elsewhere_works() {
    let sandbox = Sandbox::new();
    sandbox.write("ein Modell – größer.onnx", OneNode::default().to_bytes());
    let ran =
        sandbox.document("siliconroute.run/1", &["run", "-m", "ein Modell – größer.onnx", "-d", "cpu/rten"]);
    assert_eq!(ran["model"], "ein Modell – größer");
}

#[test]
fn suggests_a_name_for_a_mistyped_one() {
    let sandbox = Sandbox::new();
    let check = |name: &str, parts: &[&str]| {
        sandbox.refuse(2, &[&[name, "models list"], parts].concat(), &["bench", "-m", name]);
    };
    check("silero-vat", &["did you mean silero-vad"]);
    check("yolov8n", &["did you mean yolov8n-320"]);
    check("mpl-128w-4l", &["write mlp-256w-4l"]);
    check("mlp-99999w-4l", &["widths up to 8192"]);
    check("qqqqqqqqqq", &["not in the catalogue"]);
    sandbox.refuse(2, &["`nothing`", "write mlp-256w-4l"], &["models", "generate", "nothing"]);
}

#[test]
fn generated_models_do_not_differ_from_start_to_start() {
    let (one, other) = (Sandbox::new(), Sandbox::new());
    assert_eq!(std::fs::read(one.generate()).unwrap(), std::fs::read(other.generate()).unwrap());
    let listed = one.document("siliconroute.models/1", &["models", "generate", MODEL]);
    assert_eq!(listed["generated"].as_array().unwrap().len(), 1);
}
