//! Counts what the runs of a simulation came to.
//!
//! Invariant: regret is reckoned on the times that targets need, not on what chance made of them in a run.

use serde::Serialize;
use siliconroute_core::statistics::quantile;

/// What one scenario gave; every time is simulated.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The scenario.
    pub scenario: &'static str,
    /// Targets of the machine.
    pub targets: usize,
    /// Models in use.
    pub models: usize,
    /// Decisions, each with a run.
    pub decisions: u64,
    /// How much time passed on the simulated machine.
    pub simulated_hours: f64,
    /// Over all runs.
    pub all: Phase,
    /// By how often the model was run before: 1 to 10, 11 to 50, more often.
    pub phases: [Phase; 3],
    /// What the regret after 50 runs of a model consists of.
    pub parts: Parts,
    /// Runs after 50 of their model by one that knows the law of the machine and its present, but for where times have wandered
    /// to: what can be reached without foresight.
    pub informed: Phase,
    /// The same runs decided without learning, where they were.
    pub without_learning: Option<Phase>,
    /// Regret of the one target that is best for all runs, in percent of the oracle's time.
    pub best_fixed_regret_pct: f64,
    /// What exploring cost over the targets that it took the place of, in percent of all time.
    pub exploration_pct: f64,
    /// The share that it may cost, in percent.
    pub exploration_share_pct: f64,
    /// Runs that explored.
    pub explorations: u64,
    /// Of them on battery.
    pub explorations_on_battery: u64,
    /// How soon the slow-down was noticed, where there was one.
    pub reaction: Option<Reaction>,
    /// Changes that were noticed.
    pub changes_noticed: u64,
    /// The same for each 10,000 runs.
    pub changes_per_10_000: f64,
    /// Decisions a second, the simulation and the learning included; of this machine, not simulated.
    pub decisions_per_second: f64,
}

/// Regret over some of the runs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Phase {
    /// Runs.
    pub runs: u64,
    /// Mean over the runs, in percent.
    pub mean_regret_pct: f64,
    /// The time over the oracle's, in percent.
    pub time_regret_pct: f64,
    #[serde(skip)]
    sums: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    regret: f64,
    time_ns: f64,
    oracle_ns: f64,
}

impl Phase {
    pub(super) fn note(&mut self, time_ns: f64, oracle_ns: f64) {
        self.runs += 1;
        self.sums.regret += time_ns / oracle_ns - 1.0;
        self.sums.time_ns += time_ns;
        self.sums.oracle_ns += oracle_ns;
    }

    pub(super) fn reckon(mut self) -> Self {
        if self.runs > 0 {
            self.mean_regret_pct = 100.0 * self.sums.regret / self.runs as f64;
            self.time_regret_pct = 100.0 * (self.sums.time_ns / self.sums.oracle_ns - 1.0);
        }
        self
    }

    pub(super) fn oracle_ns(&self) -> f64 {
        self.sums.oracle_ns
    }

    pub(super) fn time_ns(&self) -> f64 {
        self.sums.time_ns
    }
}

/// What mean regret consists of, in percent of the oracle's time; the parts add up to it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Parts {
    /// What the oracle would pay if it had to leave out targets that failed, too.
    pub left_out_pct: f64,
    /// Runs that failed, and what the runs in their place took longer: whoever cannot foresee failures pays that.
    pub failed_pct: f64,
    /// What exploring cost over the targets that it took the place of.
    pub exploration_pct: f64,
    /// The rest: what believing wrong times costs.
    pub belief_pct: f64,
    #[serde(skip)]
    runs: u64,
    #[serde(skip)]
    sums: [f64; 4],
}

impl Parts {
    /// Takes over a run with what is known of its parts, in their order above.
    pub(super) fn note(&mut self, time_ns: f64, oracle_ns: f64, [left_out, failed, exploring]: [f64; 3]) {
        self.runs += 1;
        let rest = time_ns - oracle_ns - left_out - failed - exploring;
        for (sum, part_ns) in self.sums.iter_mut().zip([left_out, failed, exploring, rest]) {
            *sum += part_ns / oracle_ns;
        }
    }

    pub(super) fn reckon(mut self) -> Self {
        let mean = self.sums.map(|sum| 100.0 * sum / self.runs.max(1) as f64);
        [self.left_out_pct, self.failed_pct, self.exploration_pct, self.belief_pct] = mean;
        self
    }
}

/// After how many runs on the slow target its slow-down was believed, over the models that ran on it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Reaction {
    /// Models that ran on the target when it became slow, and once more.
    pub models: usize,
    /// Half of them needed no more.
    pub median_runs: f64,
    /// Nine in ten needed no more.
    pub p90_runs: f64,
    /// None needed more.
    pub most_runs: f64,
    /// Models that ran on the slow target ten times and never noticed.
    pub unnoticed: usize,
}

impl Reaction {
    pub(super) fn of(mut runs: Vec<f64>, unnoticed: usize) -> Option<Self> {
        runs.sort_by(f64::total_cmp);
        Some(Self {
            models: runs.len() + unnoticed,
            median_runs: quantile(&runs, 0.5)?,
            p90_runs: quantile(&runs, 0.9)?,
            most_runs: *runs.last()?,
            unnoticed,
        })
    }
}
