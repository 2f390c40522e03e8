//! A counter of energy that starts again at zero when it is full.
//!
//! Invariant: the total never falls; what cannot be explained by one turn of the counter is a reason.

use crate::reading::Reading;

/// Follows a counter over its turns.
///
/// It must be read at least once in each turn; a counter of 32 bits in units of 15.3 µJ turns in 11 minutes at 100 W.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterTrack {
    last: Option<u64>,
    total: u64,
    wraps_at: Option<u64>,
}

impl CounterTrack {
    /// A counter that starts again at zero after `wraps_at`; `None` for one that never does.
    pub fn new(wraps_at: Option<u64>) -> Self {
        Self { last: None, total: 0, wraps_at }
    }

    /// What was counted since the first reading, in the counter's unit, once `raw` is read.
    ///
    /// Unavailable where the counter went back without having been full, as after its driver was loaded anew; it
    /// counts on from there.
    pub fn advance(&mut self, raw: Reading<u64>) -> Reading<u64> {
        raw.and_then(|raw| {
            let last = self.last.replace(raw).unwrap_or(raw);
            let grown = raw.checked_sub(last).or_else(|| {
                // From the last value to the end, and from zero to this one: in all less than one half turn.
                let full = self.wraps_at?;
                full.checked_sub(last)?.checked_add(raw).filter(|grown| *grown <= full / 2)
            });
            match grown {
                Some(grown) => {
                    self.total = self.total.saturating_add(grown);
                    Reading::Available(self.total)
                }
                None => Reading::unavailable("the counter went back"),
            }
        })
    }
}
