//! Every setting with its default, its bounds and its meaning.
//!
//! Invariant: the bounds of a value stand here alone; the file, the environment and flags of the same meaning take what
//! they say.

use std::fmt;

/// A setting as it can be written.
pub(super) struct Definition {
    pub(super) key: &'static str,
    pub(super) default: &'static str,
    pub(super) kind: Kind,
    pub(super) meaning: &'static str,
}

/// What a setting's value may be; the one place of its bounds, for flags as well.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Words(&'static str),
    Switch,
    AnyWhole,
    Whole { low: u64, high: u64, off: bool },
    Number { low: f64, high: f64, off: bool },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_off = |off: bool| if off { ", or off" } else { "" };
        match *self {
            Self::Words(words) => f.write_str(words),
            Self::Switch => f.write_str("true or false"),
            Self::AnyWhole => f.write_str("a whole number"),
            Self::Whole { low, high, off } => {
                write!(f, "a whole number from {low} to {high}{}", or_off(off))
            }
            Self::Number { low, high, off } => write!(f, "a number from {low} to {high}{}", or_off(off)),
        }
    }
}

/// The least and the most that the setting `key` may be, for a flag of the same meaning; `None` where it is no number
/// with bounds.
pub fn bounds(key: &str) -> Option<(f64, f64)> {
    match DEFINITIONS.iter().find(|definition| definition.key == key)?.kind {
        Kind::Whole { low, high, .. } => Some((low as f64, high as f64)),
        Kind::Number { low, high, .. } => Some((low, high)),
        Kind::Words(_) | Kind::Switch | Kind::AnyWhole => None,
    }
}

/// All settings, by name.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        key: "accuracy",
        default: "standard",
        kind: Kind::Words("exact, standard or relaxed"),
        meaning: "how far outputs may lie from the reference",
    },
    Definition {
        key: "autotune",
        default: "true",
        kind: Kind::Switch,
        meaning: "measure how many threads are best; else 4 and Static",
    },
    Definition {
        key: "busy_chip_factor",
        default: "1.3",
        kind: Kind::Number { low: 1.0, high: 100.0, off: false },
        meaning: "how much slower a busy GPU or NPU counts",
    },
    Definition {
        key: "busy_chip_percent",
        default: "80",
        kind: Kind::Number { low: 0.0, high: 100.0, off: true },
        meaning: "a GPU or NPU that others load over this is busy",
    },
    Definition {
        key: "cold_start_percent",
        default: "30",
        kind: Kind::Number { low: 0.0, high: 100.0, off: true },
        meaning: "a cold start leaves the CPU only for a target that is faster by over this",
    },
    Definition {
        key: "exploration_percent",
        default: "1",
        kind: Kind::Number { low: 0.0, high: 100.0, off: true },
        meaning: "the share of the time of served runs that exploring may cost",
    },
    Definition {
        key: "free_memory",
        default: "true",
        kind: Kind::Switch,
        meaning: "leave out targets that were seen to take more memory than is free",
    },
    Definition {
        key: "goal",
        default: "fastest",
        kind: Kind::Words("fastest, battery, balanced or cool"),
        meaning: "what decisions aim at",
    },
    Definition {
        key: "hot_chip_celsius",
        default: "75",
        kind: Kind::Number { low: 0.0, high: 200.0, off: true },
        meaning: "with the goal cool, a chip counts as slower from here on",
    },
    Definition {
        key: "hot_chip_limit_celsius",
        default: "87",
        kind: Kind::Number { low: 0.0, high: 200.0, off: false },
        meaning: "with the goal cool, a chip over this is left out",
    },
    Definition {
        key: "low_battery_percent",
        default: "30",
        kind: Kind::Number { low: 0.0, high: 100.0, off: true },
        meaning: "on battery with less charge, energy decides",
    },
    Definition {
        key: "offline",
        default: "false",
        kind: Kind::Switch,
        meaning: "fetch no packages and no models",
    },
    Definition {
        key: "power_budget_watts",
        default: "off",
        // No target draws less, so a smaller budget would leave out all of them.
        kind: Kind::Number { low: 0.001, high: 100_000.0, off: true },
        meaning: "leave out targets that draw more at work",
    },
    Definition {
        key: "quarantine",
        default: "true",
        kind: Kind::Switch,
        meaning: "leave out targets that failed lately",
    },
    Definition {
        key: "quarantine_failures",
        default: "2",
        kind: Kind::Whole { low: 1, high: 1000, off: false },
        meaning: "failures in a row after which a target is left out",
    },
    Definition {
        key: "quarantine_limit_minutes",
        default: "1440",
        kind: Kind::Whole { low: 1, high: 525_600, off: false },
        meaning: "the longest that a target is left out; after as long its failures are forgotten",
    },
    Definition {
        key: "quarantine_minutes",
        default: "10",
        kind: Kind::Whole { low: 1, high: 525_600, off: false },
        meaning: "how long a target is left out first; each further failure doubles it",
    },
    Definition {
        key: "ram_budget_mib",
        default: "off",
        kind: Kind::Whole { low: 1, high: 1_000_000_000, off: true },
        meaning: "leave out targets that were seen to take more memory",
    },
    Definition {
        key: "read_only",
        default: "false",
        kind: Kind::Switch,
        meaning: "keep nothing: work on a copy of the store",
    },
    Definition {
        key: "seed",
        default: "1",
        kind: Kind::AnyWhole,
        meaning: "seed of input values and of the order of trials",
    },
    Definition {
        key: "software_adapters",
        default: "false",
        kind: Kind::Switch,
        meaning: "take software imitations of a GPU for targets",
    },
    Definition {
        key: "telemetry_period_ms",
        default: "1000",
        kind: Kind::Whole { low: 100, high: 60_000, off: false },
        meaning: "time between two looks at the sensors",
    },
    Definition {
        key: "trial_budget_ms",
        default: "200",
        kind: Kind::Whole { low: 1, high: 600_000, off: false },
        meaning: "time for a trial's samples beyond the least number; under 200 it warms up less",
    },
    Definition {
        key: "tuning_budget_ms",
        default: "140",
        kind: Kind::Whole { low: 1, high: 60_000, off: false },
        meaning: "time after which a tuning begins no further round",
    },
    Definition {
        key: "tuning_threads",
        default: "16",
        kind: Kind::Whole { low: 1, high: 1024, off: false },
        meaning: "the most threads that a tuning tries",
    },
    Definition {
        key: "volatility_percent",
        default: "5",
        kind: Kind::Number { low: 0.0, high: 100.0, off: true },
        meaning: "of two targets within this that cannot be told apart, take the steadier",
    },
    Definition {
        key: "worker_deadline_s",
        default: "60",
        kind: Kind::Whole { low: 1, high: 86_400, off: false },
        meaning: "a worker that does not answer for so long is ended",
    },
    Definition {
        key: "worker_memory_percent",
        default: "70",
        kind: Kind::Whole { low: 1, high: 100, off: false },
        meaning: "a worker that holds more of the machine's memory is ended",
    },
];
