//! What the process may use of the machine: affinity, control groups of both versions, memory.
//!
//! Invariant: the tightest limit on the way from the process's control group up to the root counts.

use std::path::{Component, Path, PathBuf};

use siliconroute_core::Reading;

use crate::allowance::{Allowance, assemble};
use crate::host::HostFacts;
use crate::roots::{Roots, read_number, read_text, read_value};
use crate::topology::parse_cpu_list;

/// CPUs' worth of time that the process may use: its affinity mask and the CPU quotas around it.
pub(crate) fn usable_cores(roots: &Roots) -> Reading<f64> {
    let allowed = allowed_cpus(roots);
    let quota = cpu_quota(roots);
    match (allowed, quota) {
        (Reading::Available(cpus), Some(quota)) => Reading::Available((cpus.len() as f64).min(quota)),
        (Reading::Available(cpus), None) => Reading::Available(cpus.len() as f64),
        (Reading::Unavailable(_), Some(quota)) => Reading::Available(quota),
        (Reading::Unavailable(reason), None) => Reading::Unavailable(reason),
    }
}

/// The CPUs of the process's affinity mask.
fn allowed_cpus(roots: &Roots) -> Reading<Vec<u32>> {
    read_value(&roots.proc.join("self/status"), "a line Cpus_allowed_list", |status| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        parse_cpu_list(list).filter(|cpus| !cpus.is_empty())
    })
}

/// What the process may use of a host, core by core.
pub(crate) fn allowance(roots: &Roots, host: &HostFacts) -> Allowance {
    let allowed = allowed_cpus(roots);
    let base = roots.sys.join("devices/system/cpu");
    let place = |cpu: u32| {
        let topology = base.join(format!("cpu{cpu}/topology"));
        let package = read_number(&topology.join("physical_package_id"));
        let siblings = read_value(&topology.join("thread_siblings_list"), "a list of CPUs", parse_cpu_list);
        let first = siblings.available().and_then(|siblings| siblings.first().copied());
        (package.available().copied().unwrap_or(0), first.unwrap_or(cpu))
    };
    Allowance {
        clusters: assemble(host, allowed.available().map(Vec::as_slice), place),
        quota_cpus: Reading::Available(cpu_quota(roots)),
        cannot_hold: None,
    }
}

/// The tightest CPU quota around the process, in CPUs.
fn cpu_quota(roots: &Roots) -> Option<f64> {
    let mut quotas = Vec::new();
    for folder in group_folders(roots, "cpu") {
        let v2 = read_value(&folder.join("cpu.max"), "a quota and a period", |text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<f64>().ok()?, period.trim().parse::<f64>().ok()?))
        });
        let v1 = match (
            read_number::<f64>(&folder.join("cpu.cfs_quota_us")),
            read_number::<f64>(&folder.join("cpu.cfs_period_us")),
        ) {
            (Reading::Available(quota), Reading::Available(period)) => Some((quota, period)),
            _ => None,
        };
        quotas.extend(v2.available().copied().into_iter().chain(v1));
    }
    quotas
        .into_iter()
        // A quota of -1, like the word `max`, means that there is none.
        .filter(|(quota, period)| quota.is_finite() && period.is_finite() && *quota > 0.0 && *period > 0.0)
        .map(|(quota, period)| quota / period)
        .min_by(f64::total_cmp)
}

/// Memory that a new allocation may count on: the system's estimate, within the control groups.
pub(crate) fn free_memory_bytes(roots: &Roots) -> Reading<u64> {
    let system = memory_field(roots, "MemAvailable");
    let group = group_folders(roots, "memory").iter().filter_map(|folder| group_headroom_bytes(folder)).min();
    match (system, group) {
        (Reading::Available(system), Some(group)) => Reading::Available(system.min(group)),
        (reading, _) => reading,
    }
}

/// What is left below a control group's limit; reclaimable file cache counts as free.
fn group_headroom_bytes(folder: &Path) -> Option<u64> {
    let number = |name: &str| read_number::<u64>(&folder.join(name)).available().copied();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read_text(&folder.join("memory.stat"));
    let field = |name: &str| {
        stat.available()?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let cache: u64 = field("total_inactive_file").or_else(|| field("inactive_file")).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cache)))
}

