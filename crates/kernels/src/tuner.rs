//! Finds how many threads, on which cores, under which policy, do memory-bound work fastest on a machine.
//!
//! Invariant: a pure search. It sees a machine only through [`Machine`], so it is tested on machines that are not there,
//! and it has no clock of its own. Whatever it cannot tell apart it declares a tie.
//!
//! Reading order: `places` (where threads may run), this file (the search), `samples` (scores and comparisons),
//! `matrix_work` (a real machine), `figures` (what it is capable of).

mod figures;
mod matrix_work;
mod places;
mod samples;

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use figures::{FIGURES_METHOD, MemorySizes};
pub use matrix_work::{HoldThread, MatrixWork, SIDE};
pub use places::{Cluster, Core, CoreKind, Place, Room};
use samples::{Dropped, Entry};

use crate::Policy;

/// The version of the method, which kept results carry.
pub const TUNING_METHOD: u32 = 1;

/// The policy that thread counts are compared under before the others are tried.
///
/// Its chunks are small enough that cores of unlike speed, or one that another program keeps busy, hold nobody up.
const SCOUT: Policy = Policy::Fixed16;

/// A configuration is dropped when its fastest run is slower than the leader's median by this factor.
const DROP_FACTOR: f64 = 1.10;

/// Runs before a configuration of fewer threads than the leader may be dropped.
const RUNS_BEFORE_DROP: usize = 2;

/// Runs before any other may be dropped. A program that keeps one core busy slows many runs of as many threads as there
/// are cores and few runs of fewer, so that the larger count needs more of them to show what it can do.
const RUNS_BEFORE_DROP_OF_LARGER: usize = 10;

/// The share of the budget after which no further thread count is tried.
const NARROWING_SHARE: f64 = 0.6;

/// All policies are tried at thread counts whose score is within this factor of the best.
const NEAR_FACTOR: f64 = 1.10;

/// Rounds before anything is concluded from scores, and the fewest that a survivor is measured in.
const FIRST_ROUNDS: usize = 3;

/// One way to do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Configuration {
    /// The number of the place among the places given.
    pub place: usize,
    /// The number of threads, the calling one included.
    pub threads: NonZeroUsize,
    /// How the rows are cut.
    pub policy: Policy,
}

/// A configuration that could not be measured, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unmeasurable {
    /// What stood against it.
    pub reason: String,
}

/// A machine that can do the work.
pub trait Machine {
    /// Does the work once under `configuration` and gives the seconds that it took.
    ///
    /// # Errors
    /// When the machine cannot do it so; the configuration is then left out.
    fn measure(&mut self, configuration: &Configuration) -> Result<f64, Unmeasurable>;

    /// The time that has passed since the tuning began, preparations included.
    fn spent(&self) -> Duration;
}

/// How a search is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The time after which no further round begins, once each survivor has been measured in three.
    pub budget: Duration,
    /// Configurations whose scores are within this share of the best may tie with it.
    pub margin: f64,
}

impl Default for Bounds {
    /// 140 ms and 2 %.
    fn default() -> Self {
        Self { budget: Duration::from_millis(140), margin: 0.02 }
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The configuration to use.
    pub chosen: Configuration,
    /// The configuration of the best score; the chosen one unless it ties with it.
    pub best: Configuration,
    /// Configurations that cannot be told from the best, the best itself included, simplest first.
    pub tied: Vec<Configuration>,
    /// All configurations measured, in the order in which they were first tried.
    pub measured: Vec<Measured>,
    /// The number of rounds.
    pub rounds: u32,
    /// Whether the search ended because more rounds would not change the answer, not because time was up.
    pub settled: bool,
}

/// The measurements of one configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The configuration.
    pub configuration: Configuration,
    /// The round of each sample, from 0.
    pub rounds: Vec<u32>,
    /// The time of each sample.
    pub samples_s: Vec<f64>,
    /// The low quantile of the samples that it is judged by; `None` without samples.
    pub score_s: Option<f64>,
    /// The round after which it was dropped as clearly slower.
    pub dropped_after: Option<u32>,
    /// Why it could not be measured any further.
    pub failure: Option<String>,
}

/// No configuration could be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("none of {tried} ways to do the work could be measured")]
pub struct NothingMeasured {
    /// How many were tried.
    pub tried: usize,
    /// Why the first one could not.
    #[source]
    pub first: Unmeasurable,
}

/// Searches `places` for the best configuration.
///
/// Rounds measure every candidate once, in an order that turns with each round. Thread counts are tried under one
/// policy first: each up to 4, then in steps, narrowed around the best and below the least that ties with it. Counts
/// near the best are then tried under all policies. A single thread has nothing to divide and is measured once.
///
/// All that cannot be told from the best is declared a tie. The answer is, of those in the tie whose score and whose
/// median paired ratio are within half the margin of the best, the one of fewest threads, then of the first place, then
/// of the simplest policy.
///
/// # Errors
/// When nothing could be measured.
pub fn search(
    machine: &mut dyn Machine,
    places: &[Place],
    bounds: &Bounds,
) -> Result<Found, NothingMeasured> {
    let mut search = Search { places, bounds: *bounds, entries: Vec::new(), round: 0 };
    for (index, place) in places.iter().enumerate() {
        for count in place.first_counts() {
            search.add(index, count, SCOUT);
        }
    }
    let settled = search.run(machine);
    search.conclude(settled)
}

