//! Chooses the target for a case, and says why.
//!
//! Reading order: `context`, `rules`, `rank`, `record`, `wording`.
//!
//! Invariant: [`decide`] is a pure function of its arguments. It reads no clock, takes no lock and,
//! up to [`INLINE_TARGETS`] targets, allocates nothing.

mod context;
mod rank;
mod record;
mod rules;
mod wording;

use std::cell::OnceCell;

use smallvec::SmallVec;

use serde::{Deserialize, Serialize};

use crate::accuracy::AccuracyClass;
use crate::energy::EnergyScope;
use crate::knowledge::{CaseRow, Energy, Exclusion, Knowledge, TargetIndex, Verdicts};
use crate::learning::{Explored, Live, explore};
use crate::model::Case;
use crate::predict::Basis;
use crate::statistics::Interval;
use crate::target::Target;
use crate::workload::{Goal, Workload};

pub use self::context::{ChipNow, Context, Running};
pub use self::record::{Answer, Methods, Outlook, Record, Seen, Terms};
pub use self::rules::{Bar, BusyChip, Fired, HotChip, Rules};
pub use self::wording::{format_duration_ns, format_interval_ns, format_joules};

/// Number of targets up to which a decision is made without touching the heap.
pub const INLINE_TARGETS: usize = 16;

/// Version of the method by which candidates are ranked; a change of any choice raises it.
pub const METHOD_VERSION: u32 = 2;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The case to run.
    pub case: &'a Case,
    /// In what state the target will be.
    pub workload: Workload,
    /// What the user wants most.
    pub goal: Goal,
    /// How exact the outputs must be.
    pub accuracy: AccuracyClass,
    /// What the chosen target must keep to.
    pub limits: Limits,
    /// The rules by which the context changes the decision.
    pub rules: &'a Rules,
}

/// The targets that a decision is made among: those of the knowledge, or of a stored decision.
pub trait Lineup {
    /// The target at `index`.
    fn target(&self, index: TargetIndex) -> &Target;
}

impl Lineup for Knowledge {
    fn target(&self, index: TargetIndex) -> &Target {
        self.target(index)
    }
}

/// What the chosen target must keep to; an absent limit forbids nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The time by which an inference is to be done with 95 % certainty. Among the targets that meet it the least
    /// energy decides, or the least time where energy is not known of all.
    pub deadline_ns: Option<f64>,
    /// How many inferences a second are to be reached with 95 % certainty, one after the other; of the targets that do,
    /// the cheapest is taken as with a deadline. A call of a batch is one inference.
    #[serde(default)]
    pub least_per_second: Option<f64>,
    /// The most memory that a process with the session may take.
    pub memory_bytes: Option<u64>,
    /// The most power that the target may draw while it works, in watts, the rest's share included; one whose power is
    /// not known is not held to it, and the decision says so.
    pub power_watts: Option<f64>,
}

/// Where a predicted time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// This very case was measured on this target.
    Measured {
        /// In how many sessions.
        sessions: u32,
    },
    /// Other machines with the same kind of chip and the same library measured this very case.
    Imported {
        /// How many machines.
        machines: u32,
        /// Whether how far machines differ is assumed, since no two of them tell.
        assumed: bool,
    },
    /// Runs of this very case on this target, since knowledge was made.
    Served {
        /// How many.
        runs: u64,
        /// Whether it is what the target needs while others load its chip or heat slows it down.
        strained: bool,
    },
    /// What else was measured on this machine.
    Predicted(Basis),
}

impl Source {
    /// `measured`, `imported`, `served`, or what weighs most in the prediction: `same-model`, `other-targets`, or a law such as
    /// `F2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::Imported { .. } => "imported",
            Self::Served { .. } => "served",
            Self::Predicted(basis) => basis.name(),
        }
    }
}

/// A predicted time with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The time of one inference.
    pub time_ns: f64,
    /// Where it lies with 95 % confidence.
    pub interval: Interval,
    /// Where the figure comes from.
    pub source: Source,
}

/// A target as the decision saw it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'k> {
    /// The target.
    pub target: TargetIndex,
    /// Its predicted time; absent when it is excluded.
    pub outlook: Result<Prediction, &'k Exclusion>,
    /// Its predicted energy, where anything is known of it: of the scope that decides, else of the closest one.
    pub energy: Option<Energy>,
    /// The most memory that a process with its session was seen to take; looked up only where memory is limited.
    pub memory_bytes: Option<u64>,
    /// The most power that it was seen to draw at work, in watts; looked up only where power is limited.
    pub load_watts: Option<f64>,
    /// The time that an inference keeps within with 95 % certainty; looked up only for a deadline.
    pub within_ns: Option<f64>,
    /// How far its sessions differ in the workload: their standard deviation as a share of the time.
    pub spread: Option<f64>,
    /// What forbids it now, though it could run the case.
    pub barred: Option<Bar>,
    /// What it was ranked by, less is better: nanoseconds, joules, or a share of the best of both. Absent for one that
    /// is out.
    pub score: Option<f64>,
}

