//! Finds the settings of threads under which one model runs fastest, by sessions that take turns.
//!
//! Invariant: pure; what is measured comes in through [`Arena`], so that the search can be tested on simulated
//! processors. Settings replace those before them only for a gain that is worth it: without one the defaults stay.
//!
//! Reading order: `space` (what is tried), `contest` (who wins a series of rounds), `search`.

mod contest;
mod search;
mod space;

use serde::{Deserialize, Serialize};

pub use contest::{Fate, LEAST_GAIN};
pub use search::{BATTERY_MARGIN, Found, Tried, search, sweep};
pub use space::{Knobs, Processor, Space};

use crate::target::CpuSettings;

/// What tuning is to find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningGoal {
    /// The least time per inference.
    #[default]
    Fastest,
    /// The least processor time per inference, what waiting threads burn after it included, among the settings that
    /// are hardly slower than the fastest.
    Battery,
}

impl TuningGoal {
    /// The goal of that name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "fastest" => Some(Self::Fastest),
            "battery" => Some(Self::Battery),
            _ => None,
        }
    }
}

impl std::fmt::Display for TuningGoal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fastest => "fastest",
            Self::Battery => "battery",
        })
    }
}

/// One turn of a session: some calls in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// The median time of a call, in nanoseconds.
    pub call_ns: f64,
    /// CPUs that the session kept busy; absent where the system does not tell.
    pub busy_cores: Option<f64>,
    /// How long the turn took, in nanoseconds.
    pub wall_ns: f64,
}

/// Where sessions with different settings live side by side.
pub trait Arena {
    /// What ends the search.
    type Error;

    /// How many sessions may live at once; at least 2.
    fn room(&self) -> usize;

    /// Brings a session with these settings to life; the inner error says why the engine refuses it.
    ///
    /// # Errors
    /// What ends the search.
    fn open(&mut self, settings: &CpuSettings) -> Result<Result<(), String>, Self::Error>;

    /// Gives an open session its turn; the inner error says how it failed.
    ///
    /// # Errors
    /// What ends the search.
    fn turn(&mut self, settings: &CpuSettings, round: u32) -> Result<Result<Turn, String>, Self::Error>;

    /// Processor time that an open session uses after a call while it has nothing to do, in nanoseconds; absent where
    /// the system does not tell.
    ///
    /// # Errors
    /// What ends the search.
    fn idle_cpu_ns(&mut self, settings: &CpuSettings) -> Result<Option<f64>, Self::Error>;

    /// Ends a session.
    fn close(&mut self, settings: &CpuSettings);
}

#[cfg(test)]
mod tests;
