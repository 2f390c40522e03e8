//! What is said of an engine that did not start.

use super::*;

#[test]
fn a_library_that_does_not_load_is_shown_with_what_the_machine_may_lack() {
    let engine = |requires: Option<&str>| EngineToAsk {
        spec: EngineSpec::Rten,
        label: "directml 1.24.4".to_owned(),
        requires: requires.map(str::to_owned),
    };
    let lost = |requires, kind| {
        lost_engine(&engine(requires), &Failure::new(kind, "no such module".to_owned())).unavailable.unwrap()
    };
    let redistributable = Some("the Microsoft Visual C++ redistributable");
    let reason = lost(redistributable, FailureKind::Refused);
    assert_eq!(reason, "refused: no such module (it needs the Microsoft Visual C++ redistributable)");
    assert_eq!(lost(None, FailureKind::Refused), "refused: no such module");
    // What hangs was loaded.
    assert_eq!(lost(redistributable, FailureKind::TimedOut), "timed_out: no such module");
}