struct Search<'a> {
    places: &'a [Place],
    bounds: Bounds,
    entries: Vec<Entry>,
    round: u32,
}

impl Search<'_> {
    /// Adds a candidate unless it is there already.
    fn add(&mut self, place: usize, threads: usize, policy: Policy) -> bool {
        let Some(threads) = NonZeroUsize::new(threads) else { return false };
        let policy = if threads.get() == 1 { Policy::Static } else { policy };
        let configuration = Configuration { place, threads, policy };
        let known = self.entries.iter().any(|entry| entry.configuration == configuration);
        if !known {
            self.entries.push(Entry::new(configuration));
        }
        !known
    }

    /// Measures until time is up or nothing would change; says whether the latter.
    fn run(&mut self, machine: &mut dyn Machine) -> bool {
        loop {
            self.measure_round(machine);
            self.drop_losers();
            let grown = self.narrow(machine.spent()) | self.widen();
            let enough = self.entries.iter().all(|e| !e.is_active() || e.samples.len() >= FIRST_ROUNDS);
            if !self.entries.iter().any(Entry::is_active) {
                return true;
            }
            if grown || !enough {
                continue;
            }
            if self.is_settled() {
                return true;
            }
            let next: f64 = self.entries.iter().filter(|entry| entry.is_active()).map(Entry::median).sum();
            let next = Duration::try_from_secs_f64(next).unwrap_or(Duration::MAX);
            if machine.spent().saturating_add(next) > self.bounds.budget {
                return false;
            }
        }
    }

    fn measure_round(&mut self, machine: &mut dyn Machine) {
        let active: Vec<usize> =
            (0..self.entries.len()).filter(|index| self.entries[*index].is_active()).collect();
        // Turned and mirrored, so that no candidate always comes after the same one.
        let turn = self.round as usize * 3 % active.len().max(1);
        let mut order: Vec<usize> = active[turn..].iter().chain(&active[..turn]).copied().collect();
        if self.round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let entry = &mut self.entries[index];
            match machine.measure(&entry.configuration) {
                Ok(seconds) if seconds.is_finite() && seconds > 0.0 => {
                    entry.samples.push((self.round, seconds));
                }
                Ok(seconds) => {
                    let reason = format!("the clock told {seconds} s");
                    entry.dropped = Some(Dropped::Failed { reason });
                }
                Err(error) => entry.dropped = Some(Dropped::Failed { reason: error.reason }),
            }
        }
        self.round += 1;
    }

    /// The active entry of the best score.
    fn leader(&self) -> Option<&Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.is_active() && !entry.samples.is_empty())
            .min_by(|a, b| a.score().total_cmp(&b.score()))
    }

    fn drop_losers(&mut self) {
        let Some(leader) = self.leader() else { return };
        if leader.samples.len() < RUNS_BEFORE_DROP {
            return;
        }
        let (limit, threads) = (leader.median() * DROP_FACTOR, leader.configuration.threads);
        let round = self.round - 1;
        for entry in self.entries.iter_mut().filter(|entry| entry.is_active()) {
            let runs = if entry.configuration.threads < threads {
                RUNS_BEFORE_DROP
            } else {
                RUNS_BEFORE_DROP_OF_LARGER
            };
            if entry.samples.len() >= runs && entry.fastest() > limit {
                entry.dropped = Some(Dropped::Slower { round });
            }
        }
    }

    /// Adds thread counts between measured ones, around the best and below the fewest that may tie with it.
    fn narrow(&mut self, spent: Duration) -> bool {
        if spent > self.bounds.budget.mul_f64(NARROWING_SHARE) {
            return false;
        }
        let Some(leader) = self.ready_leader() else { return false };
        let best = leader.score();
        let limit = best * (1.0 + 2.0 * self.bounds.margin);
        let mut wanted = Vec::new();
        for index in 0..self.places.len() {
            let scouts = self.scouts(index);
            let near: Vec<usize> = (0..scouts.len()).filter(|at| scouts[*at].1 <= limit).collect();
            let (Some(first), Some(top)) =
                (near.first(), near.iter().min_by(|a, b| scouts[**a].1.total_cmp(&scouts[**b].1)))
            else {
                continue;
            };
            for at in [*first, *top] {
                let below = at.checked_sub(1).map(|below| (scouts[below].0, scouts[at].0));
                let above = scouts.get(at + 1).filter(|_| at == *top).map(|above| (scouts[at].0, above.0));
                for (low, high) in below.into_iter().chain(above) {
                    if high - low > 1 {
                        wanted.push((index, low + (high - low) / 2));
                    }
                }
            }
        }
        wanted.into_iter().fold(false, |grown, (place, count)| self.add(place, count, SCOUT) | grown)
    }

    /// Adds all policies where they may matter: at the best count of each place near the best of all, and at the fewest
    /// threads that may tie with it.
    fn widen(&mut self) -> bool {
        let Some(leader) = self.ready_leader() else { return false };
        let best = leader.score();
        let mut wanted = Vec::new();
        for place in 0..self.places.len() {
            let scouts = self.scouts(place);
            let least =
                scouts.iter().min_by(|a, b| a.1.total_cmp(&b.1)).filter(|it| it.1 <= best * NEAR_FACTOR);
            let fewest = scouts.iter().find(|(_, score)| *score <= best * (1.0 + self.bounds.margin));
            wanted.extend(least.into_iter().chain(fewest).map(|(count, _)| (place, *count)));
        }
        let mut grown = false;
        for (place, count) in wanted {
            for policy in Policy::ALL {
                grown |= self.add(place, count, policy);
            }
        }
        grown
    }

    fn ready_leader(&self) -> Option<&Entry> {
        self.leader().filter(|leader| leader.samples.len() >= FIRST_ROUNDS)
    }

    /// Thread count and best score of the counts measured in a place, by count; dropped ones as well.
    fn scouts(&self, place: usize) -> Vec<(usize, f64)> {
        let mut scores = std::collections::BTreeMap::new();
        for entry in &self.entries {
            if entry.configuration.place == place && !entry.samples.is_empty() {
                let known = scores.entry(entry.configuration.threads.get()).or_insert(f64::INFINITY);
                *known = known.min(entry.score());
            }
        }
        scores.into_iter().collect()
    }

    /// Whether every other candidate is surely tied with the best, or surely not.
    fn is_settled(&self) -> bool {
        let Some(leader) = self.leader() else { return true };
        let limit = 1.0 + self.bounds.margin;
        self.entries
            .iter()
            .filter(|entry| entry.is_active() && entry.configuration != leader.configuration)
            .all(|entry| entry.ratio_to(leader).is_some_and(|ratio| ratio.low > limit || ratio.high < limit))
    }

    /// Whether an entry's score is within the margin of the leader's.
    fn scores_alike(&self, entry: &Entry, leader: &Entry) -> bool {
        entry.score() <= leader.score() * (1.0 + self.bounds.margin)
    }

    /// Whether an entry cannot be told from the leader: its score is alike, or the paired ratios leave open that it is
    /// within the margin.
    ///
    /// Where the rounds are too few for an interval, one ratio within the margin leaves it open.
    fn ties(&self, entry: &Entry, leader: &Entry) -> bool {
        let limit = 1.0 + self.bounds.margin;
        entry.configuration == leader.configuration
            || self.scores_alike(entry, leader)
            || entry.ratio_to(leader).map_or_else(
                || entry.ratios_to(leader).iter().any(|ratio| *ratio <= limit),
                |ratio| ratio.low <= limit,
            )
    }

    fn conclude(self, settled: bool) -> Result<Found, NothingMeasured> {
        let Some(leader) = self.leader() else {
            let first = self.entries.iter().find_map(|entry| match &entry.dropped {
                Some(Dropped::Failed { reason }) => Some(reason.clone()),
                _ => None,
            });
            let reason = first.unwrap_or_else(|| "there is no place to run on".to_owned());
            return Err(NothingMeasured { tried: self.entries.len(), first: Unmeasurable { reason } });
        };
        let best = leader.configuration;
        let simplest = |configuration: &Configuration| {
            (configuration.threads, configuration.place, configuration.policy)
        };
        let in_tie: Vec<&Entry> =
            self.entries.iter().filter(|entry| entry.is_active() && self.ties(entry, leader)).collect();
        // On a disturbed machine much cannot be told apart, one thread from two perhaps; the tie is declared, and
        // among those in it scores and medians still say which are likely worse.
        let close = 1.0 + self.bounds.margin / 2.0;
        let alike = in_tie.iter().filter(|entry| {
            entry.score() <= leader.score() * close
                && entry.median_ratio_to(leader).is_none_or(|ratio| ratio <= close)
        });
        let chosen = alike.map(|entry| entry.configuration).min_by_key(simplest).unwrap_or(best);
        let mut tied: Vec<Configuration> = in_tie.iter().map(|entry| entry.configuration).collect();
        tied.sort_by_key(simplest);
        let measured = self.entries.iter().map(Measured::of).collect();
        Ok(Found { chosen, best, tied, measured, rounds: self.round, settled })
    }
}

impl Measured {
    fn of(entry: &Entry) -> Self {
        Self {
            configuration: entry.configuration,
            rounds: entry.samples.iter().map(|(round, _)| *round).collect(),
            samples_s: entry.seconds().collect(),
            score_s: Some(entry.score()).filter(|score| score.is_finite()),
            dropped_after: match &entry.dropped {
                Some(Dropped::Slower { round }) => Some(*round),
                _ => None,
            },
            failure: match &entry.dropped {
                Some(Dropped::Failed { reason }) => Some(reason.clone()),
                _ => None,
            },
        }
    }
}
