//! What a tuning measures with: the CPUs that the process may use, and work on them.
//!
//! Invariant: everything a tuning knows of the machine comes in through [`Workbench`], so that a simulated one gives
//! the same tuning every time.

use std::fmt;
use std::sync::Arc;

use siliconroute_core::Reading;
use siliconroute_core::chip_figure::ChipFigure;
use siliconroute_hardware::{
    Allowance, CacheKind, ClusterKind, HostFacts, detect_allowance, detect_conditions, hold_thread_on,
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

    /// Prepares the work for these places; the thread that calls is one of those that do it, and may be held on a CPU.
    ///
    /// # Errors
    /// When there is no memory for it.
    fn prepare(&self, places: &[Place]) -> Result<Box<dyn Work>, Unmeasurable>;
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
