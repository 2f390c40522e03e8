//! The immutable snapshot that decisions are made from.
//!
//! Invariant: a snapshot is built once from stored trials and fits and never changes afterwards;
//! a reader needs no lock.

mod energy;
mod imported;
mod memory;
mod prediction;
mod tails;
mod verdict;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::accuracy::AccuracyClass;
use crate::decide::Prediction;
use crate::form::Fit;
use crate::identity::{CaseId, ModelId};
use crate::model::{Case, OperatorClass, Precision};
use crate::predict::{Predictor, WakingCurve};
use crate::statistics::{self, Interval, Summary};
use crate::target::{Target, TargetKey};
use crate::trial::{Failure, FailureKind, OutputCheck};
use crate::workload::Workload;

pub use self::energy::{Energies, Energy, EnergyFacts};
pub use self::imported::{ASSUMED_DEGREES, ASSUMED_SPREAD, Imported, ImportedFacts};
pub use self::memory::{MemoryFacts, MemoryTaken, MemoryUse, Most};
pub(crate) use self::prediction::CaseRow;
pub use self::prediction::{RestFacts, StartFacts};
pub(crate) use self::verdict::Verdicts;
use self::verdict::{OfTriedCase, UnprovenOutputs, Verdict, WorstErrors};

/// Position of a target in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetIndex(pub u16);

/// A measured time of one target for one case and workload, over all its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Median over the sessions' medians.
    pub time_ns: f64,
    /// The hull of the sessions' 95 % intervals.
    pub interval: Interval,
    /// Sessions measured.
    pub sessions: u32,
    /// Samples in all sessions.
    pub samples: u64,
}

/// What stands against a target for a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// The target refuses the model, gives it away, or failed on it again or from the first.
    Failed(Failure),
    /// The outputs lie too far from the reference for the class asked for.
    WrongOutputs {
        /// The class asked for.
        class: AccuracyClass,
        /// What was found, in words.
        finding: String,
    },
    /// The outputs were never compared for this model, and the target is too inexact on others.
    UnprovenOutputs {
        /// The class asked for.
        class: AccuracyClass,
        /// The largest relative error seen on the target's models of the same precision, or of any; infinite where outputs could not be right.
        #[serde(with = "infinite_as_null")]
        worst_seen: f64,
    },
    /// The case was not tried, and the target has refused or given away every model with operators of a class that
    /// it has too.
    ExpectedToFail {
        /// The class.
        class: OperatorClass,
        /// How many models.
        models: u32,
    },
    /// Nothing is known from which a time could be predicted.
    NoPrediction,
}

/// One finished trial, as far as knowledge needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFacts {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The case's model.
    pub model: ModelId,
    /// The workload.
    pub workload: Workload,
    /// Statistics of the samples with the output check, or why there are none.
    pub outcome: Result<(Summary, OutputCheck), Failure>,
}

/// Builds a [`Knowledge`]; trials are given oldest first.
#[derive(Debug, Default)]
pub struct KnowledgeBuilder {
    targets: Vec<TargetEntry>,
    trials: Vec<TrialFacts>,
    memory: memory::Memory,
    energy: Vec<EnergyFacts>,
    imported: Vec<ImportedFacts>,
    spreads: Vec<(TargetIndex, Workload, f64)>,
    cases: Vec<Case>,
    starts: Vec<StartFacts>,
    rests: Vec<RestFacts>,
}

/// What is known of one target.
#[derive(Debug)]
pub struct TargetEntry {
    /// The target.
    pub target: Target,
    /// Fitted hardware models, by workload.
    pub fits: [Option<Fit>; 3],
    /// The largest relative error seen, over the precision proof and all models compared, of whatever precision.
    pub worst_error: Option<f64>,
}

