//! `cargo xtask cross`: lints the workspace for the operating systems that the host is not.
//!
//! The stock stable toolchain holds no standard library for them, so cargo builds it from its source
//! (`-Zbuild-std`, which the stable toolchain allows under `RUSTC_BOOTSTRAP`). Nothing is linked, so stand-ins
//! serve as C compiler and archiver. Invariant: the ordinary checks of `ci` never see `RUSTC_BOOTSTRAP`,
//! which would let unstable features through.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{cargo, check, output, step};
use crate::workspace::Workspace;

const TARGETS: &[&str] = &["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "aarch64-apple-darwin"];

/// Always the same list, or cargo builds the standard library again.
const STANDARD_LIBRARY: &str = "-Zbuild-std=std,panic_unwind";

/// Lints every crate for every target in [`TARGETS`].
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let scripts = workspace.root().join("xtask/scripts");
    let release = rustc_release(&output(Command::new("rustc").arg("-vV"))?)?;
    let cache = cache_folder(env::var_os("SRCI_CACHE"), env::var_os("HOME"))?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    // Two runs at once would unpack over each other.
    let lock = File::create(cache.join("cross.lock")).context("cannot create the cache's lock")?;
    lock.lock().context("cannot lock the cache")?;

    let library = standard_library_source(&scripts, &cache, &release)?;
    for target in TARGETS {
        step(target, || {
            let mut command = cargo(workspace.root(), &["clippy", "--locked", "--workspace"]);
            command.args(["--exclude", "xtask", "--keep-going", "--target", target]);
            command.args([STANDARD_LIBRARY, "--", "-Dwarnings"]);
            command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", &library);
            // Cargo tells its own results apart by lock file entry; only the compiler needs a folder each.
            command.env("CARGO_TARGET_DIR", cache.join(format!("cross-{release}")));
            let name = target.replace('-', "_");
            command.env(format!("CC_{name}"), scripts.join("no-compiler.sh"));
            command.env(format!("CXX_{name}"), scripts.join("no-compiler.sh"));
            command.env(format!("AR_{name}"), scripts.join("no-archiver.sh"));
            // Asked for by build scripts that compile C for macOS; nothing is read from it.
            command.env("SDKROOT", "/");
            check(&mut command)
        })?;
    }
    Ok(())
}

/// Returns the folder of the standard library's source: the toolchain's own, else one that is downloaded.
pub(crate) fn standard_library_source(scripts: &Path, cache: &Path, release: &str) -> Result<PathBuf> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let component = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
    if is_library(&component) {
        return Ok(component);
    }
    let folder = cache.join(format!("std-source-{release}"));
    let library = folder.join("library");
    if !is_library(&library) {
        step("standard library source", || {
            check(Command::new(scripts.join("std-source.sh")).arg(&folder).arg(release))
        })?;
    }
    if !is_library(&library) {
        bail!("{} holds no standard library source; remove it and try again", folder.display());
    }
    Ok(library)
}

fn is_library(folder: &Path) -> bool {
    folder.join("std/src/lib.rs").is_file() && folder.join("Cargo.lock").is_file()
}

/// Returns the release number, such as `1.95.0`, out of the output of `rustc -vV`.
pub(crate) fn rustc_release(verbose_version: &str) -> Result<String> {
    let release = verbose_version.lines().find_map(|line| line.strip_prefix("release: "));
    Ok(release.context("`rustc -vV` states no release")?.trim().to_owned())
}

/// Returns where the checks keep what they can use again, which is outside the checkout.
pub(crate) fn cache_folder(chosen: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    let folder = match (chosen, home) {
        (Some(chosen), _) => PathBuf::from(chosen),
        (None, Some(home)) => Path::new(&home).join(".cache/siliconroute-ci"),
        (None, None) => bail!("neither SRCI_CACHE nor HOME is set: nowhere to build"),
    };
    if folder.is_relative() {
        bail!("SRCI_CACHE is {}, which must be an absolute path", folder.display());
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_lies_where_it_is_told_else_under_home() {
        let home = || Some("/h".into());
        assert_eq!(cache_folder(Some("/c".into()), home()).unwrap(), Path::new("/c"));
        assert_eq!(cache_folder(None, home()).unwrap(), Path::new("/h/.cache/siliconroute-ci"));
        assert!(cache_folder(Some("c".into()), home()).is_err());
        assert!(cache_folder(None, None).is_err());
    }

    #[test]
    fn reads_the_release_of_the_compiler() {
        assert_eq!(rustc_release("rustc 1.2.3\nbinary: rustc\nrelease: 1.2.3\n").unwrap(), "1.2.3");
        assert!(rustc_release("").is_err());
    }
}
