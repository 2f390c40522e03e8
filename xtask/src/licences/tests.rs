//! Licence expressions and the verdict on a package.

use super::*;

#[track_caller]
fn check(expression: &str, expected: Option<bool>) {
    let allowed = |licence: &str| ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
    assert_eq!(expression::is_satisfied(expression, &allowed).ok(), expected, "{expression}");
}

#[test]
fn reads_licence_expressions() {
    for (expression, expected) in [
        ("MIT", Some(true)),
        ("GPL-3.0-only", Some(false)),
        ("MIT OR GPL-3.0-only", Some(true)),
        ("MIT AND GPL-3.0-only", Some(false)),
        ("GPL-3.0-only AND MIT OR Apache-2.0", Some(true)),
        ("GPL-3.0-only AND (MIT OR Apache-2.0)", Some(false)),
        ("(MIT OR Apache-2.0) AND Apache-2.0", Some(true)),
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("MIT WITH LLVM-exception", Some(false)),
        ("MIT/Apache-2.0", Some(true)),
        ("", None),
        ("MIT OR", None),
        ("(MIT", None),
        ("MIT)", None),
        ("MIT Apache-2.0", None),
        ("AND", None),
    ] {
        check(expression, expected);
    }
}

#[test]
fn refuses_to_nest_without_end() {
    check(&"(".repeat(100_000), None);
}

fn package(source: Option<&str>, licence: Option<&str>) -> Package {
    Package {
        name: "some".to_owned(),
        version: "1.2.3".to_owned(),
        source: source.map(str::to_owned),
        licence: licence.map(str::to_owned),
        dependencies: Vec::new(),
    }
}

#[test]
fn a_dependency_comes_from_a_registry_under_a_listed_licence() {
    let registry = Some("registry+https://example.org/index");
    for (source, licence, expected) in [
        (registry, Some("MIT"), None),
        (registry, Some("GPL-3.0-only"), Some("not on the list")),
        (registry, Some("MIT OR OR"), Some("cannot read")),
        (registry, None, Some("states no licence")),
        (Some("git+https://example.org/some"), Some("MIT"), Some("package registry")),
        (None, Some("MIT"), Some("package registry")),
    ] {
        let problem = find_problem(&package(source, licence));
        match expected {
            None => assert_eq!(problem, None),
            Some(part) => assert!(problem.as_deref().is_some_and(|text| text.contains(part)), "{problem:?}"),
        }
    }
}