/// The answer: what was chosen, and how every target was seen.
#[derive(Debug, Clone)]
pub struct Decision<'k> {
    /// The chosen target; `None` when every target is excluded.
    pub chosen: Option<TargetIndex>,
    /// The next best target, where there is one.
    pub runner_up: Option<TargetIndex>,
    /// The goal that decided, which a rule may have changed.
    pub goal: Goal,
    /// The rules that fired.
    pub fired: SmallVec<[Fired; 4]>,
    /// Why the chosen target is not the one that is believed to be the best; `None` where it is.
    pub exploration: Option<Explored>,
    /// All targets, in the order of the knowledge.
    pub candidates: SmallVec<[Candidate<'k>; INLINE_TARGETS]>,
}

static NO_PREDICTION: Exclusion = Exclusion::NoPrediction;

/// Chooses the target that is best for the goal by what is predicted of each: measured where measured, else what
/// machines of the same kind or this machine's other measurements tell, whichever tells it more closely.
///
/// Equal scores go to the target listed first. The work is linear in the number of targets.
pub fn decide<'k>(knowledge: &'k Knowledge, query: &Query<'_>, context: &Context) -> Decision<'k> {
    decide_live(knowledge, None, query, context)
}

/// [`decide`], where runs since the knowledge was made have told more.
///
/// What is believed of a time after runs of the case takes the place of what knowledge says of it. Where the context
/// allows it, a target may be chosen to be [looked at again](explore): only where time decides, on mains, and without a
/// deadline.
pub fn decide_live<'k>(
    knowledge: &'k Knowledge,
    live: Option<&Live>,
    query: &Query<'_>,
    context: &Context,
) -> Decision<'k> {
    let live = live.filter(|_| !context.ignore_measurements);
    let live = live.map(|live| live.of_case(query.case.id, query.workload));
    // Looked up only where runs have not told all.
    let cells = OnceCell::new();
    let cells = || {
        let known = || if context.ignore_measurements { None } else { knowledge.cells(query.case.id) };
        *cells.get_or_init(known)
    };
    let verdicts = knowledge.verdicts(query.case);
    let workload = query.workload.index();
    let terms = query.terms();
    let memory_counts = terms.memory_limit(context).is_some();
    let mut candidates: SmallVec<[Candidate<'k>; INLINE_TARGETS]> = SmallVec::new();
    for index in 0..knowledge.targets().len() {
        let target = TargetIndex(index as u16);
        let known = || {
            let outlook = match cells().and_then(|row| row[index].times[workload].as_ref()) {
                Some(estimate) => Prediction {
                    time_ns: estimate.time_ns,
                    interval: estimate.interval,
                    source: Source::Measured { sessions: estimate.sessions },
                },
                None => predict(knowledge, query, context, &verdicts, target)?,
            };
            Ok(match context.rested_ns.filter(|_| query.workload == Workload::IdleLoaded) {
                Some(rest_ns) => knowledge.after_rest(query.case, target, outlook, rest_ns),
                None => outlook,
            })
        };
        let outlook = match (verdicts.exclusion(index, query.accuracy), &live) {
            (Some(exclusion), _) => Err(exclusion),
            (None, None) => known(),
            (None, Some(live)) => {
                let usual = match live.believed(index) {
                    Some(believed) => Ok(believed),
                    None => known().map(|known| live.instead_of(index, known)),
                };
                let strained = || context.strains(knowledge.target(target), query.rules);
                usual.map(|usual| if strained() { live.under_strain(index, usual) } else { usual })
            }
        };
        let limits = query.limits;
        candidates.push(Candidate {
            target,
            outlook,
            energy: None,
            memory_bytes: memory_counts.then(|| knowledge.memory_needed(query.case, target)).flatten(),
            load_watts: limits.power_watts.and_then(|_| knowledge.load_watts(target)),
            within_ns: limits.deadline_ns.zip(outlook.ok()).map(|(_, prediction)| {
                knowledge.within_ns(query.case.id, target, query.workload, prediction)
            }),
            spread: knowledge.spread(target, query.workload),
            barred: None,
            score: None,
        });
    }
    if knowledge.has_energies() {
        predict_energies(knowledge, query, &mut candidates);
    }
    answer(&OfCase::new(knowledge, query.case), &terms, context, candidates)
}

