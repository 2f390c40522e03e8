//! What runs have told since knowledge was made: an overlay that decisions read beside it.
//!
//! Invariant: a copy shares everything with its original but what is changed afterwards, so that a new snapshot costs one
//! row; a reader needs no lock and sees no half of an update.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

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

/// Changes of one target, or of the whole machine, that are told apart.
const MOST_UPHEAVALS: usize = 4;

/// Standard deviation, in log time, of what a change of the whole machine does to all targets, and to each beyond that; and of
/// what a change of a target does to all cases, and to each beyond that.
const COMMON: f64 = 0.5;
const OWN_SHARE: f64 = 0.1;

/// What was not seen is believed less only after this time: less would not show.
const AGES_NS: u64 = 1_000_000_000;

/// Runs after a change from which on its new time counts as measured.
const SETTLED: u64 = 5;

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

/// What is known of one case.
#[derive(Debug, Clone)]
struct Row {
    /// By target and workload.
    entries: Box<[[Option<Entry>; 3]]>,
    /// When what is believed of them was brought up to the time last.
    aged_ns: u64,
}

type Shard = HashMap<CaseId, Arc<Row>>;

/// What is known of a target over all cases.
#[derive(Debug, Clone, Default)]
struct TargetState {
    /// When something that its times rest on was changed last.
    doubted_ns: Option<u64>,
    /// The case that changed last.
    changed: Option<ChangedCase>,
    /// Changes that several cases have shown, oldest first.
    upheavals: Upheavals,
    /// Under strain: the mean log ratio to the usual time, and the runs that it comes from.
    strain: (f64, u64),
}

#[derive(Debug, Clone, Copy)]
struct ChangedCase {
    case: CaseId,
    at_ns: u64,
    /// By how much, in log time.
    shift: f64,
}

/// A change of a target or of the whole machine, and what it did to the times.
#[derive(Debug, Clone, Copy)]
struct Upheaval {
    at_ns: u64,
    /// The mean of what runs since have been off by, in log time, and their number.
    shift: f64,
    runs: u64,
}

/// Changes, oldest first, of which only so many are told apart.
#[derive(Debug, Clone, Default)]
struct Upheavals(SmallVec<[Upheaval; MOST_UPHEAVALS]>);

impl Upheavals {
    fn push(&mut self, upheaval: Upheaval) {
        if self.0.len() == MOST_UPHEAVALS {
            // Times from before the two are then believed to have moved by both at the later one.
            let oldest = self.0.remove(0);
            self.0[0].shift += oldest.shift;
        }
        self.0.push(upheaval);
    }

    /// By how much times have moved since `seen_ns`, in log time, and the variance of what that may be off by.
    fn since(&self, seen_ns: u64) -> (f64, f64) {
        let later = self.0.iter().filter(|it| seen_ns < it.at_ns);
        later.fold((0.0, 0.0), |(shift, variance), it| {
            // Before any run has told it, the common part of the change is as open as a target's own.
            let own = OWN_SHARE * OWN_SHARE + COMMON * COMMON / (1 + it.runs) as f64;
            (shift + it.shift, variance + own)
        })
    }

    /// Takes over what a run after the last change says of it: it was off by `off_by` in log time from what was believed at
    /// `seen_ns`.
    fn learn(&mut self, seen_ns: u64, off_by: f64) {
        let Some((last, earlier)) = self.0.split_last_mut() else { return };
        if seen_ns == 0 || seen_ns >= last.at_ns {
            return;
        }
        let known: f64 = earlier.iter().filter(|it| seen_ns < it.at_ns).map(|it| it.shift).sum();
        last.runs += 1;
        last.shift += ((off_by - known).clamp(-2.0, 2.0) - last.shift) / last.runs as f64;
    }
}

/// The overlay. It is cheap to copy.
#[derive(Debug, Clone)]
pub struct Live {
    shards: Box<[Arc<Shard>]>,
    over_cases: OverCases,
}

/// What is known over all cases.
#[derive(Debug, Clone)]
struct OverCases {
    targets: Box<[TargetState]>,
    /// Changes of the whole machine, oldest first.
    upheavals: Upheavals,
}

/// The part of a [`Live`] that concerns one case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCase<'l> {
    row: Option<&'l Row>,
    over_cases: &'l OverCases,
}

