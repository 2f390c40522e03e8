//! What the machine is like at the moment of a decision.
//!
//! Invariant: what is not known is absent, and a rule that would need it does not fire.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::Rules;
use crate::chip::{ChipKey, ChipKind};
use crate::knowledge::TargetIndex;
use crate::learning::Allowance;
use crate::target::Target;

/// What the machine is like now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Whether measured times are left out, so that the fitted models alone decide (a baseline).
    pub ignore_measurements: bool,
    /// How long the target will have rested before an idle-loaded inference; absent for the usual 10 s.
    #[serde(default)]
    pub rested_ns: Option<f64>,
    /// The charge of the battery in percent while the machine runs on it; absent on mains and where unknown.
    pub charge_on_battery_percent: Option<f64>,
    /// The power plan that the user chose, in the system's words; absent where it tells none.
    #[serde(default)]
    pub power_plan: Option<String>,
    /// Memory that programs can still get.
    pub free_memory_bytes: Option<u64>,
    /// Chips of which something is known.
    pub chips: SmallVec<[ChipNow; 4]>,
    /// Targets that failed lately.
    pub quarantined: SmallVec<[TargetIndex; 4]>,
    /// The target that is running the case, while it is asked for again and again; absent where none is.
    #[serde(default)]
    pub running: Option<Running>,
    /// What looking at other targets may cost; absent where nothing is explored.
    #[serde(default)]
    pub exploration: Option<Allowance>,
}

/// A target that runs a case again and again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// The target.
    pub target: TargetIndex,
    /// Its runs since it rested last.
    pub runs: u32,
}

/// What a chip is doing now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChipNow {
    /// The chip.
    pub chip: ChipKey,
    /// How much others load it, from 0 to 100.
    pub busy_percent: Option<f64>,
    /// Its temperature.
    pub celsius: Option<f64>,
}

impl Context {
    /// What is known of `chip`.
    pub fn chip(&self, chip: &ChipKey) -> Option<&ChipNow> {
        self.chips.iter().find(|now| now.chip == *chip)
    }

    /// Whether the chip of `target` is under strain, by the limits of `rules`: loaded by others, or so hot that its clocks
    /// may fall. A run then tells little of the usual time.
    pub fn strains(&self, target: &Target, rules: &Rules) -> bool {
        if self.chips.is_empty() {
            return false;
        }
        let Some(now) = self.chip(&target.chip) else { return false };
        let over = |value: Option<f64>, limit: Option<f64>| {
            value.zip(limit).is_some_and(|(value, limit)| value > limit)
        };
        // The rule on busy chips leaves the CPU out, since a decision cannot tell its own load from others' there.
        let busy = over(now.busy_percent, rules.busy_chip.map(|rule| rule.over_percent));
        let hot = over(now.celsius, rules.hot_chip.map(|rule| rule.over_celsius));
        (busy && target.chip_kind != ChipKind::Cpu) || hot
    }
}
