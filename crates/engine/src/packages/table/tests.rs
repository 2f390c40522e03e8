//! The built-in table is usable, and tables that are not are refused.

use std::collections::HashSet;

use super::super::wheel_fixture::{demo_table, wheel_bytes};
use super::*;

#[test]
fn the_built_in_table_is_consistent() {
    let table = Table::parse(include_str!("../../../packages.toml")).unwrap();
    assert_eq!(table, *Table::embedded());
    let names: HashSet<_> = table.packages().iter().map(|p| p.name.as_str()).collect();
    for name in ["onnxruntime", "openvino", "webgpu", "ggml", "qnn", "directml", "cuda", "nv_tensorrt_rtx"] {
        assert!(names.contains(name), "{name}");
    }
    let main = table.get("onnxruntime").unwrap();
    assert_eq!(
        (main.version.as_str(), main.wheels.len(), main.kind),
        ("1.31.1", 5, PackageKind::RuntimeLibrary)
    );
    for package in table.packages() {
        assert!(!package.licence.is_empty() && !package.why.is_empty(), "{}", package.name);
        for wheel in &package.wheels {
            let lower = wheel.library.to_ascii_lowercase();
            assert!([".so", ".dll", ".dylib"].iter().any(|end| lower.contains(end)), "{}", wheel.library);
            let is_legal =
                |m: &MemberPin| m.path.contains("LICENSE") || m.path.ends_with(".dist-info/METADATA");
            assert!(wheel.members.iter().any(is_legal), "{} has no licence text", wheel.pin.file());
        }
    }
}

#[test]
fn plugins_of_the_built_in_table_know_the_main_runtime_library() {
    let table = Table::embedded();
    let main = LibraryVersion::parse(&table.get("onnxruntime").unwrap().version).unwrap();
    for package in table.packages().iter().filter(|p| p.kind == PackageKind::Plugin) {
        let expected = if package.runtime.unwrap().proven { Coverage::Proven } else { Coverage::Unproven };
        assert_eq!(package.coverage(main), expected, "{}", package.name);
    }
}

#[test]
fn finds_packages_by_name_and_by_distribution() {
    let table = Table::embedded();
    assert_eq!(table.get("onnxruntime-ep-openvino"), table.get("openvino"));
    assert_eq!(table.get("nothing"), None);
    let providers = |platform| -> Vec<_> {
        table.get("onnxruntime").unwrap().providers_on(platform).map(|p| p.short.as_str()).collect()
    };
    assert_eq!(providers(Platform::MacosArm64), ["ort", "coreml"]);
    assert_eq!(providers(Platform::LinuxX86_64), ["ort"]);
}

#[test]
fn coverage_follows_the_range() {
    let table = demo_table(&wheel_bytes(&[]));
    let coverage = |v: &str| table.packages()[0].coverage(LibraryVersion::parse(v).unwrap());
    assert_eq!(coverage("1.24.0"), Coverage::TooOld);
    assert_eq!(coverage("1.24.1"), Coverage::Proven);
    assert_eq!(coverage("1.32.0"), Coverage::Proven);
    assert_eq!(coverage("1.32.1"), Coverage::Unproven);
    assert_eq!(coverage("2.0.0-dev"), Coverage::Unproven);
}

#[test]
fn reads_versions() {
    assert_eq!(LibraryVersion::parse("1.30.0.202609102321"), Some(LibraryVersion([1, 30, 0])));
    assert_eq!(LibraryVersion::parse("1.31.1rc2"), Some(LibraryVersion([1, 31, 1])));
    for text in ["", "1", "1.2", "1.2.", "a.b.c", "1.2.x", "99999999999.1.1"] {
        assert_eq!(LibraryVersion::parse(text), None, "{text}");
    }
}

const GOOD: &str = "schema = 1\n[[package]]\nname = 'demo'\nkind = 'runtime_library'\ndistribution = 'engine-demo'\n\
    version = '1.2'\nlicence = 'MIT'\nneeds = 'cpu'\nrecommended = false\nwhy = 'so'\n\
    providers = [{ name = 'DemoExecutionProvider', short = 'demo' }]\n\
    [[package.wheel]]\nplatform = 'linux-x86_64'\nfile = 'engine_demo-1.2-py3-none-any.whl'\n\
    sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'\nsize_bytes = 7\n\
    library = 'a/b.so'\nmembers = [{ path = 'a/b.so', size_bytes = 1, \
    sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' }]\n";

#[track_caller]
fn check_refused(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from));
    let error = Table::parse(&GOOD.replace(from, to)).unwrap_err();
    let source = std::error::Error::source(&error).map(|s| format!(": {s}")).unwrap_or_default();
    let text = format!("{error}{source}");
    assert!(text.contains(expected), "{text}");
}

#[test]
fn refuses_inconsistent_tables() {
    assert!(Table::parse(GOOD).is_ok());
    check_refused("schema = 1", "schema = 2", "schema 2");
    check_refused("why = 'so'", "why = 'so'\nurl = 'x'", "unknown field `url`");
    check_refused("name = 'demo'", "name = 'de-mo'", "other characters");
    check_refused("'runtime_library'", "'plugin'", "runtime versions");
    check_refused("size_bytes = 7", "size_bytes = 0", "impossible size");
    check_refused("path = 'a/b.so'", "path = '../b.so'", "plain relative path");
    check_refused("library = 'a/b.so'", "library = 'a/c.so'", "`a/c.so` is no member");
    check_refused("size_bytes = 1,", "size_bytes = 1, also = ['A/b.so'],", "`A/b.so` appears twice");
    check_refused("engine_demo-1.2-", "engine_demo-1.3-", "not a wheel of engine-demo 1.2");
    check_refused(
        "providers = [{ name = 'DemoExecutionProvider', short = 'demo' }]",
        "providers = []",
        "no provider",
    );
    let twice = GOOD.replacen("schema = 1\n", "", 1);
    assert!(Table::parse(&format!("{GOOD}{twice}")).unwrap_err().to_string().contains("appears twice"));
}
