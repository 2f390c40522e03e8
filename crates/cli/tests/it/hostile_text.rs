//! Names from outside that a terminal would obey: escape sequences, line breaks, turned reading directions.

use crate::onnx_file::OneNode;
use crate::program::{Ran, Sandbox};

/// Red, a false line, what is read backwards, and the one-byte form of an escape sequence.
const EVIL: &str = "a\u{1b}[31mb\nerror: false\u{202e}c\u{9b}2Jd";

/// How its parts are shown; some engines make spaces of line breaks.
const SHOWN: [&str; 2] = ["a\\x1b[31mb", "error: false\\u{202e}c\\x9b2Jd"];

#[track_caller]
fn is_harmless(ran: &Ran) {
    for text in [&ran.out, &ran.err] {
        let obeyed = |character: char| {
            character != '\n' && (character.is_control() || matches!(character, '\u{202a}'..='\u{202e}'))
        };
        assert!(!text.contains(obeyed), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("error: false")), "{text}");
    }
}

#[track_caller]
fn shows(ran: &Ran) {
    is_harmless(ran);
    let all = format!("{}{}", ran.out, ran.err);
    assert!(SHOWN.iter().all(|part| all.contains(part)), "{all}");
}

#[test]
fn names_inside_of_a_model_show_as_escapes() {
    let sandbox = Sandbox::new();
    sandbox.write("input.onnx", OneNode { inputs: &[EVIL], ..OneNode::default() }.to_bytes());
    sandbox.write("operator.onnx", OneNode { operator: EVIL, ..OneNode::default() }.to_bytes());
    shows(&sandbox.run(&["models", "inspect", "input.onnx"]));
    shows(&sandbox.run(&["models", "inspect", "operator.onnx"]));
    shows(&sandbox.run(&["run", "-m", "input.onnx", "--shape", "x:1,2"]));
    shows(&sandbox.run(&["run", "-m", "operator.onnx", "-d", "cpu/rten"]));
    for form in ["table", "md", "csv"] {
        shows(&sandbox.run(&["bench", "-m", "operator.onnx", "-o", form]));
    }
    shows(&sandbox.run(&["route", "-m", "operator.onnx"]));
    is_harmless(&sandbox.run(&["-vv", "bench", "-m", "operator.onnx"]));
}

#[test]
fn names_that_a_user_was_given_show_as_escapes() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["models", "inspect", EVIL][..],
        &["bench", "-m", EVIL],
        &["run", "-m", "mlp-128w-4l", "-d", EVIL],
        &["run", "-m", "mlp-128w-4l", "--input", EVIL],
        &["import", "--knowledge", EVIL],
        &["import", "--forget", EVIL],
        &["route", "-m", "mlp-128w-4l", "--goal", EVIL],
        &["packages", "install", EVIL],
        &["bench", "-m", "mlp-128w-4l", "--iterations", EVIL],
        &[EVIL],
    ] {
        let ran = sandbox.run(arguments);
        assert_ne!(ran.code(), Some(0), "{arguments:?}");
        is_harmless(&ran);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn file_names_show_as_escapes_and_stay_whole_in_documents() {
    let sandbox = Sandbox::new();
    let file = format!("{EVIL}.onnx");
    sandbox.write(&file, OneNode::default().to_bytes());
    for arguments in [
        &["bench", "--iterations", "1", "-m"][..],
        &["bench", "--iterations", "40", "-o", "md", "-m"],
        &["bench", "--iterations", "1", "-o", "csv", "-m"],
        &["models", "add"],
        &["models", "inspect"],
        &["route", "-m"],
        &["run", "-m"],
        // The rests of the third workload take a minute, unless a benchmark is told shorter ones.
        &["bench", "--workload", "idle_loaded", "--rests", "0.05", "--repetitions", "1", "-m"],
        &["evaluate", "--workload", "cold_start", "-m"],
        &["evaluate", "--workload", "sustained", "-m"],
        &["evaluate", "--stored", "-m"],
    ] {
        shows(&sandbox.succeed(&[arguments, &[&file]].concat()));
    }
    shows(&sandbox.succeed(&["models", "list"]));
    let known = sandbox.document("siliconroute.models/1", &["models", "list"]);
    let names = known["known"].as_array().unwrap().iter().map(|model| &model["name"]);
    assert!(names.clone().any(|name| name == EVIL), "{known}");
}
