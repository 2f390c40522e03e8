//! Batch sizes as the user writes them: lists and ranges.
//!
//! Invariant: sizes come out in the order in which they were written, none twice and none of them 0.

use siliconroute::Error;

/// The most batch sizes that one benchmark takes.
const MOST: usize = 256;

/// Reads words such as `8`, `1-4`, `8-32+8` and `1-64*2`.
pub(super) fn parse(words: &[String]) -> Result<Vec<u64>, Error> {
    let mut sizes: Vec<u64> = Vec::new();
    for word in words {
        let refuse = |why: &str| {
            Error::Usage(format!(
                "--batch `{word}` is no batch size: {why}; write 8, 1-4, 8-32+8 (in steps) or 1-64*2 (in factors)"
            ))
        };
        let number = |text: &str| match text.trim().parse::<u64>() {
            Ok(0) => Err(refuse("batch 0 holds nothing to compute; the least batch is 1")),
            Ok(number) => Ok(number),
            Err(_) => Err(refuse("it is no whole number")),
        };
        let (range, step) = match word.split_once(['+', '*']) {
            None => (word.as_str(), Step::Add(1)),
            Some((range, by)) if word.contains('+') => (range, Step::Add(number(by)?)),
            Some((range, by)) => match number(by)? {
                1 => return Err(refuse("a factor of 1 never reaches the end")),
                factor => (range, Step::Multiply(factor)),
            },
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if range.len() < word.len() => return Err(refuse("a step needs a range")),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(refuse("the range ends before it begins"));
        }
        let mut size = Some(first);
        while let Some(next) = size.filter(|&size| size <= last) {
            if !sizes.contains(&next) {
                sizes.push(next);
            }
            if sizes.len() > MOST {
                return Err(refuse("there are more than 256 sizes"));
            }
            size = match step {
                Step::Add(by) => next.checked_add(by),
                Step::Multiply(by) => next.checked_mul(by),
            };
        }
    }
    Ok(sizes)
}

#[derive(Clone, Copy)]
enum Step {
    Add(u64),
    Multiply(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[u64], &str>) {
        let words: Vec<String> = text.split(',').map(str::to_owned).collect();
        match (parse(&words), expected) {
            (Ok(sizes), Ok(expected)) => assert_eq!(sizes, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn lists_and_ranges_are_spelled_out() {
        check("1,8,32", Ok(&[1, 8, 32]));
        check("1-4", Ok(&[1, 2, 3, 4]));
        check("8-32+8,2", Ok(&[8, 16, 24, 32, 2]));
        check("1-64*4,4", Ok(&[1, 4, 16, 64]));
        check("3-3", Ok(&[3]));
    }

    #[test]
    fn what_is_no_size_is_named() {
        check("0", Err("batch 0"));
        check("x", Err("`x` is no batch size"));
        check("4-1", Err("ends before it begins"));
        check("1-8*1", Err("never reaches"));
        check("8*2", Err("needs a range"));
        check("1-100000", Err("more than 256"));
        check("-1", Err("no whole number"));
    }
}
