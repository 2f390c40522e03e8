//! Interrupts, as a terminal or a supervisor sends them.
//!
//! Invariant: none leaves a home that cannot be used. Windows has no signals that a test could send.

use std::fmt::Write as _;

use crate::program::{MODEL, Sandbox};
use crate::running::{ENDLESS, Running};

#[test]
fn an_interrupt_ends_the_work_in_order() {
    for (signal, part) in [("INT", "targets"), ("INT", "measuring"), ("TERM", "measuring")] {
        let sandbox = Sandbox::new();
        let mut running = Running::start(&sandbox, ENDLESS);
        running.wait_for(part);
        running.signal(signal);
        let (status, out, messages) = running.end();
        assert_eq!(status.code(), Some(130), "{messages}");
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["error"]["code"], "interrupted");
        assert_eq!(document["error"]["exit_code"], 130);
        assert!(messages.contains("error: interrupted; what was measured is kept"), "{messages}");
        sandbox.is_intact();
        let failed = sandbox.run(&["route", "-m", MODEL]);
        assert!(failed.err.contains("no measurement"), "an interrupt is no failure: {}", failed.err);
        sandbox.measure();
    }
}

#[test]
fn an_interrupt_ends_an_identification_in_order() {
    let sandbox = Sandbox::new();
    let mut running =
        Running::start(&sandbox, &["devices", "identify", "cpu/rten", "--seconds", "600", "--json"]);
    running.wait_for("at work");
    running.signal("INT");
    let (status, out, messages) = running.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["error"]["code"], "interrupted");
    sandbox.is_intact();
}

#[test]
fn an_interrupted_benchmark_is_one_document_of_what_was_measured() {
    let sandbox = Sandbox::new();
    let arguments =
        ["bench", "-m", MODEL, "--batch", "1,2", "--json", "--sessions", "1000", "--time", "0.01"];
    let mut running = Running::start(&sandbox, &arguments);
    running.wait_for("measuring  5/");
    running.signal("INT");
    let (status, out, messages) = running.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], "siliconroute.bench/1");
    assert_eq!((&document["interrupted"], &document["error"]["exit_code"]), (&true.into(), &130.into()));
    assert!(!document["results"].as_array().unwrap().is_empty(), "{document}");
    // Both cases were to have 1000 sessions, and each is named with what it lacks.
    let missing = document["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 2, "{document}");
    for part in missing {
        let lacking = part["sessions"].as_u64().unwrap();
        assert!((1..1000).contains(&lacking) && part["of_sessions"] == 1000, "{part}");
        let said = format!("{} sustained ({lacking} of 1000 sessions)", part["case"].as_str().unwrap());
        assert!(messages.contains(&said), "{said} is not in: {messages}");
    }
}

