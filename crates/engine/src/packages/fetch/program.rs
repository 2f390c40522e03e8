//! Which program can run pip.
//!
//! Invariant: only absolute folders of the search path are looked into, so nothing in the current folder is
//! ever run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names to look for, best first, each with the arguments that make it pip. uv comes last because it has to
/// fetch a pip before it can fetch the wheel.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("pip", &[]),
    ("pip3", &[]),
    ("python3", &["-m", "pip"]),
    ("python", &["-m", "pip"]),
    ("py", &["-m", "pip"]),
    ("uv", &["tool", "run", "pip"]),
];

/// The endings of programs on this system.
const ENDINGS: &[&str] = if cfg!(windows) { &[".exe", ".bat", ".cmd"] } else { &[""] };

/// A program with the arguments that make it behave like pip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PipProgram {
    path: PathBuf,
    arguments: &'static [&'static str],
}

impl PipProgram {
    /// Where the program lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The program as a user would type it.
    pub(super) fn label(&self) -> String {
        let words = std::iter::once(self.path.display().to_string());
        words.chain(self.arguments.iter().map(|&word| word.to_owned())).collect::<Vec<_>>().join(" ")
    }

    /// A command that runs pip in the folder `scratch` and keeps its temporary files there.
    pub(super) fn command(&self, search_path: &OsStr, scratch: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.arguments).current_dir(scratch).env("PATH", search_path);
        for variable in ["TMPDIR", "TEMP", "TMP"] {
            command.env(variable, scratch);
        }
        // A user who forbids pip to install outside an environment still wants this download.
        command.env("PIP_REQUIRE_VIRTUALENV", "0").env("PYTHONUTF8", "1").env("NO_COLOR", "1");
        command
    }
}

/// The programs that may run pip, best first. With `chosen`, that one alone.
pub(super) fn candidates(search_path: &OsStr, chosen: Option<&Path>) -> Vec<PipProgram> {
    if let Some(path) = chosen {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let arguments: &[&str] = match stem.as_str() {
            "uv" => &["tool", "run", "pip"],
            _ if stem.starts_with("py") => &["-m", "pip"],
            _ => &[],
        };
        // The child runs in another folder, where a relative path would lead elsewhere.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        return vec![PipProgram { path, arguments }];
    }
    let folders: Vec<PathBuf> =
        std::env::split_paths(search_path).filter(|folder| folder.is_absolute()).collect();
    let find = |name: &str| {
        let files = folders
            .iter()
            .flat_map(|folder| ENDINGS.iter().map(move |ending| folder.join(format!("{name}{ending}"))));
        files.into_iter().find(|path| path.is_file())
    };
    let found = |&(name, arguments): &(&str, &'static [&'static str])| {
        Some(PipProgram { path: find(name)?, arguments })
    };
    PROGRAMS.iter().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(format!("{name}{}", ENDINGS[0])), "").unwrap();
        }
        dir
    }

    #[test]
    fn prefers_pip_and_takes_uv_last() {
        let (first, second) = (folder_with(&["uv", "python3"]), folder_with(&["pip", "python3"]));
        let path = std::env::join_paths([first.path(), second.path()]).unwrap();
        let found = candidates(&path, None);
        let expected = [
            (second.path(), "pip", &[] as &[&str]),
            (first.path(), "python3", &["-m", "pip"]),
            (first.path(), "uv", &["tool", "run", "pip"]),
        ];
        let expected = expected.map(|(dir, name, arguments)| PipProgram {
            path: dir.join(format!("{name}{}", ENDINGS[0])),
            arguments,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn ignores_relative_folders_of_the_search_path() {
        assert_eq!(candidates(OsStr::new("."), None), []);
        assert_eq!(candidates(OsStr::new(""), None), []);
    }

    #[test]
    fn tells_a_chosen_program_apart_by_its_name() {
        let arguments = |name: &str| candidates(OsStr::new(""), Some(Path::new(name)))[0].arguments;
        assert_eq!(arguments("/opt/uv"), ["tool", "run", "pip"]);
        assert_eq!(arguments("/opt/python3.13"), ["-m", "pip"]);
        assert_eq!(arguments("/opt/pypy3"), ["-m", "pip"]);
        assert!(arguments("/opt/pip3.12").is_empty());
    }
}