/// What is known of one target for one case.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Measured times, by workload.
    pub times: [Option<Estimate>; 3],
    /// Measured energies; most targets have none.
    pub energies: Option<Box<Energies>>,
    /// The times that 95 of 100 calls kept within, in the slowest session, by workload; 0 where that is not known.
    p95_ns: [f64; 3],
}

/// The snapshot: targets, what was measured, what was fitted.
#[derive(Debug, Default)]
pub struct Knowledge {
    targets: Vec<TargetEntry>,
    cells: HashMap<CaseId, Box<[Cell]>>,
    /// Of tried cases.
    case_verdicts: HashMap<CaseId, OfTriedCase>,
    /// The worst of each model's tried cases, for its other ones.
    model_verdicts: HashMap<ModelId, Box<[Verdict]>>,
    unproven: UnprovenOutputs,
    memory: memory::Memory,
    /// By target, workload and scope: the power that its measured cases drew.
    powers: Vec<[[Option<energy::Power>; 3]; 3]>,
    /// Whether any power is known.
    has_energies: bool,
    /// By target and workload: how far its slow calls lie above its usual ones, as the ratio of the 95th percentile to
    /// the median.
    tails: Vec<[Option<f64>; 3]>,
    /// By target and workload: how far its sessions differ.
    spreads: Vec<[Option<f64>; 3]>,
    /// What other machines tell.
    imported: imported::ImportedTimes,
    /// What is predicted of known cases, by target and workload; measured times are left out.
    predictions: HashMap<CaseId, Box<[[Option<Prediction>; 3]]>>,
    predictor: Predictor,
    /// By target: classes of operators that it has never run.
    doubts: Vec<prediction::Doubts>,
    /// By target: how what a rest adds grows with the rest.
    waking: Vec<Option<WakingCurve>>,
}

impl KnowledgeBuilder {
    /// Adds an available target, with the relative error that its precision proof showed.
    pub fn target(
        &mut self,
        target: Target,
        fits: [Option<Fit>; 3],
        proven_error: Option<f64>,
    ) -> TargetIndex {
        self.targets.push(TargetEntry { target, fits, worst_error: proven_error });
        TargetIndex((self.targets.len() - 1) as u16)
    }

    /// Adds a finished trial; trials of targets that are not available are passed over.
    pub fn trial(&mut self, trial: TrialFacts) {
        self.trials.push(trial);
    }

    /// Adds what a trial says of memory; also trials that tell nothing of time may.
    pub fn memory(&mut self, facts: MemoryFacts) {
        self.memory.note(facts);
    }

    /// Adds a measured energy; those of targets that are not available are passed over.
    pub fn energy(&mut self, facts: EnergyFacts) {
        self.energy.push(facts);
    }

    /// Adds a time that another machine measured; those of targets that are not available are passed over.
    pub fn imported(&mut self, facts: ImportedFacts) {
        self.imported.push(facts);
    }

    /// Says how far sessions of `target` differ in `workload`: their standard deviation as a share of the time.
    pub fn spread(&mut self, target: TargetIndex, workload: Workload, spread: f64) {
        self.spreads.push((target, workload, spread));
    }

    /// Adds a known case; measured times of cases that were not added predict nothing.
    pub fn case(&mut self, case: Case) {
        self.cases.push(case);
    }

    /// Adds what a trial's session took to start; those of targets that are not available are passed over.
    pub fn start(&mut self, facts: StartFacts) {
        self.starts.push(facts);
    }

    /// Adds a time after another rest than the usual one.
    pub fn rest(&mut self, facts: RestFacts) {
        self.rests.push(facts);
    }