#[test]
fn an_interrupted_benchmark_names_what_it_did_not_reach() {
    let sandbox = Sandbox::new();
    let arguments = [ENDLESS, &["--batch", "1,2", "--workload", "sustained,cold_start"]].concat();
    let mut running = Running::start(&sandbox, &arguments);
    running.wait_for("measuring  1/4");
    running.signal("INT");
    let (status, out, messages) = running.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let missing = document["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 4, "{document}");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(messages.contains("; missing: ") && messages.contains(message), "{messages}");
    for part in missing {
        assert_eq!((&part["sessions"], &part["all_targets"]), (&1.into(), &true.into()), "{part}");
        let [case, workload] = ["case", "workload"].map(|key| part[key].as_str().unwrap());
        assert!(message.contains(&format!("{case} {workload}")), "{message}");
    }
    let hint = document["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("--resume"), "{hint}");
}

#[test]
fn a_benchmark_that_was_interrupted_before_its_turn_misses_all() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    let lock = std::fs::File::create(sandbox.home().join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    let mut waiting = Running::start(&sandbox, ENDLESS);
    waiting.wait_for("another program is measuring");
    waiting.signal("INT");
    let (status, _, messages) = waiting.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    assert!(messages.contains(&format!("missing: {MODEL}")) && messages.contains("sustained"), "{messages}");
}

#[test]
fn an_interrupted_evaluation_is_one_document_of_what_was_checked() {
    let sandbox = Sandbox::new();
    let batches = (1..=200).map(|batch| batch.to_string()).collect::<Vec<_>>().join(",");
    let arguments = ["evaluate", "-m", MODEL, "--batch", &batches, "--workload", "sustained"];
    let arguments = [&arguments[..], &["--decisions", "200"]].concat();
    for form in [&["--json"][..], &[]] {
        let mut running = Running::start(&sandbox, &[&arguments[..], form].concat());
        running.wait_for("self-check  4/");
        running.signal("INT");
        let (status, out, messages) = running.end();
        assert_eq!(status.code(), Some(130), "{messages}");
        assert!(messages.contains("error: interrupted; what was measured is kept"), "{messages}");
        if form.is_empty() {
            assert!(out.contains(MODEL) && out.contains("router"), "{out}");
            continue;
        }
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["schema"], "siliconroute.evaluation/1");
        assert_eq!((&document["interrupted"], &document["error"]["exit_code"]), (&true.into(), &130.into()));
        assert!(!document["decisions"].as_array().unwrap().is_empty(), "{document}");
    }
}

/// Boards that learn from one another, enough of them for an interrupt to come in time.
fn boards() -> String {
    let models = [
        "blazeface",
        "squeezenet",
        "mobilenet_v2",
        "googlenet",
        "resnet18",
        "resnet50",
        "vgg16",
        "yolov4-tiny",
    ];
    let mut text = "board,candidate,model,min_ms,mean_ms,max_ms\n".to_owned();
    for board in 0..30 {
        for (index, model) in models.iter().enumerate() {
            let cpu = 1 + (board * 7 + index * index * 5) % 90;
            let gpu = 5 + 2 * index;
            writeln!(text, "board {board:02},cpu/t4/p0,{model},{cpu},{cpu},{cpu}").unwrap();
            writeln!(text, "board {board:02},gpu/t1/p0/g0,{model},{gpu},{gpu},{gpu}").unwrap();
        }
    }
    text
}

#[test]
fn an_interrupted_evaluation_away_from_this_machine_is_one_document_of_what_was_finished() {
    let sandbox = Sandbox::new();
    sandbox.write("boards.csv", boards());
    sandbox.write("models.csv", include_str!("../../../../data/board_models.csv"));
    let simulate = ["evaluate", "--simulate"];
    let corpus = ["evaluate", "--corpus", "boards.csv", "--models", "models.csv", "--task", "fleet"];
    let cases = [
        (&simulate[..], "siliconroute.simulation/1", "slow-down", "scenarios", "steady"),
        // The second board of the first thread's share.
        (&corpus[..], "siliconroute.evaluation/1", "board 01", "decisions", "router"),
    ];
    for (arguments, schema, second, finished, shown) in cases {
        for form in [&["--json"][..], &[]] {
            let mut running = Running::start(&sandbox, &[arguments, form].concat());
            running.wait_for(second);
            running.signal(if form.is_empty() { "TERM" } else { "INT" });
            let (status, out, messages) = running.end();
            assert_eq!(status.code(), Some(130), "{messages}");
            let kept = "error: interrupted; what was finished until then is all there is";
            assert!(messages.contains(kept), "{messages}");
            if form.is_empty() {
                assert!(out.contains(shown), "{out}");
                continue;
            }
            let document: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!(document["schema"], schema);
            assert_eq!(
                (&document["interrupted"], &document["error"]["exit_code"]),
                (&true.into(), &130.into())
            );
            assert!(!document[finished].as_array().unwrap().is_empty(), "{document}");
        }
    }
}

#[test]
fn an_interrupted_check_leaves_the_decision() {
    let sandbox = Sandbox::new();
    sandbox.measure();
    // Its check does not begin before the interrupt comes.
    let lock = std::fs::File::create(sandbox.home().join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    let arguments = ["route", "-m", MODEL, "--verify"];
    for form in [&["--json"][..], &[]] {
        let mut running = Running::start(&sandbox, &[&arguments[..], form].concat());
        running.wait_for("another program is measuring");
        running.signal("INT");
        let (status, out, messages) = running.end();
        assert_eq!(status.code(), Some(130), "{messages}");
        assert!(messages.contains("error: interrupted; the decision was not checked"), "{messages}");
        if form.is_empty() {
            assert!(out.contains("cpu/rten") && !out.contains("verified"), "{out}");
            continue;
        }
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["schema"], "siliconroute.decision/1");
        assert_eq!((&document["interrupted"], &document["error"]["exit_code"]), (&true.into(), &130.into()));
        assert_eq!((&document["chosen"], &document["verification"]), (&"cpu/rten".into(), &().into()));
    }
}

#[test]
fn two_interrupts_at_once_are_one() {
    let sandbox = Sandbox::new();
    let mut running = Running::start(&sandbox, ENDLESS);
    running.wait_for("measuring");
    running.signal("INT");
    running.signal("TERM");
    let (status, out, messages) = running.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["error"]["code"], "interrupted");
}

