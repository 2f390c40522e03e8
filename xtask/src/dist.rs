//! `cargo xtask dist`: archives of the program for people who have no Rust, with their checksums.
//!
//! Invariant: an archive depends on the checkout and the tools' versions alone: order, times and rights of its
//! entries are fixed, and no path of the machine that built it stands in the program.
//!
//! Reading order: `toolchain` (what links for other systems), `notices` (the licences that go along), `archive`.

mod archive;
pub(crate) mod notices;
mod toolchain;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::foreign::{cache_folder, rustc_release, standard_library_source};
use crate::step::{check, output, step};
use crate::workspace::Workspace;
use archive::Entry;
use toolchain::Toolchain;

/// The oldest GNU C library that the Linux program runs with: the one that ONNX Runtime's own wheels ask for.
const GLIBC: (u32, u32) = (2, 28);

/// A system that archives are made for.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// What it is called in the archive's name and on the command line.
    name: &'static str,
    triple: &'static str,
    windows: bool,
}

const TARGETS: &[Target] = &[
    Target { name: "linux-x64", triple: "x86_64-unknown-linux-gnu", windows: false },
    Target { name: "windows-x64", triple: "x86_64-pc-windows-gnullvm", windows: true },
    Target { name: "windows-arm64", triple: "aarch64-pc-windows-gnullvm", windows: true },
];

/// The targets' triples.
pub(crate) fn triples() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.triple)
}

/// Builds and packs the targets called `names`, all of them when there is none.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let targets = choose(names)?;
    let workspace = Workspace::load()?;
    let cache = cache_folder(env::var_os("SRCI_CACHE"), env::var_os("HOME"))?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let build = Build {
        version: workspace.version_of("siliconroute-cli")?,
        folder: target_folder(workspace.root())?,
        time: source_time(workspace.root())?,
        toolchain: Toolchain::load(&cache)?,
        cache,
        workspace,
    };
    let archives = build.folder.join("dist-archives");
    fs::create_dir_all(&archives).with_context(|| format!("cannot create {}", archives.display()))?;
    for target in targets {
        let program = build.compile(target)?;
        step(&format!("pack {}", target.name), || build.pack(target, &program, &archives))?;
    }
    write_sums(&archives)
}

fn choose(names: &[&str]) -> Result<Vec<Target>> {
    if names.is_empty() {
        return Ok(TARGETS.to_vec());
    }
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let find = |name: &&str| TARGETS.iter().find(|target| target.name == *name).copied();
    names
        .iter()
        .map(|name| find(name).with_context(|| format!("no target {name}; there are {}", known())))
        .collect()
}

struct Build {
    workspace: Workspace,
    version: String,
    /// Where cargo builds.
    folder: PathBuf,
    cache: PathBuf,
    /// The time of every entry, in seconds since 1970-01-01 UTC.
    time: u64,
    toolchain: Toolchain,
}

impl Build {
    /// Builds the program and returns its file.
    fn compile(&self, target: Target) -> Result<PathBuf> {
        let root = self.workspace.root();
        let mut command = self.toolchain.cargo_zigbuild(root)?;
        command.args(["--locked", "--profile", "dist", "--package", "siliconroute-cli", "--target"]);
        let release = rustc_release(&output(Command::new("rustc").arg("-vV"))?)?;
        let mut private = vec![(root.to_owned(), "/siliconroute")];
        private.extend(cargo_home().map(|folder| (folder, "/cargo")));
        private.push((self.cache.join(format!("std-source-{release}")), "/rustc"));
        if target.windows {
            let library = standard_library_source(&root.join("xtask/scripts"), &self.cache, &release)?;
            // The stock toolchain holds no standard library for this target.
            command.args([target.triple, "-Zbuild-std=std,panic_unwind"]);
            command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", &library);
            if !library.starts_with(&self.cache) {
                private.push((library, "/rustc/library"));
            }
        } else {
            command.arg(format!("{}.{}.{}", target.triple, GLIBC.0, GLIBC.1));
        }
        command.env("CARGO_TARGET_DIR", &self.folder).env("CARGO_INCREMENTAL", "0");
        command.env("CARGO_ENCODED_RUSTFLAGS", remap_flags(&private));
        step(&format!("build {}", target.name), || check(&mut command))?;
        let name = if target.windows { "siliconroute.exe" } else { "siliconroute" };
        Ok(self.folder.join(target.triple).join("dist").join(name))
    }

