//! The licences of everything that is linked into the program, from cargo's own list of packages.
//!
//! Invariant: each package that is linked has a licence text in the notices, or making them fails.
//!
//! `standard_library` does the same for what the compiler brings along.

pub(super) mod standard_library;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::licences::expression;
use crate::step::{cargo, output};
use crate::workspace::Workspace;

/// The package whose program is shipped.
const PROGRAM: &str = "siliconroute-cli";

/// How the names of files with licence texts begin, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The MIT licence's words after the copyright line.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation
the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to
permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// A package that is linked into the program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Linked {
    name: String,
    version: String,
    licence: String,
    authors: Vec<String>,
    repository: Option<String>,
    folder: PathBuf,
}

/// The notices for the program as it is built for `triple`.
///
/// # Errors
/// When a package has no licence text and none can be put in its place.
pub(crate) fn of_program(workspace: &Workspace, triple: &str) -> Result<String> {
    let arguments = ["metadata", "--locked", "--format-version=1", "--filter-platform", triple];
    let linked = parse_linked(&output(&mut cargo(workspace.root(), &arguments))?, PROGRAM)?;
    let mut notices = format!(
        "SiliconRoute contains the following {} packages. Each is listed with its licence; texts that several\n\
         packages share stand once. What the compiler and the linker add follows after them.\n\n",
        linked.len()
    );
    notices.push_str(&sections(&linked, &apache_licence(workspace.root())?)?);
    Ok(notices)
}

/// The words of the Apache licence, of which the checkout at `root` has a copy.
fn apache_licence(root: &Path) -> Result<String> {
    fs::read_to_string(root.join("LICENSE-APACHE")).context("cannot read LICENSE-APACHE")
}

/// A section for each text, with the packages that it stands for.
fn sections(linked: &[Linked], apache: &str) -> Result<String> {
    let mut texts = BTreeMap::new();
    for package in linked {
        let text = licence_texts(package, apache)?;
        texts.entry(text).or_insert_with(Vec::new).push(package);
    }
    let mut notices = String::new();
    // By the first package that has the text, so that the order does not hang on the words of a licence.
    let mut groups: Vec<(Vec<&Linked>, String)> =
        texts.into_iter().map(|(text, users)| (users, text)).collect();
    groups.sort_by(|a, b| a.0[0].name.cmp(&b.0[0].name));
    for (users, text) in groups {
        let mut title = String::new();
        for (index, user) in users.iter().enumerate() {
            let place = user.repository.as_deref().map(|place| format!(", {place}")).unwrap_or_default();
            let line = format!("{} {} ({}{place})", user.name, user.version, user.licence);
            title.push_str(if index == 0 { "" } else { "\n" });
            title.push_str(&line);
        }
        notices.push_str(&section(&title, text.trim()));
    }
    Ok(notices)
}

/// One part of the notices.
pub(super) fn section(title: &str, text: &str) -> String {
    format!("{line}\n{title}\n{line}\n\n{text}\n\n\n", line = "=".repeat(100))
}

/// The licence files of a package, or the words of the licence that it names and does not bring.
fn licence_texts(package: &Linked, apache: &str) -> Result<String> {
    let mut names = BTreeSet::new();
    let listing =
        fs::read_dir(&package.folder).with_context(|| format!("cannot list {}", package.folder.display()))?;
    for entry in listing {
        let path = entry.with_context(|| format!("cannot list {}", package.folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            names.insert(path);
        }
    }
    let mut text = String::new();
    for path in names {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.push_str(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim());
        text.push_str("\n\n");
    }
    if text.is_empty() { without_file(package, apache) } else { Ok(text) }
}

/// What stands for a licence file that the package lacks: one licence that is enough, by its standard words.
fn without_file(package: &Linked, apache: &str) -> Result<String> {
    let enough =
        |one: &str| expression::is_satisfied(&package.licence, &|licence| licence == one).unwrap_or(false);
    if enough("Apache-2.0") {
        return Ok(format!("Used under the Apache License, Version 2.0.\n\n{}\n", apache.trim()));
    }
    if enough("MIT") {
        let holders = if package.authors.is_empty() {
            format!("the {} developers", package.name)
        } else {
            package.authors.join(", ")
        };
        return Ok(format!("Copyright (c) {holders}\n\n{MIT}"));
    }
    bail!(
        "{} {} has no licence file, and `{}` is not known by heart",
        package.name,
        package.version,
        package.licence
    )
}

/// The foreign packages that the normal dependencies of the package `root` reach, sorted by name and version.
fn parse_linked(metadata: &str, root: &str) -> Result<Vec<Linked>> {
    let document: Value = serde_json::from_str(metadata).context("cargo metadata did not write JSON")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut reached_from: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&document["resolve"]["nodes"]) {
        let normal = list(&node["deps"])
            .into_iter()
            .filter(|dependency| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()));
        reached_from.insert(id(&node["id"]), normal.map(|dependency| id(&dependency["pkg"])).collect());
    }
    let packages: BTreeMap<String, Value> =
        list(&document["packages"]).into_iter().map(|package| (id(&package["id"]), package)).collect();
    let program = packages.iter().find(|(_, package)| package["name"] == root);
    let mut next = vec![program.with_context(|| format!("there is no package {root}"))?.0.clone()];
    let mut reached = BTreeSet::new();
    while let Some(package) = next.pop() {
        if reached.insert(package.clone()) {
            next.extend(reached_from.get(&package).into_iter().flatten().cloned());
        }
    }
    let foreign =
        reached.iter().filter_map(|id| packages.get(id)).filter(|package| !package["source"].is_null());
    let mut linked: Vec<Linked> = foreign.map(parse_package).collect::<Result<_>>()?;
    linked.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(linked)
}

fn parse_package(package: &Value) -> Result<Linked> {
    let text = |field: &str| package[field].as_str().map(str::to_owned);
    let name = text("name").context("cargo metadata has a package without a name")?;
    let manifest = text("manifest_path").with_context(|| format!("{name} has no place"))?;
    Ok(Linked {
        version: text("version").unwrap_or_default(),
        licence: text("license").with_context(|| format!("{name} states no licence"))?,
        authors: package["authors"]
            .as_array()
            .map(|authors| authors.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default(),
        repository: text("repository"),
        folder: Path::new(&manifest)
            .parent()
            .map(Path::to_owned)
            .with_context(|| format!("{name} has no place"))?,
        name,
    })
}
