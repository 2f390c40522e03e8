//! Tells the program which commit it was built from, where it was built in a checkout and optimised.
//!
//! A debug build is nobody's measurement, and with the commit in it each commit would compile this library and all
//! that stands on it anew.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("PROFILE").is_none_or(|profile| profile != "release") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(commit) = git_folder(&root).and_then(|git| commit(&git)) {
        println!("cargo::rustc-env=SILICONROUTE_BUILD_COMMIT={commit}");
    }
}

/// The folder that holds the checkout's state: `.git`, or where the file of that name points.
fn git_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = std::fs::read_to_string(&git).ok()?;
    Some(root.join(text.strip_prefix("gitdir: ")?.trim()))
}

/// The commit that is checked out.
fn commit(git: &Path) -> Option<String> {
    let head = git.join("HEAD");
    println!("cargo::rerun-if-changed={}", head.display());
    let text = std::fs::read_to_string(head).ok()?;
    let Some(branch) = text.strip_prefix("ref: ") else { return hash(&text) };
    // A second working tree shares its branches with the first.
    let common = std::fs::read_to_string(git.join("commondir"))
        .map_or_else(|_alone| git.to_owned(), |to| git.join(to.trim()));
    let file = common.join(branch.trim());
    println!("cargo::rerun-if-changed={}", file.display());
    if let Ok(text) = std::fs::read_to_string(&file) {
        return hash(&text);
    }
    let packed = std::fs::read_to_string(common.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| hash(line.strip_suffix(branch.trim())?))
}

fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}
