//! What macOS's answers mean: performance levels, caches, Apple's chips.
//!
//! Invariant: pure; the answers come from `os::macos` or from a test.

use siliconroute_core::chip::ChipIdentity;
use siliconroute_core::{ChipKind, Reading};

use crate::chips::{Adapter, Gap};
use crate::topology::{CacheKind, CacheLevel, ClusterKind, CoreCluster, add_cache, sort_caches};

/// More logical CPUs than any Mac has, so that a wrong answer cannot fill the memory.
const CPU_LIMIT: u64 = 1024;

/// Cores and caches; `number` answers a `sysctl` name.
pub(crate) fn read_topology(number: &dyn Fn(&str) -> Option<u64>) -> (Vec<CoreCluster>, Vec<CacheLevel>) {
    let line = number("hw.cachelinesize").and_then(|bytes| u32::try_from(bytes).ok());
    let levels = number("hw.nperflevels").unwrap_or(0).min(3);
    let no_clock = "macOS tells no clock of Apple's cores";
    if levels == 0 {
        return read_uniform(number, line);
    }
    let mut clusters = Vec::new();
    let mut caches = Vec::new();
    let mut next = 0;
    for level in 0..levels {
        let of = |name: &str| number(&format!("hw.perflevel{level}.{name}"));
        let cpus = u32::try_from(of("logicalcpu").unwrap_or(0).min(CPU_LIMIT)).unwrap_or(0);
        if cpus == 0 {
            continue;
        }
        let kind = match (levels, level) {
            (1, _) => ClusterKind::Uniform,
            (_, 0) => ClusterKind::Performance,
            (_, 1) => ClusterKind::Efficiency,
            _ => ClusterKind::LowPower,
        };
        clusters.push(CoreCluster {
            kind,
            logical_cpus: (next..next + cpus).collect(),
            max_mhz: Reading::unavailable(no_clock),
        });
        next += cpus;
        for (name, sharing, level, kind) in [
            ("l1dcachesize", "", 1, CacheKind::Data),
            ("l1icachesize", "", 1, CacheKind::Instruction),
            ("l2cachesize", "cpusperl2", 2, CacheKind::Unified),
            ("l3cachesize", "cpusperl3", 3, CacheKind::Unified),
        ] {
            let shared = of(sharing).filter(|_| !sharing.is_empty()).unwrap_or(1).clamp(1, CPU_LIMIT);
            let shared_by = u32::try_from(shared).unwrap_or(1);
            if let Some(size_bytes) = of(name).filter(|bytes| *bytes > 0) {
                let instances = cpus.div_ceil(shared_by);
                add_cache(
                    &mut caches,
                    CacheLevel { level, kind, size_bytes, line_bytes: line, instances, shared_by },
                );
            }
        }
    }
    sort_caches(&mut caches);
    (clusters, caches)
}

fn read_uniform(
    number: &dyn Fn(&str) -> Option<u64>,
    line: Option<u32>,
) -> (Vec<CoreCluster>, Vec<CacheLevel>) {
    let cpus = u32::try_from(number("hw.logicalcpu").unwrap_or(0).min(CPU_LIMIT)).unwrap_or(0);
    if cpus == 0 {
        return (Vec::new(), Vec::new());
    }
    let mhz = number("hw.cpufrequency_max").and_then(|hertz| u32::try_from(hertz / 1_000_000).ok());
    let clusters = vec![CoreCluster {
        kind: ClusterKind::Uniform,
        logical_cpus: (0..cpus).collect(),
        max_mhz: Reading::from_option(mhz, "macOS tells no clock of this processor"),
    }];
    let threads = number("hw.physicalcpu")
        .filter(|cores| *cores > 0)
        .map_or(1, |cores| u64::from(cpus).div_ceil(cores));
    let threads = u32::try_from(threads).unwrap_or(1).max(1);
    let mut caches = Vec::new();
    for (name, level, kind, shared_by) in [
        ("hw.l1dcachesize", 1, CacheKind::Data, threads),
        ("hw.l1icachesize", 1, CacheKind::Instruction, threads),
        ("hw.l2cachesize", 2, CacheKind::Unified, threads),
        ("hw.l3cachesize", 3, CacheKind::Unified, cpus),
    ] {
        if let Some(size_bytes) = number(name).filter(|bytes| *bytes > 0) {
            let instances = cpus.div_ceil(shared_by);
            caches.push(CacheLevel { level, kind, size_bytes, line_bytes: line, instances, shared_by });
        }
    }
    sort_caches(&mut caches);
    (clusters, caches)
}

