//! What the checks look at: the packages as cargo sees them and the files as git sees them.
//!
//! Invariant: parsing is pure; only `load*` functions start a process or touch the disk.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::{cargo, output};

/// The root folder and the packages that belong to the project.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    packages: Vec<Package>,
}

/// One package, of this workspace or foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Absent for a package that lies in this workspace.
    pub(crate) source: Option<String>,
    pub(crate) licence: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a package's dependency tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

/// Which of the three tables a dependency stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    Normal,
    Build,
    Development,
}

/// A text file of the project; the path is relative to the root, with forward slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Workspace {
    /// Asks cargo for the workspace that this program was built from.
    pub(crate) fn load() -> Result<Self> {
        let arguments = ["metadata", "--no-deps", "--format-version=1"];
        let (root, packages) =
            parse_metadata(&output(&mut cargo(Path::new(env!("CARGO_MANIFEST_DIR")), &arguments))?)?;
        Ok(Self { root, packages })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The version of the workspace's package `name`.
    pub(crate) fn version_of(&self, name: &str) -> Result<String> {
        let package = self.packages.iter().find(|package| package.name == name);
        Ok(package.with_context(|| format!("the workspace has no package {name}"))?.version.clone())
    }

    /// Asks cargo for every package of the dependency tree, on all platforms, as the lock file has them.
    pub(crate) fn load_dependency_tree(&self) -> Result<Vec<Package>> {
        let arguments = ["metadata", "--locked", "--all-features", "--format-version=1"];
        let (_, packages) = parse_metadata(&output(&mut cargo(&self.root, &arguments))?)?;
        Ok(packages)
    }

    /// Reads every text file that git tracks or would track; binary files are left out.
    pub(crate) fn load_text_files(&self) -> Result<Vec<TextFile>> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listing = output(&mut git).context("the checks need a git checkout")?;
        let mut files = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            let place = self.root.join(path);
            // A tracked file may be deleted or be a link in the working tree.
            if !fs::symlink_metadata(&place).is_ok_and(|data| data.is_file()) {
                continue;
            }
            let bytes = fs::read(&place).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        if files.is_empty() {
            bail!("git lists no file in {}", self.root.display());
        }
        Ok(files)
    }
}

/// Parses the output of `cargo metadata --format-version 1` into the root folder and the packages.
fn parse_metadata(json: &str) -> Result<(PathBuf, Vec<Package>)> {
    let document: Value = serde_json::from_str(json).context("cargo metadata did not write JSON")?;
    let root = document["workspace_root"].as_str().context("cargo metadata names no workspace root")?;
    let packages = document["packages"].as_array().context("cargo metadata lists no packages")?;
    Ok((PathBuf::from(root), packages.iter().map(parse_package).collect::<Result<_>>()?))
}

fn parse_package(value: &Value) -> Result<Package> {
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let name = text("name").context("cargo metadata has a package without a name")?;
    let dependencies = value["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Package {
        dependencies: dependencies
            .iter()
            .map(parse_dependency)
            .collect::<Result<_>>()
            .with_context(|| format!("package {name}"))?,
        version: text("version").unwrap_or_default(),
        source: text("source"),
        licence: text("license"),
        name,
    })
}

fn parse_dependency(value: &Value) -> Result<Dependency> {
    let name = value["name"].as_str().context("a dependency has no name")?.to_owned();
    let kind = match value["kind"].as_str() {
        None | Some("normal") => DependencyKind::Normal,
        Some("build") => DependencyKind::Build,
        Some("dev") => DependencyKind::Development,
        Some(other) => bail!("dependency {name} is of the unknown kind {other}"),
    };
    Ok(Dependency { name, kind })
}
