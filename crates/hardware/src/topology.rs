//! Cores that differ, and the caches they share.
//!
//! Invariant: every logical CPU belongs to exactly one cluster; clusters come fastest first.

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

/// More logical CPUs than any supported system numbers.
const CPU_LIMIT: u32 = 1 << 14;
/// Cores whose speed is within this share of each other are of one design: favoured cores of one
/// die differ by up to 10 %, cores of different designs by 25 % and more.
const SAME_DESIGN_PERCENT: u64 = 85;

/// What the cores of a cluster are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ClusterKind {
    Performance,
    Efficiency,
    LowPower,
    /// All cores of the machine are alike.
    Uniform,
}

/// Logical CPUs of one core design.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreCluster {
    /// What the cores are made for.
    pub kind: ClusterKind,
    /// The system's numbers of the logical CPUs, ascending; macOS numbers none, there they count up from
    /// the performance cores.
    pub logical_cpus: Vec<u32>,
    /// The highest clock of any core of the cluster, in MHz.
    pub max_mhz: Reading<u32>,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CacheKind {
    Data,
    Instruction,
    Unified,
}

/// All caches of one level, kind, size and sharing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLevel {
    /// The level: 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// The size of one instance.
    pub size_bytes: u64,
    /// The length of a line, where known.
    pub line_bytes: Option<u32>,
    /// How many such caches the machine has.
    pub instances: u32,
    /// How many logical CPUs share one instance.
    pub shared_by: u32,
}

/// What tells the design of one logical CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTraits {
    pub(crate) cpu: u32,
    /// The kind that the system names outright.
    pub(crate) kind: Option<ClusterKind>,
    /// Relative capacity: the scheduler's on Linux, the efficiency class on Windows.
    pub(crate) capacity: Option<u64>,
    pub(crate) max_mhz: Option<u32>,
}

/// Groups CPUs by design: by the kind named outright, else by capacity, else by highest clock.
pub(crate) fn group_cores(traits: &[CpuTraits], no_clock: &str) -> Vec<CoreCluster> {
    let named = traits.iter().any(|cpu| cpu.kind.is_some());
    let groups = if named {
        group_named(traits)
    } else if traits.iter().all(|cpu| cpu.capacity.is_some()) {
        group_by_speed(traits, |cpu| cpu.capacity.unwrap_or(0))
    } else {
        group_by_speed(traits, |cpu| u64::from(cpu.max_mhz.unwrap_or(0)))
    };
    let count = groups.len();
    groups
        .into_iter()
        .enumerate()
        .map(|(rank, (kind, mut cpus))| {
            cpus.sort_by_key(|cpu| cpu.cpu);
            let by_rank = match (count, rank) {
                (1, _) => ClusterKind::Uniform,
                (_, 0) => ClusterKind::Performance,
                (2, _) | (_, 1) => ClusterKind::Efficiency,
                _ => ClusterKind::LowPower,
            };
            CoreCluster {
                kind: if count == 1 { ClusterKind::Uniform } else { kind.unwrap_or(by_rank) },
                logical_cpus: cpus.iter().map(|cpu| cpu.cpu).collect(),
                max_mhz: Reading::from_option(cpus.iter().filter_map(|cpu| cpu.max_mhz).max(), no_clock),
            }
        })
        .collect()
}

type Group = (Option<ClusterKind>, Vec<CpuTraits>);

fn group_named(traits: &[CpuTraits]) -> Vec<Group> {
    let of = |kind: ClusterKind| -> Vec<CpuTraits> {
        // A CPU that no list names is as fast as the fast ones, as far as anyone knows.
        traits.iter().filter(|cpu| cpu.kind.unwrap_or(ClusterKind::Performance) == kind).copied().collect()
    };
    let mut groups = vec![(Some(ClusterKind::Performance), of(ClusterKind::Performance))];
    let mut low_power = of(ClusterKind::LowPower);
    // Where the low-power cores are not listed on their own, they are the efficiency cores of lower clock.
    let mut by_clock =
        group_by_speed(&of(ClusterKind::Efficiency), |cpu| u64::from(cpu.max_mhz.unwrap_or(0)));
    if !by_clock.is_empty() {
        groups.push((Some(ClusterKind::Efficiency), by_clock.remove(0).1));
    }
    low_power.extend(by_clock.into_iter().flat_map(|(_, cpus)| cpus));
    groups.push((Some(ClusterKind::LowPower), low_power));
    groups.retain(|(_, cpus)| !cpus.is_empty());
    groups
}

