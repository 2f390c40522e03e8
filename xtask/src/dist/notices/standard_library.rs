//! The licences of the Rust standard library, which is part of every program.
//!
//! The toolchain's own `COPYRIGHT-library.html` speaks for the library's files and leaves out some packages that the
//! library is made with (those that print backtraces), so cargo is asked for them. Invariant: where one of the two
//! is missing, making the notices fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{apache_licence, parse_linked, section, sections};
use crate::step::{cargo, output};

/// The package that reaches everything the standard library is made of.
const PROGRAM: &str = "sysroot";

/// What the library's own notices are called in an archive.
pub(in crate::dist) const NAME: &str = "RUST-STANDARD-LIBRARY-NOTICES.html";

/// Where a toolchain has the library's copyright notices, below its folder.
const COPYRIGHT: &str = "share/doc/rust/COPYRIGHT-library.html";

/// Where it has the exception that `compiler_builtins` adds to the Apache licence.
const EXCEPTION: &str = "share/doc/rust/licenses/LLVM-exception.txt";

/// The library's own notices, as the toolchain that builds the program has them.
pub(in crate::dist) fn copyright() -> Result<Vec<u8>> {
    read_of_toolchain(&toolchain_folder()?, COPYRIGHT).map(String::into_bytes)
}

/// The notices for the packages inside of the library whose source lies in `library`, as it is built for `triple`.
///
/// `musl` is the text that goes with the mathematical functions of `compiler_builtins`, which come from musl.
pub(in crate::dist) fn of_library(root: &Path, library: &Path, triple: &str, musl: &str) -> Result<String> {
    let arguments = ["metadata", "--locked", "--format-version=1", "--features=backtrace"];
    let mut command = cargo(&library.join("sysroot"), &arguments);
    command.args(["--filter-platform", triple]).env("RUSTC_BOOTSTRAP", "1");
    let metadata = output(&mut command).context("cannot list the packages of the standard library")?;
    let linked = parse_linked(&metadata, PROGRAM)?;
    let apache = apache_licence(root)?;
    let exception = read_of_toolchain(&toolchain_folder()?, EXCEPTION)?;
    let mut notices = sections(&linked, &apache)?;
    notices.push_str(&section(
        "compiler_builtins (Apache-2.0 WITH LLVM-exception, from LLVM's compiler-rt)",
        &format!("{}\n\n{}", apache.trim(), exception.trim()),
    ));
    notices.push_str(&section("compiler_builtins (MIT, mathematical functions from musl)", musl.trim()));
    Ok(notices)
}

fn toolchain_folder() -> Result<PathBuf> {
    Ok(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim().into())
}

fn read_of_toolchain(toolchain: &Path, path: &str) -> Result<String> {
    let place = toolchain.join(path);
    fs::read_to_string(&place).with_context(|| {
        format!(
            "the toolchain has no {}, which must go along with the program; a toolchain that rustup installed anew \
             has it",
            place.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_without_the_notices_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_of_toolchain(folder.path(), COPYRIGHT).unwrap_err().to_string();
        assert!(error.contains("COPYRIGHT-library.html") && error.contains("rustup"), "{error}");
    }

    #[test]
    fn this_toolchain_has_the_notices() {
        let text = String::from_utf8(copyright().unwrap()).unwrap();
        assert!(text.contains("The Rust Standard Library") && text.contains("library/core"));
    }
}
