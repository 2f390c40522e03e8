//! What a chip of a Linux machine is doing, from the files of its driver.
//!
//! Invariant: the files are looked for once; a sample opens no listing, and reads nothing of a sleeping chip
//! that would wake it.

mod npu;

use std::path::{Path, PathBuf};
use std::time::Duration;

use siliconroute_core::{Chip, ChipKind, Reading};

use super::amd_metrics::{self, AmdMetrics};
use super::devices::{Node, find_nodes};
use super::sensors::{clock_policies, cpu_times};
use super::temperatures;
use crate::chip_sensors::{Busy, BusySource, ChipSample, Limit, PowerState};
use crate::conditions::ClockSpread;
use crate::counters::{Counter, CpuMeter};
use crate::roots::{Roots, list_numbered, read_number, read_value, read_word};

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
    Device(Box<DeviceReader>),
    /// A chip that has no node of a driver.
    Nothing(String),
}

impl ChipReader {
    /// Finds the files of `chip`.
    pub(crate) fn new(roots: &Roots, chip: &Chip, nodes: &[Node]) -> Self {
        if chip.kind == ChipKind::Cpu {
            return Self::Cpu(Box::new(CpuReader::new(roots)));
        }
        if let Some(node) = nodes.iter().find(|node| node.key == chip.key) {
            return Self::Device(Box::new(DeviceReader::new(node, nodes)));
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
                return Self::Device(Box::new(DeviceReader::new(&node, nodes)));
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
            Self::Device(reader) => reader.power_state() == Reading::Available(PowerState::Asleep),
            Self::Cpu(_) | Self::Nothing(_) => false,
        }
    }

    /// The PCI address or other place of the chip, by which processes name it.
    pub(crate) fn place(&self) -> Option<&str> {
        match self {
            Self::Device(reader) => reader.place.as_deref(),
            Self::Cpu(_) | Self::Nothing(_) => None,
        }
    }

    /// The name of its driver.
    pub(crate) fn driver(&self) -> Option<&str> {
        match self {
            Self::Device(reader) => reader.driver.as_deref(),
            Self::Cpu(_) | Self::Nothing(_) => None,
        }
    }
}

/// Lists the nodes that [`ChipReader::new`] looks through.
pub(crate) fn nodes(roots: &Roots) -> Vec<Node> {
    find_nodes(roots)
}

