//! What a chip of a Linux machine is doing, from the files of its driver.
//!
//! Invariant: the files are looked for once; a sample opens no listing, and reads nothing of a sleeping chip
//! that would wake it. A driver that hangs costs its own chip's readings, and no more time than its limit.

mod device;
mod npu;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use siliconroute_core::{Chip, ChipKind, Reading};

use self::device::DeviceReader;
use super::devices::{Node, find_nodes};
use super::driver_files::DriverFiles;
use super::sensors::{clock_policies, cpu_times};
use crate::chip_sensors::{ChipSample, Limit, PowerState};
use crate::conditions::ClockSpread;
use crate::counters::{Counter, CpuMeter};
use crate::guard::Watched;
use crate::roots::{PERMISSION_DENIED, Roots, list_numbered, read_number, read_word};

/// Clocks are read from at most this many cores, evenly spread, since each read may wake a core.
const CLOCK_SAMPLES: usize = 8;
/// More packages than a machine of this kind has; bounds the work on a made-up tree.
const PACKAGE_LIMIT: usize = 16;
/// A counter that its driver keeps in milliseconds says little over less time than this.
const SHORTEST: Duration = Duration::from_millis(20);

/// Reads one chip.
#[derive(Debug)]
pub(crate) enum ChipReader {
    Cpu(Box<CpuReader>),
    Device(Box<WatchedDevice>),
    /// A chip that has no node of a driver.
    Nothing(String),
}

impl ChipReader {
    /// Finds the files of `chip`, whose driver has `limit` to answer each time.
    pub(crate) fn new(roots: &Roots, chip: &Chip, nodes: &Arc<[Node]>, limit: Duration) -> Self {
        if chip.kind == ChipKind::Cpu {
            return Self::Cpu(Box::new(CpuReader::new(roots, limit)));
        }
        if let Some(node) = nodes.iter().find(|node| node.key == chip.key) {
            return Self::Device(Box::new(WatchedDevice::new(node.clone(), nodes, limit)));
        }
        // Cards for computing only have no node of the display class, but a folder on their bus.
        if let Some(address) = &chip.identity.bus_address {
            let device = roots.sys.join("bus/pci/devices").join(super::devices::safe_name(address));
            if device.is_dir() {
                let driver = chip.driver.as_deref().and_then(|driver| driver.split_whitespace().next());
                let node = Node {
                    key: chip.key.clone(),
                    folder: device.clone(),
                    device,
                    driver: driver.map(str::to_owned),
                    place: Some(address.clone()),
                };
                return Self::Device(Box::new(WatchedDevice::new(node, nodes, limit)));
            }
        }
        let driver = chip.driver.as_deref().unwrap_or("its driver");
        Self::Nothing(format!(
            "{driver} has no folder with sensors of {} below {}",
            chip.key,
            roots.sys.display()
        ))
    }

    pub(crate) fn sample(&mut self, roots: &Roots, chip: &Chip, now: Duration) -> ChipSample {
        match self {
            Self::Cpu(reader) => reader.sample(roots, chip, now),
            Self::Device(reader) => reader.sample(chip, now),
            Self::Nothing(reason) => ChipSample::unavailable(chip.key.clone(), reason),
        }
    }

    /// Whether the chip sleeps, so that a question to its driver would wake it.
    pub(crate) fn is_asleep(&self) -> bool {
        match self {
            Self::Device(reader) => device::is_asleep(&reader.node.device),
            Self::Cpu(_) | Self::Nothing(_) => false,
        }
    }

    /// The PCI address or other place of the chip, by which processes name it.
    pub(crate) fn place(&self) -> Option<&str> {
        match self {
            Self::Device(reader) => reader.node.place.as_deref(),
            Self::Cpu(_) | Self::Nothing(_) => None,
        }
    }

    /// The name of its driver.
    pub(crate) fn driver(&self) -> Option<&str> {
        match self {
            Self::Device(reader) => reader.node.driver.as_deref(),
            Self::Cpu(_) | Self::Nothing(_) => None,
        }
    }
}

/// Lists the nodes that [`ChipReader::new`] looks through.
pub(crate) fn nodes(roots: &Roots) -> Arc<[Node]> {
    find_nodes(roots).into()
}

/// A GPU or NPU whose driver's files are read in a thread of their own.
#[derive(Debug)]
pub(crate) struct WatchedDevice {
    node: Arc<Node>,
    nodes: Arc<[Node]>,
    reader: Watched<Option<DeviceReader>>,
}

impl WatchedDevice {
    fn new(node: Node, nodes: &Arc<[Node]>, limit: Duration) -> Self {
        let driver = node.driver.as_deref().unwrap_or("its driver");
        let name = format!("the driver {driver} of {}", node.device.display());
        let reader = Watched::named(name, limit, || None);
        Self { node: Arc::new(node), nodes: Arc::clone(nodes), reader }
    }

