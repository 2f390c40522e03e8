//! Rust source reduced to its code: comments and the insides of literals become blanks.
//!
//! Invariant: the result has as many lines as the source, so a finding's line number is right. Lexical
//! rules after the Rust Reference, chapter "Tokens".

#[cfg(test)]
mod tests;

/// Returns `source` with every comment, string, byte string and character literal blanked out.
///
/// Broken source gives some result of the same line count; the compiler is what reports it.
pub(super) fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let literal = literal_length(rest, after_word);
        let length = literal.unwrap_or(first.len_utf8());
        let (taken, remaining) = rest.split_at(length);
        if literal.is_some() {
            code.extend(taken.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
        } else {
            code.push(first);
        }
        after_word = literal.is_none() && (first.is_alphanumeric() || first == '_');
        rest = remaining;
    }
    code
}

/// Returns whether `word` stands in `line` as a whole identifier.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|part| part == word)
}

/// Returns the length in bytes of the comment or literal that `rest` begins with.
fn literal_length(rest: &str, after_word: bool) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_length(rest));
    }
    if rest.starts_with('"') {
        return Some(string_length(rest));
    }
    if !after_word && let Some(length) = raw_string_length(rest) {
        return Some(length);
    }
    if rest.starts_with('\'') { character_length(rest) } else { None }
}

fn block_comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Measures `r"…"`, `r#"…"#` and their byte and C forms.
fn raw_string_length(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|more| more.trim_start_matches('#').starts_with('"'))
    })?;
    let body = &rest[prefix.len()..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let start = prefix.len() + hashes + 1;
    Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

/// Measures a character literal; a lifetime is none.
fn character_length(rest: &str) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    let (_, first) = characters.next()?;
    if first == '\\' {
        characters.next();
        return characters.find(|(_, character)| *character == '\'').map(|(at, _)| at + 1);
    }
    characters.next().filter(|(_, character)| *character == '\'').map(|(at, _)| at + 1)
}
