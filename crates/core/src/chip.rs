//! Physical compute devices and how they are told apart.
//!
//! Invariant: a chip is identified by what it is and where it sits, never by an index alone.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of chips that run neural networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ChipKind {
    Cpu,
    Gpu,
    Npu,
}

impl fmt::Display for ChipKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Npu => "npu",
        })
    }
}

/// The stable text of a chip: `cpu`, or `kind:vendor:device@place`, such as `gpu:10de:2d18@0000:01:00.0`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChipKey(pub String);

impl ChipKey {
    /// The key of the machine's CPU.
    pub fn cpu() -> Self {
        Self("cpu".to_owned())
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChipKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a chip is and where it sits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chip {
    /// The stable key.
    pub key: ChipKey,
    /// CPU, GPU or NPU.
    pub kind: ChipKind,
    /// The maker, such as `NVIDIA`.
    pub vendor: String,
    /// The marketing name, or the ids where there is none.
    pub name: String,
    /// Where the chip sits and what it calls itself.
    pub identity: ChipIdentity,
    /// Dedicated memory, where the chip has its own.
    pub memory_bytes: Option<u64>,
    /// Whether a software driver imitates the chip on the CPU.
    pub software: bool,
    /// The driver and its version, where known.
    pub driver: Option<String>,
}

/// Identifiers of a chip; those that a system does not offer are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipIdentity {
    /// PCI vendor id.
    pub pci_vendor: Option<u16>,
    /// PCI device id.
    pub pci_device: Option<u16>,
    /// PCI subsystem id: device in the upper, vendor in the lower half.
    pub pci_subsystem: Option<u32>,
    /// PCI address, `0000:01:00.0`.
    pub bus_address: Option<String>,
    /// Windows adapter LUID.
    pub luid: Option<u64>,
    /// The vendor's unique id of this very chip.
    pub uuid: Option<String>,
}

impl ChipIdentity {
    /// The key of a chip of `kind` with this identity: ids, then the most stable place known.
    ///
    /// A chip with neither ids nor a place gets the bare kind, which cannot tell two of them apart.
    pub fn key(&self, kind: ChipKind) -> ChipKey {
        if kind == ChipKind::Cpu {
            return ChipKey::cpu();
        }
        let ids = match (self.pci_vendor, self.pci_device) {
            (Some(vendor), Some(device)) => format!(":{vendor:04x}:{device:04x}"),
            (Some(vendor), None) => format!(":{vendor:04x}"),
            (None, _) => String::new(),
        };
        let place = self
            .bus_address
            .clone()
            .or_else(|| self.uuid.clone())
            .or_else(|| self.luid.map(|luid| format!("luid-{luid:x}")))
            .map(|place| format!("@{place}"))
            .unwrap_or_default();
        ChipKey(format!("{kind}{ids}{place}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_ids_and_place() {
        let identity = ChipIdentity {
            pci_vendor: Some(0x10de),
            pci_device: Some(0x2d18),
            bus_address: Some("0000:01:00.0".to_owned()),
            ..ChipIdentity::default()
        };
        assert_eq!(identity.key(ChipKind::Gpu).as_str(), "gpu:10de:2d18@0000:01:00.0");
        assert_eq!(ChipIdentity::default().key(ChipKind::Npu).as_str(), "npu");
        assert_eq!(identity.key(ChipKind::Cpu).as_str(), "cpu");
    }
}
