//! The chips of a machine: its CPU, GPU adapters and NPUs.
//!
//! Invariant: the order and the numbering that a system gives its adapters never reaches a key; the list
//! starts with the CPU and is then sorted by key. A kind of chip that was not found is a finding too.

use serde::{Deserialize, Serialize};
use siliconroute_core::chip::{ChipIdentity, ListedAdapter};
use siliconroute_core::{Chip, ChipKey, ChipKind, Reading};

use crate::host::HostFacts;
use crate::linux;
use crate::pci;
use crate::roots::Roots;

/// A chip, or why none of its kind was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChipFinding {
    /// The kind that was looked for.
    pub kind: ChipKind,
    /// The chip, or why there is none.
    pub chip: Reading<Chip>,
    /// Where the system told of it, such as `/sys/class/drm/card0`.
    pub source: String,
}

/// Finds the chips of a Linux machine, running or captured.
#[derive(Debug, Clone)]
pub struct ChipProbe {
    roots: Roots,
}

impl ChipProbe {
    /// Prepares to look below `roots`.
    pub fn new(roots: Roots) -> Self {
        Self { roots }
    }

    /// Lists the CPU that `host` describes and every GPU and NPU found.
    pub fn findings(&self, host: &HostFacts) -> Vec<ChipFinding> {
        let (adapters, gaps) = linux::devices::find_adapters(&self.roots);
        assemble(host, adapters, gaps)
    }
}

/// Finds the chips of the running machine, whose facts are `host`.
///
/// On Windows the display system is asked in a thread of its own and given three seconds.
pub fn detect_chips(host: &HostFacts) -> Vec<ChipFinding> {
    let cpu_name = host.cpu_name.available().map(String::as_str);
    let (adapters, gaps) = crate::os::find_adapters(cpu_name);
    assemble(host, adapters, gaps)
}

/// Lists the adapters of the running machine in the order in which its system has them now.
///
/// A chip that the system lists twice, as Windows does in a remote session, is in it twice. Unavailable where the
/// system does not answer, which is something else than an empty list.
pub fn list_adapters() -> Reading<Vec<ListedAdapter>> {
    crate::os::listed_adapters()
}

/// Names the chip of each adapter, in the order given.
pub(crate) fn listed(adapters: Vec<Adapter>) -> Vec<ListedAdapter> {
    let keys = chip_keys(&adapters);
    let listed = |(adapter, chip): (Adapter, Reading<ChipKey>)| ListedAdapter {
        kind: adapter.kind,
        identity: adapter.identity,
        chip,
        position: adapter.position,
    };
    adapters.into_iter().zip(keys).map(listed).collect()
}

/// An adapter as a system tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Adapter {
    pub(crate) kind: ChipKind,
    /// The marketing name, where the system knows it.
    pub(crate) name: Option<String>,
    /// The maker, where the PCI vendor id does not tell it.
    pub(crate) vendor: Option<String>,
    pub(crate) identity: ChipIdentity,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) software: bool,
    pub(crate) driver: Option<String>,
    pub(crate) source: String,
    /// Its place in the system's present list, where programs are to name it by that.
    pub(crate) position: Option<u32>,
}

/// A kind of chip that a place does not offer, and why.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    pub(crate) kind: ChipKind,
    pub(crate) reason: String,
    pub(crate) source: String,
}

/// Turns what a system tells into findings: the CPU first, then by kind and key, gaps of a kind only
/// where nothing of that kind was found.
pub(crate) fn assemble(host: &HostFacts, adapters: Vec<Adapter>, gaps: Vec<Gap>) -> Vec<ChipFinding> {
    let keys = chip_keys(&adapters);
    let mut found: Vec<ChipFinding> =
        adapters.into_iter().zip(keys).map(|(adapter, key)| finding(adapter, key)).collect();
    found.sort_by(|a, b| (a.kind, key(a), &a.source).cmp(&(b.kind, key(b), &b.source)));
    // The same chip may be told of twice: two nodes of one device, or a session that lists it again.
    found.dedup_by(|a, b| !key(a).is_empty() && key(a) == key(b));
    for gap in gaps {
        if !found.iter().any(|finding| finding.kind == gap.kind) {
            found.push(ChipFinding {
                kind: gap.kind,
                chip: Reading::Unavailable(gap.reason),
                source: gap.source,
            });
        }
    }
    let mut findings = vec![cpu_finding(host)];
    findings.append(&mut found);
    findings
}

