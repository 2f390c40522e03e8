//! The reduction of source to code, literal by literal.

use super::*;

#[track_caller]
fn check(source: &str, expected: &str) {
    let code = code_of(source);
    let dense: Vec<_> =
        code.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(dense, expected.lines().collect::<Vec<_>>());
    assert_eq!(code.lines().count(), source.lines().count());
}

#[test]
fn blanks_comments_and_literals_and_nothing_else() {
    for (source, expected) in [
        ("let a = 1; // unsafe", "let a = 1;"),
        ("/// unsafe\nfn a() {}", "\nfn a() {}"),
        ("a(/* x /* y */ z */ b)", "a( b)"),
        ("a(\"un\\\"safe\", b)", "a( , b)"),
        ("a(r#\"x\"y\"#, b)", "a( , b)"),
        ("a(br\"x\", b)", "a( , b)"),
        ("a('\"', '\\'', 'é', b)", "a( , , , b)"),
        ("fn a<'b>(c: &'b str) {}", "fn a<'b>(c: &'b str) {}"),
        ("let r#type = for_r\"x\";", "let r#type = for_r ;"),
        ("\"one\ntwo\" + three", "\n+ three"),
        ("'\\u{1F600}' x", "x"),
    ] {
        check(source, expected);
    }
}

#[test]
fn survives_broken_source() {
    for source in ["\"open", "/* open", "r#\"open", "'", "'\\", "/", "/*/", "'\\u{"] {
        assert_eq!(code_of(source).lines().count(), 1, "{source}");
    }
}

#[test]
fn a_word_is_a_whole_identifier() {
    assert!(has_word("pub unsafe fn a()", "unsafe"));
    assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    assert!(!has_word("", "unsafe"));
}
