//! What the library tells while it works.
//!
//! Invariant: events inform and never steer; a listener that drops them all changes no result.

use std::time::Duration;

/// A stage of the main job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking at the machine.
    Machine,
    /// Finding the threads that suit the machine, or a model.
    Tuning,
    /// Installing engine packages.
    Packages,
    /// Finding and proving targets.
    Targets,
    /// Seeing which chip answers to a target.
    Identifying,
    /// Fetching models.
    Models,
    /// Measuring to learn.
    Learning,
    /// Fitting hardware models.
    Fitting,
    /// Checking decisions against new measurements.
    Checking,
    /// Deciding on machines that are simulated, or that others measured.
    Evaluating,
}

impl Stage {
    /// The stage in a word or two.
    pub fn title(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Tuning => "tuning",
            Self::Packages => "packages",
            Self::Targets => "targets",
            Self::Identifying => "identifying",
            Self::Models => "models",
            Self::Learning => "measuring",
            Self::Fitting => "fitting",
            Self::Checking => "self-check",
            Self::Evaluating => "evaluation",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A stage begins; `steps` says how many steps it has, where that is known.
    Begin {
        /// The stage.
        stage: Stage,
        /// Number of steps.
        steps: Option<u64>,
    },
    /// A step of the current stage begins.
    Step(String),
    /// A step of the current stage is done.
    StepDone,
    /// How long the rest of the current stage is expected to take.
    Remaining(Duration),
    /// Bytes of a download.
    Bytes {
        /// So far.
        done: u64,
        /// In all.
        total: u64,
    },
    /// The current stage is over, with what came of it.
    End(String),
    /// Something that the user should know, though the work goes on.
    Notice(String),
}

/// Receives events.
pub trait Listener {
    /// Takes an event.
    fn event(&mut self, event: Event);
}

/// Drops all events.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Listener for Silent {
    fn event(&mut self, _event: Event) {}
}
