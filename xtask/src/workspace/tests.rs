//! The metadata parser on a hand-made document.

use super::*;

const DOCUMENT: &str = r#"{
  "workspace_root": "/project",
  "packages": [
    {"name": "siliconroute-store", "version": "0.1.0", "source": null, "license": "MIT OR Apache-2.0",
     "dependencies": [
       {"name": "siliconroute-core", "kind": null},
       {"name": "cc", "kind": "build"},
       {"name": "tempfile", "kind": "dev"}]},
    {"name": "serde", "version": "1.0.0", "source": "registry+https://example.org/index", "license": null}
  ]
}"#;

#[test]
fn reads_packages_and_the_kind_of_each_dependency() {
    let (root, packages) = parse_metadata(DOCUMENT).unwrap();
    assert_eq!(root, Path::new("/project"));
    assert_eq!(packages.len(), 2);
    let kinds: Vec<_> = packages[0].dependencies.iter().map(|one| (one.name.as_str(), one.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("siliconroute-core", DependencyKind::Normal),
            ("cc", DependencyKind::Build),
            ("tempfile", DependencyKind::Development),
        ]
    );
    assert_eq!(packages[0].source, None);
    assert_eq!(packages[1].source.as_deref(), Some("registry+https://example.org/index"));
    assert_eq!(packages[1].licence, None);
}

#[test]
fn refuses_what_cargo_would_not_write() {
    for document in [
        "not JSON",
        "{}",
        r#"{"workspace_root": "/p"}"#,
        r#"{"workspace_root": "/p", "packages": [{}]}"#,
        r#"{"workspace_root": "/p", "packages": [{"name": "a", "dependencies": [{"name": "b", "kind": "new"}]}]}"#,
    ] {
        assert!(parse_metadata(document).is_err(), "accepted {document}");
    }
}
