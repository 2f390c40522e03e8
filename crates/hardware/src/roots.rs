//! Where the readers look, and bounded reads of the small text files found there.
//!
//! Invariant: no read takes more than its limit, follows no endless listing, and a failure is
//! reported with the path and the cause.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use siliconroute_core::Reading;

/// No attribute of `/sys` or `/proc` that is read here comes near this size.
const TEXT_LIMIT_BYTES: u64 = 256 * 1024;
/// How the reason ends where the right to read a file is missing.
pub(crate) const PERMISSION_DENIED: &str = "permission denied";
/// More entries than the largest machine has CPUs.
const LISTING_LIMIT: usize = 16_384;

/// The directories that a Linux machine is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// The root of the file system, for `usr`, `run` and marker files.
    pub root: PathBuf,
    /// The kernel's device tree, `/sys`.
    pub sys: PathBuf,
    /// The kernel's process tree, `/proc`.
    pub proc: PathBuf,
    /// The configuration directory, `/etc`.
    pub etc: PathBuf,
}

impl Roots {
    /// The directories of the running machine.
    pub fn system() -> Self {
        Self::under(Path::new("/"))
    }

    /// The same layout below `root`, as a captured tree has it.
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned(), sys: root.join("sys"), proc: root.join("proc"), etc: root.join("etc") }
    }

    /// Places an absolute path of the described machine below `root`.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self::system()
    }
}

/// Reads up to `limit` bytes of `path`.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Reading<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => Reading::Available(bytes),
        Err(error) => Reading::unavailable(failure(path, &error)),
    }
}

/// Reads a small text file, without the white space and NULs around it.
pub(crate) fn read_text(path: &Path) -> Reading<String> {
    read_bytes(path, TEXT_LIMIT_BYTES).map(|bytes| {
        String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
    })
}

/// Reads a text file and parses it; `wanted` names what `parse` looks for, such as `a number`.
pub(crate) fn read_value<T>(path: &Path, wanted: &str, parse: impl FnOnce(&str) -> Option<T>) -> Reading<T> {
    let text = match read_text(path) {
        Reading::Available(text) => text,
        Reading::Unavailable(reason) => return Reading::Unavailable(reason),
    };
    parse(&text).map_or_else(
        || {
            let shown: String = text.chars().take(40).collect();
            Reading::unavailable(format!("{} holds `{shown}` instead of {wanted}", path.display()))
        },
        Reading::Available,
    )
}

/// Reads a file that holds one number.
pub(crate) fn read_number<T: std::str::FromStr>(path: &Path) -> Reading<T> {
    read_value(path, "a number", |text| text.parse().ok())
}

/// Reads a file that holds one word or line, and is not empty.
pub(crate) fn read_word(path: &Path) -> Reading<String> {
    read_value(path, "a name", |text| {
        let line = text.lines().next().unwrap_or_default().trim();
        (!line.is_empty()).then(|| line.to_owned())
    })
}

/// The names in a directory, sorted; numbers inside the names sort by value.
pub(crate) fn list_names(path: &Path) -> Reading<Vec<String>> {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let mut names: Vec<String> = entries
                .take(LISTING_LIMIT)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .collect();
            names.sort_by_cached_key(|name| (numbered(name), name.clone()));
            Reading::Available(names)
        }
        Err(error) => Reading::unavailable(failure(path, &error)),
    }
}

/// The names in a directory that are `prefix` and a number, in order of the number.
pub(crate) fn list_numbered(path: &Path, prefix: &str) -> Reading<Vec<String>> {
    list_names(path).map(|names| {
        names
            .into_iter()
            .filter(|name| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            })
            .collect()
    })
}

fn numbered(name: &str) -> (String, u64) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (prefix, rest) = name.split_at(digits);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (prefix.to_owned(), rest[..end].parse().unwrap_or(0))
}

fn failure(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("{} does not exist", path.display()),
        ErrorKind::PermissionDenied => format!("{} cannot be read: {PERMISSION_DENIED}", path.display()),
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn reasons_name_the_path_and_the_cause() {
        let tree = Tree::new().file("sys/number", "12 apples\n").directory("sys/folder");
        let sys = &tree.roots().sys;
        let reason = |reading: Reading<u32>| match reading {
            Reading::Unavailable(reason) => reason,
            Reading::Available(value) => panic!("read {value}"),
        };
        assert!(reason(read_number(&sys.join("number"))).ends_with("holds `12 apples` instead of a number"));
        assert!(reason(read_number(&sys.join("missing"))).ends_with("missing does not exist"));
        assert!(reason(read_number(&sys.join("folder"))).contains("folder cannot be read"));
    }

    #[test]
    fn numbered_names_sort_by_value() {
        let tree =
            Tree::new().directory("d/cpu10").directory("d/cpu2").directory("d/cpufreq").directory("d/cpu");
        let names = list_numbered(&tree.roots().root.join("d"), "cpu");
        assert_eq!(names.available(), Some(&vec!["cpu2".to_owned(), "cpu10".to_owned()]));
    }

    #[test]
    fn reads_stop_at_the_limit() {
        let tree = Tree::new().file("long", &"x".repeat(100));
        assert_eq!(read_bytes(&tree.roots().root.join("long"), 10).available().map(Vec::len), Some(10));
    }
}
