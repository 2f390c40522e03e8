//! Text from outside, made harmless: names, paths and error messages may hold what a terminal obeys.
//!
//! Invariant: no control character and no change of the reading direction passes; they show as escapes.

use std::borrow::Cow;
use std::io;

/// Writes every character that a terminal would obey as an escape such as `\x1b`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match u8::try_from(character) {
            // All control characters have one byte as code.
            Ok(code) if character.is_control() => {
                shown.extend(std::ascii::escape_default(code).map(char::from));
            }
            _ if is_obeyed(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// The same for a text of several lines, which stay lines.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Control characters, line and paragraph separators, and what turns the reading direction
/// (<https://www.unicode.org/reports/tr9/>, section 2).
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Standard error for the log, whose lines repeat what libraries print.
#[derive(Debug)]
pub(crate) struct VisibleErrors;

impl io::Write for VisibleErrors {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(visible_lines(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
