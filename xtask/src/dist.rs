//! `cargo xtask dist`: archives of the program for people who have no Rust, with their checksums.
//!
//! Invariant: an archive depends on the checkout and the tools' versions alone: order, times and rights of its
//! entries are fixed, and no path of the machine that built it stands in the program.
//!
//! Reading order: `toolchain` (what links for other systems), `program` (what a built program may ask for),
//! `notices` (the licences that go along), `archive`, `smoke` (what was packed, as its user meets it).

mod archive;
pub(crate) mod notices;
mod program;
mod smoke;
mod toolchain;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::foreign::{cache_folder, rustc_release, standard_library_source};
use crate::step::{check, output, step};
use crate::workspace::Workspace;
use archive::Entry;
use program::{GLIBC, Processor, STAMP};
use toolchain::Toolchain;

/// The option that also runs archives for Windows, which needs Wine.
const SMOKE: &str = "--smoke";

/// A system that archives are made for.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// What it is called in the archive's name and on the command line.
    name: &'static str,
    triple: &'static str,
    windows: bool,
    processor: Processor,
}

const TARGETS: &[Target] = &[
    Target {
        name: "linux-x64",
        triple: "x86_64-unknown-linux-gnu",
        windows: false,
        processor: Processor::X64,
    },
    Target {
        name: "windows-x64",
        triple: "x86_64-pc-windows-gnullvm",
        windows: true,
        processor: Processor::X64,
    },
    Target {
        name: "windows-arm64",
        triple: "aarch64-pc-windows-gnullvm",
        windows: true,
        processor: Processor::Arm64,
    },
];

impl Target {
    /// Whether the machine that builds can run the program itself.
    fn is_of_host(self) -> bool {
        cfg!(target_os = "linux") && self.triple == format!("{}-unknown-linux-gnu", env::consts::ARCH)
    }

    /// Whether the program runs under Wine on the machine that builds.
    fn runs_under_wine(self) -> bool {
        self.windows && self.processor == Processor::X64
    }
}

/// The targets' triples.
pub(crate) fn triples() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.triple)
}

/// Builds and packs the targets called in `words`, all of them when there is none, and runs what this machine can run.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let (targets, smoke) = choose(words)?;
    let workspace = Workspace::load()?;
    let cache = cache_folder(env::var_os("SRCI_CACHE"), env::var_os("HOME"))?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let release = rustc_release(&output(Command::new("rustc").arg("-vV"))?)?;
    let build = Build {
        version: workspace.version_of("siliconroute-cli")?,
        folder: target_folder(workspace.root())?,
        time: source_time(workspace.root())?,
        toolchain: Toolchain::load(&cache)?,
        library: standard_library_source(&workspace.root().join("xtask/scripts"), &cache, &release)?,
        cache,
        workspace,
    };
    let archives = build.folder.join("dist-archives");
    fs::create_dir_all(&archives).with_context(|| format!("cannot create {}", archives.display()))?;
    for target in targets {
        let program = build.compile(target)?;
        step(&format!("pack {}", target.name), || build.pack(target, &program, &archives))?;
        build.try_out(target, &archives, smoke)?;
    }
    write_sums(&archives)
}

/// Returns the targets that `words` name, and whether archives for Windows are to be run.
fn choose(words: &[&str]) -> Result<(Vec<Target>, bool)> {
    let smoke = words.contains(&SMOKE);
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != SMOKE).collect();
    if names.is_empty() {
        return Ok((TARGETS.to_vec(), smoke));
    }
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    let find = |name: &str| TARGETS.iter().find(|target| target.name == name).copied();
    let targets: Result<_> = names
        .into_iter()
        .map(|name| find(name).with_context(|| format!("no target {name}; there are {}", known())))
        .collect();
    Ok((targets?, smoke))
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
    /// The source of the standard library.
    library: PathBuf,
}

impl Build {
    /// Builds the program and returns its file.
    fn compile(&self, target: Target) -> Result<PathBuf> {
        let mut command = self.toolchain.cargo_zigbuild(self.workspace.root())?;
        command.args(["--locked", "--profile", "dist", "--package", "siliconroute-cli", "--target"]);
        if target.windows {
            // The stock toolchain holds no standard library for this target.
            command.args([target.triple, "-Zbuild-std=std,panic_unwind"]);
            command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", &self.library);
        } else {
            command.arg(format!("{}.{}.{}", target.triple, GLIBC.0, GLIBC.1));
        }
        command.env("CARGO_TARGET_DIR", &self.folder).env("CARGO_INCREMENTAL", "0");
        // The linker writes the time into Windows programs.
        command.env("SOURCE_DATE_EPOCH", STAMP.to_string());
        command.env("CARGO_ENCODED_RUSTFLAGS", remap_flags(&self.private_folders()));
        step(&format!("build {}", target.name), || check(&mut command))?;
        let name = if target.windows { "siliconroute.exe" } else { "siliconroute" };
        Ok(self.folder.join(target.triple).join("dist").join(name))
    }

