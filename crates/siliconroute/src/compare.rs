//! Compares targets, or stored campaigns, by their trials.
//!
//! Invariant: trials that took turns are compared pair by pair within their rounds; others by their sessions alone.
//! Suspect trials give numbers and no verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use siliconroute_core::statistics::{
    Comparison, PairedRound, Replication, Verdict, compare_paired, compare_unpaired, judge_together,
};
use siliconroute_core::trial::{Preparation, Sample, Trial};
use siliconroute_core::{Case, CaseId, TargetKey, Workload};
use siliconroute_store::{CampaignId, TrialFilter};

use crate::error::Error;
use crate::measure::Job;
use crate::router::Router;

/// Two sides compared on one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The case.
    pub case: String,
    /// The workload.
    pub workload: Workload,
    /// How the targets were before each sample.
    pub preparation: Preparation,
    /// What is compared.
    pub first: String,
    /// What it is compared with.
    pub second: String,
    /// The finding; `None` when one of the sides has no measurement.
    pub comparison: Option<Comparison>,
    /// Why there is no verdict, where trials of either side are suspect.
    pub suspect: Option<String>,
}

/// One session's times per call, by round.
type Rounds = BTreeMap<u32, Vec<f64>>;

/// Compares `first` with `second` on a case in a workload, from trials of one campaign.
///
/// `None` when the two were never measured side by side. Where a trial of either is suspect, the verdict is withheld.
pub fn compare_targets(
    trials: &[Trial],
    case: CaseId,
    (workload, preparation): (Workload, Preparation),
    first: &TargetKey,
    second: &TargetKey,
) -> Option<Comparison> {
    let own = |target: &TargetKey| {
        let target = target.clone();
        trials.iter().filter(move |trial| {
            trial.target == target
                && trial.case == case
                && trial.workload == workload
                && trial.preparation == preparation
        })
    };
    let of = |target: &TargetKey| {
        let mut sessions: BTreeMap<(u64, u32), Rounds> = BTreeMap::new();
        for trial in own(target) {
            let Ok(measurement) = &trial.outcome else { continue };
            for sample in &measurement.samples {
                // Every cold start is a process, and thereby a session, of its own.
                let start = if workload == Workload::ColdStart { sample.round } else { 0 };
                let session = sessions.entry((trial.order_seed, start)).or_default();
                session.entry(sample.round).or_default().push(sample.per_call_ns());
            }
        }
        sessions
    };
    let (firsts, seconds) = (of(first), of(second));
    let mut rounds = Vec::new();
    for (number, (session, own)) in (0_u32..).zip(&firsts) {
        let Some(other) = seconds.get(session) else { continue };
        for (round, first) in own {
            if let Some(second) = other.get(round) {
                rounds.push(PairedRound { session: number, first, second });
            }
        }
    }
    let suspect = own(first).chain(own(second)).any(|trial| trial.suspect.is_some());
    let comparison = compare_paired(&rounds)?;
    Some(if suspect { comparison.withheld() } else { comparison })
}

/// What makes the trials of a target suspect; `None` where nothing does.
pub fn suspicion<'t>(
    trials: impl IntoIterator<Item = &'t Trial>,
    target: &TargetKey,
    case: CaseId,
) -> Option<String> {
    let mut own = trials.into_iter().filter(|trial| trial.target == *target && trial.case == case);
    own.find_map(|trial| Some(suspicion_of(target, trial.suspect.as_ref()?)))
}

fn suspicion_of(target: &TargetKey, reason: &str) -> String {
    format!("{target} is suspect: {reason}")
}

