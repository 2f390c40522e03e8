//! Targets by name and by kind of chip. Without packages there is one: `cpu/rten`.

use siliconroute_core::Workload;

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
    for command in [&["route", "-m", MODEL][..], &["route", "-m", MODEL, "--verify"]] {
        let parts = [MODEL, "cpu/rten no measurement", "siliconroute bench", "siliconroute up --once"];
        let ran = sandbox.refuse(3, &parts, command);
        assert!(!ran.err.contains("--accuracy"), "{}", ran.err);
    }
    let named = sandbox.document("siliconroute.run/1", &["run", "-m", MODEL, "-d", "cpu/rten"]);
    assert_eq!(named["target"], "cpu/rten");
}

#[test]
fn the_advice_for_an_unknown_workload_makes_it_known() {
    let sandbox = Sandbox::new();
    for workload in Workload::ALL {
        let route = ["route", "-m", MODEL, "--workload", workload.name()];
        let message = sandbox.refuse(3, &[MODEL], &route).err;
        assert!(message.contains("`siliconroute bench --model MODEL"), "{message}");
        if workload == Workload::IdleLoaded {
            // Its rests take half a minute.
            assert!(message.contains("--workload idle_loaded`"), "{message}");
            continue;
        }
        let brief: &[&str] = if workload == Workload::Sustained { &["--time", "0.01"] } else { &[] };
        sandbox.succeed(&[&["bench", "-m", MODEL, "--workload", workload.name()], brief].concat());
        sandbox.succeed(&route);
    }
}

#[test]
fn a_new_home_runs_on_the_target_at_hand_and_says_so() {
    let sandbox = Sandbox::new();
    let ran = sandbox.succeed(&["run", "-m", MODEL]);
    assert!(ran.out.contains("on cpu/rten in"), "{}", ran.out);
    for part in ["nothing is measured or predicted yet", "cpu/rten is the only target at hand"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let document = sandbox.document("siliconroute.run/1", &["run", "-m", MODEL, "-d", "cpu"]);
    assert_eq!((&document["target"], &document["choice"]), (&"cpu/rten".into(), &"fixed_order".into()));
    assert!(document["notice"].is_string());
    sandbox.measure();
    let document = sandbox.document("siliconroute.run/1", &["run", "-m", MODEL]);
    assert_eq!((&document["choice"], document["notice"].is_null()), (&"decided".into(), true));
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

#[test]
fn a_target_is_identified_as_far_as_sensors_can_tell() {
    let sandbox = Sandbox::new();
    let identify = ["devices", "identify", "cpu/rten", "--seconds", "0.5"];
    let found = sandbox.document("siliconroute.identification/1", &identify);
    assert_eq!((&found["target"], &found["expected"]), (&"cpu/rten".into(), &"cpu".into()));
    // On a busy machine the load does not show.
    let answer = found["agrees"]["answer"].as_str().unwrap();
    assert!(["agrees", "cannot_tell"].contains(&answer), "{found}");
    assert_eq!(found["agrees"]["reason"].is_string(), answer == "cannot_tell", "{found}");
    let cpu = found["chips"].as_array().unwrap().iter().find(|chip| chip["chip"] == "cpu").unwrap();
    assert!(cpu["rest"]["samples"].as_u64().unwrap() > 0 && cpu["load"]["samples"].as_u64().unwrap() > 0);
    let shown = sandbox.succeed(&identify).out;
    for part in ["cpu/rten worked on conv-64c-4l", "at rest", "at work", "cpu/rten"] {
        assert!(shown.contains(part), "`{part}` is not in: {shown}");
    }
}

#[test]
fn refuses_to_identify_what_is_no_target_or_takes_for_ever() {
    let sandbox = Sandbox::new();
    sandbox.refuse(2, &["unknown target `nope`", "cpu/rten"], &["devices", "identify", "nope"]);
    for seconds in ["0", "-1", "nan", "inf", "601"] {
        let seconds = format!("--seconds={seconds}");
        sandbox.refuse(2, &["0.5 to 600 seconds"], &["devices", "identify", "cpu/rten", &seconds]);
    }
}
