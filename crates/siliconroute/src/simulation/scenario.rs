//! What happens to a simulated machine.
//!
//! Invariant: scenarios differ by what stands in their plan alone.

/// A named course of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Nothing changes; half of the models were measured before.
    Steady,
    /// Another driver makes the target that is chosen most three times slower.
    SlowDown,
    /// Chips throttle under work; some have no sensor.
    Throttling,
    /// Other programs load the GPUs now and then.
    Load,
    /// A few runs every half minute, and nights of sleep.
    Sleep,
    /// Runs fail now and then, and targets go out for a while.
    Failures,
    /// The plug is pulled every ten minutes, and everything becomes slower.
    Battery,
    /// Five in a hundred runs take many times as long.
    WildRuns,
    /// All times wander by a third in a day.
    Drift,
    /// A thousand models, a million decisions.
    ManyModels,
}

/// The course of events.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Targets of the machine.
    pub targets: usize,
    /// Models in use.
    pub models: usize,
    /// How many of them were measured before.
    pub measured: usize,
    /// Runs, each after a decision.
    pub runs: u64,
    /// Runs of a model in a row.
    pub burst: u64,
    /// The mean pause between them, in seconds.
    pub pause_s: f64,
    /// Standard deviation of the log times of one target.
    pub scatter: f64,
    /// The share of runs that take three to twenty times as long.
    pub wild_share: f64,
    /// Standard deviation of what a target's log time wanders in a day.
    pub wander_per_day: f64,
    /// What the target that is chosen most is slowed down by from the middle of the runs on.
    pub slow_down: Option<f64>,
    /// Whether chips heat up under work and throttle.
    pub heat: bool,
    /// Whether others load the GPUs now and then.
    pub load: bool,
    /// The share of runs that fail.
    pub failures: f64,
    /// How long a target works, in the mean and in seconds, before all its runs fail for ten minutes.
    pub out_every_s: Option<f64>,
    /// How long the machine stays on mains, and then on battery, in seconds.
    pub battery_s: Option<f64>,
    /// Runs between nights of sleep.
    pub night_every: Option<u64>,
    /// The share of time that exploring may cost.
    pub share: f64,
    /// Whether the same runs are decided without learning, too.
    pub compare: bool,
}

impl Scenario {
    /// All scenarios, in their usual order.
    pub const ALL: [Self; 10] = [
        Self::Steady,
        Self::SlowDown,
        Self::Throttling,
        Self::Load,
        Self::Sleep,
        Self::Failures,
        Self::Battery,
        Self::WildRuns,
        Self::Drift,
        Self::ManyModels,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::SlowDown => "slow-down",
            Self::Throttling => "throttling",
            Self::Load => "load",
            Self::Sleep => "sleep",
            Self::Failures => "failures",
            Self::Battery => "battery",
            Self::WildRuns => "wild-runs",
            Self::Drift => "drift",
            Self::ManyModels => "many-models",
        }
    }

    /// The scenario called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// What happens.
    pub fn plan(self) -> Plan {
        let usual = Plan {
            targets: 16,
            models: 80,
            measured: 40,
            runs: 40_000,
            burst: 20,
            pause_s: 2.0,
            scatter: 0.08,
            wild_share: 0.005,
            wander_per_day: 0.05,
            slow_down: None,
            heat: false,
            load: false,
            failures: 0.0,
            out_every_s: None,
            battery_s: None,
            night_every: None,
            share: 0.01,
            compare: true,
        };
        match self {
            Self::Steady => usual,
            Self::SlowDown => Plan { slow_down: Some(3.0), ..usual },
            Self::Throttling => Plan { heat: true, pause_s: 0.02, ..usual },
            Self::Load => Plan { load: true, ..usual },
            Self::Sleep => {
                Plan { burst: 3, pause_s: 30.0, night_every: Some(4_000), wander_per_day: 0.1, ..usual }
            }
            Self::Failures => Plan { failures: 0.002, out_every_s: Some(14_400.0), pause_s: 20.0, ..usual },
            Self::Battery => Plan { battery_s: Some(600.0), ..usual },
            Self::WildRuns => Plan { wild_share: 0.05, ..usual },
            Self::Drift => Plan { wander_per_day: 0.3, pause_s: 60.0, ..usual },
            Self::ManyModels => Plan { models: 1_000, runs: 1_000_000, compare: false, ..usual },
        }
    }
}
