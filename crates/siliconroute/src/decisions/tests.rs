//! What is read of stored documents.

use super::*;

#[track_caller]
fn check(document: &str, is_damaged: bool, expected: &str) {
    let refused = parse(document).unwrap_err();
    assert_eq!(matches!(refused, Unreadable::Damaged(_)), is_damaged, "{refused}");
    assert!(refused.to_string().contains(expected), "{refused}");
}

#[test]
fn a_document_that_cannot_be_replayed_says_why() {
    check("{", true, "damaged: EOF");
    check("7", true, "no record of a decision");
    check(r#"{"schema":7}"#, true, "no record of a decision");
    check(r#"{"schema":"siliconroute.stored-decision/9"}"#, false, "another version");
    check(r#"{"model":"m","chosen":"cpu/ort"}"#, false, "another version, without all that it was made from");
    check(r#"{"schema":"siliconroute.stored-decision/1","occasion":"route"}"#, true, "missing field");
}
