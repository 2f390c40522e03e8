//! What builds for other operating systems share: a cache outside of the checkout with a copy of its files, and a cargo
//! that builds the standard library from its source.
//!
//! The stock stable toolchain holds no standard library for them, so cargo builds it (`-Zbuild-std`, which the
//! stable toolchain allows under `RUSTC_BOOTSTRAP`). Invariant: the variable is set for these builds alone; the
//! ordinary checks of `ci` never see it, since it would let unstable features through.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{cargo, check, output, step};

/// The cache, held for this process alone, with the workspace's files and the standard library's source in it.
#[derive(Debug)]
pub(crate) struct Foreign {
    checkout: PathBuf,
    copy: PathBuf,
    cache: PathBuf,
    release: String,
    library: PathBuf,
    _lock: File,
}

impl Foreign {
    /// Opens the cache for the workspace at `checkout`, copies its files there, and brings the standard library's source
    /// where it is missing.
    ///
    /// Cargo takes a file that is older than what was built for built. Without the copy, checkouts that share the cache
    /// would pass for each other, or a new one be built from nothing.
    pub(crate) fn open(checkout: &Path) -> Result<Self> {
        let release = rustc_release(&output(Command::new("rustc").arg("-vV"))?)?;
        let cache = cache_folder(env::var_os("SRCI_CACHE"), env::var_os("HOME"))?;
        fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
        // Two runs at once would unpack over each other.
        let lock = File::create(cache.join("cross.lock")).context("cannot create the cache's lock")?;
        lock.lock().context("cannot lock the cache")?;
        let scripts = checkout.join("xtask/scripts");
        let copy = cache.join("foreign-source");
        check(Command::new(scripts.join("copy-sources.sh")).arg(checkout).arg(&copy))?;
        let library = standard_library_source(&scripts, &cache, &release)?;
        Ok(Self { checkout: checkout.to_owned(), copy, cache, release, library, _lock: lock })
    }

    /// The workspace's own folder, in which the host's programs are built.
    pub(crate) fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// The folder with the copy of the workspace, in which programs of other systems are built.
    pub(crate) fn copy(&self) -> &Path {
        &self.copy
    }

    /// The folder of this project's scripts.
    pub(crate) fn scripts(&self) -> PathBuf {
        self.copy.join("xtask/scripts")
    }

    /// The folder that is kept from run to run.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder of compiled code, one for each release of the compiler.
    ///
    /// Cargo tells its own results apart by target and lock file entry, and what runs on the host is shared.
    pub(crate) fn target_folder(&self) -> PathBuf {
        self.cache.join(format!("cross-{}", self.release))
    }

    /// The standard library's source.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// Returns a call of cargo for `target` that builds `crates` of the standard library with the workspace.
    ///
    /// For one target `crates` must always be the same, or cargo builds the standard library again.
    pub(crate) fn cargo(&self, arguments: &[&str], target: &str, crates: &str) -> Command {
        let mut command = cargo(&self.copy, arguments);
        command.args(["--target", target, &format!("-Zbuild-std={crates}")]);
        command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", &self.library);
        command.env("CARGO_TARGET_DIR", self.target_folder());
        command
    }
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
