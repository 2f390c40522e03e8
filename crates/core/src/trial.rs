//! One target × case × workload measured under one set of conditions, and what came of it.
//!
//! Invariant: a trial keeps its raw samples; whatever is derived from them names its method.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::accuracy::{OutputDifference, OutputFault};
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
    /// Wall time of all calls.
    pub total_ns: u64,
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
}

impl Purpose {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learn => "learn",
            Self::Verify => "verify",
            Self::Bench => "bench",
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
    /// Which nodes ran where.
    pub placement: Reading<Placement>,
    /// The check of the outputs.
    pub outputs: OutputCheck,
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
    /// What was measured, or why nothing was.
    pub outcome: Result<Measurement, Failure>,
}
