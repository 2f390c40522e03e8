//! A GPU or NPU: load, power, heat, clock and memory as its driver's files tell them.
//!
//! Invariant: nothing of a sleeping chip is read that would wake it, whichever chip asks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use siliconroute_core::{Chip, Reading};

use super::{SHORTEST, npu};
use crate::chip_sensors::{Busy, BusySource, ChipSample, Limit, PowerState};
use crate::counters::Counter;
use crate::linux::amd_metrics::{self, AmdMetrics};
use crate::linux::devices::Node;
use crate::linux::temperatures;
use crate::roots::{list_names, list_numbered, read_number, read_value, read_word};

/// The driver amdgpu's table of what its firmware measures.
const METRICS: &str = "gpu_metrics";

/// A GPU or NPU.
#[derive(Debug)]
pub(super) struct DeviceReader {
    /// The node of the driver's class.
    node: PathBuf,
    device: PathBuf,
    driver: Option<String>,
    monitor: Option<PathBuf>,
    /// The clock of devices that have no PCI address.
    frequency: Option<PathBuf>,
    /// Among these may be the AMD processor that an NPU of AMD's is a part of.
    nodes: Arc<[Node]>,
    processor: Option<PathBuf>,
    busy: Counter,
    energy: Counter,
    earlier_metrics: Option<AmdMetrics>,
}

impl DeviceReader {
    /// Looks for the files of `node`'s chip; `nodes` are all of the machine's.
    pub(super) fn new(node: &Node, nodes: Arc<[Node]>) -> Self {
        let frequencies = node.device.join("devfreq");
        let frequency = list_names(&frequencies)
            .available()
            .and_then(|names| names.first())
            .map(|name| frequencies.join(name).join("cur_freq"));
        Self {
            node: node.folder.clone(),
            device: node.device.clone(),
            driver: node.driver.clone(),
            monitor: monitor(node),
            frequency,
            nodes,
            processor: None,
            busy: Counter::default(),
            energy: Counter::default(),
            earlier_metrics: None,
        }
    }

    /// Reads everything that the driver tells.
    pub(super) fn sample(&mut self, chip: &Chip, now: Duration) -> ChipSample {
        let power_state = power_state(&self.device);
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
            "amdxdna" => npu::read_amd(self.processor_metrics().as_deref(), &mut sample),
            _ => {}
        }
        sample
    }

    /// The table, as long as no GPU has to be woken for it.
    fn processor_metrics(&mut self) -> Option<PathBuf> {
        if self.processor.is_none() {
            let tells =
                |device: &&PathBuf| read_metrics(device).available().is_some_and(AmdMetrics::tells_of_an_npu);
            let awake = self.nodes.iter().map(|node| &node.device).filter(|device| !is_asleep(device));
            self.processor = awake.into_iter().find(tells).cloned();
        }
        let device = self.processor.as_ref().filter(|device| !is_asleep(device))?;
        Some(device.join(METRICS))
    }

    fn monitor_power(&mut self, now: Duration, untold: &str) -> Reading<f64> {
        let Some(monitor) = &self.monitor else { return Reading::unavailable(untold) };
        let mut failure = None;
        for name in ["power1_average", "power1_input"] {
            let path = monitor.join(name);
            if path.exists() {
                let watts = read_value(&path, "microwatts", |text| {
                    text.parse::<f64>().ok().map(|uw| uw / 1e6).filter(|watts| (0.0..5000.0).contains(watts))
                });
                match watts {
                    Reading::Available(_) => return watts,
                    // Some kernels list both and answer to one of them.
                    Reading::Unavailable(reason) => failure = Some(reason),
                }
            }
        }
        for name in ["energy1_input", "energy2_input"] {
            let path = monitor.join(name);
            if path.exists() {
                return self.energy.per_second(now, read_number(&path), SHORTEST, None).map(|uj| uj / 1e6);
            }
        }
        Reading::unavailable(failure.as_deref().unwrap_or(untold))
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
        let metrics = read_metrics(&self.device);
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

/// Whether the chip of `device` is powered, for which the kernel does not ask its driver.
pub(super) fn power_state(device: &Path) -> Reading<PowerState> {
    read_value(&device.join("power/runtime_status"), "a power state", |text| match text {
        "suspended" => Some(PowerState::Asleep),
        // Without power management at run time a device is never put to sleep.
        "active" | "suspending" | "resuming" | "unsupported" => Some(PowerState::Awake),
        _ => None,
    })
}

pub(super) fn is_asleep(device: &Path) -> bool {
    power_state(device) == Reading::Available(PowerState::Asleep)
}

fn read_metrics(device: &Path) -> Reading<AmdMetrics> {
    amd_metrics::read(&device.join(METRICS))
}

/// The driver's own monitor: a GPU may have others, such as one for each of its tiles.
fn monitor(node: &Node) -> Option<PathBuf> {
    let folder = node.device.join("hwmon");
    let names = list_numbered(&folder, "hwmon");
    let monitors = names.available()?;
    let of_driver =
        |monitor: &&String| read_word(&folder.join(monitor).join("name")).available() == node.driver.as_ref();
    monitors.iter().find(of_driver).or(monitors.first()).map(|monitor| folder.join(monitor))
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
