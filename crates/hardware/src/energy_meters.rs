//! Counters of energy: of the processor's packages, of the whole platform, of GPUs.
//!
//! Invariant: a counter is followed from its first reading on, over its turns; a chip that sleeps is left asleep. Power
//! that drivers tell is among the readings of the chips' own sensors.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siliconroute_core::energy::{CounterTrack, EnergyMethod, EnergyScope, Meter};
use siliconroute_core::{Chip, ChipKey, ChipKind, Reading};

use crate::linux::devices::{find_nodes, safe_name};
use crate::os::Nvidia;
use crate::roots::{Roots, list_numbered, read_number, read_word};

/// Zones and chips beyond so many are left out; it bounds the work on a made-up tree.
const METER_LIMIT: usize = 64;

/// What one meter told at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterReading {
    /// The meter.
    pub meter: Meter,
    /// Joules since the meters were opened, of a counter; watts of the others.
    pub value: Reading<f64>,
}

/// The energy counters of a machine.
#[derive(Debug)]
pub struct EnergyMeters {
    meters: Vec<OneMeter>,
    nvidia: Option<Nvidia>,
    /// Why there is no counter, where there is none.
    none: String,
}

// A sampler runs in a thread of its own, beside the work that it watches.
const _: fn() = || {
    fn moves_between_threads<T: Send>() {}
    moves_between_threads::<EnergyMeters>();
};

#[derive(Debug)]
struct OneMeter {
    meter: Meter,
    source: Source,
    track: CounterTrack,
}

#[derive(Debug)]
enum Source {
    /// A file of microjoules, and where its chip says whether it sleeps.
    File { path: PathBuf, state: Option<PathBuf> },
    /// NVIDIA's library, in millijoules.
    Library { chip: Box<Chip>, state: Option<PathBuf> },
}

impl EnergyMeters {
    /// Prepares to read the counters of a Linux machine, running or captured, below `roots`.
    ///
    /// Only files are read, so a GPU under NVIDIA's own driver has no counter.
    pub fn new(roots: &Roots, chips: &[Chip]) -> Self {
        let mut meters = zones(roots);
        meters.extend(monitors(roots, chips));
        meters.truncate(METER_LIMIT);
        let none = format!("no energy counter in {} and none of a GPU", powercap(roots).display());
        Self { meters, nvidia: None, none }
    }

    /// Prepares to read the counters of the running machine.
    pub fn detect(chips: &[Chip]) -> Self {
        let roots = Roots::system();
        let mut meters = if cfg!(target_os = "linux") {
            Self::new(&roots, chips)
        } else {
            let none = "this system tells programs no energy counter of its processor".to_owned();
            Self { meters: Vec::new(), nvidia: None, none }
        };
        let nvidia = chips.iter().filter(|chip| !chip.software && crate::chip_sensors::is_nvidia(chip));
        for chip in nvidia {
            meters.nvidia.get_or_insert_with(Nvidia::new);
            let state = cfg!(target_os = "linux").then(|| state_file(&roots, chip)).flatten();
            meters.meters.push(OneMeter {
                meter: board(&chip.key, "nvml"),
                source: Source::Library { chip: Box::new(chip.clone()), state },
                track: CounterTrack::new(None),
            });
        }
        meters
    }

    /// Reads every counter once.
    pub fn read(&mut self) -> Vec<MeterReading> {
        let Self { meters, nvidia, .. } = self;
        let read = |one: &mut OneMeter| {
            let (raw, per_joule) = match &one.source {
                Source::File { path, state } => (unless_asleep(state.as_ref(), || read_energy(path)), 1e6),
                Source::Library { chip, state } => {
                    let asked = unless_asleep(state.as_ref(), || match nvidia.as_mut() {
                        Some(library) => library.total_energy_millijoules(chip),
                        None => Reading::unavailable("the library of NVIDIA's driver is not asked"),
                    });
                    (asked, 1e3)
                }
            };
            let value = one.track.advance(raw).map(|counted| counted as f64 / per_joule);
            MeterReading { meter: one.meter.clone(), value }
        };
        meters.iter_mut().map(read).collect()
    }

    /// Why there is no counter; `None` where there is one.
    pub fn absence(&self) -> Option<&str> {
        self.meters.is_empty().then_some(self.none.as_str())
    }
}