/// How many more sessions `job` needs until its first target can be compared with each of the others; 0 where nothing
/// can be compared.
pub(crate) fn sessions_missing(job: &Job, trials: &[Trial], replication: &Replication) -> usize {
    let Some((first, others)) = job.targets.split_first() else { return 0 };
    let own = trials.iter().filter(|trial| trial.case == job.case.id && trial.workload == job.workload);
    let preparations: BTreeSet<Preparation> = own.map(|trial| trial.preparation).collect();
    let missing = |(preparation, other): (Preparation, &TargetKey)| {
        let how = (job.workload, preparation);
        let comparison = compare_targets(trials, job.case.id, how, other, first)?;
        // No number of sessions gives a suspect a verdict.
        (comparison.verdict != Verdict::Withheld).then(|| replication.more(&comparison))
    };
    let pairs = preparations.into_iter().flat_map(|how| others.iter().map(move |other| (how, other)));
    pairs.filter_map(missing).max().unwrap_or(0)
}

/// Corrects the verdicts of comparisons that are shown together.
pub fn judge_all(compared: &mut [Compared]) {
    let mut comparisons: Vec<Comparison> =
        compared.iter().filter_map(|pair| pair.comparison.clone()).collect();
    judge_together(&mut comparisons);
    let mut judged = comparisons.into_iter();
    for pair in compared.iter_mut().filter(|pair| pair.comparison.is_some()) {
        pair.comparison = judged.next();
    }
}

impl Router {
    /// Compares two stored campaigns on every case, target and workload that both hold.
    ///
    /// # Errors
    /// When there is no such campaign, or the store fails.
    pub fn compare_campaigns(&self, first: CampaignId, second: CampaignId) -> Result<Vec<Compared>, Error> {
        let sessions_of = |campaign: CampaignId| -> Result<BTreeMap<Key, Sessions>, Error> {
            let known = self.store.campaigns()?;
            if !known.iter().any(|stored| stored.id == campaign) {
                let last = known.last().map_or_else(|| "none".to_owned(), |last| last.id.to_string());
                return Err(Error::Usage(format!("there is no campaign {campaign}; the latest is {last}")));
            }
            let filter = TrialFilter { campaign: Some(campaign), ..TrialFilter::default() };
            let mut sessions: BTreeMap<Key, Sessions> = BTreeMap::new();
            for trial in self.store.trial_summaries(&filter)? {
                let key = (trial.case, trial.target.clone(), trial.workload, trial.preparation);
                if let Some(summary) = trial.outcome.ok().and_then(|measured| measured.summary) {
                    let suspect = trial.suspect.map(|reason| suspicion_of(&trial.target, &reason));
                    let sessions = sessions.entry(key).or_default();
                    sessions.medians.push(summary.median_ns);
                    sessions.suspect = sessions.suspect.take().or(suspect);
                }
            }
            Ok(sessions)
        };
        let (firsts, seconds) = (sessions_of(first)?, sessions_of(second)?);
        let cases: BTreeMap<CaseId, Case> =
            self.store.cases()?.into_iter().map(|case| (case.id, case)).collect();
        let mut compared = Vec::new();
        for (key, own) in &firsts {
            let Some(other) = seconds.get(key) else { continue };
            let (case, target, workload, preparation) = key;
            let suspect = own.suspect.as_ref().or(other.suspect.as_ref()).cloned();
            let comparison = compare_unpaired(&own.medians, &other.medians);
            compared.push(Compared {
                case: cases.get(case).map_or_else(|| case.to_string(), Case::label),
                workload: *workload,
                preparation: *preparation,
                first: format!("{target} in campaign {first}"),
                second: format!("campaign {second}"),
                comparison: if suspect.is_some() { comparison.map(Comparison::withheld) } else { comparison },
                suspect,
            });
        }
        judge_all(&mut compared);
        Ok(compared)
    }
}

/// One configuration in one campaign.
#[derive(Debug, Default)]
struct Sessions {
    medians: Vec<f64>,
    suspect: Option<String>,
}

/// What trials must share to be of one configuration.
type Key = (CaseId, TargetKey, Workload, Preparation);

/// Times per call of a trial's samples, in the order in which they were taken, in nanoseconds.
pub fn times_ns(trial: &Trial) -> Vec<f64> {
    trial.outcome.iter().flat_map(|measured| &measured.samples).map(Sample::per_call_ns).collect()
}
