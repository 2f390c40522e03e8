//! What speaks against targets: failures, wrong outputs, outputs that were never compared.
//!
//! Invariant: the marks of what nothing speaks against say the same as the verdicts that they were made from.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::Exclusion;
use crate::accuracy::AccuracyClass;
use crate::identity::ModelId;
use crate::model::Precision;
use crate::trial::{Failure, OutputCheck};

/// What speaks, by class, against a target whose outputs were never compared.
pub(super) type Unproven = [Option<Exclusion>; 3];

/// What speaks against one target, for one case or for all known cases of a model.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict {
    /// Whether there was any trial.
    pub(super) tried: bool,
    /// Whether any trial gave a measurement.
    pub(super) succeeded: bool,
    /// Whether the latest trial failed.
    pub(super) failing: bool,
    pub(super) failed: Option<Exclusion>,
    /// Per accuracy class: what speaks against the target; `None` where nothing does.
    pub(super) outputs: Option<[Option<Exclusion>; 3]>,
}

/// What speaks against the targets for a case that was tried.
#[derive(Debug)]
pub(super) struct OfTriedCase {
    pub(super) verdicts: Box<[Verdict]>,
    /// By target, a bit for each accuracy class in which nothing speaks against it: mostly all that a decision needs to know,
    /// in one line of the cache.
    clear: Box<[u8]>,
}

fn bit(class: AccuracyClass) -> u8 {
    1 << class as u8
}

impl OfTriedCase {
    pub(super) fn new(verdicts: Box<[Verdict]>, of_model: &[Verdict], unproven: &[Unproven]) -> Self {
        let clear = vec![0; verdicts.len()].into();
        let mut tried = Self { verdicts, clear };
        let models = HashMap::new();
        let verdicts = Verdicts {
            of_case: Some(&tried),
            models: &models,
            model: ModelId([0; 32]),
            found: OnceCell::from(Some(of_model)),
            unproven,
        };
        let marks = |index: usize| {
            let is_clear = |class: &AccuracyClass| verdicts.exclusion(index, *class).is_none();
            AccuracyClass::ALL.into_iter().filter(is_clear).fold(0, |marks, class| marks | bit(class))
        };
        let clear = (0..tried.verdicts.len()).map(marks).collect();
        tried.clear = clear;
        tried
    }
}

/// The verdicts on all targets for one case.
#[derive(Debug)]
pub(crate) struct Verdicts<'k> {
    of_case: Option<&'k OfTriedCase>,
    models: &'k HashMap<ModelId, Box<[Verdict]>>,
    model: ModelId,
    /// What was found among `models`; they are looked through only where the case itself does not tell.
    found: OnceCell<Option<&'k [Verdict]>>,
    unproven: &'k [Unproven],
}

impl<'k> Verdicts<'k> {
    pub(super) fn new(
        of_case: Option<&'k OfTriedCase>,
        models: &'k HashMap<ModelId, Box<[Verdict]>>,
        model: ModelId,
        unproven: &'k [Unproven],
    ) -> Self {
        Self { of_case, models, model, found: OnceCell::new(), unproven }
    }

    fn of_model(&self) -> Option<&'k [Verdict]> {
        *self.found.get_or_init(|| self.models.get(&self.model).map(AsRef::as_ref))
    }

    /// What excludes the target at `index` in `class`; `None` when nothing does.
    pub(crate) fn exclusion(&self, index: usize, class: AccuracyClass) -> Option<&'k Exclusion> {
        if self.of_case.is_some_and(|tried| tried.clear[index] & bit(class) != 0) {
            return None;
        }
        if let Some(failed) = self.verdict(index).and_then(|verdict| verdict.failed.as_ref()) {
            return Some(failed);
        }
        match self.outputs(index) {
            Some(by_class) => by_class[class as usize].as_ref(),
            None => self.unproven[index][class as usize].as_ref(),
        }
    }

    /// Whether the target at `index` has run the model.
    pub(crate) fn succeeded(&self, index: usize) -> bool {
        let ran = |row: Option<&'k [Verdict]>| row.is_some_and(|row| row[index].succeeded);
        ran(self.of_case.map(|tried| &*tried.verdicts)) || ran(self.of_model())
    }

    /// What the case's own trials say, else the worst of its model's.
    fn verdict(&self, index: usize) -> Option<&'k Verdict> {
        let own = self.of_case.map(|row| &row.verdicts[index]).filter(|verdict| verdict.tried);
        own.or_else(|| self.of_model().map(|row| &row[index]))
    }

    /// What comparing outputs said, by class; `None` where none were compared.
    pub(super) fn outputs(&self, index: usize) -> Option<&'k [Option<Exclusion>; 3]> {
        let verdict = self.verdict(index);
        verdict
            .and_then(|verdict| verdict.outputs.as_ref())
            .or_else(|| self.of_model().and_then(|row| row[index].outputs.as_ref()))
    }
}

