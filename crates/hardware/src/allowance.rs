//! Which CPUs this process may use, core by core, and for how much of the time.
//!
//! Invariant: no CPU outside the affinity mask is in it. Unlike the host's facts, which stay the same for every process,
//! this is about the process that asks.

use siliconroute_core::Reading;

use crate::host::HostFacts;
use crate::linux;
use crate::roots::Roots;
use crate::topology::ClusterKind;

/// The CPUs that this process may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    /// Clusters of cores, fastest first; one without a usable CPU is left out.
    pub clusters: Vec<AllowedCluster>,
    /// CPUs' worth of time that control groups grant; `None` where none limits it.
    pub quota_cpus: Reading<Option<f64>>,
    /// Why threads cannot be held on chosen CPUs, where they cannot.
    pub cannot_hold: Option<String>,
}

impl Allowance {
    /// Reads what a process of a Linux machine, running or captured below `roots`, may use of the host.
    pub fn below(roots: &Roots, host: &HostFacts) -> Self {
        linux::limits::allowance(roots, host)
    }
}

/// The usable cores of one design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCluster {
    /// What they are made for.
    pub kind: ClusterKind,
    /// The cores.
    pub cores: Vec<AllowedCore>,
}

/// A core with its usable logical CPUs, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedCore {
    /// The package that it sits in.
    pub package: u32,
    /// The system's numbers of the logical CPUs.
    pub cpus: Vec<u32>,
}

/// Reads what this process may use of the host.
pub fn detect_allowance(host: &HostFacts) -> Allowance {
    crate::os::allowance(host)
}

/// Holds the calling thread on these CPUs from now on.
///
/// Unavailable, with the reason, where the system does not allow it; the thread then runs where it ran before.
pub fn hold_thread_on(cpus: &[u32]) -> Reading<()> {
    crate::os::hold_thread_on(cpus)
}

/// Puts together the host's clusters, of which the process may use `allowed` (all where that is unknown).
///
/// `place` gives the package and the core of a CPU; CPUs of equal answers are one core.
pub(crate) fn assemble(
    host: &HostFacts,
    allowed: Option<&[u32]>,
    place: impl Fn(u32) -> (u32, u32),
) -> Vec<AllowedCluster> {
    let clusters = host.clusters.iter().map(|cluster| {
        let mut cores: Vec<((u32, u32), AllowedCore)> = Vec::new();
        for &cpu in &cluster.logical_cpus {
            if allowed.is_some_and(|allowed| !allowed.contains(&cpu)) {
                continue;
            }
            let at = place(cpu);
            match cores.iter_mut().find(|(known, _)| *known == at) {
                Some((_, core)) => core.cpus.push(cpu),
                None => cores.push((at, AllowedCore { package: at.0, cpus: vec![cpu] })),
            }
        }
        AllowedCluster { kind: cluster.kind, cores: cores.into_iter().map(|(_, core)| core).collect() }
    });
    clusters.filter(|cluster| !cluster.cores.is_empty()).collect()
}

#[cfg(test)]
mod tests;
