//! The names that a mistyped one may have meant.
//!
//! Invariant: the work is bounded however long the given name is.

/// Longer names are not compared: no model's name comes near.
const LONGEST_NAME_BYTES: usize = 64;
const MOST_SUGGESTIONS: usize = 3;

/// A name that the catalogue does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the catalogue has no model `{name}`{}", self.suggestion())]
pub struct UnknownModel {
    /// The name asked for.
    pub name: String,
    /// Names that come close, the closest first; empty where none does.
    pub nearest: Vec<String>,
}

impl UnknownModel {
    pub(super) fn new<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let wanted = name.to_lowercase();
        let mut close: Vec<(usize, &str)> = Vec::new();
        if (1..=LONGEST_NAME_BYTES).contains(&wanted.len()) {
            close.extend(known.filter_map(|known| Some((distance(&wanted, known)?, known))));
        }
        close.sort_unstable();
        let nearest = close.into_iter().take(MOST_SUGGESTIONS).map(|(_, known)| known.to_owned()).collect();
        Self { name: name.to_owned(), nearest }
    }

    /// `; did you mean …?` for the end of a message, or nothing.
    pub fn suggestion(&self) -> String {
        if self.nearest.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", self.nearest.join(", "))
        }
    }
}

/// How far `known` is from `wanted`: 0 where one is part of the other, else the edits between them; `None` for
/// more than a third of the letters.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    // A part must be long enough to mean something.
    if wanted.len() >= 3 && (known.contains(wanted) || wanted.contains(known)) {
        return Some(0);
    }
    let edits = edit_distance(wanted.as_bytes(), known.as_bytes());
    (edits <= (wanted.len().max(known.len()) / 3).max(1)).then_some(edits)
}

/// Insertions, deletions and replacements that lead from `a` to `b` (Levenshtein, 1966).
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (done, byte) in a.iter().enumerate() {
        let mut diagonal = done;
        let mut left = done + 1;
        for (column, other) in b.iter().enumerate() {
            if let Some([cell, above]) = row.get_mut(column..column + 2).and_then(|pair| pair.as_mut_array())
            {
                let replaced = diagonal + usize::from(byte != other);
                *cell = left;
                diagonal = *above;
                left = replaced.min(diagonal + 1).min(left + 1);
            }
        }
        if let Some(last) = row.last_mut() {
            *last = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("magika", "magica", 1),
            ("kitten", "sitting", 3),
            ("ocr-det", "orc-det", 2),
            ("abcdef", "bcdefa", 2),
        ] {
            assert_eq!(edit_distance(a.as_bytes(), b.as_bytes()), edits, "{a} {b}");
            assert_eq!(edit_distance(b.as_bytes(), a.as_bytes()), edits, "{b} {a}");
        }
    }
}