    /// Makes the snapshot.
    pub fn build(mut self) -> Knowledge {
        let index: HashMap<TargetKey, usize> =
            self.targets.iter().enumerate().map(|(i, entry)| (entry.target.key.clone(), i)).collect();
        let count = self.targets.len();
        let mut summaries: HashMap<(CaseId, usize, usize), Vec<Summary>> = HashMap::new();
        let none = || vec![Verdict::default(); count].into_boxed_slice();
        let mut case_verdicts: HashMap<CaseId, Box<[Verdict]>> = HashMap::new();
        let mut models: HashMap<CaseId, ModelId> = HashMap::new();
        let precisions: HashMap<ModelId, Precision> =
            self.cases.iter().filter_map(|case| Some((case.model, case.facts.precision?))).collect();
        let mut worst: Vec<WorstErrors> =
            self.targets.iter().map(|entry| WorstErrors::proven(entry.worst_error)).collect();
        for trial in self.trials.drain(..) {
            let Some(&target) = index.get(&trial.target) else { continue };
            models.insert(trial.case, trial.model);
            let verdict = &mut case_verdicts.entry(trial.case).or_insert_with(none)[target];
            verdict.tried = true;
            match trial.outcome {
                Ok((summary, outputs)) => {
                    (verdict.succeeded, verdict.failing, verdict.failed) = (true, false, None);
                    verdict.note_outputs(&outputs);
                    let error = match &outputs {
                        OutputCheck::Compared { difference, .. } => Some(difference.max_relative_error),
                        OutputCheck::Faulty { .. } => Some(f64::INFINITY),
                        OutputCheck::Reference | OutputCheck::NotCompared { .. } => None,
                    };
                    if let Some(error) = error {
                        worst[target].note(error, precisions.get(&trial.model).copied());
                    }
                    let key = (trial.case, target, trial.workload.index());
                    summaries.entry(key).or_default().push(summary);
                }
                Err(failure) => verdict.note_failure(failure),
            }
        }
        let mut model_verdicts: HashMap<ModelId, Box<[Verdict]>> = HashMap::new();
        for (case, row) in &case_verdicts {
            let of_model = model_verdicts.entry(models[case]).or_insert_with(none);
            of_model.iter_mut().zip(row).for_each(|(worst, verdict)| worst.worsen(verdict));
        }
        let mut cells: HashMap<CaseId, Vec<Cell>> = HashMap::new();
        let mut tails: Vec<[Vec<f64>; 3]> = vec![Default::default(); count];
        for ((case, target, workload), sessions) in summaries {
            let row = cells.entry(case).or_insert_with(|| vec![Cell::default(); count]);
            row[target].times[workload] = combine_sessions(&sessions, Workload::ALL[workload]);
            let slowest = sessions.iter().filter_map(|summary| summary.p95_ns).fold(0.0, f64::max);
            row[target].p95_ns[workload] = slowest;
            tails[target][workload].extend(sessions.iter().filter_map(tails::tail));
        }
        let mut spreads = vec![[None; 3]; count];
        for (target, workload, spread) in self.spreads {
            if let Some(of_target) = spreads.get_mut(usize::from(target.0)) {
                of_target[workload.index()] = Some(spread);
            }
        }
        let mut powers = vec![energy::Powers::default(); count];
        let mut joules: HashMap<_, Vec<(f64, Interval)>> = HashMap::new();
        for facts in self.energy.iter().filter(|facts| facts.is_sound()) {
            let Some(&target) = index.get(&facts.target) else { continue };
            powers[target].note(facts);
            let key = (facts.case, target, facts.workload.index(), facts.scope);
            joules.entry(key).or_default().push((facts.joules, facts.interval));
        }
        for ((case, target, workload, scope), told) in joules {
            let row = cells.entry(case).or_insert_with(|| vec![Cell::default(); count]);
            row[target].energies.get_or_insert_default().join(workload, scope, &told);
        }
        let powers: Vec<_> = powers.into_iter().map(energy::Powers::join).collect();
        let has_energies = powers.iter().flatten().flatten().any(Option::is_some);
        let imported = imported::join(self.imported, &index, |case, target, workload| {
            cells.get(&case)?[target].times[workload].map(|time| time.time_ns)
        });
        self.targets.iter_mut().zip(&worst).for_each(|(entry, worst)| entry.worst_error = worst.all());
        let unproven = UnprovenOutputs::new(&worst);
        let cells: HashMap<CaseId, Box<[Cell]>> =
            cells.into_iter().map(|(case, row)| (case, row.into_boxed_slice())).collect();
        let predictor = prediction::learn(&self.targets, &self.cases, &cells, &self.starts, &index);
        let predictions = prediction::predict_known(&predictor, &self.cases, &cells, count);
        let doubts = prediction::doubts(&self.cases, &case_verdicts, count);
        let tried = |(case, row)| {
            let model = models[&case];
            let unproven = unproven.of(precisions.get(&model).copied());
            (case, OfTriedCase::new(row, &model_verdicts[&model], unproven))
        };
        let case_verdicts = case_verdicts.into_iter().map(tried).collect();
        Knowledge {
            targets: self.targets,
            case_verdicts,
            model_verdicts,
            unproven,
            memory: self.memory,
            powers,
            has_energies,
            tails: tails.iter().map(|by| by.each_ref().map(|ratios| statistics::median(ratios))).collect(),
            spreads,
            imported,
            predictions,
            predictor,
            doubts,
            waking: prediction::waking(&self.rests, &cells, &index),
            cells,
        }
    }
}

