//! The rules by which the state of the machine changes a decision, with their limits.
//!
//! Invariant: a rule that is absent from [`Rules`] never fires, and one that fires leaves a [`Fired`] or a [`Bar`].

use serde::{Deserialize, Serialize};

use crate::knowledge::TargetIndex;

/// Which rules hold, and with which limits; `None` switches a rule off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// On battery with less charge than so many percent, the goal becomes [`Goal::Battery`](crate::Goal::Battery).
    pub low_battery_percent: Option<f64>,
    /// A GPU or NPU that others load over a share counts as slower.
    pub busy_chip: Option<BusyChip>,
    /// Under [`Goal::Cool`](crate::Goal::Cool), a hot chip counts as slower and a very hot one as none.
    pub hot_chip: Option<HotChip>,
    /// A cold start goes to the CPU unless another chip is faster by more than this share of its time.
    pub cold_start_margin: Option<f64>,
    /// Of the best two whose times lie within this share of each other and are not separable, the one is taken whose
    /// sessions differ less.
    pub volatility_band: Option<f64>,
    /// Whether a target that failed lately is left out.
    pub quarantine: bool,
    /// Whether a target that was seen to take more memory than is free is left out.
    pub free_memory: bool,
}

/// Limits of the rule on busy chips.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BusyChip {
    /// The load by others from which it fires, in percent.
    pub over_percent: f64,
    /// What the time is multiplied by.
    pub factor: f64,
}

/// Limits of the rule on hot chips.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HotChip {
    /// From here on the time counts as longer, up to twice at [`Self::over_celsius`].
    pub from_celsius: f64,
    /// Over this the chip is left out.
    pub over_celsius: f64,
}

impl HotChip {
    /// What the time is multiplied by at `celsius`, from 1 to 2; `None` where the chip is too hot.
    pub(super) fn factor(self, celsius: f64) -> Option<f64> {
        if celsius > self.over_celsius {
            return None;
        }
        let range = (self.over_celsius - self.from_celsius).max(f64::MIN_POSITIVE);
        Some(1.0 + ((celsius - self.from_celsius) / range).clamp(0.0, 1.0))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::USUAL
    }
}

impl Rules {
    /// The rules where nothing is set.
    pub const USUAL: Self = Self {
        low_battery_percent: Some(30.0),
        busy_chip: Some(BusyChip { over_percent: 80.0, factor: 1.3 }),
        hot_chip: Some(HotChip { from_celsius: 75.0, over_celsius: 87.0 }),
        cold_start_margin: Some(0.30),
        volatility_band: Some(0.05),
        quarantine: true,
        free_memory: true,
    };

    /// No rule at all: the least prediction decides.
    pub const NONE: Self = Self {
        low_battery_percent: None,
        busy_chip: None,
        hot_chip: None,
        cold_start_margin: None,
        volatility_band: None,
        quarantine: false,
        free_memory: false,
    };
}

/// A rule that changed how targets were ranked, with the figures that it fired on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "rule")]
pub enum Fired {
    /// The charge is low, so energy decides.
    LowBattery {
        /// The charge that is left, in percent.
        charge_percent: f64,
        /// The limit.
        limit_percent: f64,
    },
    /// Others load the target's chip.
    BusyChip {
        /// The target.
        target: TargetIndex,
        /// The load by others, in percent.
        busy_percent: f64,
        /// What its time was multiplied by.
        factor: f64,
    },
    /// The target's chip is hot.
    HotChip {
        /// The target.
        target: TargetIndex,
        /// Its temperature.
        celsius: f64,
        /// What its time was multiplied by.
        factor: f64,
    },
    /// Energy was to decide and is known of too few targets, so time decides.
    EnergyUnknown {
        /// Targets whose energy is known by meters of one scope.
        known: u16,
        /// Targets that may be taken.
        #[serde(default)]
        of: u16,
        /// Whether more are known by meters of other scopes, which cannot be compared.
        #[serde(default)]
        apart: bool,
    },
    /// Energy decides among those of which it is known, and the others come after them.
    EnergyPartlyKnown {
        /// Targets whose energy is known.
        known: u16,
        /// Targets that may be taken.
        of: u16,
    },
    /// No other target is left, so those that failed lately may try again.
    QuarantineLifted,
    /// No target is known to meet the deadline, so the fastest is taken.
    DeadlineUnreachable,
    /// No target is known to reach so many inferences a second, so the fastest is taken.
    ThroughputUnreachable,
    /// The budget of power could not be checked, since nobody has measured what some targets draw.
    PowerUnchecked {
        /// Targets whose power is not known.
        unknown: u16,
        /// Targets that may be taken.
        of: u16,
    },
    /// The budget of memory could not be checked, since nobody has seen what some targets take.
    MemoryUnchecked {
        /// Targets whose need of memory is not known.
        unknown: u16,
        /// Targets that may be taken.
        of: u16,
    },
    /// A cold start goes to the CPU, since the faster target is not faster enough.
    ColdStart {
        /// The target that was passed over.
        passed_over: TargetIndex,
    },
    /// Another target is faster, but not by what it takes to wake it up while this one is running.
    Running {
        /// The target that was passed over.
        passed_over: TargetIndex,
    },
    /// The two best cannot be told apart, and the other one is steadier.
    Volatility {
        /// The target that was passed over.
        passed_over: TargetIndex,
    },
}

