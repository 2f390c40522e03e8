//! Measurements on their way from one machine to another: which hardware, which library, which case, what time.
//!
//! Invariant: nothing here tells a machine, a person or a place. A chip is what it is and not which one, a model its
//! hash and numbers, a day no moment.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::accuracy::OutputDifference;
use crate::chip::{ChipKey, ChipKind};
use crate::identity::{CaseId, ModelId};
use crate::model::CaseFacts;
use crate::statistics::Interval;
use crate::target::Target;
use crate::workload::Workload;

/// What a chip is, the same for all chips of one design.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChipModel {
    /// CPU, GPU or NPU.
    pub kind: ChipKind,
    /// The maker; empty where it is not known.
    pub vendor: String,
    /// The marketing name, for a CPU as the hardware id has it; empty where it is not known.
    pub name: String,
    /// The ids of the design, such as `10de:2d18`; a CPU has none.
    pub ids: Option<String>,
    /// The architecture of a CPU, such as `x86_64`.
    pub architecture: Option<String>,
    /// Logical cores of a CPU that programs may use.
    pub logical_cores: Option<u32>,
    /// Memory of its own.
    pub memory_bytes: Option<u64>,
}

impl ChipModel {
    /// The ids in a chip's key: what stands between its kind and its place.
    pub fn ids_of(key: &ChipKey) -> Option<String> {
        let (design, _place) = key.as_str().split_once('@').unwrap_or((key.as_str(), ""));
        let (_kind, ids) = design.split_once(':')?;
        (!ids.is_empty()).then(|| ids.to_owned())
    }

    /// Whether both are of one design. What is known of neither makes no two chips the same.
    pub fn is_same_design(&self, other: &Self) -> bool {
        let same_name = !self.name.is_empty() && self.name == other.name;
        let same = match (self.kind, &self.ids, &other.ids) {
            (ChipKind::Cpu, ..) => {
                same_name
                    && self.architecture == other.architecture
                    && self.logical_cores.is_some()
                    && self.logical_cores == other.logical_cores
            }
            (_, Some(one), Some(two)) => one == two,
            (_, None, None) => same_name && self.vendor == other.vendor,
            _ => false,
        };
        self.kind == other.kind && same
    }
}

/// A provider on a design of chip, with the version of its library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FleetTarget {
    /// The chip.
    pub chip: ChipModel,
    /// The short name of the provider.
    pub provider: String,
    /// The target's key without its chip: provider, variant and settings, such as `openvino-bf16`.
    pub target: String,
    /// The version of the provider's library.
    pub library_version: String,
    /// The driver of the chip, where one is known.
    pub driver: Option<String>,
}

/// What stands before the driver in the version of a provider.
pub const DRIVER_MARK: &str = ", driver ";

impl FleetTarget {
    /// The target without the place of its chip; `None` where its key does not begin with its chip.
    pub fn of(target: &Target, chip: ChipModel) -> Option<Self> {
        let name = target.key.as_str().strip_prefix(target.chip.as_str())?.strip_prefix('/')?;
        let (version, driver) = match target.provider_version.split_once(DRIVER_MARK) {
            Some((version, driver)) => (version, Some(driver.to_owned())),
            None => (target.provider_version.as_str(), None),
        };
        Some(Self {
            chip,
            provider: target.provider.as_str().to_owned(),
            target: name.to_owned(),
            library_version: version.to_owned(),
            driver,
        })
    }

    /// Whether times of one may be expected of the other: the same design of chip, provider, settings and library.
    /// Drivers may differ.
    pub fn is_same_kind(&self, other: &Self) -> bool {
        self.target == other.target
            && self.provider == other.provider
            && self.library_version == other.library_version
            && self.chip.is_same_design(&other.chip)
    }
}

/// A case without names: hashes and numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetCase {
    /// The case.
    pub id: CaseId,
    /// Its model.
    pub model: ModelId,
    /// Its facts, of which the names of inputs and the assumptions are empty.
    pub facts: CaseFacts,
}

impl FleetCase {
    /// Takes the names out of a case's facts.
    pub fn new(id: CaseId, model: ModelId, mut facts: CaseFacts) -> Self {
        facts.inputs.iter_mut().for_each(|input| input.name.clear());
        facts.index_limits.clear();
        facts.assumptions.clear();
        Self { id, model, facts }
    }
}

/// What one session measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetTime {
    /// On what.
    pub target: FleetTarget,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// The day, counted from 1970-01-01 in UTC.
    pub unix_day: i64,
    /// Number of samples.
    pub samples: u64,
    /// Their median.
    pub median_ns: f64,
    /// The 95 % interval of the median, where the samples tell one.
    pub interval: Option<Interval>,
    /// The shortest.
    pub min_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// Wall time to create the session.
    pub session_create_ns: u64,
    /// Wall time of the first inference.
    pub first_run_ns: u64,
    /// The most memory that the process held, where it was read.
    pub peak_resident_bytes: Option<u64>,
    /// How far the outputs lay from the reference; `None` where they were not compared or are the reference.
    pub outputs: Option<OutputDifference>,
}

