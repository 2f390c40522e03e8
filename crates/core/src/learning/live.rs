//! What runs have told since knowledge was made: an overlay that decisions read beside it.
//!
//! Invariant: a copy shares everything with its original but what is changed afterwards, so that a new snapshot costs one
//! row; a reader needs no lock and sees no half of an update.

use std::collections::HashMap;
use std::sync::Arc;

use super::belief::{Belief, Change, log_deviation};
use super::over_cases::{ChangedCase, OverCases, Upheaval, strain};
use crate::decide::{Prediction, Source};
use crate::identity::CaseId;
use crate::knowledge::{Knowledge, TargetIndex};
use crate::model::Case;
use crate::statistics::Interval;
use crate::workload::Workload;

/// Rows lie in so many maps, of which an update copies one.
const SHARDS: usize = 256;

/// Two cases of one target that change the same way within this time, in nanoseconds, speak of the target rather than of themselves.
pub const TOGETHER_NS: u64 = 3_600_000_000_000;

/// What was not seen is believed less only after this time: less would not show.
const AGES_NS: u64 = 1_000_000_000;

/// Standard deviation of what is off in one workload and not in another, in log time.
const CARRIED_OVER: f64 = 0.1;

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

/// What is known of one case.
#[derive(Debug, Clone)]
struct Row {
    /// What is believed as decisions read it, by workload and target, so that a decision walks along a few lines of the cache.
    outlooks: [Box<[Option<Prediction>]>; 3],
    /// What it comes from, in the same order.
    beliefs: [Box<[Option<Belief>]>; 3],
    /// When what is believed of them was brought up to the time last.
    aged_ns: u64,
}

type Shard = HashMap<CaseId, Arc<Row>>;

/// The overlay. It is cheap to copy.
#[derive(Debug, Clone)]
pub struct Live {
    shards: Box<[Arc<Shard>]>,
    over_cases: OverCases,
}

/// The part of a [`Live`] that concerns one case in one workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCase<'l> {
    /// By target; none where the case was never run.
    outlooks: &'l [Option<Prediction>],
    over_cases: &'l OverCases,
}

impl Live {
    /// An overlay that knows of no run, for knowledge of so many targets.
    pub fn new(targets: usize) -> Self {
        let empty = Arc::new(Shard::new());
        Self {
            shards: (0..SHARDS).map(|_| Arc::clone(&empty)).collect(),
            over_cases: OverCases::new(targets),
        }
    }

