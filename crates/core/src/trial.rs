//! One target × case × workload measured under one set of conditions, and what came of it.
//!
//! Invariant: a trial keeps its raw samples; whatever is derived from them names its method.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::accuracy::{OutputDifference, OutputFault};
use crate::energy::{EnergyRun, NOT_MEASURED};
use crate::identity::CaseId;
use crate::reading::Reading;
use crate::target::TargetKey;
use crate::workload::Workload;

/// One timing: the same call repeated `calls` times without a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The interleaving round in which the sample was taken, from 0.
    pub round: u32,
    /// How many calls the timing spans.
    pub calls: u32,
    /// Wall time of all calls; for a cold start, of session creation and first inference.
    pub total_ns: u64,
    /// In what state the target was before.
    pub before: Before,
}

/// In what state the target was before a sample, as its workload has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// Running: other calls of the same session came right before.
    #[default]
    Running,
    /// Resting, its session alive.
    Resting {
        /// Time since the session's last call, in nanoseconds.
        gap_ns: u64,
        /// Time since any target of the campaign worked, in nanoseconds; absent where nobody kept it, as in trials whose
        /// targets ran one right after the other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine_gap_ns: Option<u64>,
        /// How many inferences on other targets ran since, which may have evicted this one's caches.
        others: u32,
    },
    /// Not there: the worker process was started for the sample.
    Absent(ColdStart),
}

/// The parts of a cold start, in nanoseconds of wall time, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdStart {
    /// Time since the target's last work.
    pub gap_ns: u64,
    /// From the wish to start a process until it asked for its orders, its library not yet loaded.
    pub process_ns: u64,
    /// Loading the engine's library and registering its providers.
    pub library_ns: u64,
    /// Creating the session.
    pub session_ns: u64,
    /// The first inference.
    pub first_run_ns: u64,
    /// Copying the first outputs to where a caller can read them.
    pub first_output_ns: u64,
    /// Whether the model and the libraries lay in the system's file cache.
    pub files: FileCache,
}

/// Whether files that are about to be read lie in the system's file cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileCache {
    /// They were read shortly before.
    Warm,
    /// They were dropped from it, which was checked.
    Dropped,
}

/// How a trial meant its target to be before each sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preparation {
    /// Warmed up and running, as `sustained` has it.
    #[default]
    Running,
    /// At rest for this long, its session alive, as `idle_loaded` has it.
    Rested {
        /// The rest, in nanoseconds.
        gap_ns: u64,
    },
    /// Not loaded, as `cold_start` has it.
    Absent {
        /// The rest before, in nanoseconds.
        gap_ns: u64,
        /// Where its files lay.
        files: FileCache,
    },
}

impl Preparation {
    /// The rest before an idle-loaded sample that stands for the workload: 10 s.
    pub const USUAL_REST: Self = Self::Rested { gap_ns: 10_000_000_000 };

    /// Whether trials prepared like this say how fast a target is in its workload, rather than how that changes
    /// with the rest or the file cache.
    pub fn is_usual(self) -> bool {
        match self {
            Self::Running | Self::Absent { files: FileCache::Warm, .. } => true,
            Self::Rested { .. } => self == Self::USUAL_REST,
            Self::Absent { files: FileCache::Dropped, .. } => false,
        }
    }
}

impl fmt::Display for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Rested { gap_ns } => write!(f, "rested {} s", *gap_ns as f64 / 1e9),
            Self::Absent { files, .. } => write!(f, "files {}", files.name()),
        }
    }
}

impl FileCache {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Dropped => "dropped",
        }
    }
}

impl Sample {
    /// Mean wall time of one call of the sample.
    pub fn per_call_ns(&self) -> f64 {
        self.total_ns as f64 / f64::from(self.calls.max(1))
    }
}

/// Why a trial was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To learn how fast the target is.
    Learn,
    /// To check a decision against the truth.
    Verify,
    /// Because the user asked for a benchmark.
    Bench,
    /// None of its own: its samples are runs that users asked for.
    Served,
}

impl Purpose {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learn => "learn",
            Self::Verify => "verify",
            Self::Bench => "bench",
            Self::Served => "served",
        }
    }
}

