//! Rule for every text file: nothing that is true of one developer's machine only.
//!
//! Invariant: the words looked for are put together here from parts, so that this file passes its own rule.

use super::Problem;
use crate::workspace::TextFile;

/// What must not occur, and what it is.
const PRIVATE: &[(&str, &str)] = &[
    (concat!("/ho", "me/"), "a developer's home folder"),
    (concat!("/ro", "ot/"), "a developer's home folder"),
    (concat!("pypi", ".org"), "a package index's host; the user's own settings name it"),
    (concat!("python", "hosted"), "a package index's host; the user's own settings name it"),
    (concat!("index.", "crates.io"), "a package index's host; the user's own settings name it"),
    (concat!("npm", "js"), "a package index's host; the user's own settings name it"),
];

/// Path, the word it may hold, and why.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// Finds places of one machine, and hosts that only a user's settings may name.
pub(super) fn find_private_places(files: &[TextFile]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for (word, what) in PRIVATE {
                let allowed = ALLOWED.iter().any(|(path, fine, _)| *path == file.path && fine == word);
                if !allowed && line.contains(word) {
                    let place = format!("{}:{}", file.path, index + 1);
                    problems.push(Problem::new(place, format!("`{word}` is {what}")));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_word_and_says_where() {
        for (word, what) in PRIVATE {
            let text = format!("first line\nsee {word}someone\n");
            let problems = find_private_places(&[TextFile { path: "docs/a.md".to_owned(), text }]);
            assert_eq!(problems, [Problem::new("docs/a.md:2", format!("`{word}` is {what}"))]);
        }
    }

    #[test]
    fn leaves_ordinary_text_alone() {
        let text = "--home DIR, at home/, /rooted, crates.io, pip download\n".to_owned();
        assert_eq!(find_private_places(&[TextFile { path: "README.md".to_owned(), text }]), []);
    }
}
