//! What runs have told since knowledge was made: an overlay that decisions read beside it.
//!
//! Invariant: a copy shares everything with its original but what is changed afterwards, so that a new snapshot costs one
//! row; a reader needs no lock and sees no half of an update.

use std::collections::HashMap;
use std::sync::Arc;

use super::belief::{Belief, Change, log_deviation};
use crate::decide::{Prediction, Source};
use crate::identity::CaseId;
use crate::knowledge::{Exclusion, Knowledge, TargetIndex};
use crate::model::Case;
use crate::statistics::Interval;
use crate::workload::Workload;

/// Rows lie in so many maps, of which an update copies one.
const SHARDS: usize = 256;

/// Two cases of one target that change within this time speak of the target rather than of themselves.
const TOGETHER_NS: u64 = 3_600_000_000_000;

/// Runs after a change from which on its new time counts as measured.
const SETTLED: u64 = 5;

/// Runs on a strained chip count as one more such run about a slow-down that is not known at all.
const STRAIN_GAIN: f64 = 0.1;

/// One finished run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The target that answered.
    pub target: TargetIndex,
    /// The case.
    pub case: &'a Case,
    /// The workload that the run was in truth in.
    pub workload: Workload,
    /// Its time.
    pub time_ns: f64,
    /// When it ended, in nanoseconds of any clock that does not go back.
    pub at_ns: u64,
    /// Whether the chip was under strain: loaded by others, or too hot for its clocks.
    pub strained: bool,
}

/// What a run has told beyond its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noticed {
    /// How the time has changed.
    pub change: Change,
    /// Whether it is the target as a whole that has changed, as other cases of it show, too.
    pub target_changed: bool,
}

/// A time that wants to be measured again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanting {
    /// The case.
    pub case: CaseId,
    /// The target.
    pub target: TargetIndex,
    /// The workload.
    pub workload: Workload,
}

#[derive(Debug, Clone)]
struct Entry {
    belief: Belief,
    /// What is believed, as decisions read it.
    outlook: Prediction,
}

/// What is known of one case: by target and workload.
type Row = Box<[[Option<Entry>; 3]]>;

type Shard = HashMap<CaseId, Arc<Row>>;

/// What is known of a target over all cases.
#[derive(Debug, Clone, Copy, Default)]
struct TargetState {
    /// When something that its times rest on was changed last.
    doubted_ns: Option<u64>,
    /// The case that changed last, and when.
    changed: Option<(CaseId, u64)>,
    /// Under strain: the mean log ratio to the usual time, and the runs that it comes from.
    strain: (f64, u64),
}

/// The overlay. It is cheap to copy.
#[derive(Debug, Clone)]
pub struct Live {
    shards: Box<[Arc<Shard>]>,
    targets: Box<[TargetState]>,
}

/// The part of a [`Live`] that concerns one case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCase<'l> {
    row: Option<&'l Row>,
    targets: &'l [TargetState],
}

impl Live {
    /// An overlay that knows of no run, for knowledge of so many targets.
    pub fn new(targets: usize) -> Self {
        let empty = Arc::new(Shard::new());
        Self {
            shards: (0..SHARDS).map(|_| Arc::clone(&empty)).collect(),
            targets: vec![TargetState::default(); targets].into(),
        }
    }

    /// Takes over a run, and says whether the time has changed.
    ///
    /// A run under strain tells how much that slows the target down and leaves the usual time alone. A time that is no
    /// positive number, or of a target beyond those of the knowledge, is passed over.
    pub fn observe(&mut self, knowledge: &Knowledge, run: &Run<'_>) -> Option<Noticed> {
        let position = usize::from(run.target.0);
        let count = self.targets.len();
        let state = self.targets.get_mut(position)?;
        if !(run.time_ns > 0.0 && run.time_ns.is_finite()) {
            return None;
        }
        let shard = Arc::make_mut(&mut self.shards[shard_of(run.case.id)]);
        let empty = || Arc::new(vec![[const { None }; 3]; count].into_boxed_slice());
        let row = shard.entry(run.case.id).or_insert_with(empty);
        let believed = row[position][run.workload.index()].as_ref().map(|entry| &entry.belief);
        let mut belief = match believed {
            Some(belief) => belief.clone(),
            None => first_belief(knowledge, run)?,
        };
        if run.strained {
            let (mean, runs) = &mut state.strain;
            *runs += 1;
            let gain = STRAIN_GAIN.max(1.0 / *runs as f64);
            *mean += gain * ((run.time_ns.ln() - belief.time_ns().ln()).clamp(-3.0, 3.0) - *mean);
            return None;
        }
        if state.doubted_ns.is_some_and(|doubted_ns| belief.seen_ns() < doubted_ns) {
            belief.doubt();
        }
        let change = belief.observe(run.time_ns, run.at_ns);
        let outlook = outlook(&belief, run.at_ns);
        // The row is often shared with the snapshot that was published last.
        let row = Arc::make_mut(row);
        for entry in row.iter_mut().flatten().flatten() {
            entry.outlook = self::outlook(&entry.belief, run.at_ns);
        }
        row[position][run.workload.index()] = Some(Entry { belief, outlook });
        let change = change?;
        let before = state.changed.replace((run.case.id, run.at_ns));
        let target_changed = before.is_some_and(|(case, at_ns)| {
            case != run.case.id && run.at_ns.saturating_sub(at_ns) < TOGETHER_NS
        });
        if target_changed {
            state.doubted_ns = Some(run.at_ns);
        }
        Some(Noticed { change, target_changed })
    }

