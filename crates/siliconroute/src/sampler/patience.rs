//! When a sensor that fails is asked again.
//!
//! Invariant: pure, over the time that it is given; a sensor that tells anything is asked with every look.

use std::time::Duration;

/// Looks in a row without an answer after which a sensor is left alone for a while. What is counted needs two.
const BLANKS: u32 = 3;

/// The first pause, and the longest: each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// How a sensor fares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Patience {
    blanks: u32,
    pause: Option<Duration>,
    again: Option<Duration>,
}

/// What to do about a sensor at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Ask it.
    Ask,
    /// Open it anew, then ask it.
    Reopen,
    /// Leave it alone.
    Wait,
}

impl Patience {
    /// What to do at `now`.
    pub(super) fn turn(&mut self, now: Duration) -> Turn {
        match self.again {
            None => Turn::Ask,
            Some(again) if now < again => Turn::Wait,
            Some(_) => {
                (self.again, self.blanks) = (None, 0);
                Turn::Reopen
            }
        }
    }

    /// Takes note of whether the sensor told anything at `now`.
    pub(super) fn saw(&mut self, now: Duration, anything: bool) {
        if anything {
            *self = Self::default();
            return;
        }
        self.blanks += 1;
        if self.blanks >= BLANKS {
            let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
            (self.pause, self.again) = (Some(pause), Some(now + pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_end_with_the_first_answer() {
        let seconds = Duration::from_secs;
        let (mut patience, mut now, mut pauses) = (Patience::default(), seconds(0), Vec::new());
        let mut pause = 0;
        while pauses.len() < 9 {
            match patience.turn(now) {
                Turn::Wait => {
                    pause += 1;
                    now += seconds(1);
                }
                turn => {
                    if turn == Turn::Reopen {
                        pauses.push(std::mem::take(&mut pause));
                    }
                    patience.saw(now, false);
                }
            }
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        patience.saw(now, true);
        assert_eq!((patience, patience.turn(now)), (Patience::default(), Turn::Ask));
    }

    #[test]
    fn two_blank_looks_are_no_failure() {
        let mut patience = Patience::default();
        for answers in [false, false, true, false, false] {
            assert_eq!(patience.turn(Duration::ZERO), Turn::Ask);
            patience.saw(Duration::ZERO, answers);
        }
        assert_eq!(patience.turn(Duration::ZERO), Turn::Ask);
    }
}
