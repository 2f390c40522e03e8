//! Engine packages without a network.

use std::io::Write as _;

use serde_json::Value;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::program::{Ran, Sandbox};

/// Some package that has a build for this machine, and some that has none.
fn some_packages(sandbox: &Sandbox) -> (String, String) {
    let listed = sandbox.document("siliconroute.packages/1", &["packages", "list"]);
    let packages = listed["packages"].as_array().unwrap();
    let name = |has_build: bool| {
        let found = packages.iter().find(|package| package["size_bytes"].is_number() == has_build);
        found.and_then(|package| package["name"].as_str()).unwrap().to_owned()
    };
    (name(true), name(false))
}

fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, bytes) in members {
        zip.start_file(*path, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Nothing of a package that was refused may stay.
#[track_caller]
fn nothing_is_installed(sandbox: &Sandbox) {
    let listed = sandbox.document("siliconroute.packages/1", &["packages", "list"]);
    let packages = listed["packages"].as_array().unwrap();
    assert!(packages.iter().all(|package| package["installed"] == false));
    let verified = sandbox.document("siliconroute.packages/1", &["packages", "verify"]);
    assert_eq!(verified["verified"], Value::Array(Vec::new()));
    sandbox.is_intact();
}

#[test]
fn refuses_an_unknown_package() {
    let sandbox = Sandbox::new();
    for command in ["install", "remove", "verify"] {
        let parts = ["unknown package `nothing`", "the packages are: onnxruntime"];
        sandbox.refuse(2, &parts, &["packages", command, "nothing"]);
    }
}

#[test]
fn a_package_without_a_build_for_this_machine_is_nothing_suitable() {
    let sandbox = Sandbox::new();
    let (_, foreign) = some_packages(&sandbox);
    let parts = ["there is no build of", &foreign];
    sandbox.refuse(3, &parts, &["packages", "install", &foreign]);
    sandbox.write("some.whl", "wheel");
    sandbox.refuse(3, &parts, &["packages", "install", &foreign, "--wheel", "some.whl"]);
}

#[test]
fn nothing_is_fetched_offline() {
    let sandbox = Sandbox::new();
    let (name, _) = some_packages(&sandbox);
    let parts = [&name, "fetching is switched off", "--wheel FILE"];
    sandbox.refuse(3, &parts, &["packages", "install", &name]);
    nothing_is_installed(&sandbox);
}

#[test]
fn what_nothing_can_fetch_is_as_far_away_as_offline() {
    let sandbox = Sandbox::new();
    let (name, _) = some_packages(&sandbox);
    let run = |arguments: &[&str]| {
        let mut command = sandbox.bare_command();
        command
            .env("PATH", sandbox.path("."))
            .arg("--home")
            .arg(sandbox.home())
            .arg("--json")
            .args(arguments);
        Ran::of(command.output().unwrap())
    };
    run(&["packages", "install", &name]).is_refusal(3, &["pip", "uv", "hint: "]);
    let listed = sandbox.document("siliconroute.packages/1", &["packages", "list"]);
    let is_missing = |package: &Value| package["recommended"] == true && package["unfit"].is_null();
    if listed["packages"].as_array().unwrap().iter().any(is_missing) {
        let found = run(&["doctor"]).json();
        let check = found["checks"].as_array().unwrap().iter().find(|check| check["subject"] == "fetching");
        let check = check.unwrap_or_else(|| panic!("{found}"));
        assert_eq!(check["health"], "advice", "{check}");
        assert!(check["advice"].as_str().unwrap().contains("--wheel FILE"), "{check}");
    }
}

#[test]
fn what_is_not_installed_can_be_neither_removed_nor_verified() {
    let sandbox = Sandbox::new();
    let (name, _) = some_packages(&sandbox);
    for command in ["remove", "verify"] {
        sandbox.refuse(3, &[&name, "is not installed", "packages list"], &["packages", command, &name]);
    }
}

#[test]
fn refuses_a_wheel_that_is_none() {
    let sandbox = Sandbox::new();
    let (name, _) = some_packages(&sandbox);
    let check = |parts: &[&str]| {
        sandbox.refuse(2, parts, &["packages", "install", &name, "--wheel", "some.whl"]);
    };
    check(&["cannot read the wheel `some.whl`"]);
    sandbox.write("some.whl", "");
    check(&[&name, "not a readable wheel", "as its makers published it"]);
    sandbox.write("some.whl", "no archive");
    check(&[&name, "not a readable wheel", "as its makers published it"]);
    let whole = wheel(&[("some/file", b"some content")]);
    sandbox.write("some.whl", &whole[..whole.len() / 2]);
    check(&[&name, "not a readable wheel", "as its makers published it"]);
    std::fs::remove_file(sandbox.path("some.whl")).unwrap();
    std::fs::create_dir(sandbox.path("some.whl")).unwrap();
    check(&["some.whl", "not a file"]);
    nothing_is_installed(&sandbox);
}

#[test]
fn refuses_a_wheel_with_other_content() {
    let sandbox = Sandbox::new();
    let (name, _) = some_packages(&sandbox);
    let install = ["packages", "install", &name, "--wheel", "some.whl"];
    sandbox.write("some.whl", wheel(&[("another/file", b"of another package")]));
    let parts = [&name, "from `some.whl`", "the wheel has no file `", "as its makers published it"];
    let ran = sandbox.refuse(2, &parts, &install);
    let member = ran.err.split_once("the wheel has no file `").unwrap().1.split('`').next().unwrap();
    sandbox.write("some.whl", wheel(&[(member, b"tampered")]));
    sandbox.refuse(2, &[member, "instead of", "as its makers published it"], &install);
    nothing_is_installed(&sandbox);
}

#[test]
fn what_is_no_package_is_named_and_fails_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("home/packages/stray.txt", "");
    let stray = sandbox.home().join("packages").join("stray.txt");
    let verified = sandbox.document("siliconroute.packages/1", &["packages", "verify"]);
    assert_eq!(verified["strays"], serde_json::json!([stray]));
    let told = sandbox.succeed(&["packages", "verify"]);
    assert!(told.out.contains("stray.txt` is no package and is not used; remove it"), "{}", told.out);
}

#[test]
fn a_wheel_belongs_to_one_package() {
    let sandbox = Sandbox::new();
    for names in [&[][..], &["onnxruntime", "openvino"]] {
        let arguments = [&["packages", "install", "--wheel", "some.whl"], names].concat();
        sandbox.refuse(2, &["--wheel goes with exactly one package name"], &arguments);
    }
}
