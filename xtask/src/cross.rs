//! `cargo xtask cross`: lints the workspace for the operating systems that the host is not.
//!
//! Invariant: nothing is linked, so stand-ins serve as C compiler and archiver, and no target's own tools are
//! needed.

use anyhow::Result;

use crate::foreign::Foreign;
use crate::step::{check, step};
use crate::workspace::Workspace;

const TARGETS: &[&str] = &["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "aarch64-apple-darwin"];

const STANDARD_LIBRARY: &str = "std,panic_unwind";

/// Lints every crate for every target in [`TARGETS`].
pub(crate) fn run() -> Result<()> {
    let foreign = Foreign::open(Workspace::load()?.root())?;
    let scripts = foreign.scripts();
    for target in TARGETS {
        step(target, || {
            let arguments = ["clippy", "--locked", "--workspace", "--exclude", "xtask", "--keep-going"];
            let mut command = foreign.cargo(&arguments, target, STANDARD_LIBRARY);
            let name = target.replace('-', "_");
            command.env(format!("CC_{name}"), scripts.join("no-compiler.sh"));
            command.env(format!("CXX_{name}"), scripts.join("no-compiler.sh"));
            command.env(format!("AR_{name}"), scripts.join("no-archiver.sh"));
            // Asked for by build scripts that compile C for macOS; nothing is read from it.
            command.env("SDKROOT", "/");
            check(command.args(["--", "-Dwarnings"]))
        })?;
    }
    Ok(())
}
