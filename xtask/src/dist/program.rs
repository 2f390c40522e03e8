//! What a built program needs of the system that it is started on, and what it must not hold.
//!
//! Reading order: `windows`, `linux`. Invariant: nothing is packed that these checks did not see, and a program that
//! asks for anything beyond a plain installation of the system ends the build.

mod linux;
mod windows;

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

pub(super) use linux::GLIBC;
pub(super) use windows::STAMP;

/// The processor that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Processor {
    X64,
    Arm64,
}

/// Fails where a Windows program is not what an archive should hold; prints what was found.
pub(super) fn check_windows(program: &[u8], processor: Processor) -> Result<()> {
    let facts = windows::parse(program)?;
    println!("{facts}");
    windows::judge(&facts, processor)
}

/// Fails where a Linux program is not what an archive should hold; prints what was found.
pub(super) fn check_linux(program: &[u8], processor: Processor) -> Result<()> {
    let facts = linux::parse(program)?;
    println!("{facts}");
    linux::judge(&facts, processor)
}

/// Fails where a folder of the machine that built the program is left in it.
pub(super) fn refuse_private_paths(program: &[u8], folders: &[PathBuf]) -> Result<()> {
    let home = env::var_os("HOME").map(PathBuf::from);
    for folder in folders.iter().chain(&home).filter(|folder| folder.components().count() > 1) {
        let text = format!("{}/", folder.display());
        if program.windows(text.len()).any(|window| window == text.as_bytes()) {
            bail!("the program holds the path {text}");
        }
    }
    Ok(())
}

/// Fails for the first library in `needed` that is not in `known`, which has small letters alone.
fn refuse_unknown_libraries(needed: &[String], known: &[&str], system: &str) -> Result<()> {
    for library in needed {
        ensure!(
            known.contains(&library.to_lowercase().as_str()),
            "the program loads {library}, which a plain {system} may lack; link it into the program, load it when it \
             is needed, or add it to the list of those that every {system} has",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_build_are_looked_for() {
        let folders = [PathBuf::from("/checkout/of/mine"), PathBuf::from("/")];
        assert!(refuse_private_paths(b"at /siliconroute/crates/x.rs", &folders).is_ok());
        assert!(refuse_private_paths(b"at /checkout/of/mine/crates/x.rs", &folders).is_err());
    }

    #[test]
    fn a_library_is_known_whatever_its_capitals() {
        let needed = |name: &str| [name.to_owned()];
        assert!(refuse_unknown_libraries(&needed("KERNEL32.dll"), &["kernel32.dll"], "Windows").is_ok());
        let error = refuse_unknown_libraries(&needed("libunwind.dll"), &["kernel32.dll"], "Windows");
        assert!(error.unwrap_err().to_string().contains("libunwind.dll"));
    }
}
