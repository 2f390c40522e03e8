//! Captured machines: which cores and caches are read from them.

use super::*;
use crate::fixture::Tree;

fn shape(topology: &Topology) -> Vec<(ClusterKind, usize)> {
    topology.clusters.iter().map(|cluster| (cluster.kind, cluster.logical_cpus.len())).collect()
}

fn cache_shape(topology: &Topology) -> Vec<(u32, CacheKind, u64, u32, u32)> {
    topology
        .caches
        .iter()
        .map(|cache| (cache.level, cache.kind, cache.size_bytes >> 10, cache.instances, cache.shared_by))
        .collect()
}

#[test]
fn reads_a_hybrid_laptop() {
    // Six performance cores with two threads (0-11) and eight efficiency cores (12-19).
    let mut tree = Tree::new().cpus(20, 1).file("sys/devices/system/cpu/smt/active", "1\n");
    for cpu in 0..12 {
        let first = cpu / 2 * 2;
        tree =
            tree.each_cpu(cpu..cpu + 1, "topology/thread_siblings_list", &format!("{first}-{}\n", first + 1));
    }
    let tree = tree
        .file("sys/devices/cpu_core/cpus", "0-11\n")
        .file("sys/devices/cpu_atom/cpus", "12-19\n")
        .each_cpu(0..20, "cpu_capacity", "1024\n")
        .each_cpu(0..12, "cpufreq/cpuinfo_max_freq", "4700000\n")
        .each_cpu(2..4, "cpufreq/cpuinfo_max_freq", "5000000\n")
        .each_cpu(12..20, "cpufreq/cpuinfo_max_freq", "3600000\n")
        .cache(0..12, 0, (1, "Data", "48K"), 2)
        .cache(12..20, 0, (1, "Data", "32K"), 1)
        .cache(0..12, 2, (2, "Unified", "1280K"), 2)
        .cache(12..20, 2, (2, "Unified", "2048K"), 4)
        .cache(0..20, 3, (3, "Unified", "24M"), 20);
    let topology = read_topology(&tree.roots());
    assert_eq!(topology.logical_cores, 20);
    assert_eq!(topology.physical_cores, Reading::Available(14));
    assert_eq!(shape(&topology), [(ClusterKind::Performance, 12), (ClusterKind::Efficiency, 8)]);
    assert_eq!(topology.clusters[0].max_mhz, Reading::Available(5000));
    assert_eq!(
        cache_shape(&topology),
        [
            (1, CacheKind::Data, 48, 6, 2),
            (1, CacheKind::Data, 32, 8, 1),
            (2, CacheKind::Unified, 2048, 2, 4),
            (2, CacheKind::Unified, 1280, 6, 2),
            (3, CacheKind::Unified, 24 * 1024, 1, 20)
        ]
    );
}

#[test]
fn reads_a_big_little_board() {
    let tree = Tree::new()
        .cpus(8, 1)
        .each_cpu(0..4, "cpu_capacity", "414\n")
        .each_cpu(4..8, "cpu_capacity", "1024\n")
        .each_cpu(0..4, "cpufreq/cpuinfo_max_freq", "1800000\n")
        .each_cpu(4..8, "cpufreq/cpuinfo_max_freq", "2400000\n");
    let topology = read_topology(&tree.roots());
    assert_eq!(topology.physical_cores, Reading::Available(8));
    assert_eq!(shape(&topology), [(ClusterKind::Performance, 4), (ClusterKind::Efficiency, 4)]);
    assert_eq!(topology.clusters[0].logical_cpus, [4, 5, 6, 7]);
    assert_eq!(topology.clusters[1].max_mhz, Reading::Available(1800));
    assert!(topology.caches.is_empty());
}

#[test]
fn reads_two_sockets() {
    let tree = Tree::new()
        .cpus(32, 2)
        .cache(0..32, 0, (1, "Data", "32K"), 2)
        .cache(0..32, 1, (1, "Instruction", "32K"), 2)
        .cache(0..32, 3, (3, "Unified", "16384K"), 16);
    let topology = read_topology(&tree.roots());
    assert_eq!(topology.physical_cores, Reading::Available(16));
    assert_eq!(shape(&topology), [(ClusterKind::Uniform, 32)]);
    assert_eq!(
        cache_shape(&topology),
        [
            (1, CacheKind::Data, 32, 16, 2),
            (1, CacheKind::Instruction, 32, 16, 2),
            (3, CacheKind::Unified, 16384, 2, 16)
        ]
    );
}

#[test]
fn unequal_shared_caches_are_told_apart() {
    let tree = Tree::new().cpus(16, 1).cache(0..8, 3, (3, "Unified", "96M"), 8).cache(
        8..16,
        3,
        (3, "Unified", "32M"),
        8,
    );
    assert_eq!(
        cache_shape(&read_topology(&tree.roots())),
        [(3, CacheKind::Unified, 96 << 10, 1, 8), (3, CacheKind::Unified, 32 << 10, 1, 8)]
    );
}

#[test]
fn a_bare_virtual_machine_says_what_is_missing() {
    let tree = Tree::new().file("sys/devices/system/cpu/online", "0-1\n");
    let topology = read_topology(&tree.roots());
    assert_eq!(topology.logical_cores, 2);
    assert!(
        matches!(topology.physical_cores, Reading::Unavailable(reason) if reason.contains("thread_siblings_list"))
    );
    assert!(
        matches!(&topology.clusters[0].max_mhz, Reading::Unavailable(reason) if reason.ends_with("cpu0/cpufreq does not exist"))
    );
}

#[test]
fn the_process_tree_counts_cpus_where_the_device_tree_is_hidden() {
    let tree = Tree::new().file("proc/stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\ncpu5 1 2 3\nintr 7\n");
    assert_eq!(read_topology(&tree.roots()).logical_cores, 3);
    assert!(read_topology(&Tree::new().roots()).logical_cores >= 1);
}

#[test]
fn garbage_is_refused() {
    let tree = Tree::new()
        .file("sys/devices/system/cpu/online", "0-999999999\n")
        .file("sys/devices/system/cpu/present", "0-1\n")
        .cache(0..2, 0, (1, "Data", "99999999999999999999G"), 1)
        .cache(0..2, 1, (1, "Mystery", "32K"), 1)
        .cache(0..2, 2, (2, "Unified", "18446744073709551615K"), 2);
    let topology = read_topology(&tree.roots());
    assert_eq!(topology.logical_cores, 2);
    assert!(topology.caches.is_empty());
}

#[test]
fn sizes_have_units() {
    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse_size(text), expected);
    }
    check("48K", Some(49_152));
    check("12M", Some(12 << 20));
    check("1G", Some(1 << 30));
    check("512", Some(512));
    check("", None);
    check("K", None);
    check("é", None);
}
