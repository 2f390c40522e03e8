//! Which crate may depend on which, and which crate alone may touch a given foreign one.
//!
//! Invariant: `ARROWS` is the single statement of the crate graph; ARCHITECTURE.md explains it.

#[cfg(test)]
mod tests;

use super::Problem;
use crate::workspace::{DependencyKind, Package};

/// A crate of the workspace and the crates of the workspace it may use.
struct Arrow {
    from: &'static str,
    to: &'static [&'static str],
}

const CORE: &str = "siliconroute-core";
const TESTKIT: &str = "siliconroute-testkit";

const ARROWS: &[Arrow] = &[
    Arrow { from: CORE, to: &[] },
    Arrow { from: "siliconroute-onnx", to: &[CORE] },
    Arrow { from: "siliconroute-hardware", to: &[CORE] },
    Arrow { from: "siliconroute-kernels", to: &[CORE] },
    Arrow { from: "siliconroute-engine", to: &[CORE] },
    Arrow { from: "siliconroute-store", to: &[CORE] },
    Arrow {
        from: "siliconroute",
        to: &[
            CORE,
            "siliconroute-onnx",
            "siliconroute-hardware",
            "siliconroute-kernels",
            "siliconroute-engine",
            "siliconroute-store",
        ],
    },
    Arrow { from: "siliconroute-server", to: &["siliconroute", CORE] },
    // Not even `hardware`: what a command shows must be there for every embedder of the library too.
    Arrow { from: "siliconroute-cli", to: &["siliconroute", "siliconroute-server", CORE] },
    Arrow {
        from: TESTKIT,
        to: &[CORE, "siliconroute-onnx", "siliconroute-engine", "siliconroute-store", "siliconroute"],
    },
    Arrow { from: "xtask", to: &[] },
];

/// A foreign crate that one crate of the workspace wraps for all others.
struct Guarded {
    dependency: &'static str,
    /// Who may use it, and why it is they.
    owners: &'static [(&'static str, &'static str)],
}

const OPERATING_SYSTEM: &[(&str, &str)] = &[("siliconroute-hardware", "the only crate with system code")];

const GUARDED: &[Guarded] = &[
    Guarded { dependency: "rusqlite", owners: &[("siliconroute-store", "the only crate that speaks SQL")] },
    Guarded {
        dependency: "ort",
        owners: &[("siliconroute-engine", "the only crate that loads ONNX Runtime")],
    },
    Guarded { dependency: "libc", owners: OPERATING_SYSTEM },
    Guarded { dependency: "raw-cpuid", owners: OPERATING_SYSTEM },
    Guarded {
        dependency: "rustix",
        owners: &[
            ("siliconroute-hardware", "the only crate with system code"),
            ("siliconroute-engine", "ends a fetcher together with the processes that it started"),
        ],
    },
    Guarded { dependency: "sysinfo", owners: OPERATING_SYSTEM },
    Guarded { dependency: "windows", owners: OPERATING_SYSTEM },
    Guarded { dependency: "windows-sys", owners: OPERATING_SYSTEM },
];

/// Finds dependencies between crates of the workspace that the table does not have.
pub(super) fn find_wrong_arrows(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let Some(arrow) = ARROWS.iter().find(|arrow| arrow.from == package.name) else {
            problems.push(Problem::new(
                &package.name,
                "is not in the table of arrows; add it to xtask/src/tidy/arrows.rs and ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let inside = packages.iter().any(|other| other.name == dependency.name);
            if !inside || arrow.to.contains(&dependency.name.as_str()) {
                continue;
            }
            let for_tests = dependency.kind == DependencyKind::Development;
            if for_tests && dependency.name == TESTKIT && package.name != CORE {
                continue;
            }
            let what = if dependency.name == TESTKIT && package.name != CORE {
                format!("may use {TESTKIT} in its tests only")
            } else {
                format!("must not depend on {}", dependency.name)
            };
            problems.push(Problem::new(&package.name, what));
        }
    }
    problems
}

/// Finds direct dependencies on foreign crates that another crate of the workspace wraps.
pub(super) fn find_unguarded(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let Some(guarded) = GUARDED.iter().find(|guarded| guarded.dependency == dependency.name) else {
                continue;
            };
            if guarded.owners.iter().any(|(owner, _)| *owner == package.name) {
                continue;
            }
            let owners: Vec<_> =
                guarded.owners.iter().map(|(owner, why)| format!("{owner} ({why})")).collect();
            let what =
                format!("must not depend on {}, which belongs to {}", dependency.name, owners.join(", "));
            problems.push(Problem::new(&package.name, what));
        }
    }
    problems
}
