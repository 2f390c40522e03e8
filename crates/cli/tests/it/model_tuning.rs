//! `tune --model` on the embedded engine, whose threads are the only setting it takes.

use crate::program::{MODEL, Sandbox};

#[test]
fn a_model_is_tuned_told_and_forgotten() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    let tuning = sandbox.document("siliconroute.model_tuning/1", &["tune", "-m", MODEL]);
    let [target] = &tuning["targets"].as_array().unwrap()[..] else { panic!("{tuning}") };
    assert_eq!(target["target"], "cpu/rten");
    assert_eq!(target["tried"][0]["target"], "cpu/rten");
    assert!(target["combinations"].as_u64().unwrap() >= 2, "{target}");
    assert_eq!(target["comparison"].is_null(), target["found"] == "cpu/rten", "{target}");

    let route = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    assert_eq!(route["chosen"], target["chosen"]);

    let forget = ["tune", "-m", MODEL, "--forget"];
    for forgotten in [1, 0] {
        let told = sandbox.document("siliconroute.model_tuning_forgotten/1", &forget);
        assert_eq!(told["forgotten"], forgotten);
    }
    let route = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    assert_eq!(route["chosen"], "cpu/rten");
}

#[test]
fn what_cannot_be_tuned_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.refuse(
        2,
        &["unknown goal `cool`", "fastest and battery"],
        &["tune", "-m", MODEL, "--goal", "cool"],
    );
    sandbox.refuse(2, &["unknown target `cpu/nope`"], &["tune", "-m", MODEL, "-d", "cpu/nope"]);
    sandbox.refuse(2, &["--forget"], &["tune", "-m", MODEL, "--forget", "--batch", "2"]);
}

#[test]
fn a_setting_that_a_target_does_not_take_is_refused() {
    let sandbox = Sandbox::new();
    for (setting, parts) in [
        ("spin=off", ["cpu/rten takes no `spin`", "cpu/ort"]),
        ("block_base=4", ["cpu/rten takes no `block_base`", "cpu/ort"]),
        ("cores=0-1", ["cpu/rten takes no `cores`", "cpu/ort"]),
        ("spin=maybe", ["`+spin=maybe`", "+spin=on|off"]),
    ] {
        let target = format!("cpu/rten+{setting}");
        for command in ["bench", "run"] {
            sandbox.refuse(2, &parts, &[command, "-m", MODEL, "-d", &target]);
        }
    }
    let several = "cpu/rten+concurrency=2";
    sandbox.refuse(2, &["only settings of threads"], &["run", "-m", MODEL, "-d", several]);
}
