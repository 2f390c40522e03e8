//! How many sessions a comparison takes.
//!
//! Invariant: the number follows from how far sessions differ and never from which target leads, so that taking more
//! of them favours neither verdict.

use super::comparison::{Comparison, SIGNIFICANCE};
use super::student;

/// Chance to miss the difference that a plan aims at, were the spread between sessions the one seen so far. Stricter
/// than the one in ten that is promised, since a spread seen in few sessions may be too small by chance.
const MISS: f64 = 0.05;

/// Which difference a comparison is to find, and how many sessions it may take for that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Replication {
    /// The smallest difference that matters, as a share: 0.05 for a target that takes 5 % longer.
    pub difference: f64,
    /// Sessions before the first look at their spread.
    pub least: usize,
    /// Sessions after which the comparison ends in any case.
    pub most: usize,
}

impl Default for Replication {
    fn default() -> Self {
        Self { difference: 0.05, least: 8, most: 32 }
    }
}

impl Replication {
    /// How many more sessions to take before asking again; 0 where `comparison` has enough.
    ///
    /// Not all that are missing at once, since each further session makes the spread better known.
    pub fn more(&self, comparison: &Comparison) -> usize {
        (self.sessions(comparison) - comparison.sessions).min(self.least / 2)
    }

    /// How many sessions `comparison` should have in all, given the spread between those that it has.
    ///
    /// The smallest n for which `spread ÷ √n` times the t of a verdict plus the t of the miss is within the
    /// difference: the sample size of a t test whose variance comes from a first stage (Stein, "A Two-Sample Test for a
    /// Linear Hypothesis Whose Power is Independent of the Variance", Annals of Mathematical Statistics 16, 1945). At
    /// least [`Self::least`], at most [`Self::most`], and never fewer than there are.
    pub fn sessions(&self, comparison: &Comparison) -> usize {
        let have = comparison.sessions.max(self.least);
        let Some(spread) = comparison.session_spread else { return have };
        let enough = |&sessions: &usize| {
            let degrees = sessions.saturating_sub(1);
            let both = student::critical(1.0 - SIGNIFICANCE, degrees)
                .zip(student::critical(1.0 - 2.0 * MISS, degrees));
            both.is_some_and(|(verdict, miss)| {
                (verdict + miss) * spread / (sessions as f64).sqrt() <= self.difference.ln_1p()
            })
        };
        (have..self.most).find(enough).unwrap_or(self.most).max(have)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{PairedRound, compare_paired};

    /// A comparison of sessions whose ratios alternate by `spread` around 1.
    fn comparison(sessions: u32, spread: f64) -> Comparison {
        let times: Vec<f64> = (0..sessions)
            .map(|session| if session % 2 == 0 { spread.exp() } else { (-spread).exp() })
            .collect();
        let rounds: Vec<PairedRound<'_>> = times
            .iter()
            .zip(0..)
            .map(|(time, session)| PairedRound { session, first: std::slice::from_ref(time), second: &[1.0] })
            .collect();
        compare_paired(&rounds).unwrap()
    }

    #[test]
    fn calm_sessions_are_enough_and_wild_ones_ask_for_more() {
        let plan = Replication::default();
        assert_eq!(plan.sessions(&comparison(8, 0.0)), 8);
        assert_eq!(plan.sessions(&comparison(8, 0.02)), 8);
        let some_more = plan.sessions(&comparison(8, 0.04));
        assert!((12..=20).contains(&some_more), "{some_more}");
        assert_eq!(plan.sessions(&comparison(8, 0.5)), 32);
    }

    #[test]
    fn sessions_that_were_taken_are_never_too_many() {
        let plan = Replication::default();
        assert_eq!(plan.sessions(&comparison(10, 0.0)), 10);
        assert_eq!(plan.sessions(&comparison(40, 0.5)), 40);
    }

    #[test]
    fn an_unknown_spread_asks_for_the_least() {
        assert_eq!(Replication::default().sessions(&comparison(1, 0.0)), 8);
    }
}