/// What a decision knows of the targets beyond what stands in its candidates.
trait Startable: Lineup {
    /// What it takes to wake the target up, in nanoseconds, as things are now: where it has become slower in the workload, waking has,
    /// too. 0 where that is not known.
    fn waking_ns(&self, candidate: &Candidate<'_>, workload: Workload) -> f64;
    /// What it takes to open a session and run it once, in nanoseconds.
    fn cold_start_ns(&self, target: TargetIndex) -> Option<f64>;
}

/// Knowledge as far as it concerns one case.
struct OfCase<'a> {
    knowledge: &'a Knowledge,
    case: &'a Case,
    /// Looked up only where another target may be woken.
    row: OnceCell<CaseRow<'a>>,
}

impl<'a> OfCase<'a> {
    fn new(knowledge: &'a Knowledge, case: &'a Case) -> Self {
        Self { knowledge, case, row: OnceCell::new() }
    }

    fn row(&self) -> &CaseRow<'a> {
        self.row.get_or_init(|| self.knowledge.row(self.case))
    }
}

impl Lineup for OfCase<'_> {
    fn target(&self, index: TargetIndex) -> &Target {
        self.knowledge.target(index)
    }
}

impl Startable for OfCase<'_> {
    fn waking_ns(&self, candidate: &Candidate<'_>, workload: Workload) -> f64 {
        let (row, target) = (self.row(), candidate.target);
        let known_ns = row.waking_ns(target);
        let slower = candidate.outlook.ok().zip(row.expected_ns(target, workload));
        slower.map_or(known_ns, |(now, expected_ns)| known_ns * now.time_ns / expected_ns)
    }

    fn cold_start_ns(&self, target: TargetIndex) -> Option<f64> {
        self.row().expected_ns(target, Workload::ColdStart)
    }
}

/// The answer that follows from the candidates, and from nothing else.
fn answer<'k>(
    lineup: &impl Startable,
    terms: &Terms,
    context: &Context,
    mut candidates: SmallVec<[Candidate<'k>; INLINE_TARGETS]>,
) -> Decision<'k> {
    let rank::Ranking { chosen, runner_up, goal, fired } =
        rank::rank(lineup, terms, context, &mut candidates);
    let mut decision = Decision { chosen, runner_up, goal, fired, exploration: None, candidates };
    let explored = explore_instead(lineup, terms, context, &decision);
    if let Some((target, explored)) = explored {
        (decision.chosen, decision.runner_up) = (Some(target), chosen);
        decision.exploration = Some(explored);
    }
    decision
}

/// What is worth a visit instead of the chosen target, where looking is allowed.
fn explore_instead(
    lineup: &impl Startable,
    terms: &Terms,
    context: &Context,
    decision: &Decision<'_>,
) -> Option<(TargetIndex, Explored)> {
    let allowance = context.exploration.as_ref()?;
    let (on_battery, limits) = (context.charge_on_battery_percent.is_some(), terms.limits);
    if on_battery || limits.deadline_ns.is_some() || decision.goal != Goal::Fastest {
        return None;
    }
    let start_ns = |target| match &allowance.open {
        Some(open) if !open.contains(&target) => lineup.cold_start_ns(target),
        // While one target runs, the others rest, and the first run of a visit wakes one up.
        _ if terms.workload == Workload::Sustained => {
            Some(lineup.waking_ns(&decision.candidates[usize::from(target.0)], terms.workload))
        }
        _ => Some(0.0),
    };
    explore(&decision.candidates, decision.chosen?, allowance, start_ns)
}

/// Gives each candidate its energy: of the scope in which most of them are known, the closest of equal ones, else of
/// the closest scope at all.
fn predict_energies(knowledge: &Knowledge, query: &Query<'_>, candidates: &mut [Candidate<'_>]) {
    let mut most: (Option<EnergyScope>, usize) = (None, 0);
    for scope in EnergyScope::ALL {
        let knows = |it: &&Candidate<'_>| {
            it.outlook.is_ok() && knowledge.knows_energy(it.target, query.workload, scope)
        };
        let known = candidates.iter().filter(knows).count();
        if known > most.1 {
            most = (Some(scope), known);
        }
    }
    for candidate in candidates {
        let Ok(prediction) = candidate.outlook else { continue };
        let of = |scope| knowledge.energy(query.case.id, candidate.target, query.workload, scope, prediction);
        candidate.energy = most.0.and_then(of).or_else(|| EnergyScope::ALL.into_iter().find_map(of));
    }
}

