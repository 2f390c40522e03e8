//! `cargo xtask tidy`: the project's own rules, which no general lint knows.
//!
//! Reading order: `arrows` (who may depend on whom), `sources` (Rust files), `code` (source text without
//! comments and strings), `text` (every text file). Invariant: a rule is a pure function from what it
//! looks at to the problems it finds; its tables are data at the top of its file.

mod arrows;
mod code;
mod sources;
mod text;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// A broken rule: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    place: String,
    what: String,
}

impl Problem {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

/// Checks the workspace that this program was built from.
pub(crate) fn run() -> Result<()> {
    check(&Workspace::load()?)
}

/// Prints every broken rule of `workspace`, and fails when there is one.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let files = workspace.load_text_files()?;
    let mut problems = arrows::find_wrong_arrows(workspace.packages());
    problems.extend(arrows::find_unguarded(workspace.packages()));
    problems.extend(sources::find_problems(&files));
    problems.extend(text::find_private_places(&files));
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} broken rule(s); CONTRIBUTING.md says why each exists", problems.len());
    }
    println!("{} crates and {} text files keep the rules", workspace.packages().len(), files.len());
    Ok(())
}