impl Fired {
    /// The target that the rule fired for, where it is about one.
    pub fn target(&self) -> Option<TargetIndex> {
        match *self {
            Self::BusyChip { target, .. }
            | Self::HotChip { target, .. }
            | Self::ColdStart { passed_over: target }
            | Self::Running { passed_over: target }
            | Self::Volatility { passed_over: target } => Some(target),
            Self::LowBattery { .. }
            | Self::EnergyUnknown { .. }
            | Self::EnergyPartlyKnown { .. }
            | Self::QuarantineLifted
            | Self::DeadlineUnreachable
            | Self::ThroughputUnreachable
            | Self::PowerUnchecked { .. }
            | Self::MemoryUnchecked { .. } => None,
        }
    }

    /// The rule's stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LowBattery { .. } => "low_battery",
            Self::BusyChip { .. } => "busy_chip",
            Self::HotChip { .. } => "hot_chip",
            Self::EnergyUnknown { .. } => "energy_unknown",
            Self::EnergyPartlyKnown { .. } => "energy_partly_known",
            Self::QuarantineLifted => "quarantine_lifted",
            Self::DeadlineUnreachable => "deadline_unreachable",
            Self::ThroughputUnreachable => "throughput_unreachable",
            Self::PowerUnchecked { .. } => "power_unchecked",
            Self::MemoryUnchecked { .. } => "memory_unchecked",
            Self::ColdStart { .. } => "cold_start",
            Self::Running { .. } => "running",
            Self::Volatility { .. } => "volatility",
        }
    }
}

/// Why a target that could run the case is none now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "bar")]
pub enum Bar {
    /// It failed lately.
    Quarantined,
    /// Its chip is too hot.
    TooHot {
        /// Its temperature.
        celsius: f64,
        /// The limit.
        limit_celsius: f64,
    },
    /// It was seen to take more memory than the budget.
    Memory {
        /// What it was seen to take.
        needs_bytes: u64,
        /// The budget.
        may_have_bytes: u64,
    },
    /// It was seen to take more memory than is free now.
    FreeMemory {
        /// What it was seen to take.
        needs_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// It draws more power than it may.
    Power {
        /// What it is reckoned to draw.
        watts: f64,
        /// The budget.
        budget_watts: f64,
    },
    /// It is not known to meet the deadline, and another target is.
    Deadline {
        /// What an inference keeps within with 95 % certainty.
        may_take_ns: f64,
    },
    /// It is not known to reach so many inferences a second, and another target is.
    Throughput {
        /// How many it reaches with 95 % certainty.
        reaches_per_second: f64,
    },
}

impl Bar {
    /// The stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Quarantined => "quarantined",
            Self::TooHot { .. } => "too_hot",
            Self::Memory { .. } => "memory",
            Self::FreeMemory { .. } => "free_memory",
            Self::Power { .. } => "power",
            Self::Deadline { .. } => "deadline",
            Self::Throughput { .. } => "throughput",
        }
    }
}
