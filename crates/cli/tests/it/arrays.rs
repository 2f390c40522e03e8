//! Inputs from files and outputs into files.

use siliconroute::array_file::{read_inputs, write_outputs};
use siliconroute_core::tensor::{Dimension, ElementType, NamedTensor, Tensor, TensorData, TensorSpec};

use crate::onnx_file::OneNode;
use crate::program::{MODEL, Sandbox, text};

fn floats(name: &str, shape: &[usize]) -> NamedTensor {
    let data = TensorData::Float32((0..shape.iter().product()).map(|index: usize| index as f32).collect());
    NamedTensor { name: name.to_owned(), tensor: Tensor::new(shape.to_vec(), data).unwrap() }
}

/// A sandbox with `sum.onnx`, which adds the vectors `a` and `b` of four elements.
fn with_sum() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox
        .write("sum.onnx", OneNode { operator: "Add", inputs: &["a", "b"], ..OneNode::default() }.to_bytes());
    sandbox
}

#[track_caller]
fn refuse(sandbox: &Sandbox, file: &str, parts: &[&str]) {
    let arguments = ["run", "-m", "sum.onnx", "-d", "cpu/rten", "--input", file];
    sandbox.refuse(2, &[&[file][..], parts].concat(), &arguments);
}

#[test]
fn arrays_that_do_not_fit_the_model_are_refused() {
    let sandbox = with_sum();
    let check = |arrays: &[NamedTensor], parts: &[&str]| {
        write_outputs(&sandbox.path("in.npz"), arrays).unwrap();
        refuse(&sandbox, "in.npz", parts);
    };
    let integers = TensorData::Int64(vec![1, 2, 3, 4]);
    let integers = NamedTensor { name: "a".to_owned(), tensor: Tensor::new(vec![4], integers).unwrap() };
    check(&[floats("a", &[4])], &["lacks the inputs b"]);
    check(&[], &["lacks the inputs a, b"]);
    check(&[floats("a", &[4]), floats("b", &[4]), floats("c", &[4])], &["holds `c`", "are a, b"]);
    check(&[floats("a", &[4]), floats("B", &[4])], &["holds `B`"]);
    check(&[floats("a", &[2, 2]), floats("b", &[4])], &["`a`", "[2, 2]", "float32[4]"]);
    check(&[floats("a", &[4]), floats("b", &[5])], &["`b`", "[5]"]);
    check(&[floats("a", &[]), floats("b", &[4])], &["`a`", "[]"]);
    check(&[integers, floats("b", &[4])], &["`a`", "int64", "wants float32", "convert it before saving"]);
}

#[test]
fn one_array_is_not_enough_for_two_inputs() {
    let sandbox = with_sum();
    write_outputs(&sandbox.path("in.npy"), &[floats("a", &[4])]).unwrap();
    refuse(&sandbox, "in.npy", &["exactly one array", ".npz"]);
}