/// The CPU: load, package energy, clocks and heat.
#[derive(Debug)]
pub(crate) struct CpuReader {
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
    fn new(roots: &Roots) -> Self {
        let (folder, policies) = clock_policies(roots);
        let step = policies.len().div_ceil(CLOCK_SAMPLES).max(1);
        let clocks = policies
            .iter()
            .step_by(step)
            .map(|policy| folder.join(policy).join("scaling_cur_freq"))
            .collect();
        Self {
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
            temperature_celsius: temperatures::cpu_temperature_celsius(roots),
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
                Reading::Unavailable(reason) => return Reading::Unavailable(reason),
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

/// A GPU or NPU.
#[derive(Debug)]
pub(crate) struct DeviceReader {
    /// The node of the driver's class.
    node: PathBuf,
    device: PathBuf,
    driver: Option<String>,
    place: Option<String>,
    monitor: Option<PathBuf>,
    /// The clock of devices that have no PCI address.
    frequency: Option<PathBuf>,
    /// The metrics of the AMD processor that an NPU of AMD's is a part of.
    processor_metrics: Option<PathBuf>,
    busy: Counter,
    energy: Counter,
    earlier_metrics: Option<AmdMetrics>,
}

impl DeviceReader {
    fn new(node: &Node, nodes: &[Node]) -> Self {
        let child = |folder: &str, prefix: &str| {
            let folder = node.device.join(folder);
            let names = list_numbered(&folder, prefix);
            names.available().and_then(|names| names.first()).map(|name| folder.join(name))
        };
        let frequencies = node.device.join("devfreq");
        let frequency = crate::roots::list_names(&frequencies)
            .available()
            .and_then(|names| names.first())
            .map(|name| frequencies.join(name).join("cur_freq"));
        let processor_metrics = nodes
            .iter()
            .map(|node| node.device.join("gpu_metrics"))
            .find(|path| amd_metrics::read(path).available().is_some_and(AmdMetrics::tells_of_an_npu));
        let npu = node.driver.as_deref() == Some("amdxdna");
        Self {
            node: node.folder.clone(),
            device: node.device.clone(),
            driver: node.driver.clone(),
            place: node.place.clone(),
            monitor: child("hwmon", "hwmon"),
            frequency,
            processor_metrics: processor_metrics.filter(|_| npu),
            busy: Counter::default(),
            energy: Counter::default(),
            earlier_metrics: None,
        }
    }

    fn sample(&mut self, chip: &Chip, now: Duration) -> ChipSample {
        let power_state = self.power_state();
        if power_state == Reading::Available(PowerState::Asleep) {
            let reason = "the chip is asleep, and reading its sensors would wake it";
            let mut sample = ChipSample { power_state, ..ChipSample::unavailable(chip.key.clone(), reason) };
            if self.driver.as_deref() == Some("intel_vpu") {
                npu::read_intel_counters(&self.device, &mut self.busy, now, &mut sample);
            }
            return sample;
        }
        let driver = self.driver.clone().unwrap_or_default();
        let untold = |what: &str| format!("the driver {driver} tells no {what}");
        let mut sample = ChipSample {
            chip: chip.key.clone(),
            power_state,
            busy: Reading::unavailable(untold("load")),
            power_watts: self.monitor_power(now, &untold("power")),
            temperature_celsius: self.monitor_temperature(&untold("temperature")),
            clock_mhz: match &self.frequency {
                Some(path) => megahertz_of_hertz(path),
                None => Reading::unavailable(untold("clock")),
            },
            memory_used_bytes: Reading::unavailable(untold("memory in use")),
            limits: Reading::unavailable(untold("limits on its clock")),
        };
        match driver.as_str() {
            "amdgpu" => self.read_amdgpu(&mut sample),
            "i915" => self.read_i915(now, &mut sample),
            "xe" => self.read_xe(now, &mut sample),
            "intel_vpu" => npu::read_intel(&self.device, &mut self.busy, now, &mut sample),
            "amdxdna" => npu::read_amd(self.processor_metrics.as_deref(), &mut sample),
            _ => {}
        }
        sample
    }

    fn power_state(&self) -> Reading<PowerState> {
        read_value(&self.device.join("power/runtime_status"), "a power state", |text| match text {
            "suspended" => Some(PowerState::Asleep),
            // Without power management at run time a device is never put to sleep.
            "active" | "suspending" | "resuming" | "unsupported" => Some(PowerState::Awake),
            _ => None,
        })
    }

    fn monitor_power(&mut self, now: Duration, untold: &str) -> Reading<f64> {
        let Some(monitor) = &self.monitor else { return Reading::unavailable(untold) };
        for name in ["power1_average", "power1_input"] {
            let path = monitor.join(name);
            if path.exists() {
                return read_value(&path, "microwatts", |text| {
                    text.parse::<f64>().ok().map(|uw| uw / 1e6).filter(|watts| (0.0..5000.0).contains(watts))
                });
            }
        }
        for name in ["energy1_input", "energy2_input"] {
            let path = monitor.join(name);
            if path.exists() {
                return self.energy.per_second(now, read_number(&path), SHORTEST, None).map(|uj| uj / 1e6);
            }
        }
        Reading::unavailable(untold)
    }

    fn monitor_temperature(&self, untold: &str) -> Reading<f64> {
        let Some(monitor) = &self.monitor else { return Reading::unavailable(untold) };
        // The driver xe has no first input; its second is the package.
        let input = ["temp1_input", "temp2_input"].map(|name| monitor.join(name)).into_iter();
        input
            .map(|path| temperatures::celsius(&path))
            .find(|reading| reading.available().is_some())
            .unwrap_or_else(|| Reading::unavailable(untold))
    }

    fn read_amdgpu(&mut self, sample: &mut ChipSample) {
        sample.busy = percent(&self.device.join("gpu_busy_percent"));
        sample.memory_used_bytes = read_number(&self.device.join("mem_info_vram_used"));
        if let Some(monitor) = &self.monitor {
            sample.clock_mhz = megahertz_of_hertz(&monitor.join("freq1_input"));
        }
        let metrics = amd_metrics::read(&self.device.join("gpu_metrics"));
        let earlier = match &metrics {
            Reading::Available(metrics) => self.earlier_metrics.replace(metrics.clone()),
            Reading::Unavailable(_) => None,
        };
        sample.limits = metrics.and_then(|metrics| metrics.limits_since(earlier.as_ref()));
    }

    fn read_i915(&mut self, now: Duration, sample: &mut ChipSample) {
        let engine = self.node.join("gt/gt0");
        let (idle, enabled, clock) = if engine.is_dir() {
            ("gt/gt0/rc6_residency_ms", "gt/gt0/rc6_enable", "gt/gt0/rps_act_freq_mhz")
        } else {
            ("power/rc6_residency_ms", "power/rc6_enable", "gt_act_freq_mhz")
        };
        sample.busy = match read_word(&self.node.join(enabled)) {
            Reading::Available(state) if state == "0" => {
                Reading::unavailable("the GPU's idle state is switched off, so that it always looks busy")
            }
            _ => self.awake_share(now, &self.node.join(idle)),
        };
        sample.clock_mhz = read_number(&self.node.join(clock));
        sample.limits = intel_limits(&engine, "throttle_reason_status", "throttle_reason_");
    }

    fn read_xe(&mut self, now: Duration, sample: &mut ChipSample) {
        let engine = self.device.join("tile0/gt0");
        sample.busy = self.awake_share(now, &engine.join("gtidle/idle_residency_ms"));
        sample.clock_mhz = read_number(&engine.join("freq0/act_freq"));
        sample.limits = intel_limits(&engine.join("freq0/throttle"), "status", "reason_");
    }

    fn awake_share(&mut self, now: Duration, idle_ms: &Path) -> Reading<Busy> {
        self.busy.per_second(now, read_number(idle_ms), SHORTEST, None).map(|idle_ms| Busy {
            percent: (100.0 - idle_ms / 10.0).clamp(0.0, 100.0),
            source: BusySource::Awake,
        })
    }
}

fn percent(path: &Path) -> Reading<Busy> {
    let percent = read_value(path, "a percentage", |text| {
        text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))
    });
    percent.map(|percent| Busy { percent, source: BusySource::DriverAverage })
}

fn megahertz_of_hertz(path: &Path) -> Reading<f64> {
    read_value(path, "a clock in hertz", |text| {
        text.parse::<f64>().ok().map(|hertz| hertz / 1e6).filter(|mhz| (0.0..20_000.0).contains(mhz))
    })
}

/// The reasons that Intel's drivers give for a clock below the one asked for.
fn intel_limits(folder: &Path, status: &str, prefix: &str) -> Reading<Vec<Limit>> {
    read_number::<u8>(&folder.join(status)).map(|status| {
        if status == 0 {
            return Vec::new();
        }
        let set = |reason: &&(&str, Limit)| {
            read_number::<u8>(&folder.join(format!("{prefix}{}", reason.0)))
                .available()
                .is_some_and(|set| *set > 0)
        };
        let mut limits: Vec<Limit> = INTEL_REASONS.iter().filter(set).map(|(_, limit)| *limit).collect();
        limits.sort_unstable();
        limits.dedup();
        if limits.is_empty() {
            limits.push(Limit::Other);
        }
        limits
    })
}

const INTEL_REASONS: [(&str, Limit); 8] = [
    ("thermal", Limit::Heat),
    ("prochot", Limit::Heat),
    ("vr_thermalert", Limit::Heat),
    ("pl1", Limit::Power),
    ("pl2", Limit::Power),
    ("pl4", Limit::Power),
    ("vr_tdc", Limit::Current),
    ("ratl", Limit::Other),
];
