//! What the processors did while a trial ran: its own work, that of others, and time that was stolen.
//!
//! Invariant: counters that ran backwards or do not fit together give a reason, not a number.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// Share of the machine, taken by others or stolen, from which on a trial counts as disturbed.
const DISTURBING: f64 = 0.05;

/// Time of all processors together since the machine started, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Spent on any work.
    pub busy_s: f64,
    /// Spent on nothing.
    pub idle_s: f64,
    /// Taken by the hypervisor for other machines; absent where the system does not count it.
    pub stolen_s: Option<f64>,
}

/// Load during a trial, in processors: 1.5 is one and a half processors busy all of the time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadSeen {
    /// Work of the measured process.
    pub own: f64,
    /// Work of everything else.
    pub others: f64,
    /// Time taken by the hypervisor; absent where the system does not count it.
    pub stolen: Option<f64>,
    /// Processors of the machine, as the sum of all counters has it.
    pub processors: f64,
    /// Whether others and the hypervisor took more than 5 % of the machine.
    pub disturbed: bool,
}

impl LoadSeen {
    /// The load between two readings of the counters, of which the measured process spent `own_s` seconds of
    /// processor time in `wall_s` seconds.
    pub fn between(before: &CpuTimes, after: &CpuTimes, own_s: f64, wall_s: f64) -> Reading<Self> {
        let stolen_s = after.stolen_s.zip(before.stolen_s).map(|(after, before)| after - before);
        let (busy_s, idle_s) = (after.busy_s - before.busy_s, after.idle_s - before.idle_s);
        let total_s = busy_s + idle_s + stolen_s.unwrap_or(0.0);
        if !(wall_s > 0.0 && total_s > 0.0 && own_s >= 0.0 && total_s.is_finite() && own_s.is_finite()) {
            return Reading::unavailable("the processor counters did not move during the trial");
        }
        if busy_s < 0.0 || idle_s < 0.0 || stolen_s.is_some_and(|stolen| stolen < 0.0) {
            return Reading::unavailable("a processor counter ran backwards during the trial");
        }
        // The counters of the process and of the system tick apart, so the difference may dip below 0.
        let others_s = (busy_s - own_s).max(0.0);
        Reading::Available(Self {
            own: own_s / wall_s,
            others: others_s / wall_s,
            stolen: stolen_s.map(|stolen| stolen / wall_s),
            processors: total_s / wall_s,
            disturbed: others_s + stolen_s.unwrap_or(0.0) > DISTURBING * total_s,
        })
    }
}
