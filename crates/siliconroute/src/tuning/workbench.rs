//! What a tuning measures with: the CPUs that the process may use, and work on them.
//!
//! Invariant: everything a tuning knows of the machine comes in through [`Workbench`], so that a simulated one gives
//! the same tuning every time.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;
use siliconroute_core::chip_figure::ChipFigure;
use siliconroute_hardware::{
    Allowance, CacheKind, ClusterKind, HostFacts, Interference, detect_allowance, detect_conditions,
    hold_thread_on, process_cpu_time_ns,
};
use siliconroute_kernels::tuner::{HoldThread, MatrixWork, MemorySizes, SIDE};

pub use siliconroute_kernels::tuner::{
    Cluster, Configuration, Core, CoreKind, Machine, Place, Room, Unmeasurable,
};

use super::WorkFacts;

/// Memory for figures where the system does not tell how much is free.
const LEAST_LIMIT_BYTES: u64 = 64 << 20;

/// Prepares work on a machine.
pub trait Workbench: fmt::Debug + Send + Sync {
    /// The CPUs that this process may use of the host.
    fn room(&self, host: &HostFacts) -> Room;

    /// Begins to watch what else the machine does; the function that it gives ends that and tells.
    fn watch(&self) -> Box<dyn FnOnce() -> Load>;

    /// Prepares the work for these places; the thread that calls is one of those that do it, and may be held on a CPU.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn prepare(&self, places: &[Place]) -> Result<Box<dyn Work>, Unmeasurable>;
}

/// What else a machine did while something was measured on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Threads that ran or waited for a core, over the minute before.
    pub load_average_1m: Reading<f64>,
    /// The cores that other programs kept busy.
    pub other_busy_cores: Reading<f64>,
    /// The share of all CPU time that other machines of the same host took, 0 to 1.
    pub steal_share: Reading<f64>,
    /// Whether the two took more than 5 % of all CPU time, so that the CPU may be capable of more than was measured.
    pub disturbed: Reading<bool>,
}

impl Load {
    /// A load that nothing is known of.
    pub fn unavailable(reason: &str) -> Self {
        Self {
            load_average_1m: Reading::unavailable(reason),
            other_busy_cores: Reading::unavailable(reason),
            steal_share: Reading::unavailable(reason),
            disturbed: Reading::unavailable(reason),
        }
    }

    pub(super) fn not_recorded() -> Self {
        Self::unavailable("not recorded")
    }
}

impl fmt::Display for Load {
    /// What is known of it, in a few words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.other_busy_cores {
            Reading::Available(cores) => write!(f, "other programs kept {cores:.1} cores busy")?,
            Reading::Unavailable(reason) => write!(f, "what other programs did is not known: {reason}")?,
        }
        match &self.steal_share {
            Reading::Available(share) if *share > 0.0 => {
                write!(f, ", other machines of the host took {:.0} % of the time", share * 100.0)
            }
            _ => Ok(()),
        }
    }
}

/// Work that can be measured.
pub trait Work: Machine {
    /// What the work is.
    fn facts(&self) -> WorkFacts;

    /// Measures what the CPU is capable of; what cannot be measured is left out.
    fn measure_figures(&mut self, host: &HostFacts, chosen: &Configuration) -> Vec<ChipFigure>;
}

/// The machine that the program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Workbench for ThisMachine {
    fn room(&self, host: &HostFacts) -> Room {
        let room = room_of(host, &detect_allowance(host));
        // Some sandboxes refuse what the system could do.
        let cpus = room.cpus();
        let tried = std::thread::scope(|scope| scope.spawn(|| hold_thread_on(&cpus)).join());
        let holds_threads = room.holds_threads && tried.is_ok_and(|held| held.available().is_some());
        Room { holds_threads, ..room }
    }

    fn watch(&self) -> Box<dyn FnOnce() -> Load> {
        let (before, own_before) = (detect_conditions(), process_cpu_time_ns());
        Box::new(move || {
            let own = process_cpu_time_ns().zip(own_before).map(|(now, then)| now.saturating_sub(then));
            let Interference { other_busy_cores, steal_share, disturbed, .. } =
                Interference::between(&before, &detect_conditions(), &own);
            Load { load_average_1m: before.load_average_1m, other_busy_cores, steal_share, disturbed }
        })
    }

    fn prepare(&self, places: &[Place]) -> Result<Box<dyn Work>, Unmeasurable> {
        let hold: HoldThread = Arc::new(|cpus| match hold_thread_on(cpus) {
            Reading::Available(()) => Ok(()),
            Reading::Unavailable(reason) => Err(reason),
        });
        Ok(Box::new(MatrixWork::prepare(places, hold)?))
    }
}

impl Work for MatrixWork {
    fn facts(&self) -> WorkFacts {
        WorkFacts {
            name: format!("matrix-vector product, {SIDE} × {SIDE}, fp32"),
            bytes: Self::BYTES as u64,
            pages: self.pages(),
        }
    }

    fn measure_figures(&mut self, host: &HostFacts, chosen: &Configuration) -> Vec<ChipFigure> {
        Self::measure_figures(self, &memory_sizes(host), chosen)
    }
}

/// The caches of a host; of several of one level the smallest, which is what every core has.
fn memory_sizes(host: &HostFacts) -> MemorySizes {
    let smallest = |level: u32| {
        let caches = host.caches.iter().filter(|cache| cache.level == level);
        caches
            .filter(|cache| cache.kind != CacheKind::Instruction)
            .map(|cache| {
                // A cache that several cores share is as good as split among them, but for the last one.
                let sharers = if level < 3 { u64::from(cache.shared_by.max(1)) } else { 1 };
                cache.size_bytes / sharers
            })
            .min()
            .filter(|size| *size > 0)
    };
    let free = detect_conditions().free_memory_bytes;
    MemorySizes {
        l1: smallest(1),
        l2: smallest(2),
        l3: smallest(3),
        limit: free.available().map_or(LEAST_LIMIT_BYTES, |free| free / 8),
    }
}

/// What is usable of a host, in the tuner's words. Where the system lists no cores, they count as equal.
pub(super) fn room_of(host: &HostFacts, allowance: &Allowance) -> Room {
    let kind = |kind: ClusterKind| match kind {
        ClusterKind::Performance => CoreKind::Performance,
        ClusterKind::Efficiency => CoreKind::Efficiency,
        ClusterKind::LowPower => CoreKind::LowPower,
        ClusterKind::Uniform => CoreKind::Uniform,
    };
    let clusters: Vec<Cluster> = allowance
        .clusters
        .iter()
        .map(|cluster| {
            let cores = cluster.cores.iter();
            let cores = cores.map(|core| Core { package: core.package, cpus: core.cpus.clone() }).collect();
            Cluster { kind: kind(cluster.kind), cores }
        })
        .collect();
    let quota_cpus = match &allowance.quota_cpus {
        Reading::Available(quota) => *quota,
        Reading::Unavailable(_) => None,
    };
    if clusters.is_empty() {
        let usable = host.usable_cores.available().map_or(f64::from(host.logical_cores), |cores| *cores);
        return Room { quota_cpus, ..Room::uniform(usable.max(1.0) as usize) };
    }
    Room { clusters, quota_cpus, holds_threads: allowance.cannot_hold.is_none() }
}
