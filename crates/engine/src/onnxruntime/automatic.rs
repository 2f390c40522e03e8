//! Choices of others: ONNX Runtime's selection policies and OpenVINO's AUTO device, to be measured beside the router's.
//!
//! Invariant: a session of this kind is a baseline. It has a key of its own, below the chip `auto`, and no target does.

use ort::environment::Environment;
use ort::session::builder::{AutoDevicePolicy, SessionBuilder};
use siliconroute_core::TargetKey;

use super::devices::{self, OPENVINO};

/// Who chooses the device of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Automatic {
    /// ONNX Runtime, by its policy of that name.
    MaxPerformance,
    /// ONNX Runtime, by its policy of that name.
    PreferCpu,
    /// ONNX Runtime, by its policy of that name.
    PreferNpu,
    /// ONNX Runtime, by its policy of that name.
    MaxEfficiency,
    /// ONNX Runtime, by its policy of that name.
    MinOverallPower,
    /// OpenVINO, whose device AUTO stands for all that it supports.
    OpenvinoAuto,
}

impl Automatic {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::MaxPerformance,
        Self::PreferCpu,
        Self::PreferNpu,
        Self::MaxEfficiency,
        Self::MinOverallPower,
        Self::OpenvinoAuto,
    ];

    /// The stable name, such as `ort-max-performance`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxPerformance => "ort-max-performance",
            Self::PreferCpu => "ort-prefer-cpu",
            Self::PreferNpu => "ort-prefer-npu",
            Self::MaxEfficiency => "ort-max-efficiency",
            Self::MinOverallPower => "ort-min-overall-power",
            Self::OpenvinoAuto => "openvino-auto",
        }
    }

    /// The key that its sessions go by, such as `auto/ort-max-performance`.
    pub fn key(self) -> TargetKey {
        TargetKey(format!("auto/{}", self.name()))
    }

    /// The one that goes by `key`; `None` for every target.
    pub fn of(key: &TargetKey) -> Option<Self> {
        Self::ALL.into_iter().find(|automatic| automatic.key() == *key)
    }

    /// ONNX Runtime's policy; `None` where it is not ONNX Runtime that chooses.
    fn policy(self) -> Option<AutoDevicePolicy> {
        match self {
            Self::MaxPerformance => Some(AutoDevicePolicy::MaxPerformance),
            Self::PreferCpu => Some(AutoDevicePolicy::PreferCPU),
            Self::PreferNpu => Some(AutoDevicePolicy::PreferNPU),
            Self::MaxEfficiency => Some(AutoDevicePolicy::MaxEfficiency),
            Self::MinOverallPower => Some(AutoDevicePolicy::MinPower),
            Self::OpenvinoAuto => None,
        }
    }

    /// Leaves the device of the session in `builder` to whoever chooses it, with the options that they come with.
    pub(super) fn choose(
        self,
        environment: &Environment,
        builder: SessionBuilder,
    ) -> ort::Result<SessionBuilder> {
        if let Some(policy) = self.policy() {
            return Ok(builder.with_auto_device(policy)?);
        }
        let automatic = format!("{OPENVINO}.AUTO");
        let listed = environment.devices().find(|device| device.ep().is_ok_and(|name| name == automatic));
        if let Some(device) = listed {
            return Ok(builder.with_devices([device], None)?);
        }
        let options = [("device_type".to_owned(), "AUTO".to_owned())].into_iter().collect();
        Ok(builder.with_execution_providers([devices::provider_by_name(OPENVINO, &options)])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_goes_by_its_key_and_no_target_does() {
        for automatic in Automatic::ALL {
            assert_eq!(Automatic::of(&automatic.key()), Some(automatic));
        }
        for key in ["cpu/ort", "auto/ort", "auto/ort-max-performance+threads=1", ""] {
            assert_eq!(Automatic::of(&TargetKey(key.to_owned())), None);
        }
    }
}
