//! The rules for Rust files, each on the smallest file that breaks it.

use super::*;

fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

/// Checks that the body, under a proper header, breaks exactly one rule (`Some` of a part of its message)
/// or none.
#[track_caller]
fn check(path: &str, body: &str, expected: Option<&str>) {
    let problems = find_problems(&[file(path, &format!("//! What it holds.\n{body}"))]);
    match expected {
        None => assert_eq!(problems, []),
        Some(part) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].to_string().contains(part), "{problems:?}");
        }
    }
}

#[test]
fn a_file_opens_with_its_purpose() {
    for text in ["", "use std::fs;\n", "// Purpose.\n", "//!\n", "//! \n", "\n//! Late.\n"] {
        assert_eq!(find_problems(&[file("src/a.rs", text)]).len(), 1, "{text:?}");
    }
    assert_eq!(find_problems(&[file("README.md", "")]), []);
}

#[test]
fn a_long_file_must_be_split() {
    check("src/a.rs", &"\n".repeat(MOST_LINES - 1), None);
    check("src/a.rs", &"\n".repeat(MOST_LINES), Some("split it"));
}

#[test]
fn a_name_must_say_what_is_inside() {
    for path in ["src/utils.rs", "src/common/mod.rs", "crates/helpers/src/lib.rs", "src/manager.rs"] {
        check(path, "", Some("name it after"));
    }
    check("src/uncommon.rs", "", None);
}

#[test]
fn unsafe_code_stays_in_three_crates() {
    let body = "fn a() { unsafe { b() } }";
    check("crates/store/src/a.rs", body, Some("crates/store/src/a.rs:2: unsafe code"));
    check("crates/engine/src/a.rs", body, None);
    check("crates/store/src/a.rs", "// unsafe is not used\nlet a = \"unsafe\";", None);
    check("crates/store/src/a.rs", "#![forbid(unsafe_code)]", None);
}

#[test]
fn unfinished_code_is_refused() {
    for body in ["fn a() { todo!() }", "fn a() { unimplemented!(\"later\") }"] {
        check("src/a.rs", body, Some("unfinished"));
    }
    check("src/a.rs", "// todo!", None);
}

#[test]
fn skipped_tests_are_refused() {
    for body in [
        "#[ignore]\nfn a() {}",
        "#[ignore = \"slow\"]\nfn a() {}",
        "# [ ignore ]\nfn a() {}",
        "#[cfg_attr(miri, ignore)]\nfn a() {}",
        "/// ```ignore\n/// a()\n/// ```\nfn a() {}",
        "/// ```rust,ignore\nfn a() {}",
    ] {
        check("src/a.rs", body, Some("skipped test"));
    }
    check("src/a.rs", "/// Ignores what it is not asked.\nfn ignore() {}", None);
}