    /// Lets all that was known of `target` before `now_ns` count for less, since something that it rests on was changed.
    pub fn doubt(&mut self, target: TargetIndex, now_ns: u64) {
        if let Some(state) = self.targets.get_mut(usize::from(target.0)) {
            state.doubted_ns = Some(now_ns);
        }
    }

    /// The same for every target: another power plan, another version of the system.
    pub fn doubt_all(&mut self, now_ns: u64) {
        self.targets.iter_mut().for_each(|state| state.doubted_ns = Some(now_ns));
    }

    /// Brings what decisions read of `case` to `now_ns`: what was not seen for long is believed less.
    pub fn age(&mut self, case: CaseId, now_ns: u64) {
        let shard = Arc::make_mut(&mut self.shards[shard_of(case)]);
        let Some(row) = shard.get_mut(&case) else { return };
        for (entries, state) in Arc::make_mut(row).iter_mut().zip(&self.targets) {
            for entry in entries.iter_mut().flatten() {
                let doubted = state.doubted_ns.is_some_and(|doubted_ns| entry.belief.seen_ns() < doubted_ns);
                if doubted {
                    entry.belief.doubt();
                }
                entry.outlook = outlook(&entry.belief, now_ns);
            }
        }
    }

    /// What runs make believe of the time of `target` for `case` in `workload`; `None` where it was never run.
    pub fn belief(&self, case: CaseId, target: TargetIndex, workload: Workload) -> Option<&Belief> {
        let row = self.of_case(case).row?;
        row.get(usize::from(target.0))?[workload.index()].as_ref().map(|entry| &entry.belief)
    }

    /// How many times as long `target` takes under strain, where runs under strain have told it.
    pub fn strain(&self, target: TargetIndex) -> Option<f64> {
        strain(self.targets.get(usize::from(target.0))?)
    }

    /// Times that have changed and were not seen often since, in no order.
    pub fn wanting(&self) -> impl Iterator<Item = Wanting> + '_ {
        let of_row = |(&case, row): (&CaseId, &'_ Arc<Row>)| {
            let mut wanting = Vec::new();
            for (target, entries) in row.iter().enumerate() {
                for (workload, entry) in Workload::ALL.into_iter().zip(entries) {
                    let changed = entry.as_ref().and_then(|entry| entry.belief.changed());
                    if changed.is_some_and(|(_, runs_since)| runs_since < SETTLED) {
                        wanting.push(Wanting { case, target: TargetIndex(target as u16), workload });
                    }
                }
            }
            wanting
        };
        self.shards.iter().flat_map(|shard| shard.iter()).flat_map(of_row)
    }

    pub(crate) fn of_case(&self, case: CaseId) -> LiveCase<'_> {
        let row = self.shards[shard_of(case)].get(&case).map(AsRef::as_ref);
        LiveCase { row, targets: &self.targets }
    }
}

impl LiveCase<'_> {
    /// What is believed of the target at `index` where knowledge says `known`; a target that runs have shown to work
    /// needs no prediction from elsewhere.
    pub(crate) fn outlook<'k>(
        &self,
        index: usize,
        workload: Workload,
        known: Result<Prediction, &'k Exclusion>,
    ) -> Result<Prediction, &'k Exclusion> {
        if !matches!(known, Ok(_) | Err(Exclusion::NoPrediction | Exclusion::ExpectedToFail { .. })) {
            return known;
        }
        let believed = self.row.and_then(|row| row.get(index)?[workload.index()].as_ref());
        match believed {
            Some(entry) => Ok(entry.outlook),
            None if self.targets.get(index).is_some_and(|state| state.doubted_ns.is_some()) => {
                known.map(doubted)
            }
            None => known,
        }
    }

    /// The same under strain; `usual` where runs have not told what that does.
    pub(crate) fn under_strain(&self, index: usize, usual: Prediction) -> Prediction {
        let told = self.targets.get(index).and_then(|state| Some((strain(state)?, state.strain.1)));
        let Some((factor, runs)) = told else { return usual };
        let Interval { low, high } = usual.interval;
        Prediction {
            time_ns: factor * usual.time_ns,
            interval: Interval { low: factor * low, high: factor * high },
            source: Source::Served { runs, strained: true },
        }
    }
}

fn strain(state: &TargetState) -> Option<f64> {
    let (mean, runs) = state.strain;
    // Fewer runs may have been slow by chance.
    (runs >= 3).then(|| mean.exp())
}

/// What is believed before the first run counts.
fn first_belief(knowledge: &Knowledge, run: &Run<'_>) -> Option<Belief> {
    let measured = knowledge.estimate(run.case.id, run.target, run.workload);
    let known = match measured {
        Some(estimate) => Some((estimate.time_ns, estimate.interval)),
        None => {
            let predicted = knowledge.predicted(run.case, run.target, run.workload);
            predicted.map(|predicted| (predicted.time_ns, predicted.interval))
        }
    };
    known
        .and_then(|(time_ns, interval)| Belief::from_prediction(time_ns, interval, run.at_ns))
        .or_else(|| Belief::from_run(run.time_ns, run.at_ns))
}

fn outlook(belief: &Belief, now_ns: u64) -> Prediction {
    Prediction {
        time_ns: belief.time_ns(),
        interval: belief.interval(now_ns),
        source: Source::Served { runs: belief.runs(), strained: false },
    }
}

/// What knowledge says, believed less.
fn doubted(known: Prediction) -> Prediction {
    let half = (1.96 * std::f64::consts::LN_2.hypot(log_deviation(known.interval))).exp();
    Prediction { interval: Interval { low: known.time_ns / half, high: known.time_ns * half }, ..known }
}

fn shard_of(case: CaseId) -> usize {
    usize::from(case.0[0]) % SHARDS
}

#[cfg(test)]
mod tests;
