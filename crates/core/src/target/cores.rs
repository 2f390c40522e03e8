//! Which logical CPUs the threads of a session may run on, as a target's key writes it.
//!
//! Invariant: a list is ascending, without doubles and not empty, so that one set of CPUs has one text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers of logical CPUs lie below this.
const LIMIT: u32 = 1024;

/// Logical CPUs: those of one design, by name, or a list of the system's own numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Cores {
    /// The fast cores of a processor whose cores differ.
    Performance,
    /// The slow cores of a processor whose cores differ.
    Efficiency,
    /// These, by the numbers that the system gives them.
    Listed(Vec<u32>),
}

/// A text that names no logical CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither `performance`, `efficiency` nor a list of CPUs such as 0-3:6")]
pub struct NoCores(String);

impl Cores {
    /// The CPUs with these numbers; `None` for an empty list or a number of 1024 and more.
    pub fn listed(mut cpus: Vec<u32>) -> Option<Self> {
        cpus.sort_unstable();
        cpus.dedup();
        cpus.last().is_some_and(|&last| last < LIMIT).then_some(Self::Listed(cpus))
    }

    /// Reads `performance`, `efficiency`, or numbers and ranges with colons between them, such as `0-3:6`.
    ///
    /// # Errors
    /// When the text is none of these.
    pub fn parse(text: &str) -> Result<Self, NoCores> {
        match text {
            "performance" => return Ok(Self::Performance),
            "efficiency" => return Ok(Self::Efficiency),
            _ => {}
        }
        let number = |text: &str| {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|&number| plain && number < LIMIT)
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(':').map(range).collect();
        ranges
            .and_then(|ranges| Self::listed(ranges.into_iter().flatten().collect()))
            .ok_or_else(|| NoCores(text.to_owned()))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = match self {
            Self::Performance => return f.write_str("performance"),
            Self::Efficiency => return f.write_str("efficiency"),
            Self::Listed(cpus) => cpus,
        };
        for (index, run) in cpus.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            match run {
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [only] => write!(f, "{separator}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl From<Cores> for String {
    fn from(cores: Cores) -> Self {
        cores.to_string()
    }
}

impl TryFrom<String> for Cores {
    type Error = NoCores;

    fn try_from(text: String) -> Result<Self, NoCores> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_of_cpus_has_one_text() {
        #[track_caller]
        fn check(text: &str, canonical: &str) {
            let cores = Cores::parse(text).unwrap();
            assert_eq!(cores.to_string(), canonical);
            assert_eq!(Cores::parse(canonical).unwrap(), cores);
        }
        check("performance", "performance");
        check("efficiency", "efficiency");
        check("0", "0");
        check("0:1", "0-1");
        check("6:0-3", "0-3:6");
        check("4:2:2-3:8-8", "2-4:8");
        check("1023", "1023");
    }

    #[test]
    fn what_names_no_cpus_is_refused() {
        for text in ["", "-", "3-1", "1024", "0-4294967295", "1,2", "+1", "a", "0:", "fast", "-1"] {
            assert!(Cores::parse(text).is_err(), "{text}");
        }
        assert_eq!(Cores::listed(Vec::new()), None);
    }
}