impl Knowledge {
    /// The available targets, in the order in which they were listed.
    pub fn targets(&self) -> &[TargetEntry] {
        &self.targets
    }

    /// The target at `index`.
    pub fn target(&self, index: TargetIndex) -> &Target {
        &self.targets[usize::from(index.0)].target
    }

    /// The position of the target called `key`.
    pub fn find(&self, key: &TargetKey) -> Option<TargetIndex> {
        self.targets.iter().position(|entry| entry.target.key == *key).map(|i| TargetIndex(i as u16))
    }

    /// All targets with their positions.
    pub fn indices(&self) -> impl Iterator<Item = (TargetIndex, &TargetKey)> {
        self.targets.iter().enumerate().map(|(index, entry)| (TargetIndex(index as u16), &entry.target.key))
    }

    /// Number of cases with at least one measured time.
    pub fn known_cases(&self) -> usize {
        self.cells.len()
    }

    /// What was measured for `case`, by target; `None` when nothing was.
    pub fn cells(&self, case: CaseId) -> Option<&[Cell]> {
        self.cells.get(&case).map(AsRef::as_ref)
    }

    /// The measured time of `target` for `case` in `workload`.
    pub fn estimate(&self, case: CaseId, target: TargetIndex, workload: Workload) -> Option<&Estimate> {
        self.cells(case)?.get(usize::from(target.0))?.times[workload.index()].as_ref()
    }

    /// What other machines of the same kind say of the time of `target` for `case` in `workload`, where their outputs
    /// satisfied `class`.
    pub fn imported(
        &self,
        case: CaseId,
        target: TargetIndex,
        workload: Workload,
        class: AccuracyClass,
    ) -> Option<&Imported> {
        let told = self.imported.get(&case)?.get(usize::from(target.0))?[workload.index()].as_ref();
        told.filter(|told| told.satisfies(class))
    }

    /// The most memory that the target called `key` was seen to take for a case; where no trial of the case tells it,
    /// for another case of its model.
    pub fn memory_of(&self, case: CaseId, model: ModelId, key: &TargetKey) -> MemoryUse {
        self.memory.of(case, model, key)
    }

    /// The most memory that a process with `target`'s session of `case` was seen to hold.
    pub(crate) fn memory_needed(&self, case: &Case, target: TargetIndex) -> Option<u64> {
        self.memory.peak_resident_bytes(case.id, case.model, &self.target(target).key)
    }

    /// How far sessions of `target` differ in `workload`: their standard deviation as a share of the time.
    pub fn spread(&self, target: TargetIndex, workload: Workload) -> Option<f64> {
        self.spreads.get(usize::from(target.0))?[workload.index()]
    }

