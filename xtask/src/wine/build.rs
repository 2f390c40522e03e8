//! Compiles the tests of the workspace, and with them the program, for 64-bit Windows with Debian's MinGW; and for the
//! host, whose tests and outputs are compared with those of Windows.
//!
//! Invariant: a warning in code that only Windows compiles ends the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::foreign::Foreign;
use crate::step::{cargo, check, output};

const TARGET: &str = "x86_64-pc-windows-gnu";

const STANDARD_LIBRARY: &str = "std,panic_unwind,test";

/// Wine maps a section of a program where it begins at a page of the file, and reads the whole of it into memory at each
/// start where it does not.
const PAGE_ALIGNED: &str = "-Clink-arg=-Wl,--file-alignment=4096";

/// Debian's compiler with POSIX threads, which the standard library's own start-up code expects.
pub(super) const COMPILER: &str = "x86_64-w64-mingw32-gcc-posix";
pub(super) const ARCHIVER: &str = "x86_64-w64-mingw32-gcc-ar-posix";

/// What was built.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) tests: Vec<TestBinary>,
    pub(super) program: PathBuf,
}

/// A file of tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestBinary {
    /// Package and target, such as `siliconroute-cli it`.
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// The package's folder, in which cargo runs tests.
    pub(super) folder: PathBuf,
}

/// Builds everything for Windows.
pub(super) fn build(foreign: &Foreign) -> Result<Built> {
    let objects = make_startup_objects(foreign)?;
    let arguments = ["test", "--no-run", "--locked", "--workspace", "--exclude", "xtask"];
    let mut command = foreign.cargo(&arguments, TARGET, STANDARD_LIBRARY);
    command.args([
        "--message-format=json-render-diagnostics",
        "-Zwarnings",
        "--config=build.warnings='deny'",
    ]);
    let (setting, name) = ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU", "x86_64_pc_windows_gnu");
    command.env(format!("{setting}_LINKER"), COMPILER);
    command.env(format!("{setting}_RUSTFLAGS"), format!("-Lnative={} {PAGE_ALIGNED}", objects.display()));
    // No debugger will look at these programs, and a panic tells its line without it.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    // Most changes leave most of a package as it was, and the copy of the sources keeps its place from checkout to checkout.
    command.env("CARGO_INCREMENTAL", "1");
    command.env(format!("CC_{name}"), COMPILER).env(format!("AR_{name}"), ARCHIVER);
    command.stderr(Stdio::inherit());
    parse_messages(&output(&mut command)?)
}

/// Builds everything for the host.
///
/// With the very arguments of the host's own checks, since other packages would choose other features, and build anew what
/// those checks have built.
pub(super) fn build_for_host(foreign: &Foreign) -> Result<Built> {
    let arguments = ["test", "--no-run", "--locked", "--workspace"];
    let mut command = cargo(foreign.checkout(), &arguments);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let mut built = parse_messages(&output(&mut command)?)?;
    built.tests.retain(|test| test.folder.file_name() != Some("xtask".as_ref()));
    Ok(built)
}

/// Compiles the two objects that a program of this target begins and ends with. They are part of a toolchain that
/// has the target, and their sources of the standard library's.
fn make_startup_objects(foreign: &Foreign) -> Result<PathBuf> {
    let folder = foreign.target_folder().join("windows-startup");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in ["rsbegin", "rsend"] {
        let object = folder.join(format!("{name}.o"));
        if object.is_file() {
            continue;
        }
        let half = folder.join(format!("{name}.half"));
        let mut command = Command::new("rustc");
        command.args([
            "--target",
            TARGET,
            "--emit=obj",
            "--crate-type=lib",
            "--edition=2024",
            "--cap-lints=allow",
        ]);
        command.env("RUSTC_BOOTSTRAP", "1").arg("-o").arg(&half);
        check(command.arg(foreign.library().join(format!("rtstartup/{name}.rs"))))?;
        fs::rename(&half, &object).with_context(|| format!("cannot create {}", object.display()))?;
    }
    Ok(folder)
}

/// Compiles a dynamic library out of one C file.
pub(super) fn compile_library(source: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new(COMPILER);
    command.args(["-shared", "-O1", "-Wall", "-Werror", "-o"]).arg(file).arg(source);
    check(command.arg("-ladvapi32"))
}

/// Finds the programs in cargo's messages, which are one JSON document a line.
fn parse_messages(messages: &str) -> Result<Built> {
    let (mut tests, mut program) = (Vec::new(), None);
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("cargo did not write JSON")?;
        let Some(file) = message["executable"].as_str().map(PathBuf::from) else { continue };
        let target = message["target"]["name"].as_str().context("cargo built a program without a name")?;
        if message["profile"]["test"] != true {
            if target == "siliconroute" {
                program = Some(file);
            }
            continue;
        }
        let manifest = message["manifest_path"].as_str().map(Path::new);
        let folder = manifest.and_then(Path::parent).context("cargo built tests outside of any package")?;
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        let name = if kind == "test" { target } else { kind };
        tests.push(TestBinary { name: format!("{package} {name}"), file, folder: folder.to_owned() });
    }
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    let program = program.context("cargo built no program called siliconroute")?;
    if tests.is_empty() {
        bail!("cargo built no tests");
    }
    Ok(Built { tests, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_tests_and_the_program() {
        let messages = r#"{"reason":"compiler-artifact","executable":null,"target":{"name":"x","kind":["lib"]}}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","executable":"/t/siliconroute.exe","target":{"name":"siliconroute","kind":["bin"]},"profile":{"test":false}}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","executable":"/t/it-1.exe","target":{"name":"it","kind":["test"]},"profile":{"test":true}}
{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","executable":"/t/s-1.exe","target":{"name":"siliconroute","kind":["bin"]},"profile":{"test":true}}
{"reason":"build-finished","success":true}
"#;
        let built = parse_messages(messages).unwrap();
        assert_eq!(built.program, Path::new("/t/siliconroute.exe"));
        let names: Vec<&str> = built.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["cli bin", "cli it"]);
        assert_eq!(built.tests[1].folder, Path::new("/w/crates/cli"));
        assert!(parse_messages("").is_err());
    }
}
