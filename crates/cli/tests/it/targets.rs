//! Targets by name and by kind of chip. Without packages there is one: `cpu/rten`.

use crate::program::{MODEL, Sandbox};

#[test]
fn refuses_an_unknown_target() {
    let sandbox = Sandbox::new();
    for command in ["bench", "run"] {
        for target in ["gpu:nope", "cpu/nope", "CPU", "", " ", "cpu/rten "] {
            let parts = ["unknown target", target, "cpu/rten", "siliconroute devices"];
            sandbox.refuse(2, &parts, &[command, "-m", MODEL, "-d", target]);
        }
    }
    sandbox.refuse(2, &["unknown target `tpu`"], &["bench", "-m", MODEL, "-d", "cpu,tpu"]);
}

#[test]
fn a_kind_of_chip_without_a_target_is_nothing_suitable() {
    let sandbox = Sandbox::new();
    for command in ["bench", "run"] {
        for kind in ["gpu", "npu"] {
            let parts = [kind, "no available target on such a chip", "siliconroute devices"];
            sandbox.refuse(3, &parts, &[command, "-m", MODEL, "-d", kind]);
        }
    }
}

#[test]
fn every_word_for_the_processor_means_its_target() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    for word in ["auto", "cpu", "cpu/rten"] {
        let ran = sandbox.document("siliconroute.run/1", &["run", "-m", MODEL, "-d", word]);
        assert_eq!(ran["target"], "cpu/rten", "{word}");
    }
    let twice = sandbox.document(
        "siliconroute.bench/1",
        &["bench", "-m", MODEL, "-d", "cpu,auto,cpu/rten", "--iterations", "3"],
    );
    assert_eq!(twice["benchmark_info"]["target"], "cpu/rten");
}

#[test]
fn nothing_is_decided_before_anything_is_measured() {
    let sandbox = Sandbox::new();
    for command in [&["route", "-m", MODEL][..], &["route", "-m", MODEL, "--verify"], &["run", "-m", MODEL]] {
        let parts = [MODEL, "cpu/rten no measurement", "siliconroute bench", "siliconroute up --once"];
        let ran = sandbox.refuse(3, &parts, command);
        assert!(!ran.err.contains("--accuracy"), "{}", ran.err);
    }
    let named = sandbox.document("siliconroute.run/1", &["run", "-m", MODEL, "-d", "cpu/rten"]);
    assert_eq!(named["target"], "cpu/rten");
}

#[test]
fn every_chip_and_target_has_a_state() {
    let found = Sandbox::new().document("siliconroute.devices/1", &["devices"]);
    let targets = found["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 1, "{found}");
    assert_eq!(targets[0]["key"], "cpu/rten");
    assert_eq!(targets[0]["available"], true);
    assert!(targets[0]["reason"].is_null());
    assert!(found["chips"].as_array().unwrap().len() >= 3, "{found}");
}
