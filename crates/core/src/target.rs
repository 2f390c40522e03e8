//! What the router chooses among: a provider on a chip with fixed options.
//!
//! Invariant: a target's key is stable text; the same configuration has the same key on every start.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chip::{ChipKey, ChipKind};

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
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Settings of a session that make a target of its own out of another one, such as `cpu/ort+threads=1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Threads within an operator; the engine's own default when absent.
    pub threads: Option<u32>,
    /// Whether the provider keeps what it compiled for the next session.
    pub compile_cache: bool,
    /// Sessions that run at the same time, each in a process of its own; one when absent.
    pub concurrency: Option<u32>,
    /// The same target a second time, for comparing it with itself.
    pub again: bool,
}

/// A setting behind a target's key that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`+{setting}` in `{key}` is no setting of a target; there are `+threads=N`, `+compile_cache`, \
     `+concurrency=N` and `+again`"
)]
pub struct UnknownSessionSetting {
    key: String,
    setting: String,
}

impl SessionSettings {
    /// Splits `base+setting+…` into the base target's key and its settings.
    ///
    /// # Errors
    /// When a setting is unknown, given twice or has no sensible value.
    pub fn split(text: &str) -> Result<(TargetKey, Self), UnknownSessionSetting> {
        let mut parts = text.split('+');
        let base = parts.next().unwrap_or_default();
        let mut settings = Self::default();
        for part in parts {
            let unknown = || UnknownSessionSetting { key: text.to_owned(), setting: part.to_owned() };
            let count =
                |text: &str| text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(unknown);
            match part.split_once('=') {
                Some(("threads", text)) if settings.threads.is_none() => {
                    settings.threads = Some(count(text)?);
                }
                Some(("concurrency", text)) if settings.concurrency.is_none() => {
                    settings.concurrency = Some(count(text)?);
                }
                None if part == "compile_cache" && !settings.compile_cache => settings.compile_cache = true,
                None if part == "again" && !settings.again => settings.again = true,
                _ => return Err(unknown()),
            }
        }
        Ok((TargetKey(base.to_owned()), settings))
    }

    /// `target` with these settings; itself when there are none.
    #[must_use]
    pub fn apply(&self, mut target: Target) -> Target {
        if let Some(threads) = self.threads {
            target.key = TargetKey(format!("{}+threads={threads}", target.key));
            target.options.insert("threads".to_owned(), threads.to_string());
        }
        if self.compile_cache {
            target.key.0.push_str("+compile_cache");
            target.options.insert("compile_cache".to_owned(), "on".to_owned());
        }
        if let Some(sessions) = self.concurrency {
            target.key = TargetKey(format!("{}+concurrency={sessions}", target.key));
            target.options.insert("concurrency".to_owned(), sessions.to_string());
        }
        if self.again {
            target.key.0.push_str("+again");
        }
        target
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

    fn plain(key: &str) -> Target {
        Target {
            key: TargetKey(key.to_owned()),
            provider: ProviderName::parse("ort"),
            provider_version: "1".to_owned(),
            chip: ChipKey::cpu(),
            chip_kind: ChipKind::Cpu,
            options: BTreeMap::new(),
        }
    }

    #[test]
    fn settings_are_part_of_the_key_and_come_back_from_it() {
        for text in ["cpu/ort", "cpu/ort+threads=3", "a/b-c+threads=1+compile_cache+concurrency=4+again"] {
            let (base, settings) = SessionSettings::split(text).unwrap();
            assert_eq!(settings.apply(plain(base.as_str())).key.as_str(), text);
        }
    }

    #[test]
    fn unknown_settings_are_named() {
        for text in
            ["cpu/ort+", "cpu/ort+threads", "cpu/ort+threads=0", "cpu/ort+threads=1+threads=2", "a+spin=1"]
        {
            let error = SessionSettings::split(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("+threads=N"), "{error}");
        }
    }

    #[test]
    fn key_carries_the_variant() {
        let key = TargetKey::new(&ChipKey::cpu(), &ProviderName::parse("openvino"), Some("bf16"));
        assert_eq!(key.as_str(), "cpu/openvino-bf16");
    }
}
