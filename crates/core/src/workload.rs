//! The workloads that are told apart and the goals that a user may have.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// In what state a target is when an inference reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Warm: one inference after the other.
    Sustained,
    /// The session is alive, the device has rested.
    IdleLoaded,
    /// A new session and its first inference.
    ColdStart,
}

impl Workload {
    /// All workloads, in their usual order.
    pub const ALL: [Self; 3] = [Self::Sustained, Self::IdleLoaded, Self::ColdStart];

    /// A session that has rested this long is at rest; one that has rested less is still running.
    ///
    /// It is the shortest rest that waking is measured after: clocks, caches and spinning threads of a target that
    /// paused for less are nearer to those of one that did not pause than to those after the usual rest of 10 s.
    pub const REST_FROM: Duration = Duration::from_millis(500);

    /// The workload that a run is in, or would be in.
    ///
    /// `rested` is the time since the end of the session's last run; `None` where it has not run yet, since the first run
    /// of a session belongs to its cold start.
    pub fn inferred(session_alive: bool, rested: Option<Duration>) -> Self {
        match rested {
            Some(rested) if session_alive => {
                if rested < Self::REST_FROM {
                    Self::Sustained
                } else {
                    Self::IdleLoaded
                }
            }
            _ => Self::ColdStart,
        }
    }

    /// Position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::IdleLoaded => "idle_loaded",
            Self::ColdStart => "cold_start",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the user wants most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The least time per inference.
    #[default]
    Fastest,
    /// The least energy per inference.
    Battery,
    /// Half the time and half the energy, each as a share of the best target's.
    Balanced,
    /// The least time, where the time on a hot chip counts as longer.
    Cool,
}

impl Goal {
    /// All goals, in their usual order.
    pub const ALL: [Self; 4] = [Self::Fastest, Self::Battery, Self::Balanced, Self::Cool];
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fastest => "fastest",
            Self::Battery => "battery",
            Self::Balanced => "balanced",
            Self::Cool => "cool",
        })
    }
}

#[cfg(test)]
mod tests;
