//! Arguments of `export` and `import`.
//!
//! Invariant: each run does one thing, so that a script sees in the arguments what changes.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Write what this machine measured to this file, for other machines: chips, library versions, hashes of models,
    /// shapes, workloads and times. Names, paths, addresses and serial numbers stay here.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) knowledge: PathBuf,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["knowledge", "list", "forget"]))]
pub(crate) struct Import {
    /// Read another machine's measurements from this file, which its `export --knowledge` wrote. They are what is
    /// expected of hardware of the same kind until this machine has measured itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) knowledge: Option<PathBuf>,
    /// List the files that were imported, with the numbers of their origins.
    #[arg(long)]
    pub(crate) list: bool,
    /// Forget everything that came with the origin of this number.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) forget: Option<String>,
}
