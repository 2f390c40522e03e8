//! The linker for other systems and older ones: Zig's, driven by `cargo-zigbuild`, both as Python packages.
//!
//! Invariant: versions are fixed, and everything lies in the cache; the machine's own tools stay as they are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{check, step};

/// Newer releases of Zig link Windows programs otherwise, and were not tried.
const PACKAGES: [&str; 2] = ["ziglang==0.15.2", "cargo-zigbuild==0.24.1"];

/// Which programs hold a part of Zig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Every,
    Windows,
    Linux,
}

/// Name of a licence file below Zig's folder, what it covers, and which programs hold that.
const PARTS: [(&str, &str, Holder); 4] = [
    ("LICENSE", "Zig's start-up code and compiler support routines", Holder::Every),
    ("lib/libunwind/LICENSE.TXT", "LLVM libunwind", Holder::Every),
    ("lib/libc/mingw/COPYING", "the start-up code of mingw-w64", Holder::Windows),
    ("lib/libc/glibc/LICENSES", "the start-up code of the GNU C library", Holder::Linux),
];

/// The licence of musl's mathematical functions, below Zig's folder.
const MUSL: &str = "lib/libc/musl/COPYRIGHT";

pub(super) struct Toolchain {
    venv: PathBuf,
}

impl Toolchain {
    /// Installs the packages into the cache, unless they are there.
    pub(super) fn load(cache: &Path) -> Result<Self> {
        let toolchain = Self { venv: cache.join("dist-tools") };
        let lock = File::create(cache.join("dist.lock")).context("cannot create the cache's lock")?;
        lock.lock().context("cannot lock the cache")?;
        let mark = toolchain.venv.join("installed");
        let wanted = PACKAGES.join("\n");
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(toolchain);
        }
        if toolchain.venv.exists() {
            fs::remove_dir_all(&toolchain.venv).context("cannot remove the old tools")?;
        }
        step("dist tools", || {
            check(Command::new("python3").args(["-m", "venv"]).arg(&toolchain.venv))?;
            let mut pip = Command::new(toolchain.venv.join("bin/pip"));
            check(pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES))
        })?;
        fs::write(&mark, wanted).context("cannot write into the cache")?;
        Ok(toolchain)
    }

    /// A call of `cargo zigbuild` in `root`, to which the arguments of a build are added.
    pub(super) fn cargo_zigbuild(&self, root: &Path) -> Result<Command> {
        let bin = self.venv.join("bin");
        let mut folders = vec![bin.clone()];
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        let mut command = Command::new(bin.join("cargo-zigbuild"));
        command.arg("zigbuild").current_dir(root);
        command.env("PATH", std::env::join_paths(folders).context("the search path cannot be extended")?);
        // The outer cargo's idea of the package being built must not reach the inner one.
        command.env_remove("CARGO_MANIFEST_DIR").env_remove("RUSTFLAGS");
        Ok(command)
    }

    /// The licences of what Zig links into every program.
    pub(super) fn notices(&self, windows: bool) -> Result<String> {
        let mut text = String::new();
        for (path, what, holder) in PARTS {
            let holds = match holder {
                Holder::Every => true,
                Holder::Windows => windows,
                Holder::Linux => !windows,
            };
            if holds {
                text.push_str(&super::notices::section(what, self.read_of_zig(path)?.trim()));
            }
        }
        Ok(text)
    }

    /// The licence of musl, a copy of which comes with Zig.
    pub(super) fn musl_licence(&self) -> Result<String> {
        self.read_of_zig(MUSL)
    }

    fn read_of_zig(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.zig_folder()?.join(path)).with_context(|| format!("cannot read Zig's {path}"))
    }

    fn zig_folder(&self) -> Result<PathBuf> {
        let lib = self.venv.join("lib");
        let listing = fs::read_dir(&lib).with_context(|| format!("cannot list {}", lib.display()))?;
        for python in listing {
            let folder = python.context("cannot list the tools")?.path().join("site-packages/ziglang");
            if folder.is_dir() {
                return Ok(folder);
            }
        }
        bail!("there is no ziglang in {}", lib.display())
    }
}