/// One line of `/proc/meminfo`, in bytes.
pub(crate) fn memory_field(roots: &Roots, name: &str) -> Reading<u64> {
    let wanted = format!("a line {name}");
    read_value(&roots.proc.join("meminfo"), &wanted, |text| kibibyte_field(text, name))
}

/// A line `name: 123 kB`, in bytes.
pub(crate) fn kibibyte_field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of the process's control group for `controller` and of all groups above it.
///
/// In a container the path may be that of the host while the mount shows only the container's own
/// group; the folders that do not exist are harmless, and the mount's root is always in the list.
fn group_folders(roots: &Roots, controller: &str) -> Vec<PathBuf> {
    let mount = roots.sys.join("fs/cgroup");
    let listing = read_text(&roots.proc.join("self/cgroup"));
    let mut folders = vec![mount.clone()];
    for line in listing.available().map(String::as_str).unwrap_or_default().lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let bases = if controllers.is_empty() {
            vec![mount.clone(), mount.join("unified")]
        } else if controllers.split(',').any(|name| name == controller) {
            vec![mount.join(controllers), mount.join(controller)]
        } else {
            continue;
        };
        // A path that leaves its namespace (`/../..`) names nothing below the mount.
        let inside: PathBuf =
            Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let leaves = Path::new(path).components().any(|part| part == Component::ParentDir);
        for base in bases {
            let mut folder = if leaves { base.clone() } else { base.join(&inside) };
            while folder.starts_with(&base) {
                if !folders.contains(&folder) {
                    folders.push(folder.clone());
                }
                if !folder.pop() {
                    break;
                }
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    const STATUS: &str = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n";

    #[track_caller]
    fn check_cores(files: &[(&str, &str)], expected: f64) {
        let tree = Tree::new().files(files);
        assert_eq!(usable_cores(&tree.roots()), Reading::Available(expected));
    }

    #[test]
    fn the_tightest_of_mask_and_quotas_counts() {
        check_cores(&[("proc/self/status", STATUS)], 8.0);
        check_cores(&[("proc/self/status", "Cpus_allowed_list:\t0,2-3\n")], 3.0);
        // A container sees its own group as the root of the mount.
        check_cores(
            &[
                ("proc/self/status", STATUS),
                ("proc/self/cgroup", "0::/\n"),
                ("sys/fs/cgroup/cpu.max", "300000 100000\n"),
            ],
            3.0,
        );
        check_cores(
            &[
                ("proc/self/status", STATUS),
                ("proc/self/cgroup", "0::/user.slice/app.scope\n"),
                ("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n"),
                ("sys/fs/cgroup/user.slice/app.scope/cpu.max", "max 100000\n"),
            ],
            2.5,
        );
        check_cores(
            &[
                ("proc/self/status", STATUS),
                ("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ],
            1.5,
        );
        check_cores(
            &[
                ("proc/self/status", STATUS),
                ("proc/self/cgroup", "1:cpu:/\n"),
                ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ],
            8.0,
        );
    }

    #[test]
    fn garbage_limits_are_no_limits() {
        check_cores(
            &[
                ("proc/self/status", STATUS),
                ("proc/self/cgroup", "0::/../../escape\nnonsense\n7:cpu\n"),
                ("sys/fs/cgroup/cpu.max", "NaN 0\n"),
                ("sys/escape/cpu.max", "100000 100000\n"),
            ],
            8.0,
        );
        let reading = usable_cores(&Tree::new().roots());
        assert!(matches!(reading, Reading::Unavailable(reason) if reason.ends_with("status does not exist")));
    }

    #[test]
    fn free_memory_stays_within_the_control_group() {
        let meminfo = ("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n");
        let tree = Tree::new().files(&[meminfo]);
        assert_eq!(memory_field(&tree.roots(), "MemTotal"), Reading::Available(16000 * 1024));
        assert_eq!(free_memory_bytes(&tree.roots()), Reading::Available(8000 * 1024));
        let tree = Tree::new().files(&[
            meminfo,
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/memory.max", "4194304\n"),
            ("sys/fs/cgroup/job/memory.current", "3145728\n"),
            ("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 1048576\n"),
        ]);
        assert_eq!(free_memory_bytes(&tree.roots()), Reading::Available(2 << 20));
        let tree = Tree::new().files(&[
            meminfo,
            ("proc/self/cgroup", "2:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n"),
        ]);
        assert_eq!(free_memory_bytes(&tree.roots()), Reading::Available(8000 * 1024));
    }
}
