//! The lines of a knowledge file as they are written.
//!
//! Invariant: a line has exactly the members named here; a change of any of them raises the version of the format.

use serde::{Deserialize, Serialize};
use siliconroute_core::model::{Family, OperatorClass};
use siliconroute_core::{CaseId, ChipKind, ElementType, ModelId, Workload};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Knowledge(Head),
    Chip(Chip),
    Case(Case),
    Time(Time),
    End(End),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) schema: String,
    pub(super) program_version: String,
    pub(super) exported_unix_day: i64,
    pub(super) hardware_id: String,
    pub(super) os: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chip {
    #[serde(rename = "chip")]
    pub(super) number: u32,
    pub(super) kind: ChipKind,
    pub(super) vendor: String,
    pub(super) name: String,
    pub(super) ids: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) logical_cores: Option<u32>,
    pub(super) memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    #[serde(rename = "case")]
    pub(super) id: CaseId,
    pub(super) model: ModelId,
    pub(super) inputs: Vec<Input>,
    pub(super) batch: u64,
    pub(super) family: Family,
    pub(super) parameters: u64,
    pub(super) weight_bytes: u64,
    pub(super) nodes: u64,
    pub(super) flops: f64,
    pub(super) activation_bytes: f64,
    pub(super) by_class: Vec<Class>,
    pub(super) facts_version: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) element: ElementType,
    pub(super) shape: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Class {
    #[serde(rename = "class")]
    pub(super) of: OperatorClass,
    pub(super) nodes: u64,
    pub(super) flops: f64,
    pub(super) bytes: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Time {
    pub(super) chip: u32,
    pub(super) provider: String,
    pub(super) target: String,
    pub(super) library_version: String,
    pub(super) driver: Option<String>,
    pub(super) case: CaseId,
    pub(super) workload: Workload,
    pub(super) unix_day: i64,
    pub(super) samples: u64,
    pub(super) median_ns: f64,
    pub(super) ci95_ns: Option<[f64; 2]>,
    pub(super) min_ns: f64,
    pub(super) max_ns: f64,
    pub(super) session_create_ns: u64,
    pub(super) first_run_ns: u64,
    pub(super) peak_resident_bytes: Option<u64>,
    pub(super) outputs: Option<Outputs>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outputs {
    pub(super) max_relative_error: f64,
    pub(super) same_top1: bool,
    pub(super) reference_magnitude: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// Lines before this one.
    pub(super) lines: u64,
    /// Of the bytes before this line, in hexadecimal.
    pub(super) sha256: String,
}