/// Whether the energy of `chip` is part of that of the processor's package.
///
/// NPUs of today's computers sit in the processor. So does a GPU of Intel's on the root bus; of other GPUs their place
/// does not tell.
pub fn lies_in_package(chip: &Chip) -> bool {
    const INTEL: u16 = 0x8086;
    match chip.kind {
        ChipKind::Cpu | ChipKind::Npu => true,
        ChipKind::Gpu => {
            let on_root_bus =
                chip.identity.bus_address.as_ref().is_some_and(|address| address.starts_with("0000:00:"));
            chip.identity.pci_vendor == Some(INTEL) && on_root_bus
        }
    }
}

fn powercap(roots: &Roots) -> PathBuf {
    roots.sys.join("class/powercap")
}

/// The zones of whole packages and of the platform; parts of packages would count twice.
/// <https://docs.kernel.org/power/powercap/powercap.html>
fn zones(roots: &Roots) -> Vec<OneMeter> {
    let folder = powercap(roots);
    let Reading::Available(names) = list_numbered(&folder, "intel-rapl:") else { return Vec::new() };
    let zone = |name: &String| {
        let zone = folder.join(name);
        let label = read_word(&zone.join("name")).available()?.clone();
        let (scope, chip) = match label.as_str() {
            "psys" => (EnergyScope::Machine, None),
            label if label.starts_with("package-") => (EnergyScope::Package, Some(ChipKey::cpu())),
            _ => return None,
        };
        Some(OneMeter {
            meter: Meter { method: EnergyMethod::Counter, scope, name: format!("rapl {label}"), chip },
            track: CounterTrack::new(read_number(&zone.join("max_energy_range_uj")).available().copied()),
            source: Source::File { path: zone.join("energy_uj"), state: None },
        })
    };
    names.iter().take(METER_LIMIT).filter_map(zone).collect()
}

/// The counters that drivers of GPUs keep beside their other sensors.
/// <https://docs.kernel.org/gpu/amdgpu/thermal.html>, `Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon`
fn monitors(roots: &Roots, chips: &[Chip]) -> Vec<OneMeter> {
    let nodes = find_nodes(roots);
    let of_chip = |chip: &Chip| {
        let node = nodes.iter().find(|node| node.key == chip.key)?;
        let folder = node.device.join("hwmon");
        let name = list_numbered(&folder, "hwmon").available()?.first()?.clone();
        // The driver xe counts its package under the second name where it has no counter of the card.
        let path = ["energy1_input", "energy2_input"]
            .iter()
            .map(|file| folder.join(&name).join(file))
            .find(|path| path.exists())?;
        Some(OneMeter {
            meter: board(&chip.key, "hwmon"),
            track: CounterTrack::new(None),
            source: Source::File { path, state: Some(node.device.join("power/runtime_status")) },
        })
    };
    chips.iter().filter(|chip| chip.kind == ChipKind::Gpu && !chip.software).filter_map(of_chip).collect()
}

fn board(chip: &ChipKey, source: &str) -> Meter {
    Meter {
        method: EnergyMethod::Counter,
        scope: EnergyScope::Board,
        name: format!("{source} {chip}"),
        chip: Some(chip.clone()),
    }
}

fn state_file(roots: &Roots, chip: &Chip) -> Option<PathBuf> {
    let address = chip.identity.bus_address.as_ref()?;
    Some(roots.sys.join("bus/pci/devices").join(safe_name(address)).join("power/runtime_status"))
}

fn unless_asleep(state: Option<&PathBuf>, read: impl FnOnce() -> Reading<u64>) -> Reading<u64> {
    let asleep = |path: &PathBuf| read_word(path).available().is_some_and(|state| state == "suspended");
    if state.is_some_and(asleep) {
        Reading::unavailable("the chip is asleep, and reading its sensors would wake it")
    } else {
        read()
    }
}

/// Since its use in an attack (CVE-2020-8694) the kernel lets nobody but root read a processor's counter.
fn read_energy(path: &Path) -> Reading<u64> {
    match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Reading::unavailable(format!(
            "needs the right to read {}, which root has and can give: chmod a+r",
            path.display()
        )),
        _ => read_number(path),
    }
}

#[cfg(test)]
mod tests;
