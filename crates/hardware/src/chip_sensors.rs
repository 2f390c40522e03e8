//! What each chip is doing now: busy, power, heat, clock, memory, and whether something holds it back.
//!
//! Invariant: readings are keyed by chip, never by the system's numbering, and a chip that sleeps is left
//! asleep.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siliconroute_core::{Chip, ChipKey, ChipKind, Reading};

use crate::counters::CpuMeter;
use crate::guard::Watched;
use crate::linux::chip_readers::{self, ChipReader};
use crate::linux::driver_files::TIME_LIMIT;
use crate::linux::fdinfo::{self, Client};
use crate::os::{DeviceCounters, Nvidia};
use crate::roots::Roots;

/// How busy a chip is, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// 0 to 100, of the whole chip.
    pub percent: f64,
    /// What the figure means.
    pub source: BusySource,
}

/// How it is known that a chip is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusySource {
    /// The share of time in which it ran work, counted since the previous sample.
    Counted,
    /// The driver's or firmware's own average over a time of its choice, mostly under a second.
    DriverAverage,
    /// The share of time since the previous sample in which it was not in its idle state: at least the share
    /// in which it ran work.
    Awake,
}

/// Whether a chip is powered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerState {
    /// Powered, or on its way to it.
    Awake,
    /// Suspended by its driver because nobody uses it.
    Asleep,
}

/// What holds a chip back from its highest clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Its temperature.
    Heat,
    /// A limit on its power.
    Power,
    /// A limit on its current.
    Current,
    /// Something else that its driver reports as throttling.
    Other,
}

/// One chip at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChipSample {
    /// The chip.
    pub chip: ChipKey,
    /// Whether it is powered.
    pub power_state: Reading<PowerState>,
    /// How busy it is.
    pub busy: Reading<Busy>,
    /// Its power. Of a CPU it is the package's, with everything else that the package holds.
    pub power_watts: Reading<f64>,
    /// Its temperature, in degrees Celsius.
    pub temperature_celsius: Reading<f64>,
    /// Its clock, in MHz; of a CPU the median over the cores.
    pub clock_mhz: Reading<f64>,
    /// Device memory in use by all programs.
    pub memory_used_bytes: Reading<u64>,
    /// What holds it back now or held it back since the previous sample; none where it runs freely.
    pub limits: Reading<Vec<Limit>>,
}

impl ChipSample {
    /// A sample of a chip that tells nothing, for `reason`.
    pub fn unavailable(chip: ChipKey, reason: &str) -> Self {
        Self {
            chip,
            power_state: Reading::unavailable(reason),
            busy: Reading::unavailable(reason),
            power_watts: Reading::unavailable(reason),
            temperature_celsius: Reading::unavailable(reason),
            clock_mhz: Reading::unavailable(reason),
            memory_used_bytes: Reading::unavailable(reason),
            limits: Reading::unavailable(reason),
        }
    }
}

/// How much a chip's engines have worked for a process, since it opened the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineWork {
    /// As time, summed over the engines.
    Time {
        /// In nanoseconds.
        ns: u64,
    },
    /// As cycles of a clock of which only the relation of the two numbers is known.
    Cycles {
        /// Cycles in which an engine worked for the process, summed over the engines.
        busy: u64,
        /// Cycles that have passed.
        total: u64,
    },
}

impl EngineWork {
    /// The percent of the time between `earlier` and this in which engines worked for the process; over 100
    /// where several did at once.
    ///
    /// Unavailable where the two are not of one kind, where a counter went back, and where no time passed.
    pub fn percent_since(&self, earlier: &Self, elapsed: Duration) -> Reading<f64> {
        let (busy, total) = match (earlier, self) {
            (Self::Time { ns: then }, Self::Time { ns: now }) => {
                (now.checked_sub(*then), Some(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)))
            }
            (Self::Cycles { busy: then, total: start }, Self::Cycles { busy: now, total: end }) => {
                (now.checked_sub(*then), end.checked_sub(*start))
            }
            _ => return Reading::unavailable("the driver has changed how it counts the engines' work"),
        };
        match (busy, total) {
            (Some(busy), Some(total)) if total > 0 => Reading::Available(busy as f64 / total as f64 * 100.0),
            (Some(_), Some(_)) => Reading::unavailable("no time has passed between the two readings"),
            _ => Reading::unavailable("the counter of the engines' work went back"),
        }
    }

    /// The count of a process that has just opened the chip; `None` where the clock that it starts on is unknown.
    pub(crate) fn nothing_yet(self) -> Option<Self> {
        match self {
            Self::Time { .. } => Some(Self::Time { ns: 0 }),
            Self::Cycles { .. } => None,
        }
    }

    /// The work of two clients of one chip together; `None` where they are not counted alike.
    pub(crate) fn joined(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Time { ns: one }, Self::Time { ns: two }) => {
                Some(Self::Time { ns: one.saturating_add(two) })
            }
            (Self::Cycles { busy: one, total }, Self::Cycles { busy: two, total: other }) => {
                Some(Self::Cycles { busy: one.saturating_add(two), total: total.max(other) })
            }
            _ => None,
        }
    }
}

