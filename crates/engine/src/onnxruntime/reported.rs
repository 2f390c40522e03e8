//! Which chip is behind a device that a runtime library lists.
//!
//! Invariant: pure; the tie rests on the LUID, the place or the ids, never on a number alone that another order of
//! the adapters would give to another one. What cannot be told is a reason, not a guess.

use std::collections::BTreeMap;

use siliconroute_core::chip::{ChipIdentity, ListedAdapter};
use siliconroute_core::{ChipKey, ChipKind, Reading};

/// ONNX Runtime's names for Windows' numbers of an adapter, which hold until Windows or the driver starts again.
const LUID: &str = "LUID";
const DXGI_POSITION: &str = "DxgiAdapterNumber";
const PASSING: [&str; 4] = [LUID, DXGI_POSITION, "DxgiHighPerformanceIndex", "DEVICE_LUID"];

/// A device as a runtime library tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedDevice {
    /// What the library takes it for.
    pub kind: ChipKind,
    /// PCI vendor id, or the letters of an ACPI id.
    pub vendor_id: u32,
    /// PCI device id, or the letters of an ACPI id.
    pub device_id: u32,
    /// What else the library tells of the hardware, by its own names.
    pub hardware: BTreeMap<String, String>,
}

/// The chip behind a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tie {
    /// What kind of chip it is.
    pub kind: ChipKind,
    /// Its key.
    pub chip: ChipKey,
    /// Why it is not known which chip it is.
    pub unclear: Option<String>,
}

impl ReportedDevice {
    /// Finds the device's chip among the adapters that the system lists at the same time.
    ///
    /// The PCI address and the LUID name one adapter. A library that tells neither is believed about the position
    /// in DXGI's list where the adapter there has the device's ids, and ids alone count where one chip has them.
    /// A device that the system does not list is known by its ids.
    pub fn chip(&self, listed: &Reading<Vec<ListedAdapter>>) -> Tie {
        if self.kind == ChipKind::Cpu {
            return Tie { kind: self.kind, chip: ChipKey::cpu(), unclear: None };
        }
        let own = self.identity();
        let adapters = match listed {
            Reading::Available(adapters) => adapters,
            Reading::Unavailable(reason) => {
                return Tie { kind: self.kind, chip: own.key(self.kind), unclear: Some(reason.clone()) };
            }
        };
        let is_of_design = |adapter: &&ListedAdapter| adapter.identity.has_ids_of(&own);
        let of_design: Vec<&ListedAdapter> = adapters.iter().filter(is_of_design).collect();
        let by_place = || {
            adapters
                .iter()
                .find(|adapter| own.bus_address.is_some() && adapter.identity.bus_address == own.bus_address)
        };
        let of_design_by =
            |is_it: &dyn Fn(&ListedAdapter) -> bool| of_design.iter().copied().find(|adapter| is_it(adapter));
        let by_luid = || of_design_by(&|adapter| own.luid.is_some() && adapter.identity.luid == own.luid);
        let position = self.number(DXGI_POSITION);
        let by_position = || {
            // A LUID that nobody has says that the list has changed, and with it the positions.
            of_design_by(&|adapter| own.luid.is_none() && position.is_some() && adapter.position == position)
        };
        if let Some(adapter) = by_place().or_else(by_luid).or_else(by_position) {
            return self.tied(adapter, &own);
        }
        match of_design.as_slice() {
            [] => Tie { kind: self.kind, chip: own.key(self.kind), unclear: None },
            [first, rest @ ..] if rest.iter().all(|other| other.chip == first.chip) => self.tied(first, &own),
            several => {
                let chips: Vec<String> = several.iter().map(|adapter| adapter.chip.to_string()).collect();
                let unclear = format!(
                    "the runtime library does not tell which of these chips it is: {}",
                    chips.join(", ")
                );
                Tie { kind: self.kind, chip: own.key(self.kind), unclear: Some(unclear) }
            }
        }
    }

    fn tied(&self, adapter: &ListedAdapter, own: &ChipIdentity) -> Tie {
        match &adapter.chip {
            Reading::Available(chip) => Tie { kind: adapter.kind, chip: chip.clone(), unclear: None },
            Reading::Unavailable(reason) => {
                Tie { kind: adapter.kind, chip: own.key(self.kind), unclear: Some(reason.clone()) }
            }
        }
    }

    fn identity(&self) -> ChipIdentity {
        ChipIdentity {
            bus_address: self.hardware.get("pci_bus_id").map(|place| place.to_lowercase()),
            luid: self.number(LUID),
            ..ChipIdentity::of_ids(self.vendor_id, self.device_id)
        }
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.hardware.get(name)?.trim().parse().ok()
    }

    /// Windows' number of the adapter, where the library tells it.
    pub(super) fn luid(&self) -> Option<u64> {
        self.number(LUID)
    }
}

/// Whether a value that a library tells of a device may be another one after the next start of the system.
pub(super) fn is_passing(name: &str) -> bool {
    PASSING.contains(&name)
}

/// Where DXGI lists `chip` now, by which DirectML knows it.
///
/// Of a chip that is listed twice, the adapter numbered `luid` counts, else the first.
///
/// # Errors
/// When the adapters cannot be listed, or the chip has left the list.
pub fn dxgi_position(
    chip: &ChipKey,
    luid: Option<u64>,
    listed: &Reading<Vec<ListedAdapter>>,
) -> Result<u32, String> {
    let adapters = match listed {
        Reading::Available(adapters) => adapters,
        Reading::Unavailable(reason) => return Err(reason.clone()),
    };
    let mine = || adapters.iter().filter(|adapter| adapter.chip.available() == Some(chip));
    mine()
        .find(|adapter| luid.is_some() && adapter.identity.luid == luid)
        .or_else(|| mine().find(|adapter| adapter.position.is_some()))
        .and_then(|adapter| adapter.position)
        .ok_or_else(|| format!("the system no longer lists the adapter {chip}; it may be switched off"))
}

#[cfg(test)]
mod tests;
