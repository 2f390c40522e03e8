//! Rules for the Rust files: header, length, name, unfinished code, skipped tests, unsafe code.
//!
//! Invariant: an exception is a row with a reason, never a condition in the code.

#[cfg(test)]
mod tests;

use super::Problem;
use super::code::{code_of, has_word};
use crate::workspace::TextFile;

/// Files are meant to be split near 500 lines; this is where it is enforced.
const MOST_LINES: usize = 600;

/// Path, its own limit, why it may be that long.
const LONG_FILES: &[(&str, usize, &str)] = &[];

/// Names that say nothing about what a file holds.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "stuff"];

/// The folders in which unsafe code may stand.
const UNSAFE_FOLDERS: &[&str] = &["crates/kernels/", "crates/engine/", "crates/hardware/"];

const UNFINISHED: &[&str] = &["todo!", "unimplemented!"];

/// Finds the broken rules of every Rust file among `files`.
pub(super) fn find_problems(files: &[TextFile]) -> Vec<Problem> {
    let rust = files.iter().filter(|file| file.path.rsplit_once('.').is_some_and(|(_, end)| end == "rs"));
    rust.flat_map(|file| {
        let mut problems = Vec::new();
        problems.extend(find_missing_header(file));
        problems.extend(find_too_long(file));
        problems.extend(find_empty_name(file));
        problems.extend(find_wrong_code(file));
        problems
    })
    .collect()
}

fn find_missing_header(file: &TextFile) -> Option<Problem> {
    let fine = file.text.starts_with("//! ") && !file.text.starts_with("//! \n");
    (!fine).then(|| Problem::new(&file.path, "must open with `//!`: its purpose and one invariant"))
}

fn find_too_long(file: &TextFile) -> Option<Problem> {
    let limit =
        LONG_FILES.iter().find(|(path, ..)| *path == file.path).map_or(MOST_LINES, |(_, limit, _)| *limit);
    let lines = file.text.lines().count();
    (lines > limit).then(|| Problem::new(&file.path, format!("has {lines} lines, limit {limit}; split it")))
}

fn find_empty_name(file: &TextFile) -> Option<Problem> {
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let name = stem.split('/').find(|part| EMPTY_NAMES.contains(part))?;
    Some(Problem::new(&file.path, format!("is named `{name}`; name it after what it holds")))
}

fn find_wrong_code(file: &TextFile) -> Vec<Problem> {
    let may_be_unsafe = UNSAFE_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let mut problems = Vec::new();
    let code = code_of(&file.text);
    for (index, (line, written)) in code.lines().zip(file.text.lines()).enumerate() {
        let mut report =
            |what: &str| problems.push(Problem::new(format!("{}:{}", file.path, index + 1), what));
        if !may_be_unsafe && has_word(line, "unsafe") {
            report("unsafe code is for `kernels`, `engine` and `hardware`");
        }
        if UNFINISHED.iter().any(|mark| line.contains(mark)) {
            report("unfinished code: finish it or leave it out");
        }
        let skips_example = written.trim_start().starts_with("//") && has_ignored_fence(written);
        if skips_test(line) || skips_example {
            report("a skipped test checks nothing: gate it by a feature that CI turns on");
        }
    }
    problems
}

fn skips_test(line: &str) -> bool {
    let dense: String = line.chars().filter(|character| !character.is_whitespace()).collect();
    dense.contains("#[ignore]")
        || dense.contains("#[ignore=")
        || (dense.contains("cfg_attr(") && dense.contains(",ignore"))
}

fn has_ignored_fence(comment: &str) -> bool {
    comment.split_once("```").is_some_and(|(_, attributes)| has_word(attributes, "ignore"))
}