    /// Takes over a run, and says whether the time has changed.
    ///
    /// A run under strain tells how much that slows the target down and leaves the usual time alone. A time that is no
    /// positive number, or of a target beyond those of the knowledge, is passed over.
    pub fn observe(&mut self, knowledge: &Knowledge, run: &Run<'_>) -> Option<Noticed> {
        let position = usize::from(run.target.0);
        let count = self.over_cases.targets.len();
        if position >= count {
            return None;
        }
        if !(run.time_ns > 0.0 && run.time_ns.is_finite()) {
            return None;
        }
        let shard = Arc::make_mut(&mut self.shards[shard_of(run.case.id)]);
        let row = shard.entry(run.case.id).or_insert_with(|| Arc::new(Row::empty(count)));
        let believed = row.beliefs[run.workload.index()][position].as_ref();
        let before = match believed {
            Some(belief) => belief.clone(),
            None => self.over_cases.first_belief(position, knowledge, run)?,
        };
        let mut belief = self.over_cases.now(position, &before, run.at_ns);
        let off_by = (run.time_ns / belief.time_ns()).ln();
        if run.strained {
            let (mean, runs) = &mut self.over_cases.targets[position].strain;
            *runs += 1;
            let gain = STRAIN_GAIN.max(1.0 / *runs as f64);
            *mean += gain * (off_by.clamp(-3.0, 3.0) - *mean);
            return None;
        }
        self.over_cases.now_ns = self.over_cases.now_ns.max(run.at_ns);
        // Without what all times of the target have wandered since.
        let moved = (run.time_ns / before.time_ns()).ln();
        let by_itself = moved - (belief.wandered_to() - before.wandered_to());
        self.over_cases.learn_upheaval(position, before.seen_ns(), by_itself);
        self.over_cases.learn_rate(position, &before, moved, run.at_ns);
        let (rates, wander) = (self.over_cases.rates, &mut self.over_cases.targets[position].wander);
        wander.visit((run.case.id, run.workload), &mut belief, run.at_ns, &rates);
        let change = belief.observe(run.time_ns, run.at_ns);
        wander.learn(&mut belief, change.is_some(), run.at_ns);
        wander.learn_offset(before.off_by(), belief.off_by());
        let outlook = outlook(&belief, run.at_ns);
        // The row is often shared with the snapshot that was published last.
        let row = Arc::make_mut(row);
        if run.at_ns.saturating_sub(row.aged_ns) > AGES_NS {
            row.age(&self.over_cases, run.at_ns);
        }
        let wandered = self.over_cases.targets[position].wander.level;
        for workload in [Workload::Sustained, Workload::IdleLoaded] {
            let other = row.beliefs[workload.index()][position].as_ref();
            if workload != run.workload && other.is_none_or(|belief| belief.runs() == 0) {
                let mut belief = carried_over(knowledge, run, outlook, workload);
                if let Some(belief) = &mut belief {
                    belief.follows(wandered);
                }
                row.outlooks[workload.index()][position] = belief
                    .as_ref()
                    .map(|it| Prediction { source: outlook.source, ..self::outlook(it, run.at_ns) });
                row.beliefs[workload.index()][position] = belief;
            }
        }
        row.outlooks[run.workload.index()][position] = Some(outlook);
        row.beliefs[run.workload.index()][position] = Some(belief);
        let change = change?;
        let state = &mut self.over_cases.targets[position];
        let now = ChangedCase { case: run.case.id, at_ns: run.at_ns, shift: change.ratio.ln() };
        let together = |before: &ChangedCase| {
            before.case != now.case
                && now.at_ns.saturating_sub(before.at_ns) < TOGETHER_NS
                && before.shift * now.shift > 0.0
        };
        let before = state.changed.replace(now).filter(together);
        if let Some(before) = before {
            // The earlier of the two has taken the change over by itself.
            let shift = 0.5 * (before.shift + now.shift);
            state.upheavals.push(Upheaval { at_ns: before.at_ns, shift, runs: 2 });
        }
        let target_changed = before.is_some();
        Some(Noticed { change, target_changed })
    }

    /// Lets all that was known of `target` before `now_ns` count for less, since something that it rests on was changed.
    pub fn doubt(&mut self, target: TargetIndex, now_ns: u64) {
        if let Some(state) = self.over_cases.targets.get_mut(usize::from(target.0)) {
            state.doubted_ns = Some(now_ns);
        }
    }

    /// The same for the machine as a whole: another power source or plan, another version of the system.
    ///
    /// Such a change concerns all targets, though not all alike: what the first runs after it tell is believed of the others,
    /// too, so that those are not taken for faster only because they were not run since.
    pub fn doubt_all(&mut self, now_ns: u64) {
        self.over_cases.upheavals.push(Upheaval { at_ns: now_ns, shift: 0.0, runs: 0 });
    }

    /// Brings what decisions read of `case` to `now_ns`: what was not seen for long is believed less.
    pub fn age(&mut self, case: CaseId, now_ns: u64) {
        self.over_cases.now_ns = self.over_cases.now_ns.max(now_ns);
        // Nothing is copied for a case that has not aged.
        let aged =
            |shard: &Shard| shard.get(&case).is_none_or(|row| now_ns.saturating_sub(row.aged_ns) <= AGES_NS);
        let shard = &mut self.shards[shard_of(case)];
        if aged(shard) {
            return;
        }
        let shard = Arc::make_mut(shard);
        if let Some(row) = shard.get_mut(&case) {
            Arc::make_mut(row).age(&self.over_cases, now_ns);
        }
    }

    /// What runs make believe of the time of `target` for `case` in `workload`; `None` where it was never run.
    pub fn belief(&self, case: CaseId, target: TargetIndex, workload: Workload) -> Option<&Belief> {
        let row = self.row(case)?;
        row.beliefs[workload.index()].get(usize::from(target.0))?.as_ref()
    }

