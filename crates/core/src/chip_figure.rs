//! What a chip was measured to be capable of: bandwidth by memory level, peak throughput, dispatch overhead.
//!
//! Invariant: a figure keeps its raw samples and the version of the method that measured it; a bound for a model, never
//! a promise.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChipQuantity {
    /// Bytes read per second.
    ReadBandwidth,
    /// Single-precision operations per second, from registers.
    PeakThroughput,
    /// Seconds to hand work to a pool of threads and have it back.
    DispatchOverhead,
}

impl ChipQuantity {
    /// The unit of the values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::ReadBandwidth => "B/s",
            Self::PeakThroughput => "FLOP/s",
            Self::DispatchOverhead => "s",
        }
    }
}

impl fmt::Display for ChipQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadBandwidth => "read bandwidth",
            Self::PeakThroughput => "peak throughput",
            Self::DispatchOverhead => "dispatch overhead",
        })
    }
}

/// Where the bytes lie that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum MemoryLevel {
    L1,
    L2,
    L3,
    Memory,
}

impl fmt::Display for MemoryLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Memory => "memory",
        })
    }
}

/// One figure of a chip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChipFigure {
    /// What it is of.
    pub quantity: ChipQuantity,
    /// Where the bytes lay, for a bandwidth.
    pub level: Option<MemoryLevel>,
    /// Bytes of the working set of all threads together, for a bandwidth.
    pub working_set_bytes: Option<u64>,
    /// The number of threads.
    pub threads: u32,
    /// The value, in the unit of the quantity.
    pub value: f64,
    /// The samples that the value comes from, in the same unit and in order of time.
    pub samples: Vec<f64>,
    /// The version of the method.
    pub method: u32,
}