impl FleetTime {
    /// Tells this session from every other one, however its statistics are derived.
    ///
    /// Wall times of a session in nanoseconds repeat in no other, so equal digests are one session, and files that
    /// share one come from one machine.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.case.0);
        for text in [self.target.target.as_str(), &self.target.library_version, self.workload.name()] {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        for number in [self.samples, self.session_create_ns, self.first_run_ns] {
            hash.update(number.to_le_bytes());
        }
        for time in [self.min_ns, self.max_ns] {
            hash.update(time.to_le_bytes());
        }
        hash.finalize().into()
    }
}

const MS_PER_DAY: i64 = 86_400_000;

/// The day of a moment in milliseconds since 1970, counted from 1970-01-01 in UTC.
pub fn unix_day(unix_ms: i64) -> i64 {
    unix_ms.div_euclid(MS_PER_DAY)
}

/// The first millisecond of a day.
pub fn unix_ms_of_day(day: i64) -> i64 {
    day.saturating_mul(MS_PER_DAY)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::target::{ProviderName, TargetKey};

    fn chip(kind: ChipKind, name: &str, ids: Option<&str>, cores: Option<u32>) -> ChipModel {
        ChipModel {
            kind,
            vendor: "Maker".to_owned(),
            name: name.to_owned(),
            ids: ids.map(str::to_owned),
            architecture: None,
            logical_cores: cores,
            memory_bytes: None,
        }
    }

    #[test]
    fn chips_are_of_one_design_where_enough_is_known() {
        #[track_caller]
        fn check(one: &ChipModel, two: &ChipModel, same: bool) {
            assert_eq!((one.is_same_design(two), two.is_same_design(one)), (same, same), "{one:?} {two:?}");
        }
        let cpu = |name, cores| chip(ChipKind::Cpu, name, None, cores);
        let gpu = |name, ids| chip(ChipKind::Gpu, name, ids, None);
        check(&cpu("fast_9", Some(8)), &cpu("fast_9", Some(8)), true);
        check(&cpu("fast_9", Some(8)), &cpu("fast_9", Some(4)), false);
        check(&cpu("fast_9", None), &cpu("fast_9", None), false);
        check(&cpu("", Some(8)), &cpu("", Some(8)), false);
        check(&gpu("GPU", Some("10de:1")), &gpu("called otherwise", Some("10de:1")), true);
        check(&gpu("GPU", Some("10de:1")), &gpu("GPU", Some("10de:2")), false);
        check(&gpu("GPU", Some("10de:1")), &gpu("GPU", None), false);
        check(&gpu("M9", None), &gpu("M9", None), true);
        check(&gpu("", None), &gpu("", None), false);
        check(&gpu("M9", None), &chip(ChipKind::Npu, "M9", None, None), false);
    }

    #[test]
    fn a_target_loses_the_place_of_its_chip() {
        let key = ChipKey("gpu:10de:2d18@GPU-5f2c0f70".to_owned());
        assert_eq!(ChipModel::ids_of(&key).as_deref(), Some("10de:2d18"));
        let target = Target {
            key: TargetKey(format!("{key}/cuda-fp16")),
            provider: ProviderName("cuda".to_owned()),
            provider_version: "1.2 on onnxruntime 1.27.0, driver 580.1".to_owned(),
            chip: key,
            chip_kind: ChipKind::Gpu,
            options: BTreeMap::new(),
        };
        let model = chip(ChipKind::Gpu, "GPU", Some("10de:2d18"), None);
        let fleet = FleetTarget::of(&target, model.clone()).unwrap();
        assert_eq!(fleet.target, "cuda-fp16");
        assert_eq!(fleet.library_version, "1.2 on onnxruntime 1.27.0");
        assert_eq!(fleet.driver.as_deref(), Some("580.1"));
        assert!(fleet.is_same_kind(&FleetTarget { driver: None, ..fleet.clone() }));
        assert!(!fleet.is_same_kind(&FleetTarget { library_version: "1.3".to_owned(), ..fleet.clone() }));
        assert_eq!(FleetTarget::of(&Target { chip: ChipKey::cpu(), ..target }, model), None);
        assert_eq!(ChipModel::ids_of(&ChipKey("gpu@0000:01:00.0".to_owned())), None);
        assert_eq!(ChipModel::ids_of(&ChipKey("npu".to_owned())), None);
    }
}
