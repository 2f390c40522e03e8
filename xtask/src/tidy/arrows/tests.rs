//! The crate graph's rules on small made-up workspaces.

use super::*;
use crate::workspace::Dependency;

use DependencyKind::{Build, Development, Normal};

/// Builds a workspace of the named crates, in which the first has one dependency more.
fn workspace(names: &[&str], dependency: &str, kind: DependencyKind) -> Vec<Package> {
    let mut packages: Vec<Package> = names
        .iter()
        .map(|name| Package {
            name: (*name).to_owned(),
            version: "0.1.0".to_owned(),
            source: None,
            licence: None,
            dependencies: Vec::new(),
        })
        .collect();
    packages[0].dependencies.push(Dependency { name: dependency.to_owned(), kind });
    packages
}

#[track_caller]
fn check_arrow(from: &str, to: &str, kind: DependencyKind, allowed: bool) {
    let problems = find_wrong_arrows(&workspace(&[from, to], to, kind));
    assert_eq!(problems.is_empty(), allowed, "{from} -> {to}: {problems:?}");
}

#[test]
fn allows_only_the_arrows_of_the_table() {
    for (from, to, allowed) in [
        ("siliconroute-store", "siliconroute-core", true),
        ("siliconroute-store", "siliconroute-engine", false),
        ("siliconroute-engine", "siliconroute-hardware", false),
        ("siliconroute-core", "siliconroute-store", false),
        ("siliconroute", "siliconroute-hardware", true),
        ("siliconroute", "siliconroute-cli", false),
        ("siliconroute-cli", "siliconroute", true),
        ("siliconroute-cli", "siliconroute-hardware", false),
        ("siliconroute-server", "siliconroute-store", false),
        ("xtask", "siliconroute-core", false),
    ] {
        for kind in [Normal, Build, Development] {
            check_arrow(from, to, kind, allowed);
        }
    }
}

#[test]
fn allows_the_testkit_in_tests_only_and_never_in_core() {
    check_arrow("siliconroute", "siliconroute-testkit", Development, true);
    check_arrow("siliconroute", "siliconroute-testkit", Normal, false);
    check_arrow("siliconroute", "siliconroute-testkit", Build, false);
    check_arrow("siliconroute-core", "siliconroute-testkit", Development, false);
}

#[test]
fn asks_for_a_row_when_a_crate_is_new() {
    let problems = find_wrong_arrows(&workspace(&["siliconroute-new"], "serde", Normal));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].what.contains("not in the table"), "{problems:?}");
}

#[test]
fn keeps_wrapped_crates_with_their_owner() {
    for (package, dependency, allowed) in [
        ("siliconroute-store", "rusqlite", true),
        ("siliconroute", "rusqlite", false),
        ("siliconroute-engine", "ort", true),
        ("siliconroute-cli", "ort", false),
        ("siliconroute-hardware", "libc", true),
        ("siliconroute-core", "windows-sys", false),
        ("siliconroute-engine", "rustix", true),
        ("siliconroute-store", "rustix", false),
        ("siliconroute-core", "serde", true),
    ] {
        let problems = find_unguarded(&workspace(&[package], dependency, Normal));
        assert_eq!(problems.is_empty(), allowed, "{package} -> {dependency}: {problems:?}");
    }
}

#[test]
fn the_table_has_no_circle_and_names_only_its_own_crates() {
    let order: Vec<&str> = ARROWS.iter().map(|arrow| arrow.from).collect();
    for (index, arrow) in ARROWS.iter().enumerate() {
        for target in arrow.to {
            let place = order.iter().position(|name| name == target);
            assert!(place.is_some_and(|place| place < index), "{} -> {target}", arrow.from);
        }
    }
}