#[test]
fn a_later_interrupt_ends_the_program_at_once() {
    let sandbox = Sandbox::new();
    let mut running = Running::start(&sandbox, ENDLESS);
    running.wait_for("measuring");
    running.signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(350));
    running.signal("INT");
    let (status, out, messages) = running.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    // The first one may have ended it in order before the second came.
    if !out.is_empty() {
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["interrupted"], true, "{document}\n{messages}");
    }
    sandbox.is_intact();
    sandbox.measure();
}

#[test]
fn an_interrupted_removal_says_that_it_was_one() {
    let sandbox = Sandbox::new();
    let folder = sandbox.home().join("packages");
    std::fs::create_dir_all(folder.join("openvino-0.1")).unwrap();
    let lock = std::fs::File::create(folder.join(".lock")).unwrap();
    lock.lock().unwrap();
    let mut waiting = Running::start(&sandbox, &["packages", "remove", "openvino"]);
    waiting.wait_for("another program is writing");
    waiting.signal("INT");
    let (status, _, messages) = waiting.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    assert_eq!(messages.matches("another program is writing").count(), 1, "{messages}");
    assert!(folder.join("openvino-0.1").exists());
}

#[test]
fn an_interrupted_benchmark_is_gone_on_with() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "-m", MODEL, "--json", "--sessions", "4", "--time", "0.2"];
    let mut first = Running::start(&sandbox, &bench);
    first.wait_for("measuring  3/4");
    first.signal("INT");
    let (status, _, messages) = first.end();
    assert_eq!(status.code(), Some(130), "{messages}");
    let again = sandbox.succeed(&[&bench[..], &["--resume"]].concat());
    for done in ["measuring  1/4", "measuring  2/4"] {
        assert!(!again.err.contains(done), "{}", again.err);
    }
    assert!(again.err.contains("measuring  4/4"), "{}", again.err);
    assert_eq!(again.json()["configurations"][0]["sessions"], 4);
    // Nothing is left to go on with.
    let third = sandbox.succeed(&[&bench[..], &["--resume"]].concat());
    assert!(third.err.contains("was stopped before its end"), "{}", third.err);
}

#[test]
fn a_program_that_waits_for_another_one_can_be_stopped() {
    let sandbox = Sandbox::new();
    sandbox.succeed(&["devices"]);
    let lock = std::fs::File::create(sandbox.home().join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    let mut stopped = Running::start(&sandbox, ENDLESS);
    stopped.wait_for("another program is measuring");
    stopped.signal("INT");
    assert_eq!(stopped.end().0.code(), Some(130));
}