/// What one process has on one chip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessChipUse {
    /// The chip.
    pub chip: ChipKey,
    /// How much the chip has worked for the process.
    pub work: Reading<EngineWork>,
    /// The process's memory on the chip itself, such as the video memory of a discrete GPU.
    pub device_bytes: Reading<u64>,
    /// The machine's memory that the chip uses for the process, resident now.
    pub shared_bytes: Reading<u64>,
}

impl ProcessChipUse {
    /// A use of which nothing is known, for `reason`.
    pub fn unavailable(chip: ChipKey, reason: &str) -> Self {
        Self {
            chip,
            work: Reading::unavailable(reason),
            device_bytes: Reading::unavailable(reason),
            shared_bytes: Reading::unavailable(reason),
        }
    }
}

/// Reads the sensors of a machine's chips again and again.
///
/// Chips that a software driver imitates are left out: what they do, the CPU does. Values that are counted,
/// such as load and energy, start with the second sample. The first sample that finds
/// a GPU of NVIDIA's awake loads that driver's library, which may keep the GPU from going to sleep until the
/// sensors are dropped.
#[derive(Debug)]
pub struct ChipSensors {
    linux: Option<LinuxFiles>,
    chips: Vec<(Chip, Source)>,
    /// Counters that the system keeps beside the drivers' files.
    counters: Option<DeviceCounters>,
    nvidia: Option<Nvidia>,
    started: Instant,
}

/// Where a Linux machine is read, and who reads what its drivers tell of a process.
#[derive(Debug)]
struct LinuxFiles {
    roots: Roots,
    opened: Watched<()>,
}

impl LinuxFiles {
    fn new(roots: Roots, limit: Duration) -> Self {
        let name = format!("the driver behind the open files of a process below {}", roots.proc.display());
        Self { roots, opened: Watched::named(name, limit, || ()) }
    }

    fn clients(&mut self, pid: u32) -> Reading<Vec<Client>> {
        let roots = self.roots.clone();
        self.opened.ask(move |()| fdinfo::clients(&roots, pid)).and_then(|clients| clients)
    }
}

// A sampler runs in a thread of its own, beside the work that it watches.
const _: fn() = || {
    fn moves_between_threads<T: Send>() {}
    moves_between_threads::<ChipSensors>();
};

/// Where a chip's readings come from.
#[derive(Debug)]
enum Source {
    Linux(ChipReader),
    /// The CPU of another system.
    CpuTimes(CpuMeter),
    Nothing(String),
}

impl ChipSensors {
    /// Prepares to read the chips of a Linux machine, running or captured, below `roots`.
    ///
    /// Only files are read, so the load and the power of a GPU under NVIDIA's own driver are not told.
    /// Each driver has three seconds to answer; one that hangs is a reason at once for as long as it hangs.
    pub fn new(roots: Roots, chips: &[Chip]) -> Self {
        Self::with_time_limit(roots, chips, TIME_LIMIT)
    }

    /// Prepares to read below `roots`, where no driver has longer than `limit`.
    pub(crate) fn with_time_limit(roots: Roots, chips: &[Chip], limit: Duration) -> Self {
        let nodes = chip_readers::nodes(&roots);
        let chips = real(chips)
            .map(|chip| (chip.clone(), Source::Linux(ChipReader::new(&roots, chip, &nodes, limit))))
            .collect();
        let linux = Some(LinuxFiles::new(roots, limit));
        Self { linux, chips, counters: None, nvidia: None, started: Instant::now() }
    }

    /// Prepares to read the chips of the running machine.
    pub fn detect(chips: &[Chip]) -> Self {
        let nvidia = real(chips).any(is_nvidia).then(Nvidia::new);
        if cfg!(target_os = "linux") {
            return Self { nvidia, ..Self::new(Roots::system(), chips) };
        }
        let chips = real(chips)
            .map(|chip| {
                let source = match chip.kind {
                    ChipKind::Cpu => Source::CpuTimes(CpuMeter::default()),
                    kind => Source::Nothing(crate::os::no_chip_sensors(kind)),
                };
                (chip.clone(), source)
            })
            .collect();
        let counters = Some(DeviceCounters::new());
        Self { linux: None, chips, counters, nvidia, started: Instant::now() }
    }

    /// Reads every chip once, in the order in which they were given.
    pub fn sample(&mut self) -> Vec<ChipSample> {
        let now = self.started.elapsed();
        self.sample_at(now)
    }

