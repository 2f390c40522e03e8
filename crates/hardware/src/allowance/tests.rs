//! Captured machines, and the thread that runs the test.

use super::*;
use crate::fixture::Tree;

fn shape(allowance: &Allowance) -> Vec<(ClusterKind, Vec<Vec<u32>>)> {
    let cores = |cluster: &AllowedCluster| cluster.cores.iter().map(|core| core.cpus.clone()).collect();
    allowance.clusters.iter().map(|cluster| (cluster.kind, cores(cluster))).collect()
}

fn allowance(tree: &Tree) -> Allowance {
    Allowance::below(&tree.roots(), &tree.host_facts())
}

fn hybrid() -> Tree {
    let mut tree = Tree::new().cpus(6, 1).file("sys/devices/system/cpu/smt/active", "1\n");
    for cpu in 0..4 {
        let first = cpu / 2 * 2;
        tree =
            tree.each_cpu(cpu..cpu + 1, "topology/thread_siblings_list", &format!("{first}-{}\n", first + 1));
    }
    tree.file("sys/devices/cpu_core/cpus", "0-3\n").file("sys/devices/cpu_atom/cpus", "4-5\n")
}

#[test]
fn threads_of_one_core_stay_together() {
    let tree = hybrid().file("proc/self/status", "Cpus_allowed_list:\t0-5\n");
    assert_eq!(
        shape(&allowance(&tree)),
        [
            (ClusterKind::Performance, vec![vec![0, 1], vec![2, 3]]),
            (ClusterKind::Efficiency, vec![vec![4], vec![5]])
        ]
    );
}

#[test]
fn a_mask_leaves_out_cpus_cores_and_clusters() {
    let tree = hybrid().file("proc/self/status", "Cpus_allowed_list:\t0,2-3\n");
    assert_eq!(shape(&allowance(&tree)), [(ClusterKind::Performance, vec![vec![0], vec![2, 3]])]);
}

#[test]
fn a_hidden_mask_leaves_nothing_out() {
    let found = allowance(&hybrid());
    assert_eq!(found.clusters.iter().flat_map(|cluster| &cluster.cores).count(), 4);
}

#[test]
fn packages_are_told_apart() {
    let tree = Tree::new().cpus(4, 1).each_cpu(0..2, "topology/physical_package_id", "0\n").each_cpu(
        2..4,
        "topology/physical_package_id",
        "1\n",
    );
    let found = allowance(&tree);
    let packages: Vec<u32> = found.clusters[0].cores.iter().map(|core| core.package).collect();
    assert_eq!(packages, [0, 0, 1, 1]);
}

#[test]
fn quotas_of_both_versions_are_read() {
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: Option<f64>) {
        let tree = files.iter().fold(hybrid(), |tree, (path, text)| tree.file(path, text));
        assert_eq!(allowance(&tree).quota_cpus, Reading::Available(expected));
    }
    check(&[], None);
    check(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", "300000 100000\n")], Some(3.0));
    check(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", "max 100000\n")], None);
    check(
        &[
            ("proc/self/cgroup", "1:cpu:/\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ],
        Some(2.5),
    );
}

#[test]
fn a_thread_is_held_where_the_system_allows_it() {
    let found = detect_allowance(&crate::detect_host());
    let first = found.clusters.first().and_then(|cluster| cluster.cores.first()).map(|core| core.cpus[0]);
    let held = std::thread::spawn(move || hold_thread_on(&[first.unwrap_or(0)])).join().unwrap();
    assert_eq!(held.available().is_none(), found.cannot_hold.is_some(), "{held:?}");
    for absurd in [&[][..], &[u32::MAX]] {
        let refused = std::thread::spawn(move || hold_thread_on(absurd)).join().unwrap();
        assert!(refused.available().is_none(), "{absurd:?}");
    }
}
