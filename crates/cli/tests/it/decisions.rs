//! Stored decisions, listed and made again.

use crate::program::{MODEL, Sandbox};

#[test]
fn a_stored_decision_is_listed_and_gives_the_same_answer() {
    let sandbox = Sandbox::new();
    let none = sandbox.succeed(&["route", "--list"]);
    assert!(none.err.contains("no decision was made yet"), "{}", none.err);
    sandbox.measure();
    let made = sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    let id = made["id"].to_string();
    assert!(made["not_recorded"].is_null(), "{made}");
    sandbox.succeed(&["run", "-m", MODEL]);
    let listed = sandbox.document("siliconroute.decisions/1", &["route", "--list"]);
    let [run, route] = listed["decisions"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&run["occasion"], &route["occasion"]), (&"run".into(), &"route".into()));
    assert_eq!((&run["outcomes"][0]["target"], &run["outcomes"][0]["runs"]), (&made["chosen"], &1.into()));
    assert_eq!((&route["reason"], &route["candidates"]), (&made["reason"], &made["candidates"]));
    assert_eq!(route["outcomes"].as_array().unwrap().len(), 0);
    let last = sandbox.document("siliconroute.decisions/1", &["route", "--list", "1"]);
    assert_eq!(last["decisions"].as_array().unwrap().len(), 1);

    let replayed = sandbox.document("siliconroute.replay/1", &["route", "--replay", &id]);
    assert_eq!(replayed["same"], true);
    for part in ["chosen", "reason", "candidates", "rules_fired", "deciding_goal"] {
        assert_eq!(replayed["replayed"][part], made[part], "{part}");
    }
    let shown = sandbox.succeed(&["route", "--replay", &id]);
    assert!(shown.out.contains(&format!("the same as decision {id}")), "{}", shown.out);
    sandbox.refuse(2, &["there is no decision 77"], &["route", "--replay", "77"]);
    sandbox.refuse(2, &["--model"], &["route"]);
}

/// Overwrites the first place where `part` stands in the file.
#[track_caller]
fn overwrite(path: &std::path::Path, part: &str, by: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(part.len()).position(|window| window == part.as_bytes()).unwrap();
    bytes[at..at + by.len()].copy_from_slice(by.as_bytes());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_decision_is_told_as_such_beside_the_others() {
    // A document that is no JSON any more, and a row that names a workload that there is not.
    for (part, by) in
        [(r#"{"schema":"siliconroute.stored-decision/1"#, "}"), ("sustainedfastest", "xustained")]
    {
        let sandbox = Sandbox::new();
        sandbox.measure();
        let made = |_| sandbox.document("siliconroute.decision/1", &["route", "-m", MODEL])["id"].clone();
        let ids = [0, 1].map(made);
        overwrite(&sandbox.store(), part, by);
        let listed = sandbox.document("siliconroute.decisions/1", &["route", "--list"]);
        let listed = listed["decisions"].as_array().unwrap();
        let is_damaged = |it: &&serde_json::Value| it["damaged"] == true;
        let (damaged, whole): (Vec<_>, Vec<_>) = listed.iter().partition(is_damaged);
        let ([damaged], [whole]) = (&damaged[..], &whole[..]) else { panic!("{listed:?}") };
        assert!(ids.contains(&damaged["id"]) && ids.contains(&whole["id"]), "{listed:?}");
        assert!(damaged["unreadable"].as_str().unwrap().contains("damaged"), "{damaged}");
        assert_eq!(whole["chosen"], "cpu/rten");
        let shown = sandbox.succeed(&["route", "--list"]).out;
        assert!(shown.contains("damaged record") && shown.contains("siliconroute doctor"), "{shown}");
        let id = damaged["id"].to_string();
        let parts = [&format!("decision {id}")[..], "damaged", "hint: ", "siliconroute doctor"];
        sandbox.refuse(4, &parts, &["route", "--replay", &id]);
        sandbox.succeed(&["route", "--replay", &whole["id"].to_string()]);
        sandbox.refuse(2, &["--list", "--explain"], &["route", "--list", "--explain"]);
    }
}
