//! SPDX licence expressions: `AND`, `OR`, `WITH`, parentheses, and the older `/` for `OR`.
//!
//! Invariant: `OR` binds weakest, then `AND`, then `WITH` (SPDX 2.3, annex D); no input recurses deeper than
//! `DEEPEST`.

use anyhow::{Result, bail};

const DEEPEST: usize = 16;

/// Returns whether a choice allowed by `expression` uses only licences for which `allowed` holds.
///
/// # Errors
///
/// Fails on text that is not such an expression.
pub(crate) fn is_satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let satisfied = parser.any(0)?;
    match parser.words.first() {
        None => Ok(satisfied),
        Some(word) => bail!("unexpected `{word}`"),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn any(&mut self, depth: usize) -> Result<bool> {
        let mut satisfied = self.all(depth)?;
        while self.takes("OR") {
            satisfied |= self.all(depth)?;
        }
        Ok(satisfied)
    }

    fn all(&mut self, depth: usize) -> Result<bool> {
        let mut satisfied = self.one(depth)?;
        while self.takes("AND") {
            satisfied &= self.one(depth)?;
        }
        Ok(satisfied)
    }

    fn one(&mut self, depth: usize) -> Result<bool> {
        if depth > DEEPEST {
            bail!("more than {DEEPEST} nested parentheses");
        }
        if self.takes("(") {
            let satisfied = self.any(depth + 1)?;
            if !self.takes(")") {
                bail!("a parenthesis is not closed");
            }
            return Ok(satisfied);
        }
        let licence = self.name()?;
        if self.takes("WITH") {
            let exception = self.name()?;
            return Ok((self.allowed)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.allowed)(licence))
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.words.split_first() {
            Some((word, rest)) if !["AND", "OR", "WITH", "(", ")"].contains(word) => {
                self.words = rest;
                Ok(word)
            }
            Some((word, _)) => bail!("`{word}` stands where a licence should"),
            None => bail!("a licence is missing at the end"),
        }
    }

    fn takes(&mut self, expected: &str) -> bool {
        match self.words.split_first() {
            Some((word, rest)) if *word == expected => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}