fn group_by_speed(traits: &[CpuTraits], speed: impl Fn(&CpuTraits) -> u64) -> Vec<Group> {
    let mut sorted = traits.to_vec();
    sorted.sort_by_key(|cpu| std::cmp::Reverse(speed(cpu)));
    let mut groups: Vec<(u64, Vec<CpuTraits>)> = Vec::new();
    for cpu in sorted {
        let own = speed(&cpu);
        match groups.last_mut() {
            Some((top, group)) if own.saturating_mul(100) >= top.saturating_mul(SAME_DESIGN_PERCENT) => {
                group.push(cpu);
            }
            _ => groups.push((own, vec![cpu])),
        }
    }
    groups.into_iter().map(|(_, cpus)| (None, cpus)).collect()
}

/// Parses a list such as `0-3,8,10-11`; `None` for anything else. An empty text is an empty list.
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CPU_LIMIT {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > CPU_LIMIT as usize {
            return None;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Counts one more instance of a cache, or several.
pub(crate) fn add_cache(caches: &mut Vec<CacheLevel>, cache: CacheLevel) {
    let same = caches.iter_mut().find(|known| {
        (known.level, known.kind, known.size_bytes, known.shared_by)
            == (cache.level, cache.kind, cache.size_bytes, cache.shared_by)
    });
    match same {
        Some(known) => known.instances = known.instances.saturating_add(cache.instances),
        None => caches.push(cache),
    }
}

/// Puts caches into order: by level, kind, then the larger first.
pub(crate) fn sort_caches(caches: &mut [CacheLevel]) {
    caches.sort_by_key(|cache| (cache.level, cache.kind, std::cmp::Reverse(cache.size_bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed_or_refused() {
        #[track_caller]
        fn check(text: &str, expected: Option<&[u32]>) {
            assert_eq!(parse_cpu_list(text).as_deref(), expected);
        }
        check("0-3,8\n", Some(&[0, 1, 2, 3, 8]));
        check("5", Some(&[5]));
        check("", Some(&[]));
        check("2-3,0-2", Some(&[0, 1, 2, 3]));
        check("3-1", None);
        check("0-4294967295", None);
        check("0-16383,0-16383", None);
        check("a-b", None);
    }

    fn cpus(speeds: &[u32]) -> Vec<CpuTraits> {
        (0..)
            .zip(speeds)
            .map(|(cpu, &mhz)| CpuTraits { cpu, max_mhz: Some(mhz), ..CpuTraits::default() })
            .collect()
    }

    fn shape(clusters: &[CoreCluster]) -> Vec<(ClusterKind, Vec<u32>)> {
        clusters.iter().map(|cluster| (cluster.kind, cluster.logical_cpus.clone())).collect()
    }

    #[test]
    fn favoured_cores_stay_in_their_cluster() {
        let clusters = group_cores(&cpus(&[5100, 5400, 5100, 4900]), "no clock");
        assert_eq!(shape(&clusters), [(ClusterKind::Uniform, vec![0, 1, 2, 3])]);
        assert_eq!(clusters[0].max_mhz, Reading::Available(5400));
    }

    #[test]
    fn clocks_tell_compact_cores_apart() {
        let clusters = group_cores(&cpus(&[5100, 5100, 3300, 3300]), "no clock");
        assert_eq!(
            shape(&clusters),
            [(ClusterKind::Performance, vec![0, 1]), (ClusterKind::Efficiency, vec![2, 3])]
        );
    }

    #[test]
    fn low_power_cores_are_the_slower_of_the_named_efficiency_cores() {
        let mut traits = cpus(&[4800, 4500, 3800, 3800, 2500]);
        for cpu in &mut traits {
            cpu.kind = Some(if cpu.cpu < 2 { ClusterKind::Performance } else { ClusterKind::Efficiency });
        }
        assert_eq!(
            shape(&group_cores(&traits, "no clock")),
            [
                (ClusterKind::Performance, vec![0, 1]),
                (ClusterKind::Efficiency, vec![2, 3]),
                (ClusterKind::LowPower, vec![4])
            ]
        );
    }

    #[test]
    fn unknown_speeds_make_one_uniform_cluster() {
        let traits: Vec<CpuTraits> = (0..4).map(|cpu| CpuTraits { cpu, ..CpuTraits::default() }).collect();
        let clusters = group_cores(&traits, "no clock");
        assert_eq!(shape(&clusters), [(ClusterKind::Uniform, vec![0, 1, 2, 3])]);
        assert_eq!(clusters[0].max_mhz, Reading::unavailable("no clock"));
        assert!(group_cores(&[], "no clock").is_empty());
    }
}
