//! The cores that a session setting can name, as this machine numbers them.
//!
//! Invariant: a name stands for CPUs of one design, and for none where all cores are alike or are not numbered.

use siliconroute_core::TargetKey;
use siliconroute_core::target::{Cores, RefusedSetting};
use siliconroute_hardware::{ClusterKind, HostFacts};

/// The CPUs behind each name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedCores {
    /// All of them.
    all: Vec<u32>,
    /// Those of the fastest design, where there are several.
    performance: Vec<u32>,
    /// Those of the next one.
    efficiency: Vec<u32>,
    /// Why threads cannot be kept to cores here at all.
    obstacle: Option<&'static str>,
}

impl NamedCores {
    /// The cores of a host.
    pub(crate) fn of(host: &HostFacts) -> Self {
        let of = |kind: ClusterKind| {
            let clusters = host.clusters.iter().filter(|cluster| cluster.kind == kind);
            clusters.flat_map(|cluster| cluster.logical_cpus.clone()).collect()
        };
        Self {
            all: host.clusters.iter().flat_map(|cluster| cluster.logical_cpus.clone()).collect(),
            performance: of(ClusterKind::Performance),
            efficiency: of(ClusterKind::Efficiency),
            obstacle: (host.os == "macos").then_some("macOS keeps no thread to a core"),
        }
    }

    /// The names that stand for cores here, the fastest first, with how many those are.
    pub(crate) fn named(&self) -> Vec<(Cores, u32)> {
        let named = [(Cores::Performance, &self.performance), (Cores::Efficiency, &self.efficiency)];
        let count = |cpus: &Vec<u32>| u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        named
            .into_iter()
            .filter(|(_, cpus)| !cpus.is_empty())
            .map(|(cores, cpus)| (cores, count(cpus)))
            .collect()
    }

    /// Why threads cannot be kept to cores here; `None` where they can.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        self.obstacle
    }

    /// The numbers that `cores` stands for.
    ///
    /// # Errors
    /// When the machine has none of that name, or not all of those listed.
    pub(crate) fn number(&self, cores: &Cores, target: &TargetKey) -> Result<Cores, RefusedSetting> {
        let refuse = |reason: String| RefusedSetting::NoSuchCores {
            target: target.clone(),
            cores: cores.clone(),
            reason,
        };
        if let Some(obstacle) = self.obstacle {
            return Err(refuse(obstacle.to_owned()));
        }
        let named = match cores {
            Cores::Performance => &self.performance,
            Cores::Efficiency => &self.efficiency,
            Cores::Listed(cpus) => {
                let missing = cpus.iter().find(|cpu| !self.all.contains(cpu));
                return match missing {
                    Some(cpu) => Err(refuse(format!("it has no CPU {cpu}"))),
                    None => Ok(cores.clone()),
                };
            }
        };
        Cores::listed(named.clone()).ok_or_else(|| refuse("its cores are all alike".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_numbers_only_where_cores_differ() {
        #[track_caller]
        fn check(machine: &NamedCores, text: &str, expected: Option<&str>) {
            let target = TargetKey("cpu/ort".to_owned());
            let found = machine.number(&Cores::parse(text).unwrap(), &target);
            assert_eq!(found.ok().map(|cores| cores.to_string()).as_deref(), expected, "{text}");
        }
        let hybrid = NamedCores {
            all: (0..8).collect(),
            performance: vec![0, 1],
            efficiency: (2..8).collect(),
            obstacle: None,
        };
        let alike = NamedCores { all: vec![0, 1], ..NamedCores::default() };
        let elsewhere = NamedCores { obstacle: Some("no"), ..hybrid.clone() };
        check(&hybrid, "performance", Some("0-1"));
        check(&hybrid, "efficiency", Some("2-7"));
        check(&hybrid, "0:4", Some("0:4"));
        check(&hybrid, "0-8", None);
        check(&alike, "performance", None);
        check(&alike, "0-1", Some("0-1"));
        check(&elsewhere, "performance", None);
    }
}