    /// The time of a run that was observed, at most as long as runs take that are not wild.
    ///
    /// A wild run is no cost of looking at a target, since it might have come on any, and it earns no looking either.
    pub fn usual_at_most(&self, run: &Run<'_>) -> f64 {
        let belief = self.belief(run.case.id, run.target, run.workload);
        belief.filter(|_| !run.strained).map_or(run.time_ns, |belief| belief.usual_at_most(run.time_ns))
    }

    /// How many times as long `target` takes under strain, where runs under strain have told it.
    pub fn strain(&self, target: TargetIndex) -> Option<f64> {
        strain(self.over_cases.targets.get(usize::from(target.0))?)
    }

    fn row(&self, case: CaseId) -> Option<&Row> {
        self.shards[shard_of(case)].get(&case).map(AsRef::as_ref)
    }

    pub(crate) fn of_case(&self, case: CaseId, workload: Workload) -> LiveCase<'_> {
        let outlooks = self.row(case).map_or(&[][..], |row| &row.outlooks[workload.index()]);
        LiveCase { outlooks, over_cases: &self.over_cases }
    }
}

impl LiveCase<'_> {
    /// What runs make believe of the target at `index`; `None` where it never ran the case.
    ///
    /// A target that runs have shown to work needs no prediction from elsewhere.
    pub(crate) fn believed(&self, index: usize) -> Option<Prediction> {
        *self.outlooks.get(index)?
    }

    /// What to believe where knowledge says `known` and the target at `index` never ran the case.
    pub(crate) fn instead_of(&self, index: usize, known: Prediction) -> Prediction {
        self.over_cases.doubted(index, known)
    }

    /// The same under strain; `usual` where runs have not told what that does.
    pub(crate) fn under_strain(&self, index: usize, usual: Prediction) -> Prediction {
        let told =
            self.over_cases.targets.get(index).and_then(|state| Some((strain(state)?, state.strain.1)));
        let Some((factor, runs)) = told else { return usual };
        let Interval { low, high } = usual.interval;
        Prediction {
            time_ns: factor * usual.time_ns,
            interval: Interval { low: factor * low, high: factor * high },
            source: Source::Served { runs, strained: true },
        }
    }
}

impl Row {
    fn empty(targets: usize) -> Self {
        let (outlooks, beliefs) =
            (vec![None; targets].into_boxed_slice(), vec![None; targets].into_boxed_slice());
        Self {
            outlooks: std::array::from_fn(|_| outlooks.clone()),
            beliefs: std::array::from_fn(|_| beliefs.clone()),
            aged_ns: 0,
        }
    }

    /// Brings what is believed to `now_ns`.
    fn age(&mut self, over_cases: &OverCases, now_ns: u64) {
        self.aged_ns = now_ns;
        for (outlooks, beliefs) in self.outlooks.iter_mut().zip(&self.beliefs) {
            for (target, (outlook, belief)) in outlooks.iter_mut().zip(beliefs).enumerate() {
                let (Some(outlook), Some(belief)) = (outlook, belief) else { continue };
                let now = over_cases.now(target, belief, now_ns);
                let (time_ns, interval) = (now.time_ns(), now.interval(now_ns));
                *outlook = Prediction { time_ns, interval, ..*outlook };
            }
        }
    }
}

/// What runs in one workload make believe of another that the case was not run in: what they were off by is off there, too.
fn carried_over(
    knowledge: &Knowledge,
    run: &Run<'_>,
    believed: Prediction,
    workload: Workload,
) -> Option<Belief> {
    if !matches!(run.workload, Workload::Sustained | Workload::IdleLoaded) {
        return None;
    }
    let [here_ns, there_ns] =
        [run.workload, workload].map(|it| knowledge.expected_ns(run.case, run.target, it));
    let time_ns = believed.time_ns * there_ns? / here_ns?;
    let half = (1.96 * CARRIED_OVER.hypot(log_deviation(believed.interval))).exp();
    let interval = Interval { low: time_ns / half, high: time_ns * half };
    Belief::from_prediction(time_ns, interval, run.at_ns)
}

fn outlook(belief: &Belief, now_ns: u64) -> Prediction {
    Prediction {
        time_ns: belief.time_ns(),
        interval: belief.interval(now_ns),
        source: Source::Served { runs: belief.runs(), strained: false },
    }
}

fn shard_of(case: CaseId) -> usize {
    usize::from(case.0[0]) % SHARDS
}

#[cfg(test)]
mod tests;
