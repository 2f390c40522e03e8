//! Physical compute devices and how they are told apart.
//!
//! Invariant: a chip is identified by what it is and where it sits, never by an index or a number that a restart
//! changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Reading;

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
    /// The ACPI id of a chip that is on no PCI bus, such as `QCOM0D0A`.
    #[serde(default)]
    pub acpi_id: Option<String>,
    /// PCI address, `0000:01:00.0`.
    pub bus_address: Option<String>,
    /// The system's own lasting name of the device, such as its Plug and Play instance id on Windows.
    #[serde(default)]
    pub instance: Option<String>,
    /// Windows adapter LUID, which is another one after each start of Windows or of the driver: never in a key.
    pub luid: Option<u64>,
    /// The vendor's unique id of this very chip.
    pub uuid: Option<String>,
}

impl ChipIdentity {
    /// The identity behind the two ids that a display driver gives a device.
    ///
    /// Chips on the PCI bus have ids of 16 bits, none of which is 0. Others have the letters of their ACPI id
    /// there, four in each: `0x4d4f4351` and `0x41304430` are `QCOM` and `0D0A`.
    pub fn of_ids(vendor: u32, device: u32) -> Self {
        let letters = |id: u32| {
            let bytes = id.to_le_bytes();
            let plain = bytes.iter().all(u8::is_ascii_alphanumeric);
            plain.then(|| bytes.iter().map(|byte| char::from(*byte).to_ascii_uppercase()).collect::<String>())
        };
        match u16::try_from(vendor) {
            Ok(vendor) => Self {
                pci_vendor: Some(vendor).filter(|id| *id != 0),
                pci_device: u16::try_from(device).ok().filter(|id| *id != 0 && vendor != 0),
                ..Self::default()
            },
            Err(_not_pci) => Self {
                acpi_id: letters(vendor).zip(letters(device)).map(|(vendor, device)| vendor + &device),
                ..Self::default()
            },
        }
    }

    /// Whether both are of one design, as far as both tell.
    pub fn has_ids_of(&self, other: &Self) -> bool {
        match (self.pci_vendor, other.pci_vendor) {
            (Some(one), Some(two)) => one == two && self.pci_device == other.pci_device,
            (None, None) => self.acpi_id.is_some() && self.acpi_id == other.acpi_id,
            _ => false,
        }
    }

    /// The key of a chip of `kind` with this identity: ids, then the place on the bus or the vendor's unique id.
    ///
    /// A chip with neither ids nor a place gets the bare kind, which cannot tell two of them apart.
    pub fn key(&self, kind: ChipKind) -> ChipKey {
        if kind == ChipKind::Cpu {
            return ChipKey::cpu();
        }
        let ids = match (self.pci_vendor, self.pci_device, &self.acpi_id) {
            (Some(vendor), Some(device), _) => format!(":{vendor:04x}:{device:04x}"),
            (Some(vendor), None, _) => format!(":{vendor:04x}"),
            (None, _, Some(id)) => format!(":{}", id.to_ascii_lowercase()),
            (None, _, None) => String::new(),
        };
        let place = self.bus_address.as_ref().or(self.uuid.as_ref());
        let place = place.map(|place| format!("@{place}")).unwrap_or_default();
        ChipKey(format!("{kind}{ids}{place}"))
    }
}

/// An adapter as the system lists it now: which chip it is, and by which numbers this start of the system calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAdapter {
    /// GPU or NPU.
    pub kind: ChipKind,
    /// Its identifiers; the LUID may be another one than the chip's, since a chip may be listed twice.
    pub identity: ChipIdentity,
    /// The chip, or why it cannot be told from its twin.
    pub chip: Reading<ChipKey>,
    /// Where DXGI lists it, counted from zero: DirectML's device id. It changes with the power state of others.
    pub position: Option<u32>,
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

    #[test]
    fn ids_beyond_pci_are_letters() {
        #[track_caller]
        fn check(vendor: u32, device: u32, key: &str) {
            assert_eq!(ChipIdentity::of_ids(vendor, device).key(ChipKind::Gpu).as_str(), key);
        }
        check(0x10de, 0x2d18, "gpu:10de:2d18");
        check(0x4d4f_4351, 0x3633_4330, "gpu:qcom0c36");
        check(0x4d4f_4351, 0x0000_0001, "gpu");
        check(0x1414, 0, "gpu:1414");
        check(0, 0x2d18, "gpu");
        check(u32::MAX, u32::MAX, "gpu");
    }

    #[test]
    fn numbers_of_one_start_never_reach_the_key() {
        let identity = ChipIdentity { luid: Some(0x1_0000_d2f3), ..ChipIdentity::of_ids(0x10de, 0x2d18) };
        assert_eq!(identity.key(ChipKind::Gpu).as_str(), "gpu:10de:2d18");
        assert_eq!(
            ChipIdentity { luid: Some(7), ..ChipIdentity::default() }.key(ChipKind::Npu).as_str(),
            "npu"
        );
    }

    #[test]
    fn ids_are_compared_only_where_both_are_known() {
        let of = ChipIdentity::of_ids;
        assert!(of(0x10de, 0x2d18).has_ids_of(&of(0x10de, 0x2d18)));
        assert!(!of(0x10de, 0x2d18).has_ids_of(&of(0x10de, 0x2d19)));
        assert!(of(0x4d4f_4351, 0x4130_4430).has_ids_of(&of(0x4d4f_4351, 0x4130_4430)));
        assert!(!of(0, 0).has_ids_of(&of(0, 0)));
        assert!(!of(0x10de, 0x2d18).has_ids_of(&of(0x4d4f_4351, 0x4130_4430)));
    }
}