    /// What is known of the outputs of `target` for a case: what speaks against them in `class`, which is `None`
    /// inside where nothing does; `None` when they were never compared, and no other model's tell anything.
    pub fn outputs_in_class(
        &self,
        case: &Case,
        target: TargetIndex,
        class: AccuracyClass,
    ) -> Option<Option<&Exclusion>> {
        let index = usize::from(target.0);
        let verdicts = self.verdicts(case);
        if let Some(by_class) = verdicts.outputs(index) {
            return Some(by_class[class as usize].as_ref());
        }
        self.unproven.of(case.facts.precision)[index][class as usize].as_ref().map(Some)
    }

    /// What speaks against the targets for a case: what its own trials say, else the worst of its model's.
    pub(crate) fn verdicts(&self, case: &Case) -> Verdicts<'_> {
        let unproven = self.unproven.of(case.facts.precision);
        Verdicts::new(self.case_verdicts.get(&case.id), &self.model_verdicts, case.model, unproven)
    }
}

/// Joins the sessions of one configuration in `workload`: median of what each found typical, hull of the intervals.
///
/// Sessions differ more from one another than samples within one do, so the hull is the honest width.
fn combine_sessions(sessions: &[Summary], workload: Workload) -> Option<Estimate> {
    let typical: Vec<f64> = sessions.iter().map(|summary| summary.typical_ns(workload)).collect();
    let time_ns = statistics::median(&typical)?;
    let mut interval = Interval { low: time_ns, high: time_ns };
    for summary in sessions {
        let own = summary.interval.unwrap_or(Interval { low: summary.min_ns, high: summary.max_ns });
        interval = Interval { low: interval.low.min(own.low), high: interval.high.max(own.high) };
    }
    let samples = sessions.iter().map(|summary| summary.samples as u64).sum();
    Some(Estimate { time_ns, interval, sessions: sessions.len() as u32, samples })
}

impl Exclusion {
    /// What stands against the target, in a few words.
    pub fn brief(&self) -> &'static str {
        match self {
            Self::Failed(failure) => match failure.kind {
                FailureKind::Refused => "refuses the model",
                FailureKind::Crashed => "crashed",
                FailureKind::TimedOut => "gave no answer",
                FailureKind::MemoryExceeded => "too much memory",
                FailureKind::FellBack => "runs elsewhere",
            },
            Self::WrongOutputs { .. } => "wrong outputs",
            Self::UnprovenOutputs { .. } => "outputs unproven",
            Self::ExpectedToFail { .. } => "expected to fail",
            Self::NoPrediction => "nothing known",
        }
    }

    /// What stands against the target, in one line.
    pub fn sentence(&self) -> String {
        match self {
            Self::Failed(Failure { kind: FailureKind::FellBack, detail }) => {
                format!("runs elsewhere: {detail}")
            }
            Self::Failed(failure) if failure.kind.is_transient() => {
                format!(
                    "failed: {failure}; `siliconroute bench` or the next `siliconroute up` tries it again"
                )
            }
            Self::Failed(failure) => format!("failed: {failure}"),
            Self::WrongOutputs { class, finding } => format!("outputs fail the class {class}: {finding}"),
            Self::UnprovenOutputs { class, worst_seen } => format!(
                "outputs never compared for this model, and a relative error of {worst_seen:.1e} elsewhere fails the class {class}"
            ),
            Self::ExpectedToFail { class, models } => {
                let tried = if *models == 1 {
                    "the only tried one".to_owned()
                } else {
                    format!("all {models} tried ones")
                };
                let class = class.title();
                format!("expected to refuse or give away the model, as it did {tried} with {class}")
            }
            Self::NoPrediction => "no measurement and no hardware model yet".to_owned(),
        }
    }
}

/// JSON has no infinity, so it stands there as null.
mod infinite_as_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields out by reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests;