    fn sample(&mut self, chip: &Chip, now: Duration) -> ChipSample {
        let (node, nodes, asked) = (Arc::clone(&self.node), Arc::clone(&self.nodes), chip.clone());
        let told = self.reader.ask(move |reader| {
            reader.get_or_insert_with(|| DeviceReader::new(&node, nodes)).sample(&asked, now)
        });
        match told {
            Reading::Available(sample) => sample,
            Reading::Unavailable(reason) => ChipSample {
                power_state: device::power_state(&self.node.device),
                ..ChipSample::unavailable(chip.key.clone(), &reason)
            },
        }
    }
}

/// The CPU: load, package energy, clocks and heat.
#[derive(Debug)]
pub(crate) struct CpuReader {
    files: DriverFiles,
    meter: CpuMeter,
    packages: Reading<Vec<Package>>,
    clocks: Vec<PathBuf>,
    no_clock: String,
    heat_events: PathBuf,
    earlier_heat_events: Option<u64>,
}

#[derive(Debug)]
struct Package {
    energy: PathBuf,
    wraps_at: Option<u64>,
    counter: Counter,
}

impl CpuReader {
    fn new(roots: &Roots, limit: Duration) -> Self {
        let (folder, policies) = clock_policies(roots);
        let step = policies.len().div_ceil(CLOCK_SAMPLES).max(1);
        let clocks = policies
            .iter()
            .step_by(step)
            .map(|policy| folder.join(policy).join("scaling_cur_freq"))
            .collect();
        Self {
            files: DriverFiles::new(roots.clone(), limit),
            meter: CpuMeter::default(),
            packages: packages(roots),
            clocks,
            no_clock: format!("no clock in {}", folder.display()),
            heat_events: roots.sys.join("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count"),
            earlier_heat_events: None,
        }
    }

    fn sample(&mut self, roots: &Roots, chip: &Chip, now: Duration) -> ChipSample {
        let clocks: Vec<f64> = self
            .clocks
            .iter()
            .filter_map(|path| read_number::<f64>(path).available().map(|khz| khz / 1000.0))
            .filter(|mhz| (1.0..20_000.0).contains(mhz))
            .collect();
        let clock = ClockSpread::of(clocks).map(|clocks| clocks.median_mhz);
        ChipSample {
            chip: chip.key.clone(),
            power_state: Reading::Available(PowerState::Awake),
            busy: self.meter.busy(now, cpu_times(roots)),
            power_watts: self.power_watts(now),
            temperature_celsius: self.files.cpu_temperature_celsius(),
            clock_mhz: Reading::from_option(clock, &self.no_clock),
            memory_used_bytes: Reading::unavailable("a CPU has no memory of its own"),
            limits: self.limits(),
        }
    }

    fn power_watts(&mut self, now: Duration) -> Reading<f64> {
        let packages = match &mut self.packages {
            Reading::Available(packages) => packages,
            Reading::Unavailable(reason) => return Reading::Unavailable(reason.clone()),
        };
        let mut watts = 0.0;
        for package in packages {
            let energy = read_number::<u64>(&package.energy);
            match package.counter.per_second(now, energy, SHORTEST, package.wraps_at) {
                Reading::Available(microjoules) => watts += microjoules / 1e6,
                Reading::Unavailable(reason) => return Reading::Unavailable(energy_reason(reason)),
            }
        }
        Reading::Available(watts)
    }

    fn limits(&mut self) -> Reading<Vec<Limit>> {
        let events = read_number::<u64>(&self.heat_events);
        let earlier = match &events {
            Reading::Available(events) => self.earlier_heat_events.replace(*events),
            Reading::Unavailable(_) => None,
        };
        events.and_then(|events| match earlier {
            Some(earlier) if events > earlier => Reading::Available(vec![Limit::Heat]),
            Some(_) => Reading::Available(Vec::new()),
            None => Reading::unavailable(crate::counters::FIRST_SAMPLE),
        })
    }
}

/// Since Linux 5.10 the right to read energy is the administrator's, because keys could be told by it (CVE-2020-8694).
fn energy_reason(reason: String) -> String {
    if reason.ends_with(PERMISSION_DENIED) {
        format!("{reason} (Linux shows a processor's energy to administrators only)")
    } else {
        reason
    }
}

/// The energy counters of the packages, which processors of Intel and AMD have.
fn packages(roots: &Roots) -> Reading<Vec<Package>> {
    let folder = roots.sys.join("class/powercap");
    let names = match list_numbered(&folder, "intel-rapl:") {
        Reading::Available(names) => names,
        Reading::Unavailable(reason) => return Reading::Unavailable(reason),
    };
    let packages: Vec<Package> = names
        .iter()
        .map(|name| folder.join(name))
        .filter(|zone| {
            read_word(&zone.join("name")).available().is_some_and(|name| name.starts_with("package-"))
        })
        .take(PACKAGE_LIMIT)
        .map(|zone| Package {
            energy: zone.join("energy_uj"),
            wraps_at: read_number(&zone.join("max_energy_range_uj")).available().copied(),
            counter: Counter::default(),
        })
        .collect();
    let none = format!("no energy counter of a package in {}", folder.display());
    Reading::from_option((!packages.is_empty()).then_some(packages), &none)
}

#[cfg(test)]
mod tests;