impl Live {
    /// An overlay that knows of no run, for knowledge of so many targets.
    pub fn new(targets: usize) -> Self {
        let empty = Arc::new(Shard::new());
        Self {
            shards: (0..SHARDS).map(|_| Arc::clone(&empty)).collect(),
            over_cases: OverCases {
                targets: vec![TargetState::default(); targets].into(),
                upheavals: Upheavals::default(),
            },
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
        let empty = || Arc::new(Row { entries: vec![[const { None }; 3]; count].into(), aged_ns: 0 });
        let row = shard.entry(run.case.id).or_insert_with(empty);
        let believed = row.entries[position][run.workload.index()].as_ref().map(|entry| &entry.belief);
        let before = match believed {
            Some(belief) => belief.clone(),
            None => first_belief(knowledge, run)?,
        };
        let mut belief = self.over_cases.now(position, &before);
        if run.strained {
            let (mean, runs) = &mut self.over_cases.targets[position].strain;
            *runs += 1;
            let gain = STRAIN_GAIN.max(1.0 / *runs as f64);
            *mean += gain * ((run.time_ns.ln() - belief.time_ns().ln()).clamp(-3.0, 3.0) - *mean);
            return None;
        }
        let seen_ns = believed.map_or(0, Belief::seen_ns);
        self.over_cases.learn_upheaval(position, seen_ns, before.time_ns(), run.time_ns);
        let change = belief.observe(run.time_ns, run.at_ns);
        let outlook = outlook(&belief, run.at_ns);
        // The row is often shared with the snapshot that was published last.
        let row = Arc::make_mut(row);
        if run.at_ns.saturating_sub(row.aged_ns) > AGES_NS {
            row.age(&self.over_cases, run.at_ns);
        }
        let state = &mut self.over_cases.targets[position];
        for workload in [Workload::Sustained, Workload::IdleLoaded] {
            let other = &mut row.entries[position][workload.index()];
            if workload != run.workload && other.as_ref().is_none_or(|entry| entry.belief.runs() == 0) {
                *other = carried_over(knowledge, run, outlook, workload).map(|belief| Entry {
                    outlook: Prediction { source: outlook.source, ..self::outlook(&belief, run.at_ns) },
                    belief,
                });
            }
        }
        row.entries[position][run.workload.index()] = Some(Entry { belief, outlook });
        let change = change?;
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
        let row = self.of_case(case).row?;
        row.entries.get(usize::from(target.0))?[workload.index()].as_ref().map(|entry| &entry.belief)
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

    /// Times that have changed and were not seen often since, in no order.
    pub fn wanting(&self) -> impl Iterator<Item = Wanting> + '_ {
        let of_row = |(&case, row): (&CaseId, &'_ Arc<Row>)| {
            let mut wanting = Vec::new();
            for (target, entries) in row.entries.iter().enumerate() {
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
        LiveCase { row, over_cases: &self.over_cases }
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
        let believed = self.row.and_then(|row| row.entries.get(index)?[workload.index()].as_ref());
        match believed {
            Some(entry) => Ok(entry.outlook),
            None if self.over_cases.is_doubted(index) => {
                known.map(|known| self.over_cases.doubted(index, known))
            }
            None => known,
        }
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

impl OverCases {
    /// What is believed now of what was believed when `belief` was seen last.
    fn now(&self, target: usize, belief: &Belief) -> Belief {
        let mut now = belief.clone();
        let (shift, deviation) = self.since(target, belief.seen_ns());
        if deviation > 0.0 {
            now.moved(shift, deviation);
        }
        now
    }

    /// By how much times of `target` have moved since `seen_ns`, in log time, and how far that may be off.
    fn since(&self, target: usize, seen_ns: u64) -> (f64, f64) {
        let doubted = self.targets[target].doubted_ns.is_some_and(|doubted_ns| seen_ns < doubted_ns);
        let doubt = if doubted { std::f64::consts::LN_2.powi(2) } else { 0.0 };
        let [(all, all_off), (own, own_off)] =
            [self.upheavals.since(seen_ns), self.targets[target].upheavals.since(seen_ns)];
        (all + own, (doubt + all_off + own_off).sqrt())
    }

    /// Takes over what a run after an upheaval says of it: `believed_ns` was last seen at `seen_ns`.
    fn learn_upheaval(&mut self, target: usize, seen_ns: u64, believed_ns: f64, time_ns: f64) {
        let off_by = (time_ns / believed_ns).ln();
        let own = &mut self.targets[target].upheavals;
        let (all, of_target) = (self.upheavals.since(seen_ns).0, own.since(seen_ns).0);
        self.upheavals.learn(seen_ns, off_by - of_target);
        own.learn(seen_ns, off_by - all);
    }

    fn is_doubted(&self, target: usize) -> bool {
        let own = |state: &TargetState| state.doubted_ns.is_some() || !state.upheavals.0.is_empty();
        self.targets.get(target).is_some_and(own) || !self.upheavals.0.is_empty()
    }

    /// What knowledge says, moved and believed less.
    fn doubted(&self, target: usize, known: Prediction) -> Prediction {
        let (shift, deviation) = self.since(target, 0);
        let half = (1.96 * deviation.hypot(log_deviation(known.interval))).exp();
        let time_ns = known.time_ns * shift.exp();
        Prediction { time_ns, interval: Interval { low: time_ns / half, high: time_ns * half }, ..known }
    }
}

impl Row {
    /// Brings what is believed to `now_ns`.
    fn age(&mut self, over_cases: &OverCases, now_ns: u64) {
        self.aged_ns = now_ns;
        for (target, entries) in self.entries.iter_mut().enumerate() {
            for entry in entries.iter_mut().flatten() {
                let now = over_cases.now(target, &entry.belief);
                let (time_ns, interval) = (now.time_ns(), now.interval(now_ns));
                entry.outlook = Prediction { time_ns, interval, ..entry.outlook };
            }
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