/// What is predicted of a target that was not measured on the case in the workload.
fn predict<'k>(
    knowledge: &'k Knowledge,
    query: &Query<'_>,
    context: &Context,
    verdicts: &Verdicts<'k>,
    target: TargetIndex,
) -> Result<Prediction, &'k Exclusion> {
    let Query { case, workload, .. } = *query;
    let imported = imported(knowledge, query, context, target);
    // What has run the model in another shape or workload, or on another machine of the kind, will run it in this one.
    if !verdicts.succeeded(usize::from(target.0))
        && imported.is_none()
        && let Some(doubt) = knowledge.doubt(case, target)
    {
        return Err(doubt);
    }
    let predicted = if context.ignore_measurements {
        knowledge.predicted_by_law(case, target, workload)
    } else {
        knowledge.predicted(case, target, workload)
    };
    let width = |prediction: &Prediction| prediction.interval.high / prediction.interval.low;
    let told = imported.into_iter().chain(predicted);
    told.min_by(|one, other| width(one).total_cmp(&width(other))).ok_or(&NO_PREDICTION)
}

/// What other machines of the kind make expect of `target`.
fn imported(
    knowledge: &Knowledge,
    query: &Query<'_>,
    context: &Context,
    target: TargetIndex,
) -> Option<Prediction> {
    let told = knowledge.imported(query.case.id, target, query.workload, query.accuracy);
    told.filter(|_| !context.ignore_measurements).map(|told| Prediction {
        time_ns: told.time_ns,
        interval: told.interval,
        source: Source::Imported { machines: told.machines, assumed: told.assumed },
    })
}

impl Decision<'_> {
    /// The prediction for `target`, unless it is excluded.
    pub fn prediction(&self, target: TargetIndex) -> Option<Prediction> {
        self.candidates.get(usize::from(target.0))?.outlook.ok()
    }

    /// How `target` was seen.
    pub fn candidate(&self, target: TargetIndex) -> Option<&Candidate<'_>> {
        self.candidates.get(usize::from(target.0))
    }

    /// The candidates that may be taken, best first: by score, then those of which the goal's figure is not known, by
    /// time.
    pub fn order(&self) -> SmallVec<[TargetIndex; INLINE_TARGETS]> {
        let rank = |candidate: &Candidate<'_>| {
            let time = candidate.outlook.ok().filter(|_| candidate.barred.is_none())?.time_ns;
            // A rule may have put another one before the best score.
            let first = Some(candidate.target) != self.chosen;
            let (unscored, value) = candidate.score.map_or((true, time), |score| (false, score));
            Some((first, unscored, value, candidate.target))
        };
        let mut order: SmallVec<[_; INLINE_TARGETS]> = self.candidates.iter().filter_map(rank).collect();
        order.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3)));
        order.into_iter().map(|(.., target)| target).collect()
    }

    /// The candidates that may be taken where all of [`Self::order`] fail: those that failed lately, the fastest first.
    pub fn last_resorts(&self) -> SmallVec<[TargetIndex; INLINE_TARGETS]> {
        let mut left: SmallVec<[_; INLINE_TARGETS]> = self
            .candidates
            .iter()
            .filter(|candidate| candidate.barred == Some(Bar::Quarantined))
            .filter_map(|candidate| Some((candidate.outlook.ok()?.time_ns, candidate.target)))
            .collect();
        left.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        left.into_iter().map(|(_, target)| target).collect()
    }

    /// Whether the intervals of the chosen target and the runner-up overlap, in whatever decided.
    pub fn is_tie(&self) -> bool {
        let (Some(chosen), Some(next)) = (
            self.chosen.and_then(|target| self.candidate(target)),
            self.runner_up.and_then(|target| self.candidate(target)),
        ) else {
            return false;
        };
        let times = || match (chosen.outlook, next.outlook) {
            (Ok(a), Ok(b)) => a.interval.overlaps(&b.interval),
            _ => false,
        };
        let energies = || match (chosen.energy, next.energy) {
            (Some(a), Some(b)) if a.scope == b.scope => a.interval.overlaps(&b.interval),
            _ => false,
        };
        match self.goal {
            Goal::Fastest | Goal::Cool => times(),
            Goal::Battery => energies(),
            Goal::Balanced => times() && energies(),
        }
    }
}

#[cfg(test)]
mod tests;
