//! What is read of stored documents.

use super::*;

#[track_caller]
fn check(document: &str, expected: &str) {
    let refused = parse(document).unwrap_err();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_document_that_cannot_be_replayed_says_why() {
    check("{", "EOF");
    check("7", "another version");
    check(r#"{"model":"m","chosen":"cpu/ort"}"#, "another version, without all that it was made from");
    check(r#"{"schema":"siliconroute.stored-decision/1","occasion":"route"}"#, "missing field");
}
