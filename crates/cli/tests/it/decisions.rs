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