    /// The folders of this machine that sources lie in, and what stands for each in the program. Where one lies in
    /// another, it comes later: the compiler takes the last that fits.
    fn private_folders(&self) -> Vec<(PathBuf, &'static str)> {
        let mut folders = vec![(self.workspace.root().to_owned(), "/siliconroute")];
        folders.push((self.folder.clone(), "/siliconroute/target"));
        folders.extend(cargo_home().map(|folder| (folder, "/cargo")));
        folders.push((self.cache.clone(), "/cache"));
        folders.push((self.library.clone(), "/rustc/library"));
        folders
    }

    fn pack(&self, target: Target, program: &Path, archives: &Path) -> Result<()> {
        let root = self.workspace.root();
        let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
        if target.windows {
            program::check_windows(&bytes, target.processor)?;
        } else {
            program::check_linux(&bytes, target.processor)?;
        }
        let private: Vec<PathBuf> = self.private_folders().into_iter().map(|(folder, _)| folder).collect();
        program::refuse_private_paths(&bytes, &private)?;
        let folder = self.folder_name(target);
        let file = |path: &str| -> Result<Vec<u8>> {
            fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))
        };
        let entry =
            |name: &str, bytes, executable| Entry { path: format!("{folder}/{name}"), bytes, executable };
        let notices = self.notices(target)?.into_bytes();
        let mut entries = vec![
            entry("README.md", file("README.md")?, false),
            entry("LICENSE-APACHE", file("LICENSE-APACHE")?, false),
            entry("LICENSE-MIT", file("LICENSE-MIT")?, false),
            entry("THIRD-PARTY-NOTICES.txt", notices, false),
            entry(notices::standard_library::NAME, notices::standard_library::copyright()?, false),
        ];
        if target.windows {
            entries.push(entry("siliconroute.exe", bytes, true));
            entries.push(entry("start.bat", with_windows_line_ends(&file("xtask/dist/start.bat")?), true));
        } else {
            entries.push(entry("siliconroute", bytes, true));
            entries.push(entry("start.sh", file("xtask/dist/start.sh")?, true));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        let pack = if target.windows { archive::zip } else { archive::tar_gz };
        let packed = pack(&entries, self.time)?;
        let archive = self.archive(target, archives);
        fs::write(&archive, &packed).with_context(|| format!("cannot write {}", archive.display()))?;
        println!("{}: {} bytes", archive.display(), packed.len());
        Ok(())
    }

    /// The licences of everything that is linked into the program, by whom ever.
    fn notices(&self, target: Target) -> Result<String> {
        let mut notices = notices::of_program(&self.workspace, target.triple)?;
        notices.push_str(&notices::standard_library::of_library(
            self.workspace.root(),
            &self.library,
            target.triple,
            &self.toolchain.musl_licence()?,
        )?);
        notices.push_str(&self.toolchain.notices(target.windows)?);
        Ok(notices)
    }

    /// Runs the program as its user would, where that is possible; says so where it is not.
    fn try_out(&self, target: Target, archives: &Path, smoke: bool) -> Result<()> {
        let (archive, folder) = (self.archive(target, archives), self.folder_name(target));
        if target.is_of_host() {
            step(&format!("run {}", target.name), || smoke::on_host(&archive, &folder, &self.version))
        } else if smoke && target.runs_under_wine() {
            let root = self.workspace.root();
            step(&format!("run {} under Wine", target.name), || {
                smoke::under_wine(root, &archive, &folder, &self.version)
            })
        } else {
            let way =
                if target.runs_under_wine() { format!("; {SMOKE} does, under Wine") } else { String::new() };
            println!("{} was not run here{way}", target.name);
            Ok(())
        }
    }

    /// The only folder in the archive.
    fn folder_name(&self, target: Target) -> String {
        format!("siliconroute-{}-{}", self.version, target.name)
    }

    fn archive(&self, target: Target, archives: &Path) -> PathBuf {
        let end = if target.windows { "zip" } else { "tar.gz" };
        archives.join(format!("{}.{end}", self.folder_name(target)))
    }
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

/// Writes `SHA256SUMS` for every archive in the folder, and lets `sha256sum` read the archives again.
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
        sums.push_str(&sum_line(&name, &bytes)?);
    }
    print!("{sums}");
    fs::write(folder.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")?;
    check(Command::new("sha256sum").current_dir(folder).args(["--check", "--strict", "SHA256SUMS"]))
}

/// A line of `SHA256SUMS`, in the form that `sha256sum --check` reads.
fn sum_line(name: &str, bytes: &[u8]) -> Result<String> {
    let mut line = String::new();
    Sha256::digest(bytes).iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
    ensure!(!name.contains(['\n', '\\']), "the name {name:?} would be read as another one");
    writeln!(line, "  {name}")?;
    Ok(line)
}

#[cfg(test)]
mod tests;
