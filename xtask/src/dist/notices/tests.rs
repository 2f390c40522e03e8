//! Which packages are linked, and which words stand for each.

use std::fs;

use super::*;

const METADATA: &str = r#"{
    "packages": [
        {"id": "p", "name": "siliconroute-cli", "version": "0.1.0", "source": null, "manifest_path": "/w/cli/Cargo.toml"},
        {"id": "core", "name": "core", "version": "0.1.0", "source": null, "manifest_path": "/w/core/Cargo.toml"},
        {"id": "a", "name": "linked", "version": "1.0.0", "source": "registry+x", "license": "MIT",
         "authors": ["Someone"], "repository": "place", "manifest_path": "/r/linked/Cargo.toml"},
        {"id": "b", "name": "builds", "version": "1.0.0", "source": "registry+x", "license": "MIT",
         "manifest_path": "/r/builds/Cargo.toml"},
        {"id": "c", "name": "tests", "version": "1.0.0", "source": "registry+x", "license": "MIT",
         "manifest_path": "/r/tests/Cargo.toml"}
    ],
    "resolve": {"nodes": [
        {"id": "p", "deps": [
            {"pkg": "core", "dep_kinds": [{"kind": null}]},
            {"pkg": "b", "dep_kinds": [{"kind": "build"}]},
            {"pkg": "c", "dep_kinds": [{"kind": "dev"}]}
        ]},
        {"id": "core", "deps": [{"pkg": "a", "dep_kinds": [{"kind": "dev"}, {"kind": null}]}]},
        {"id": "a", "deps": [{"pkg": "core", "dep_kinds": [{"kind": null}]}]}
    ]}
}"#;

fn linked(licence: &str, folder: &Path, authors: &[&str]) -> Linked {
    Linked {
        name: "some".to_owned(),
        version: "1.2.3".to_owned(),
        licence: licence.to_owned(),
        authors: authors.iter().map(|author| (*author).to_owned()).collect(),
        repository: None,
        folder: folder.to_owned(),
    }
}

#[test]
fn only_what_is_linked_is_listed() {
    let found = parse_linked(METADATA, PROGRAM).unwrap();
    assert_eq!(found.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["linked"]);
    assert_eq!(found[0].authors, ["Someone"]);
    assert!(parse_linked("{}", PROGRAM).is_err());
    assert!(parse_linked(&METADATA.replace(r#""license": "MIT","#, ""), PROGRAM).is_err());
}

#[test]
fn a_package_s_own_texts_come_first() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("LICENSE-MIT"), "theirs\r\n").unwrap();
    fs::write(folder.path().join("Licence.txt"), "more\n").unwrap();
    fs::write(folder.path().join("README.md"), "no licence\n").unwrap();
    let text = licence_texts(&linked("MIT", folder.path(), &[]), "apache").unwrap();
    assert_eq!(text, "theirs\n\nmore\n\n");
}

#[test]
fn a_missing_text_is_put_in_place_where_its_words_are_fixed() {
    let folder = tempfile::tempdir().unwrap();
    let text = |licence: &str, authors: &[&str]| {
        licence_texts(&linked(licence, folder.path(), authors), "THE APACHE")
    };
    assert!(text("MIT OR Apache-2.0", &[]).unwrap().ends_with("THE APACHE\n"));
    assert!(text("MIT", &["A", "B"]).unwrap().starts_with("Copyright (c) A, B\n"));
    assert!(text("MIT", &[]).unwrap().starts_with("Copyright (c) the some developers\n"));
    assert!(text("ISC", &[]).unwrap_err().to_string().contains("no licence file"));
    assert!(text("MIT AND ISC", &[]).is_err());
}