    /// Reads every chip once, `now` after the start.
    pub(crate) fn sample_at(&mut self, now: Duration) -> Vec<ChipSample> {
        let Self { linux, chips, counters, nvidia, .. } = self;
        if let Some(counters) = counters {
            counters.collect();
        }
        chips
            .iter_mut()
            .map(|(chip, source)| {
                let mut sample = match (source, &linux) {
                    (Source::Linux(reader), Some(linux)) => reader.sample(&linux.roots, chip, now),
                    (Source::CpuTimes(meter), _) => ChipSample {
                        busy: meter.busy(now, crate::os::cpu_times()),
                        ..ChipSample::unavailable(
                            chip.key.clone(),
                            "the system tells programs nothing more of its CPU",
                        )
                    },
                    (Source::Nothing(reason), _) => {
                        let mut sample = ChipSample::unavailable(chip.key.clone(), reason);
                        if let Some(counters) = &counters {
                            counters.fill(chip, &mut sample);
                        }
                        sample
                    }
                    (Source::Linux(_), None) => {
                        ChipSample::unavailable(chip.key.clone(), "there are no files to read")
                    }
                };
                let asleep = sample.power_state == Reading::Available(PowerState::Asleep);
                if let Some(nvidia) = nvidia.as_mut().filter(|_| is_nvidia(chip) && !asleep) {
                    nvidia.fill(chip, &mut sample);
                }
                sample
            })
            .collect()
    }

    /// Reads what process `pid` has on each chip but the CPU.
    ///
    /// On Linux that takes the right to look into the process, as its owner has.
    pub fn process(&mut self, pid: u32) -> Vec<ProcessChipUse> {
        let Self { linux, chips, counters, nvidia, .. } = self;
        let clients = linux.as_mut().map(|linux| linux.clients(pid));
        let mut uses = Vec::new();
        for (chip, source) in chips.iter().filter(|(chip, _)| chip.kind != ChipKind::Cpu) {
            let mut found = match (source, &clients) {
                (Source::Linux(reader), Some(Reading::Available(clients))) => {
                    of_clients(chip, reader, clients)
                }
                (Source::Linux(_), Some(Reading::Unavailable(reason))) => {
                    ProcessChipUse::unavailable(chip.key.clone(), reason)
                }
                (Source::Nothing(reason), _) => {
                    let mut found = ProcessChipUse::unavailable(chip.key.clone(), reason);
                    if let Some(counters) = counters.as_mut() {
                        counters.fill_process(chip, pid, &mut found);
                    }
                    found
                }
                _ => ProcessChipUse::unavailable(chip.key.clone(), "the system does not tell it"),
            };
            let asleep = matches!(source, Source::Linux(reader) if reader.is_asleep());
            if let Some(nvidia) = nvidia.as_mut().filter(|_| is_nvidia(chip) && !asleep) {
                nvidia.fill_process(chip, pid, &mut found);
            }
            uses.push(found);
        }
        uses
    }
}

fn real(chips: &[Chip]) -> impl Iterator<Item = &Chip> {
    chips.iter().filter(|chip| !chip.software)
}

pub(crate) fn is_nvidia(chip: &Chip) -> bool {
    const NVIDIA: u16 = 0x10de;
    chip.kind == ChipKind::Gpu && chip.identity.pci_vendor == Some(NVIDIA)
}

/// Sums the clients that a process has on one chip.
fn of_clients(chip: &Chip, reader: &ChipReader, clients: &[Client]) -> ProcessChipUse {
    let mine = |client: &&Client| match (&client.place, reader.place()) {
        (Some(place), Some(known)) => place == known,
        // Without an address only the driver tells the chips apart.
        (None, _) => reader.driver() == Some(client.driver.as_str()),
        (Some(_), None) => false,
    };
    let mine: Vec<&Client> = clients.iter().filter(mine).collect();
    if mine.is_empty() {
        return ProcessChipUse::unavailable(chip.key.clone(), "the process has not opened the chip's device");
    }
    let untold = |what: &str| format!("the driver {} tells no {what} of a process", mine[0].driver);
    let work = mine.iter().filter_map(|client| client.work).reduce(|one, two| one.joined(two).unwrap_or(one));
    let sum = |bytes: fn(&Client) -> Option<u64>| {
        mine.iter().filter_map(|client| bytes(client)).reduce(u64::saturating_add)
    };
    ProcessChipUse {
        chip: chip.key.clone(),
        work: Reading::from_option(work, &untold("work")),
        device_bytes: Reading::from_option(sum(|client| client.device_bytes), &untold("memory on the chip")),
        shared_bytes: Reading::from_option(sum(|client| client.shared_bytes), &untold("memory")),
    }
}

#[cfg(test)]
mod tests;
