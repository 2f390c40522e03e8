//! What a worker's error output says of its end.
//!
//! Invariant: however much a worker prints, only a few short lines are kept.

/// Lines of a panic that are kept: where it was, and what it said.
const PANIC_LINES: usize = 4;

/// Bytes of a line that are kept.
const LINE_BYTES: usize = 500;

/// The panic and the last line among the lines that were heard.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// The latest panic, with its message.
    panic: Vec<String>,
    /// Whether lines still belong to the panic's message.
    in_message: bool,
    /// The last line that is neither of a panic nor of its backtrace.
    last: Option<String>,
}

impl LastWords {
    /// Takes in a line of the error output.
    pub(super) fn hear(&mut self, line: &str) {
        let line = cut(line.trim());
        if line.starts_with("thread '") && line.contains(" panicked at ") {
            self.panic = vec![line.to_owned()];
            self.in_message = true;
            // What was said before the panic does not tell of the end.
            self.last = None;
        } else if is_about_the_backtrace(line) {
            self.in_message = false;
        } else if !self.in_message && !line.is_empty() {
            self.last = Some(line.to_owned());
        } else if self.panic.len() < PANIC_LINES && !line.is_empty() {
            self.panic.push(line.to_owned());
        }
    }

    /// The panic, if there was one, and what came after it; `None` when nothing was heard.
    pub(super) fn sentence(&self) -> Option<String> {
        let panic = (!self.panic.is_empty()).then(|| self.panic.join(" "));
        let parts: Vec<String> = panic.into_iter().chain(self.last.clone()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Whether a line is of those that follow a panic's message: the note on backtraces, or a backtrace itself.
fn is_about_the_backtrace(line: &str) -> bool {
    let frame = line
        .split_once(": ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    frame
        || line == "stack backtrace:"
        || line.starts_with("at /")
        || line.starts_with("at .")
        || line.starts_with("note: run with `RUST_BACKTRACE")
        || line.starts_with("note: Some details are omitted")
}

/// The beginning of a long line.
fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, said: Option<&str>) {
        let mut words = LastWords::default();
        output.lines().for_each(|line| words.hear(line));
        assert_eq!(words.sentence().as_deref(), said);
    }

    #[test]
    fn the_last_line_is_kept() {
        check("", None);
        check("\n \n", None);
        check("one\ntwo\n\n", Some("two"));
        check(
            "libfoo.so: cannot open\nnote: run with `RUST_BACKTRACE=1` environment variable",
            Some("libfoo.so: cannot open"),
        );
    }

    #[test]
    fn a_panic_is_kept_with_its_message() {
        let head = "thread 'main' (42) panicked at src/gemm.rs:10:5:\n";
        let kept = "thread 'main' (42) panicked at src/gemm.rs:10:5: index out of bounds";
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        check(&format!("loading\n{head}index out of bounds\n{note}"), Some(kept));
        let frames = "   7: rten::run\n             at ./src/lib.rs:7:1\n".repeat(50);
        let omitted =
            "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n";
        check(&format!("{head}index out of bounds\nstack backtrace:\n{frames}{omitted}"), Some(kept));
        let after = format!("{head}index out of bounds\n{note}fatal runtime error: failed to initiate panic");
        check(&after, Some(&format!("{kept}; fatal runtime error: failed to initiate panic")));
    }

    #[test]
    fn a_long_message_is_cut() {
        let head = "thread 'a' panicked at b.rs:1:1:\n";
        check(&format!("{head}1\n2\n3\n4\n5\n"), Some("thread 'a' panicked at b.rs:1:1: 1 2 3"));
        let mut words = LastWords::default();
        words.hear(&"ä".repeat(100_000));
        assert_eq!(words.sentence().map(|words| words.len()), Some(LINE_BYTES));
    }
}