/// Which nodes of the model ran where, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Nodes that ran on the target's provider.
    pub on_target: u64,
    /// Nodes that fell back, by the provider that took them.
    pub fallback: BTreeMap<String, u64>,
}

impl Placement {
    /// All nodes that were placed.
    pub fn nodes(&self) -> u64 {
        self.on_target + self.fallback.values().sum::<u64>()
    }

    /// Whether no node at all ran on the target.
    pub fn is_full_fallback(&self) -> bool {
        self.on_target == 0 && !self.fallback.is_empty()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes on the target", self.on_target, self.nodes())?;
        for (provider, nodes) in &self.fallback {
            write!(f, ", {nodes} on {provider}")?;
        }
        Ok(())
    }
}

/// What the check of a target's outputs found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "check")]
pub enum OutputCheck {
    /// This target is the reference itself.
    Reference,
    /// Outputs were compared with the reference's on the same seeded input.
    Compared {
        /// The target that gave the reference.
        reference: TargetKey,
        /// How far the outputs lie apart.
        difference: OutputDifference,
    },
    /// The outputs cannot be right.
    Faulty {
        /// The target that gave the reference.
        reference: TargetKey,
        /// What is wrong.
        fault: OutputFault,
    },
    /// There was nothing to compare with.
    NotCompared {
        /// Why.
        reason: String,
    },
}

/// Kinds of failures of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The engine or provider refused the model or its input with an error.
    Refused,
    /// The worker process died.
    Crashed,
    /// The deadline passed and the worker process was ended.
    TimedOut,
    /// The worker process used more memory than it was allowed.
    MemoryExceeded,
    /// Every node ran elsewhere, so the time would not be this target's.
    FellBack,
}

impl FailureKind {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Crashed => "crashed",
            Self::TimedOut => "timed_out",
            Self::MemoryExceeded => "memory_exceeded",
            Self::FellBack => "fell_back",
        }
    }

    /// Whether the next try may go well: a worker died, hung or ran out of memory. The others are answers, which
    /// the same version of a provider gives again.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Crashed | Self::TimedOut | Self::MemoryExceeded => true,
            Self::Refused | Self::FellBack => false,
        }
    }
}

/// Why a trial gave no measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {detail}", kind.name())]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened, in one line.
    pub detail: String,
}

impl Failure {
    /// Joins a kind with its detail.
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

/// What a trial measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Wall time to create the session.
    pub session_create_ns: u64,
    /// Wall time of the first inference.
    pub first_run_ns: u64,
    /// Calls made before the first sample.
    pub warmup_calls: u64,
    /// The raw timings, in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// Processor time that the process used per second of wall time while it sampled.
    pub busy_cores: Reading<f64>,
    /// The most memory that the process held.
    pub peak_resident_bytes: Reading<u64>,
    /// How much the process's resident memory grew by the session: creation and first inference.
    pub session_bytes: Reading<u64>,
    /// Memory of the chip that the process held, for chips with memory of their own.
    pub device_bytes: Reading<u64>,
    /// Which nodes ran where.
    pub placement: Reading<Placement>,
    /// The check of the outputs.
    pub outputs: OutputCheck,
    /// What meters of energy read while the target rested and while it worked.
    #[serde(default = "not_measured")]
    pub energy: Reading<EnergyRun>,
}

fn not_measured() -> Reading<EnergyRun> {
    Reading::unavailable(NOT_MEASURED)
}

/// A trial as it goes into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The target that was measured.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// How the target was before each sample.
    pub preparation: Preparation,
    /// Why the trial was made.
    pub purpose: Purpose,
    /// When it began, in milliseconds since 1970 UTC.
    pub started_unix_ms: i64,
    /// Seed of the order of trials.
    pub order_seed: u64,
    /// Seed of the input values.
    pub input_seed: u64,
    /// The conditions it was taken under, as a JSON document.
    pub conditions: String,
    /// Why the trial may be of another chip than its target says, or disturbed beyond use; such a trial is kept
    /// and teaches nothing.
    pub suspect: Option<String>,
    /// What was measured, or why nothing was.
    pub outcome: Result<Measurement, Failure>,
}
