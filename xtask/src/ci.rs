//! `cargo xtask ci`: what a change must pass on the host, in the order that fails soonest.
//!
//! Invariant: `.ci/run` starts with this very command, so a developer sees what CI sees.

use std::num::NonZeroUsize;

use anyhow::Result;

use crate::step::{cargo, check, step};
use crate::workspace::Workspace;
use crate::{licences, tidy};

/// Runs every host check and stops at the first failure.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let root = workspace.root();
    step("fmt", || check(&mut cargo(root, &["fmt", "--all", "--check"])))?;
    step("tidy", || tidy::check(&workspace))?;
    step("licences", licences::run)?;
    step("clippy", || {
        check(&mut cargo(root, &["clippy", "--locked", "--workspace", "--all-targets", "--", "-Dwarnings"]))
    })?;
    step("test", || {
        let mut command = cargo(root, &["test", "--locked", "--workspace"]);
        // Many tests wait: for processes, for locks, for a rest that they are about.
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        check(command.env("RUST_TEST_THREADS", (2 * cores).to_string()))
    })?;
    step("doc", || {
        // Libraries only: the command and the library bear one name, and their pages would overwrite each other.
        let mut command = cargo(root, &["doc", "--locked", "--workspace", "--no-deps", "--lib"]);
        check(command.env("RUSTDOCFLAGS", "-Dwarnings"))
    })
}