/// The chips beside the CPU: on Apple silicon one GPU and one Neural Engine, both on the same die.
pub(crate) fn find_adapters(apple_silicon: bool, cpu_name: Option<&str>) -> (Vec<Adapter>, Vec<Gap>) {
    if !apple_silicon {
        let gap = |kind, reason: &str| Gap { kind, reason: reason.to_owned(), source: "sysctl".to_owned() };
        return (
            Vec::new(),
            vec![
                gap(
                    ChipKind::Gpu,
                    "GPUs of Macs with Intel processors are not listed: no provider here uses them",
                ),
                gap(ChipKind::Npu, "Macs with Intel processors have no Neural Engine"),
            ],
        );
    }
    let adapter = |kind, name: String, place: &str| Adapter {
        kind,
        name: Some(name),
        vendor: Some("Apple".to_owned()),
        identity: ChipIdentity { bus_address: Some(place.to_owned()), ..ChipIdentity::default() },
        memory_bytes: None,
        software: false,
        driver: None,
        source: "sysctl hw.optional.arm64".to_owned(),
        position: None,
    };
    let gpu = format!("{} GPU", cpu_name.unwrap_or("Apple"));
    (
        vec![
            adapter(ChipKind::Gpu, gpu, "soc"),
            adapter(ChipKind::Npu, "Apple Neural Engine".to_owned(), "soc"),
        ],
        Vec::new(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers<'a>(table: &'a [(&'a str, u64)]) -> impl Fn(&str) -> Option<u64> + 'a {
        move |name| table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    #[test]
    fn reads_apple_silicon() {
        let number = answers(&[
            ("hw.nperflevels", 2),
            ("hw.cachelinesize", 128),
            ("hw.perflevel0.logicalcpu", 4),
            ("hw.perflevel0.l1dcachesize", 131_072),
            ("hw.perflevel0.l2cachesize", 16_777_216),
            ("hw.perflevel0.cpusperl2", 4),
            ("hw.perflevel1.logicalcpu", 4),
            ("hw.perflevel1.l1dcachesize", 65_536),
            ("hw.perflevel1.l2cachesize", 4_194_304),
            ("hw.perflevel1.cpusperl2", 4),
        ]);
        let (clusters, caches) = read_topology(&number);
        assert_eq!(clusters[0].kind, ClusterKind::Performance);
        assert_eq!(clusters[1].logical_cpus, [4, 5, 6, 7]);
        let shape: Vec<(u32, u64, u32, u32)> = caches
            .iter()
            .map(|cache| (cache.level, cache.size_bytes, cache.instances, cache.shared_by))
            .collect();
        assert_eq!(
            shape,
            [(1, 131_072, 4, 1), (1, 65_536, 4, 1), (2, 16_777_216, 1, 4), (2, 4_194_304, 1, 4)]
        );
    }

    #[test]
    fn reads_an_intel_mac() {
        let number = answers(&[
            ("hw.logicalcpu", 8),
            ("hw.physicalcpu", 4),
            ("hw.cpufrequency_max", 2_300_000_000),
            ("hw.l2cachesize", 524_288),
            ("hw.l3cachesize", 8_388_608),
        ]);
        let (clusters, caches) = read_topology(&number);
        assert_eq!(clusters[0].max_mhz, Reading::Available(2300));
        assert_eq!((caches[0].instances, caches[1].shared_by), (4, 8));
    }

    #[test]
    fn wrong_answers_stay_bounded() {
        let (clusters, _) = read_topology(&|_| Some(u64::MAX));
        assert!(clusters.iter().map(|cluster| cluster.logical_cpus.len()).sum::<usize>() <= 3 * 1024);
        assert_eq!(read_topology(&|_| None), (Vec::new(), Vec::new()));
    }

    #[test]
    fn apple_silicon_has_a_gpu_and_a_neural_engine() {
        let (adapters, _) = find_adapters(true, Some("Apple M3"));
        assert_eq!(adapters[0].name.as_deref(), Some("Apple M3 GPU"));
        assert_eq!(adapters[1].identity.key(ChipKind::Npu).as_str(), "npu@soc");
        assert_eq!(find_adapters(false, None).1.len(), 2);
    }
}