/// The key of each adapter's chip, or why it cannot be told from another one.
///
/// A key rests on what lasts: ids and the place on the bus; without a place, and only where several adapters have the
/// same ids, on the device's own name or the subsystem. The order of the list and LUIDs change nothing.
fn chip_keys(adapters: &[Adapter]) -> Vec<Reading<ChipKey>> {
    let bare: Vec<ChipKey> = adapters.iter().map(|adapter| adapter.identity.key(adapter.kind)).collect();
    let of = |(adapter, key): (&Adapter, &ChipKey)| {
        let twins: Vec<&ChipIdentity> = adapters
            .iter()
            .zip(&bare)
            .filter(|(_, other)| *other == key)
            .map(|(twin, _)| &twin.identity)
            .collect();
        // A place names one very chip, and what a driver imitates is the CPU however often it is listed.
        if twins.len() == 1 || key.as_str().contains('@') || adapter.software {
            return Reading::Available(key.clone());
        }
        let told = |place: String| Reading::Available(ChipKey(format!("{key}@{place}")));
        if let Some(own) = &adapter.identity.instance
            && twins.iter().all(|twin| twin.instance.is_some())
        {
            let alone = twins.iter().all(|twin| twin.instance.as_ref() == Some(own));
            return if alone {
                Reading::Available(key.clone())
            } else {
                told(own.to_lowercase().replace('\\', "/"))
            };
        }
        let same = |twin: &&&ChipIdentity| twin.pci_subsystem == adapter.identity.pci_subsystem;
        match adapter.identity.pci_subsystem {
            Some(own) if twins.iter().filter(same).count() == 1 => told(format!("subsystem-{own:08x}")),
            _ => Reading::unavailable(format!(
                "there are {} adapters {key}, and the system tells nothing lasting by which to know this one again",
                twins.len()
            )),
        }
    };
    adapters.iter().zip(&bare).map(of).collect()
}

fn key(finding: &ChipFinding) -> &str {
    finding.chip.available().map_or("", |chip| chip.key.as_str())
}

fn cpu_finding(host: &HostFacts) -> ChipFinding {
    let identity = ChipIdentity::default();
    let text = |reading: &Reading<String>, otherwise: &str| {
        reading.available().cloned().unwrap_or_else(|| otherwise.to_owned())
    };
    ChipFinding {
        kind: ChipKind::Cpu,
        chip: Reading::Available(Chip {
            key: identity.key(ChipKind::Cpu),
            kind: ChipKind::Cpu,
            vendor: text(&host.cpu_vendor, "unknown"),
            name: text(&host.cpu_name, &format!("{} CPU", host.architecture)),
            identity,
            memory_bytes: None,
            software: false,
            driver: None,
        }),
        source: "host".to_owned(),
    }
}

fn finding(adapter: Adapter, key: Reading<ChipKey>) -> ChipFinding {
    let Adapter { kind, name, vendor, identity, memory_bytes, software, driver, source, position: _ } =
        adapter;
    let vendor = identity
        .pci_vendor
        .and_then(pci::maker)
        .map(str::to_owned)
        .or(vendor)
        .or_else(|| identity.pci_vendor.map(|id| format!("{id:04x}")))
        .unwrap_or_else(|| "unknown".to_owned());
    let ids = match (identity.pci_vendor, identity.pci_device) {
        (Some(vendor), Some(device)) => Some(format!("{vendor:04x}:{device:04x}")),
        _ => identity.acpi_id.clone().or_else(|| identity.bus_address.clone()),
    };
    let ids = ids.unwrap_or_else(|| format!("unnamed {kind}"));
    let chip = key.map(|key| Chip {
        key,
        kind,
        vendor,
        name: name.filter(|name| !name.trim().is_empty()).unwrap_or(ids),
        identity,
        memory_bytes: memory_bytes.filter(|bytes| *bytes > 0),
        software,
        driver,
    });
    ChipFinding { kind, chip, source }
}

#[cfg(test)]
mod tests;