    fn pack(&self, target: Target, program: &Path, archives: &Path) -> Result<()> {
        let root = self.workspace.root();
        let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
        if !target.windows {
            check_glibc(&bytes)?;
        }
        refuse_private_paths(&bytes, root)?;
        let folder = format!("siliconroute-{}-{}", self.version, target.name);
        let file = |path: &str| -> Result<Vec<u8>> {
            fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))
        };
        let entry =
            |name: &str, bytes, executable| Entry { path: format!("{folder}/{name}"), bytes, executable };
        let release = rustc_release(&output(Command::new("rustc").arg("-vV"))?)?;
        let library = standard_library_source(&root.join("xtask/scripts"), &self.cache, &release)?;
        let musl = self.toolchain.musl_licence()?;
        let mut notices = notices::of_program(&self.workspace, target.triple)?;
        notices.push_str(&notices::standard_library::of_library(root, &library, target.triple, &musl)?);
        notices.push_str(&self.toolchain.notices(target.windows)?);
        let mut entries = vec![
            entry("README.md", file("README.md")?, false),
            entry("LICENSE-APACHE", file("LICENSE-APACHE")?, false),
            entry("LICENSE-MIT", file("LICENSE-MIT")?, false),
            entry("THIRD-PARTY-NOTICES.txt", notices.into_bytes(), false),
            entry(notices::standard_library::NAME, notices::standard_library::copyright()?, false),
        ];
        let archive = if target.windows {
            entries.push(entry("siliconroute.exe", bytes, true));
            entries.push(entry("start.bat", with_windows_line_ends(&file("xtask/dist/start.bat")?), true));
            archives.join(format!("{folder}.zip"))
        } else {
            entries.push(entry("siliconroute", bytes, true));
            entries.push(entry("start.sh", file("xtask/dist/start.sh")?, true));
            archives.join(format!("{folder}.tar.gz"))
        };
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let packed = if target.windows {
            archive::zip(&entries, self.time)?
        } else {
            archive::tar_gz(&entries, self.time)?
        };
        fs::write(&archive, &packed).with_context(|| format!("cannot write {}", archive.display()))?;
        println!("{}: {} bytes", archive.display(), packed.len());
        if target.triple == format!("{}-unknown-linux-gnu", env::consts::ARCH) && cfg!(target_os = "linux") {
            smoke_test(&archive, &folder)?;
        }
        Ok(())
    }
}

/// Unpacks the archive where paths are awkward and starts what is inside, as a user would.
fn smoke_test(archive: &Path, folder: &str) -> Result<()> {
    let place = archive.with_file_name("smoke Ünpacked für Ελένη 日本");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    fs::create_dir(&place).with_context(|| format!("cannot create {}", place.display()))?;
    check(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place))?;
    let inside = place.join(folder);
    check(Command::new(inside.join("siliconroute")).arg("--version"))?;
    // No engine package and no network: the embedded engine has to do.
    let mut start = Command::new(inside.join("start.sh"));
    start.current_dir("/").args(["--help"]).env("SILICONROUTE_HOME", place.join("home"));
    let help = output(&mut start)?;
    ensure!(help.contains("Usage: siliconroute up"), "start.sh does not start the main job:\n{help}");
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))
}

/// The flags that replace the folders of this machine, which messages of panics name, by fixed ones.
fn remap_flags(private: &[(PathBuf, &str)]) -> String {
    let flags: Vec<String> =
        private.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    flags.join("\u{1f}")
}

fn cargo_home() -> Option<PathBuf> {
    let home = |folder| Path::new(&folder).join(".cargo");
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| env::var_os("HOME").map(home))
}

fn target_folder(root: &Path) -> Result<PathBuf> {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(&folder).context("CARGO_TARGET_DIR is no path"),
        None => Ok(root.join("target")),
    }
}

/// The time that the sources are of: `SOURCE_DATE_EPOCH`, else that of the last commit.
fn source_time(root: &Path) -> Result<u64> {
    let text = match env::var_os("SOURCE_DATE_EPOCH") {
        Some(text) => text.to_string_lossy().into_owned(),
        None => output(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?,
    };
    text.trim().parse().with_context(|| format!("`{}` is no time in seconds", text.trim()))
}

/// Fails where the program asks for a newer GNU C library than it should.
fn check_glibc(program: &[u8]) -> Result<()> {
    let newest = newest_glibc(program).context("the program names no version of glibc")?;
    ensure!(
        newest <= GLIBC,
        "the program needs glibc {}.{}, not {}.{}",
        newest.0,
        newest.1,
        GLIBC.0,
        GLIBC.1
    );
    println!("needs glibc {}.{}", newest.0, newest.1);
    Ok(())
}

/// The newest version among the names `GLIBC_2.17` in the program's table of versions.
fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"\0GLIBC_";
    let starts = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = starts.filter_map(|(start, _)| {
        let rest = &program[start + MARK.len()..];
        let text = std::str::from_utf8(&rest[..rest.iter().take(16).position(|byte| *byte == 0)?]).ok()?;
        let mut parts = text.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

/// Fails where a folder of this machine is left in the program.
fn refuse_private_paths(program: &[u8], root: &Path) -> Result<()> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.components().count() > 1);
    for place in [Some(root.to_owned()), home, cargo_home()].into_iter().flatten() {
        let text = format!("{}/", place.display());
        if program.windows(text.len()).any(|window| window == text.as_bytes()) {
            bail!("the program holds the path {text}");
        }
    }
    Ok(())
}

fn with_windows_line_ends(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.iter().copied().filter(|byte| *byte != b'\r') {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// Writes `SHA256SUMS` for every archive in the folder, in the form that `sha256sum --check` reads.
fn write_sums(folder: &Path) -> Result<()> {
    let listing = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = listing
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("siliconroute-"))
        .collect();
    names.sort();
    let mut sums = String::new();
    for name in names {
        let bytes = fs::read(folder.join(&name)).with_context(|| format!("cannot read {name}"))?;
        Sha256::digest(&bytes).iter().try_for_each(|byte| write!(sums, "{byte:02x}"))?;
        writeln!(sums, "  {name}")?;
    }
    print!("{sums}");
    fs::write(folder.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")
}

#[cfg(test)]
mod tests;