impl Verdict {
    /// Takes over whatever of `other` speaks against the target.
    pub(super) fn worsen(&mut self, other: &Self) {
        self.succeeded |= other.succeeded;
        if self.failed.is_none() {
            self.failed.clone_from(&other.failed);
        }
        match (&mut self.outputs, &other.outputs) {
            (Some(worst), Some(outputs)) => {
                for (worst, found) in worst.iter_mut().zip(outputs) {
                    if worst.is_none() {
                        worst.clone_from(found);
                    }
                }
            }
            (worst @ None, Some(outputs)) => *worst = Some(outputs.clone()),
            (_, None) => {}
        }
    }

    /// Takes over a failure. One that may pass speaks against a target that has worked only if it repeats, and
    /// hides no refusal.
    pub(super) fn note_failure(&mut self, failure: Failure) {
        let repeated = std::mem::replace(&mut self.failing, true);
        let refused = matches!(&self.failed, Some(Exclusion::Failed(known)) if !known.kind.is_transient());
        let counts =
            if failure.kind.is_transient() { !refused && (repeated || !self.succeeded) } else { true };
        if counts {
            self.failed = Some(Exclusion::Failed(failure));
        }
    }

    /// Takes over the latest output check; a check that compared nothing changes nothing.
    pub(super) fn note_outputs(&mut self, outputs: &OutputCheck) {
        let by_class = match outputs {
            OutputCheck::NotCompared { .. } => return,
            OutputCheck::Reference => [None, None, None],
            OutputCheck::Compared { difference, .. } => AccuracyClass::ALL.map(|class| {
                let finding = || {
                    let top1 = if difference.same_top1 { "" } else { " and another largest element" };
                    format!("relative error {:.1e}{top1}", difference.max_relative_error)
                };
                (!difference.satisfies(class)).then(|| Exclusion::WrongOutputs { class, finding: finding() })
            }),
            OutputCheck::Faulty { fault, .. } => AccuracyClass::ALL
                .map(|class| Some(Exclusion::WrongOutputs { class, finding: fault.to_string() })),
        };
        self.outputs = Some(by_class);
    }
}

/// The largest relative errors seen of one target.
///
/// What a target does to weights in one format tells little of its arithmetic in another: a quantised model may differ
/// by its rounding where every model in single precision is exact. A model is judged by those of its own precision,
/// and by all where none of them was compared. Outputs that cannot be right speak against all.
#[derive(Debug, Clone, Default)]
pub(super) struct WorstErrors {
    proven: Option<f64>,
    all: Option<f64>,
    by_precision: [Option<f64>; Precision::ALL.len()],
}

impl WorstErrors {
    /// Starts from what the precision proof showed.
    pub(super) fn proven(error: Option<f64>) -> Self {
        Self { proven: error, all: error, ..Self::default() }
    }

    /// Takes over what comparing the outputs of a model of `precision` showed.
    pub(super) fn note(&mut self, error: f64, precision: Option<Precision>) {
        let worsen = |worst: &mut Option<f64>| *worst = Some(worst.unwrap_or(0.0).max(error));
        worsen(&mut self.all);
        if let Some(precision) = precision {
            worsen(&mut self.by_precision[precision as usize]);
        }
    }

    /// Over the precision proof and all models.
    pub(super) fn all(&self) -> Option<f64> {
        self.all
    }

    /// What is expected at worst of a model of `precision`.
    pub(super) fn expected(&self, precision: Option<Precision>) -> Option<f64> {
        let alike = precision.and_then(|precision| self.by_precision[precision as usize]);
        match alike.filter(|_| self.all != Some(f64::INFINITY)) {
            Some(worst) => Some(worst.max(self.proven.unwrap_or(0.0))),
            None => self.all,
        }
    }
}

/// What speaks against targets whose outputs were never compared for a model, by the model's precision.
#[derive(Debug, Default)]
pub(super) struct UnprovenOutputs {
    by_precision: [Box<[Unproven]>; Precision::ALL.len()],
    unknown: Box<[Unproven]>,
}

impl UnprovenOutputs {
    /// Of all targets, in their order.
    pub(super) fn new(worst: &[WorstErrors]) -> Self {
        let of = |precision| worst.iter().map(|it| unproven(it.expected(precision))).collect();
        Self { by_precision: Precision::ALL.map(|precision| of(Some(precision))), unknown: of(None) }
    }

    /// For a model of `precision`, by target.
    pub(super) fn of(&self, precision: Option<Precision>) -> &[Unproven] {
        precision.map_or(&self.unknown, |precision| &self.by_precision[precision as usize])
    }
}

fn unproven(worst_error: Option<f64>) -> Unproven {
    AccuracyClass::ALL.map(|class| {
        let worst_seen = worst_error.filter(|&worst| worst > class.limit())?;
        Some(Exclusion::UnprovenOutputs { class, worst_seen })
    })
}
