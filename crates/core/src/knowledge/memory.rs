//! How much memory targets took for cases, as far as trials saw it.
//!
//! Invariant: a figure is the largest that was seen, with the case that it was seen on; nothing is reckoned.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::identity::{CaseId, ModelId};
use crate::reading::Reading;
use crate::target::TargetKey;
use crate::trial::Failure;

/// What one trial says of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryFacts {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The case's model.
    pub model: ModelId,
    /// What the trial took, or why it gave no measurement.
    pub taken: Result<MemoryTaken, Failure>,
}

/// What one trial took of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTaken {
    /// The most memory that its process held, the engine and its library included.
    pub peak_resident_bytes: Reading<u64>,
    /// How much resident memory grew by the session and its first inference.
    pub session_bytes: Reading<u64>,
    /// Memory of the chip that its process held, for chips with memory of their own.
    pub device_bytes: Reading<u64>,
}

/// The largest figure that was seen, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Most {
    /// The figure, in bytes.
    pub bytes: u64,
    /// The case that it was seen on: the one asked for, or another of its model's where that one tells nothing.
    pub case: CaseId,
    /// How many trials of that case told it.
    pub trials: u32,
}

/// The most memory that a target was seen to take for a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryUse {
    /// Of the machine's memory, by the whole process: the engine, its library and the session.
    pub peak_resident: Reading<Most>,
    /// Of the machine's memory, by the session alone.
    pub session: Reading<Most>,
    /// Of the chip's own memory.
    pub device: Reading<Most>,
}

impl MemoryUse {
    /// A use of which nothing is known, for `reason`.
    pub fn unavailable(reason: &str) -> Self {
        Self {
            peak_resident: Reading::unavailable(reason),
            session: Reading::unavailable(reason),
            device: Reading::unavailable(reason),
        }
    }
}

/// The kinds of memory, as positions in [`OfCase`].
const KINDS: usize = 3;

/// One kind of memory on one case.
#[derive(Debug, Clone, Default)]
struct Kind {
    most: Option<u64>,
    trials: u32,
    /// Why the latest trial without a figure has none.
    reason: Option<String>,
}

/// Position of the process's memory in [`OfCase`].
const PEAK_RESIDENT: usize = 0;

type OfCase = [Kind; KINDS];
type OfCases = BTreeMap<CaseId, OfCase>;

/// What is known of all targets and models.
#[derive(Debug, Default)]
pub(super) struct Memory {
    by_model: HashMap<ModelId, HashMap<TargetKey, OfCases>>,
}

impl Memory {
    /// Takes over a trial; they come oldest first.
    pub(super) fn note(&mut self, facts: MemoryFacts) {
        let cases = self.by_model.entry(facts.model).or_default().entry(facts.target).or_default();
        let kinds = cases.entry(facts.case).or_default();
        match facts.taken {
            Ok(taken) => {
                let readings = [taken.peak_resident_bytes, taken.session_bytes, taken.device_bytes];
                for (kind, reading) in kinds.iter_mut().zip(readings) {
                    match reading {
                        Reading::Available(bytes) => {
                            kind.most = kind.most.max(Some(bytes));
                            kind.trials += 1;
                        }
                        Reading::Unavailable(reason) => kind.reason = Some(reason),
                    }
                }
            }
            Err(failure) => kinds.iter_mut().for_each(|kind| kind.reason = Some(failure.to_string())),
        }
    }

    /// The most that `target` took for `case`: what its own trials saw, else the most of its model's other cases.
    pub(super) fn of(&self, case: CaseId, model: ModelId, target: &TargetKey) -> MemoryUse {
        let Some(cases) = self.cases(model, target) else {
            return MemoryUse::unavailable("no trial of the model on this target");
        };
        let most = |kind: usize| {
            let own = cases.get_key_value(&case);
            let reason =
                own.into_iter().chain(cases.iter()).find_map(|(_, kinds)| kinds[kind].reason.as_deref());
            let found = most(cases, case, kind);
            Reading::from_option(found, reason.unwrap_or("no trial of the model on this target"))
        };
        MemoryUse { peak_resident: most(PEAK_RESIDENT), session: most(1), device: most(2) }
    }

    /// The peak of [`Self::of`] alone, without a reason where there is none: a decision asks for it and allocates nothing.
    pub(super) fn peak_resident_bytes(
        &self,
        case: CaseId,
        model: ModelId,
        target: &TargetKey,
    ) -> Option<u64> {
        Some(most(self.cases(model, target)?, case, PEAK_RESIDENT)?.bytes)
    }

    fn cases(&self, model: ModelId, target: &TargetKey) -> Option<&OfCases> {
        self.by_model.get(&model)?.get(target)
    }
}

/// The most of one kind that `case` took, else the most of the others.
fn most(cases: &OfCases, case: CaseId, kind: usize) -> Option<Most> {
    let of = |(case, kinds): (&CaseId, &OfCase)| {
        let Kind { most, trials, .. } = kinds[kind];
        Some(Most { bytes: most?, case: *case, trials })
    };
    let own = cases.get_key_value(&case).and_then(of);
    own.or_else(|| cases.iter().filter_map(of).max_by_key(|most| (most.bytes, most.case)))
}
