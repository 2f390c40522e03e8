//! What the router chooses among: a provider on a chip with fixed options.
//!
//! Invariant: a target's key is stable text; the same configuration has the same key on every start.

mod cores;
mod settings;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chip::{ChipKey, ChipKind};

pub use cores::Cores;
pub use settings::{CpuSettings, RefusedSetting, SessionSettings, UnknownSessionSetting};

/// The short name of a provider, such as `ort`, `rten`, `openvino`, `dml`.
///
/// `ort` is ONNX Runtime's own CPU provider; the other ONNX Runtime providers go by their usual names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderName(pub String);

/// ONNX Runtime's registered names and the short names used here.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("CPUExecutionProvider", "ort"),
    ("DmlExecutionProvider", "dml"),
    ("CUDAExecutionProvider", "cuda"),
    ("TensorrtExecutionProvider", "tensorrt"),
    ("NvTensorRTRTXExecutionProvider", "nv_tensorrt_rtx"),
    ("OpenVINOExecutionProvider", "openvino"),
    ("QNNExecutionProvider", "qnn"),
    ("CoreMLExecutionProvider", "coreml"),
    ("MIGraphXExecutionProvider", "migraphx"),
    ("VitisAIExecutionProvider", "vitisai"),
    ("WebGpuExecutionProvider", "webgpu"),
    ("XnnpackExecutionProvider", "xnnpack"),
    ("ggml", "ggml"),
];

impl ProviderName {
    /// Takes a short name as it is and shortens ONNX Runtime's registered names.
    pub fn parse(text: &str) -> Self {
        let short = SHORT_NAMES.iter().find(|(long, _)| long.eq_ignore_ascii_case(text)).map_or_else(
            || text.trim_end_matches("ExecutionProvider").to_ascii_lowercase(),
            |(_, short)| (*short).to_owned(),
        );
        Self(short)
    }

    /// The short name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The stable text of a target: `chip/provider`, with `-variant` where options differ from the plain ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetKey(pub String);

impl TargetKey {
    /// Joins the parts of a key.
    pub fn new(chip: &ChipKey, provider: &ProviderName, variant: Option<&str>) -> Self {
        let suffix = variant.map(|v| format!("-{v}")).unwrap_or_default();
        Self(format!("{chip}/{provider}{suffix}"))
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key without session settings.
    pub fn base(&self) -> &str {
        self.0.split('+').next().unwrap_or_default()
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A provider on a chip with fixed options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The stable key.
    pub key: TargetKey,
    /// The provider that runs the model.
    pub provider: ProviderName,
    /// The version of the provider's library.
    pub provider_version: String,
    /// The chip it runs on.
    pub chip: ChipKey,
    /// What kind of chip that is.
    pub chip_kind: ChipKind,
    /// Options that set this target apart, by the engine's own names.
    pub options: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(long: &str, short: &str) {
        assert_eq!(ProviderName::parse(long).as_str(), short);
    }

    #[test]
    fn shortens_registered_names() {
        check("CPUExecutionProvider", "ort");
        check("DmlExecutionProvider", "dml");
        check("openvino", "openvino");
        check("SomethingExecutionProvider", "something");
    }

    #[test]
    fn key_carries_the_variant() {
        let key = TargetKey::new(&ChipKey::cpu(), &ProviderName::parse("openvino"), Some("bf16"));
        assert_eq!(key.as_str(), "cpu/openvino-bf16");
    }
}