#[test]
fn json_that_does_not_fit_the_model_is_refused() {
    let sandbox = with_sum();
    let check = |content: &str, parts: &[&str]| {
        sandbox.write("in.json", content);
        refuse(&sandbox, "in.json", parts);
    };
    check("", &["line 1"]);
    check("{\"a\": [1, 2", &["line 1"]);
    check("[1, 2, 3, 4]", &["an object with the model's input names"]);
    check("{}", &["lacks the inputs a, b"]);
    check(r#"{"a": [1, 2, 3, 4], "c": [1, 2, 3, 4]}"#, &["holds `c`"]);
    check(r#"{"a": [1, 2, 3], "b": [1, 2, 3, 4]}"#, &["`a`", "[3]"]);
    check(r#"{"a": [[1, 2], [3, 4]], "b": [1, 2, 3, 4]}"#, &["`a`", "[2, 2]"]);
    check(r#"{"a": [[1, 2], [3]], "b": [1, 2, 3, 4]}"#, &["`a`"]);
    check(r#"{"a": ["x", 2, 3, 4], "b": [1, 2, 3, 4]}"#, &["`a`", "element 0 is a text"]);
    check(r#"{"a": null, "b": [1, 2, 3, 4]}"#, &["`a`"]);
    check(r#"{"a": {"shape": [99999999999], "data": [1]}, "b": [1, 2, 3, 4]}"#, &["`a`"]);
    check(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), &[]);
    check(&format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)), &["recursion limit"]);
}

#[test]
fn files_that_hold_no_arrays_are_refused() {
    let sandbox = with_sum();
    std::fs::create_dir(sandbox.path("folder.npz")).unwrap();
    sandbox.write("in.npz", "PK and nothing more");
    sandbox.write("in.npy", "\u{93}NUMPY");
    sandbox.write("in.txt", "1 2 3 4");
    refuse(&sandbox, "in.npz", &["no complete .npz file"]);
    refuse(&sandbox, "in.txt", &["must end in .npz, .npy or .json"]);
    refuse(&sandbox, "folder.npz", &["cannot read"]);
    for missing in ["missing.npz", "missing.npy", "missing.json"] {
        refuse(&sandbox, missing, &["cannot read"]);
    }
    sandbox.write("relu.onnx", OneNode::default().to_bytes());
    let arguments = ["run", "-m", "relu.onnx", "-d", "cpu/rten", "--input", "in.npy"];
    sandbox.refuse(2, &["in.npy", "no .npy array"], &arguments);
}

#[test]
fn values_that_are_no_finite_numbers_are_told_once_and_refused_by_nobody() {
    let sandbox = with_sum();
    let check = |values: &str, expected: &[&str]| {
        sandbox.write("in.json", format!(r#"{{"a": {values}, "b": [1, 2, 3, 3e38]}}"#));
        let run = ["run", "-m", "sum.onnx", "-d", "cpu/rten", "--input", "in.json"];
        let ran = sandbox.succeed(&[&run[..], &["--json"]].concat());
        let warnings = ran.json()["warnings"].clone();
        assert_eq!(warnings, serde_json::json!(expected));
        let shown = sandbox.succeed(&[&run[..], &["--quiet"]].concat());
        for all in [&ran.err, &shown.err] {
            assert_eq!(all.matches("no finite numbers").count(), expected.len(), "{all}");
            assert!(expected.iter().all(|warning| all.contains(&format!("note: {warning}"))), "{all}");
        }
    };
    check("[1, 2, 3, 4]", &[]);
    check("[1, 2, 3, 3e38]", &["outputs with values that are no finite numbers: `y` (1 inf of 4 elements)"]);
    check(
        r#"["NaN", "Infinity", "-Infinity", "NaN"]"#,
        &[
            "inputs with values that are no finite numbers: `a` (2 NaN, 1 inf, 1 -inf of 4 elements)",
            "outputs with values that are no finite numbers: `y` (2 NaN, 1 inf, 1 -inf of 4 elements)",
        ],
    );
}

#[test]
fn a_truncated_archive_is_refused_wherever_it_is_cut() {
    let sandbox = with_sum();
    write_outputs(&sandbox.path("in.npz"), &[floats("a", &[4]), floats("b", &[4])]).unwrap();
    let whole = std::fs::read(sandbox.path("in.npz")).unwrap();
    for keep in (0..whole.len()).step_by(37) {
        sandbox.write("in.npz", &whole[..keep]);
        refuse(&sandbox, "in.npz", &[]);
    }
}

#[test]
fn given_shapes_that_contradict_the_inputs_are_refused() {
    let sandbox = Sandbox::new();
    write_outputs(&sandbox.path("in.npz"), &[floats("input", &[3, 128])]).unwrap();
    let refuse = |parts: &[&str], more: &[&str]| {
        sandbox.refuse(2, parts, &[&["run", "-m", MODEL, "-d", "cpu/rten"], more].concat());
    };
    refuse(&["batch of 2", "make it 3"], &["--input", "in.npz", "--batch", "2"]);
    let parts = ["--shape", "in.npz", "[2, 128]", "[3, 128]"];
    refuse(&parts, &["--input", "in.npz", "--shape", "input:2,128"]);
    refuse(&["batch of 5", "make it 2"], &["--shape", "input:2,128", "--batch", "5"]);
    let agreed = ["--input", "in.npz", "--batch", "3", "--shape", "input:3,128"];
    sandbox.succeed(&[&["run", "-m", MODEL, "-d", "cpu/rten"][..], &agreed].concat());
}

#[test]
fn outputs_go_into_a_file_and_come_back() {
    let sandbox = with_sum();
    write_outputs(&sandbox.path("in.npz"), &[floats("a", &[4]), floats("b", &[4])]).unwrap();
    let spec =
        TensorSpec { name: "y".to_owned(), element: ElementType::Float32, shape: vec![Dimension::Fixed(4)] };
    for file in ["out.npz", "out.npy", "out.json"] {
        let arguments = ["run", "-m", "sum.onnx", "-d", "cpu/rten", "--input", "in.npz", "--write", file];
        let ran = sandbox.document("siliconroute.run/1", &arguments);
        assert_eq!(ran["written"], file);
        assert_eq!(ran["outputs"][0]["values"], serde_json::json!([0.0, 2.0, 4.0, 6.0]));
        let back = read_inputs(&sandbox.path(file), std::slice::from_ref(&spec)).unwrap();
        assert_eq!(back[0].tensor.data(), &TensorData::Float32(vec![0.0, 2.0, 4.0, 6.0]));
    }
}

#[test]
fn outputs_that_cannot_be_written_are_an_error() {
    let sandbox = with_sum();
    let check = |code: i32, file: &str, parts: &[&str]| {
        sandbox.refuse(code, parts, &["run", "-m", "sum.onnx", "-d", "cpu/rten", "--write", file]);
    };
    check(2, "out.txt", &["out.txt", "must end in .npz, .npy or .json"]);
    check(1, "no/such/folder/out.npz", &["cannot write no/such/folder/out.npz"]);
    std::fs::create_dir(sandbox.path("taken.npz")).unwrap();
    check(1, "taken.npz", &["cannot write taken.npz", "a folder, not a file"]);
    #[cfg(unix)]
    {
        make_pipe(&sandbox, "pipe.npz");
        check(1, "pipe.npz", &["cannot write pipe.npz", "not a regular file"]);
        std::os::unix::fs::symlink("/dev/null", sandbox.path("device.npz")).unwrap();
        check(1, "device.npz", &["cannot write device.npz", "not a regular file"]);
        std::os::unix::fs::symlink("circle.npz", sandbox.path("circle.npz")).unwrap();
        check(1, "circle.npz", &["cannot write circle.npz", "in a circle"]);
    }
}

#[cfg(unix)]
fn make_pipe(sandbox: &Sandbox, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(sandbox.path(name)).status().unwrap();
    assert!(made.success());
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_the_file_that_it_leads_to_is_written() {
    let sandbox = with_sum();
    std::fs::create_dir(sandbox.path("results")).unwrap();
    sandbox.write("results/old.npz", "to be replaced");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, sandbox.path(name)).unwrap();
    link("results/old.npz", "old.npz");
    link("results/new.npz", "new.npz");
    link("old.npz", "twice.npz");
    for (name, file) in [("old.npz", "old.npz"), ("new.npz", "new.npz"), ("twice.npz", "old.npz")] {
        let file = sandbox.path("results").join(file);
        sandbox.succeed(&["run", "-m", "sum.onnx", "-d", "cpu/rten", "--write", name]);
        assert!(sandbox.path(name).is_symlink(), "{name}");
        assert!(file.metadata().unwrap().is_file() && !file.is_symlink());
        assert!(std::fs::read(&file).unwrap().starts_with(b"PK"), "{name}");
        std::fs::write(&file, "to be replaced").unwrap();
    }
}

#[cfg(unix)]
#[test]
fn inputs_and_models_that_are_no_regular_files_are_refused_at_once() {
    let sandbox = with_sum();
    for ending in ["npz", "npy", "json"] {
        let (pipe, device) = (format!("pipe.{ending}"), format!("device.{ending}"));
        make_pipe(&sandbox, &pipe);
        refuse(&sandbox, &pipe, &["cannot read", "not a regular file"]);
        std::os::unix::fs::symlink("/dev/zero", sandbox.path(&device)).unwrap();
        refuse(&sandbox, &device, &["cannot read", "not a regular file"]);
    }
    make_pipe(&sandbox, "pipe.onnx");
    sandbox.refuse(2, &["pipe.onnx", "it is a pipe, not a model file"], &["models", "inspect", "pipe.onnx"]);
    make_pipe(&sandbox, "pipe.whl");
    let install = ["packages", "install", "onnxruntime", "--wheel", "pipe.whl"];
    sandbox.refuse(2, &["pipe.whl", "not a regular file"], &install);
}

#[test]
fn the_seed_alone_decides_the_inputs() {
    let (one, other) = (Sandbox::new(), Sandbox::new());
    let outputs = |sandbox: &Sandbox, seed: &str| {
        let path = sandbox.path("out.json");
        sandbox.succeed(&["run", "-m", MODEL, "-d", "cpu/rten", "--seed", seed, "--write", text(&path)]);
        std::fs::read_to_string(path).unwrap()
    };
    assert_eq!(outputs(&one, "7"), outputs(&one, "7"));
    assert_eq!(outputs(&one, "7"), outputs(&other, "7"));
    assert_ne!(outputs(&one, "7"), outputs(&one, "8"));
}
