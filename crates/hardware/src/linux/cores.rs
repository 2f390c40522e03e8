//! Cores and caches from `/sys/devices/system/cpu`.
//!
//! Invariant: the number of files read grows with cores and with shared caches, not with their product:
//! caches of a single core are read once per cluster, since cores of one design have the same.

use std::collections::BTreeSet;
use std::path::Path;

use siliconroute_core::Reading;

use crate::roots::{Roots, list_numbered, read_number, read_text, read_value, read_word};
use crate::topology::{
    CacheKind, CacheLevel, ClusterKind, CoreCluster, CpuTraits, add_cache, group_cores, parse_cpu_list,
    sort_caches,
};

/// A cache that more logical CPUs share than one core has threads.
const THREADS_PER_CORE: usize = 2;

/// Cores and caches of a machine.
#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) logical_cores: u32,
    pub(crate) physical_cores: Reading<u32>,
    pub(crate) clusters: Vec<CoreCluster>,
    pub(crate) caches: Vec<CacheLevel>,
}

/// Reads the cores and caches that are online.
pub(crate) fn read_topology(roots: &Roots) -> Topology {
    let base = roots.sys.join("devices/system/cpu");
    let online = online_cpus(roots, &base);
    let Some(online) = online else {
        let running = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        return Topology {
            logical_cores: u32::try_from(running).unwrap_or(u32::MAX),
            physical_cores: Reading::unavailable(format!("{} lists no CPUs", base.display())),
            clusters: Vec::new(),
            caches: Vec::new(),
        };
    };
    let clusters = read_clusters(roots, &base, &online);
    let caches = read_caches(&base, &clusters);
    Topology {
        logical_cores: u32::try_from(online.len()).unwrap_or(u32::MAX),
        physical_cores: physical_cores(&base, &online),
        clusters,
        caches,
    }
}

fn online_cpus(roots: &Roots, base: &Path) -> Option<Vec<u32>> {
    let listed = |name: &str| {
        let reading = read_value(&base.join(name), "a list of CPUs", parse_cpu_list);
        reading.available().filter(|cpus| !cpus.is_empty()).cloned()
    };
    listed("online").or_else(|| listed("present")).or_else(|| {
        // Sandboxes may hide /sys but leave /proc/stat, with one `cpuN` line for each CPU.
        let stat = read_text(&roots.proc.join("stat"));
        let cpus: Vec<u32> = stat
            .available()?
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        (!cpus.is_empty()).then_some(cpus)
    })
}

fn physical_cores(base: &Path, online: &[u32]) -> Reading<u32> {
    if read_number::<u32>(&base.join("smt/active")) == Reading::Available(0) {
        return Reading::Available(u32::try_from(online.len()).unwrap_or(u32::MAX));
    }
    let mut cores = BTreeSet::new();
    for cpu in online {
        match read_word(&base.join(format!("cpu{cpu}/topology/thread_siblings_list"))) {
            Reading::Available(siblings) => cores.insert(siblings),
            Reading::Unavailable(reason) => return Reading::Unavailable(reason),
        };
    }
    Reading::Available(u32::try_from(cores.len()).unwrap_or(u32::MAX))
}

fn read_clusters(roots: &Roots, base: &Path, online: &[u32]) -> Vec<CoreCluster> {
    // The performance counters of hybrid Intel processors list the CPUs of each design.
    let named = |unit: &str| -> Vec<u32> {
        let reading = read_value(&roots.sys.join("devices").join(unit).join("cpus"), "CPUs", parse_cpu_list);
        reading.available().cloned().unwrap_or_default()
    };
    let kinds = [
        (ClusterKind::Performance, named("cpu_core")),
        (ClusterKind::Efficiency, named("cpu_atom")),
        (ClusterKind::LowPower, named("cpu_lowpower")),
    ];
    let traits: Vec<CpuTraits> = online
        .iter()
        .map(|&cpu| {
            let folder = base.join(format!("cpu{cpu}"));
            CpuTraits {
                cpu,
                kind: kinds.iter().find(|(_, cpus)| cpus.binary_search(&cpu).is_ok()).map(|(kind, _)| *kind),
                capacity: read_number(&folder.join("cpu_capacity")).available().copied(),
                max_mhz: read_number::<u32>(&folder.join("cpufreq/cpuinfo_max_freq"))
                    .available()
                    .map(|khz| khz / 1000),
            }
        })
        .collect();
    let first = online.first().copied().unwrap_or(0);
    let no_clock = format!("{} does not exist", base.join(format!("cpu{first}/cpufreq")).display());
    group_cores(&traits, &no_clock)
}

fn read_caches(base: &Path, clusters: &[CoreCluster]) -> Vec<CacheLevel> {
    let mut caches = Vec::new();
    let mut counted: BTreeSet<(String, u32)> = BTreeSet::new();
    for cluster in clusters {
        let Some(first) = cluster.logical_cpus.first() else { continue };
        let indexes = list_numbered(&base.join(format!("cpu{first}/cache")), "index");
        for index in indexes.available().into_iter().flatten() {
            for cpu in &cluster.logical_cpus {
                if counted.contains(&(index.clone(), *cpu)) {
                    continue;
                }
                let Some((mut cache, sharing)) = read_cache(&base.join(format!("cpu{cpu}/cache/{index}")))
                else {
                    break;
                };
                if sharing.len() <= THREADS_PER_CORE {
                    let sharers = u32::try_from(sharing.len().max(1)).unwrap_or(1);
                    cache.instances =
                        u32::try_from(cluster.logical_cpus.len()).unwrap_or(u32::MAX).div_ceil(sharers);
                    add_cache(&mut caches, cache);
                    break;
                }
                counted.extend(sharing.into_iter().map(|cpu| (index.clone(), cpu)));
                counted.insert((index.clone(), *cpu));
                add_cache(&mut caches, cache);
            }
        }
    }
    sort_caches(&mut caches);
    caches
}

fn read_cache(folder: &Path) -> Option<(CacheLevel, Vec<u32>)> {
    let level = *read_number::<u32>(&folder.join("level")).available()?;
    let kind = match read_word(&folder.join("type")).available()?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let size_bytes = *read_value(&folder.join("size"), "a size", parse_size).available()?;
    let line_bytes = read_number(&folder.join("coherency_line_size")).available().copied();
    let sharing =
        read_value(&folder.join("shared_cpu_list"), "a list of CPUs", parse_cpu_list).available()?.clone();
    let shared_by = u32::try_from(sharing.len().max(1)).unwrap_or(u32::MAX);
    Some((CacheLevel { level, kind, size_bytes, line_bytes, instances: 1, shared_by }, sharing))
}

/// Parses a size such as `48K` or `12M` into bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
