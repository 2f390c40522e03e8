//! `cargo xtask licences`: every dependency's licence is on the list and its source is a registry.
//!
//! Invariant: the whole tree is looked at, on all platforms and with all features, as the lock file has it.
//! Known vulnerabilities are not looked for here: their list has to be fetched anew each time.

pub(crate) mod expression;
#[cfg(test)]
mod tests;

use anyhow::{Result, bail};

use crate::dist::{self, notices};
use crate::workspace::{Package, Workspace};

/// Licences whose terms are met by shipping the licence's text.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Package, the licence it may have beyond the list, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Prints every dependency that may not be used, and fails when there is one.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let packages = workspace.load_dependency_tree()?;
    let foreign: Vec<Package> = packages.into_iter().filter(|package| package.source.is_some()).collect();
    let problems: Vec<String> = foreign.iter().filter_map(find_problem).collect();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} of {} dependencies may not be used", problems.len(), foreign.len());
    }
    println!("{} dependencies: every licence is on the list, every source is a registry", foreign.len());
    for triple in dist::triples() {
        let bytes = notices::of_program(&workspace, triple)?.len();
        println!("{triple}: every linked package has its licence's text ({bytes} bytes of notices)");
    }
    Ok(())
}

fn find_problem(package: &Package) -> Option<String> {
    let place = format!("{} {}", package.name, package.version);
    if package.source.as_deref().is_none_or(|source| !is_registry(source)) {
        return Some(format!("{place}: does not come from a package registry"));
    }
    let Some(licence) = package.licence.as_deref() else {
        return Some(format!("{place}: states no licence"));
    };
    let allowed = |one: &str| {
        ALLOWED.contains(&one)
            || EXCEPTIONS.iter().any(|(name, extra, _)| *name == package.name && *extra == one)
    };
    match expression::is_satisfied(licence, &allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("{place}: `{licence}` is not on the list in xtask/src/licences.rs")),
        Err(error) => Some(format!("{place}: cannot read its licence `{licence}`: {error}")),
    }
}

fn is_registry(source: &str) -> bool {
    source.starts_with("registry+") || source.starts_with("sparse+")
}
