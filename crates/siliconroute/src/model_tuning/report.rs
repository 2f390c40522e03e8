//! What tuning a model found, as it is printed and stored.
//!
//! Invariant: a gain is never stated without the comparison in fresh sessions that it comes from.

use std::collections::BTreeMap;

use serde::Serialize;
use siliconroute_core::model::Bindings;
use siliconroute_core::statistics::{self, Comparison};
use siliconroute_core::target::{CpuSettings, SessionSettings};
use siliconroute_core::trial::Trial;
use siliconroute_core::tuning::{Found as Searched, Tried, TuningGoal};
use siliconroute_core::{CaseId, ModelId, Reading, TargetKey};

/// The schema of [`ModelTuning`].
pub const MODEL_TUNING_SCHEMA: &str = "siliconroute.model_tuning/1";

/// Processor time after a call below which threads count as asleep, in nanoseconds.
const ASLEEP_NS: f64 = 2e6;

/// What tuning a model found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelTuning {
    /// [`MODEL_TUNING_SCHEMA`].
    pub schema: &'static str,
    /// The model.
    pub model: String,
    /// The identity of its bytes.
    pub model_id: ModelId,
    /// The case.
    pub case_id: CaseId,
    /// Its free dimensions.
    pub bindings: Bindings,
    /// The machine.
    pub hardware_id: String,
    /// What the settings are good for.
    pub goal: TuningGoal,
    /// What was found for each target.
    pub targets: Vec<TargetTuning>,
    /// Why other targets could not be tuned.
    pub refused: BTreeMap<TargetKey, String>,
}

/// What tuning a model found for one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetTuning {
    /// The target without settings: the defaults.
    pub target: TargetKey,
    /// The version of its provider.
    pub provider_version: String,
    /// What the search found best.
    pub found: TargetKey,
    /// What sessions of the model take from now on.
    pub chosen: TargetKey,
    /// The settings of [`Self::chosen`].
    pub settings: CpuSettings,
    /// What the comparison says.
    pub answer: Answer,
    /// What the search found against the defaults, in fresh sessions; absent where it found nothing.
    pub comparison: Option<Comparison>,
    /// The campaign of the comparison.
    pub campaign: Option<i64>,
    /// Whether the settings found show their effect.
    pub proofs: Vec<Proof>,
    /// All that was tried, the defaults first.
    pub tried: Vec<TriedTarget>,
    /// How many combinations an exhaustive sweep would have to measure.
    pub combinations: usize,
    /// How long the search took.
    pub search_s: f64,
    /// How long the comparison took.
    pub comparison_s: f64,
}

/// What tuning says of the settings that a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The search found nothing that gains on the defaults.
    NothingFound,
    /// Fresh sessions show no gain, so the defaults stay.
    NoDifference,
    /// Fresh sessions are faster.
    Faster,
    /// They are hardly slower and use less of the processor.
    Thriftier,
    /// A setting shows no effect, so the defaults stay.
    NoEffect,
    /// The comparison has no verdict, so the defaults stay.
    NotCompared,
}

impl Answer {
    /// Whether sessions take the settings that were found.
    pub fn takes_found(self) -> bool {
        matches!(self, Self::Faster | Self::Thriftier)
    }

    /// What it means, in a few words.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NothingFound => "nothing gains on the defaults, so they stay",
            Self::NoDifference => "no difference in fresh sessions, so the defaults stay",
            Self::Faster => "faster in fresh sessions",
            Self::Thriftier => "hardly slower in fresh sessions, and with less processor time",
            Self::NoEffect => "a setting shows no effect, so the defaults stay",
            Self::NotCompared => "the comparison has no verdict, so the defaults stay",
        }
    }
}

/// Settings that were tried, by their key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriedTarget {
    /// The target with the settings.
    pub target: TargetKey,
    /// How it went.
    #[serde(flatten)]
    pub tried: Tried,
}

impl TriedTarget {
    pub(super) fn new(target: TargetKey, tried: &Tried) -> Self {
        Self { target, tried: tried.clone() }
    }
}

/// Whether a setting shows its effect; engines accept unknown ones in silence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proof {
    /// The setting.
    pub setting: &'static str,
    /// Whether it does, or why that cannot be seen.
    pub shown: Reading<bool>,
    /// What was seen.
    pub seen: String,
}

/// Proves the settings of `found` by what the search and the trials of its comparison saw.
pub(super) fn proofs(searched: &Searched, found: &TargetKey, trials: &[Trial]) -> Vec<Proof> {
    let settings = SessionSettings::split(found.as_str()).map(|(_, it)| it.cpu).unwrap_or_default();
    let mut proofs = Vec::new();
    if let Some(threads) = settings.threads {
        let busy: Vec<f64> = trials
            .iter()
            .filter(|trial| trial.target == *found)
            .filter_map(|trial| trial.outcome.as_ref().ok()?.busy_cores.available().copied())
            .collect();
        let busy = statistics::median(&busy);
        let untold = "this system does not tell processor time";
        proofs.push(Proof {
            setting: "threads",
            shown: Reading::from_option(busy.map(|busy| busy <= f64::from(threads) * 1.1 + 0.2), untold),
            seen: busy.map_or_else(String::new, |busy| format!("{busy:.2} CPUs busy")),
        });
    }
    if settings.spin == Some(false) {
        let idle = |settings: &CpuSettings| searched.tried(settings)?.idle_cpu_ns;
        let (own, defaults) = (idle(&searched.best), idle(&CpuSettings::default()));
        let shown = match own.zip(defaults) {
            None => Reading::unavailable("this system does not tell processor time"),
            Some((_, defaults)) if defaults < ASLEEP_NS => {
                Reading::unavailable("threads do not spin after a call with the defaults either")
            }
            Some((own, defaults)) => Reading::Available(own < defaults / 2.0),
        };
        let told = |ns: Option<f64>| ns.map_or_else(|| "?".to_owned(), |ns| format!("{:.1} ms", ns / 1e6));
        let seen = format!("{} of processor time after a call, not {}", told(own), told(defaults));
        proofs.push(Proof { setting: "spin", shown, seen });
    }
    let hidden = [("block_base", settings.block_base.is_some()), ("cores", settings.cores.is_some())];
    for (setting, _) in hidden.into_iter().filter(|(_, set)| *set) {
        let shown = Reading::unavailable("it shows in nothing but the time");
        proofs.push(Proof { setting, shown, seen: String::new() });
    }
    proofs
}
