//! What was measured, by configuration: one case on one target, prepared in one way, over all its sessions.
//!
//! Invariant: configurations stand in the order of the jobs, and within a case in that of its targets.

use siliconroute::campaign::concurrent_rate;
use siliconroute::compare::{compare_targets, times_ns};
use siliconroute::machine::brief;
use siliconroute::measure::{Job, Measured};
use siliconroute::wording::counted;
use siliconroute_core::statistics::{
    Comparison, SessionEstimate, Summary, Verdict, join_sessions, summarise,
};
use siliconroute_core::target::SessionSettings;
use siliconroute_core::trial::{Before, ColdStart, Measurement, Preparation, Trial};
use siliconroute_core::{Reading, TargetKey, statistics};

use super::energy::SessionEnergy;
use crate::output::milliseconds;

/// A configuration with its trials, one for each session.
pub(super) struct Configuration<'a> {
    pub(super) job: &'a Job,
    pub(super) target: &'a TargetKey,
    pub(super) preparation: Preparation,
    pub(super) trials: Vec<&'a Trial>,
    /// Statistics of each trial that has samples.
    pub(super) summaries: Vec<Summary>,
    /// The sessions together; `None` without samples.
    pub(super) estimate: Option<SessionEstimate>,
    /// Compared with the first target of the same case, prepared in the same way.
    pub(super) against_first: Option<Comparison>,
    /// The median of that target.
    first_median_ns: Option<f64>,
}

/// Sorts what was measured into configurations.
pub(super) fn configurations<'a>(jobs: &'a [Job], measured: &'a Measured) -> Vec<Configuration<'a>> {
    let mut all: Vec<Configuration<'a>> = Vec::new();
    for job in jobs {
        let same_job = |other: &Configuration<'_>| {
            other.job.case.id == job.case.id && other.job.workload == job.workload
        };
        if all.iter().any(same_job) {
            continue;
        }
        let own: Vec<&Trial> =
            measured.of_case(job.case.id).filter(|trial| trial.workload == job.workload).collect();
        let mut preparations: Vec<Preparation> = own.iter().map(|trial| trial.preparation).collect();
        preparations.sort_unstable();
        preparations.dedup();
        for preparation in preparations {
            for target in &job.targets {
                let trials: Vec<&Trial> = own
                    .iter()
                    .copied()
                    .filter(|trial| trial.target == *target && trial.preparation == preparation)
                    .collect();
                if trials.is_empty() {
                    continue;
                }
                let summaries: Vec<Summary> =
                    trials.iter().filter_map(|trial| summarise(&times_ns(trial))).collect();
                let medians: Vec<f64> = summaries.iter().map(|summary| summary.median_ns).collect();
                let against_first = job.targets.first().filter(|first| *first != target).and_then(|first| {
                    let how = (job.workload, preparation);
                    compare_targets(&measured.trials, job.case.id, how, target, first)
                });
                let of_first = |other: &&Configuration<'_>| {
                    same_job(other)
                        && other.preparation == preparation
                        && Some(other.target) == job.targets.first()
                };
                let first_median_ns = all.iter().find(of_first).and_then(Configuration::median_ns);
                all.push(Configuration {
                    job,
                    target,
                    preparation,
                    estimate: join_sessions(&medians),
                    summaries,
                    trials,
                    against_first,
                    first_median_ns,
                });
            }
        }
    }
    all
}

impl Configuration<'_> {
    /// The median time of a call, over all sessions.
    pub(super) fn median_ns(&self) -> Option<f64> {
        Some(self.estimate?.median)
    }

    /// The interval: between sessions where there are several, within the only one otherwise.
    pub(super) fn interval(&self) -> Option<statistics::Interval> {
        match &self.summaries[..] {
            [only] => only.interval,
            _ => self.estimate?.interval,
        }
    }

    /// The 95 % quantile, the largest of all sessions; `None` where a session has too few samples for one.
    pub(super) fn p95_ns(&self) -> Option<f64> {
        self.summaries
            .iter()
            .map(|summary| summary.p95_ns)
            .try_fold(0.0_f64, |most, p95| Some(most.max(p95?)))
            .filter(|p95| *p95 > 0.0)
    }

    pub(super) fn samples(&self) -> usize {
        self.summaries.iter().map(|summary| summary.samples).sum()
    }

    /// Items of the batch per second: one call after the other, or all concurrent sessions together.
    pub(super) fn items_per_second(&self) -> Option<f64> {
        let batch = self.job.case.facts.batch as f64;
        let concurrent =
            SessionSettings::split(self.target.as_str()).is_ok_and(|(_, it)| it.concurrency.is_some());
        if !concurrent {
            return Some(batch * 1e9 / self.median_ns()?);
        }
        let rates: Vec<f64> = self
            .trials
            .iter()
            .filter_map(|trial| concurrent_rate(&trial.outcome.as_ref().ok()?.samples))
            .collect();
        Some(batch * statistics::median(&rates)?)
    }

    /// The largest spread of any session.
    pub(super) fn robust_spread(&self) -> Option<f64> {
        self.summaries.iter().filter_map(|summary| summary.robust_spread).reduce(f64::max)
    }

    /// The parts of its cold starts: the median of each, by name, in nanoseconds.
    pub(super) fn cold_parts(&self) -> Vec<(&'static str, f64)> {
        let parts: Vec<ColdStart> = self
            .trials
            .iter()
            .flat_map(|trial| trial.outcome.iter().flat_map(|measured| &measured.samples))
            .filter_map(|sample| if let Before::Absent(parts) = sample.before { Some(parts) } else { None })
            .collect();
        let median = |part: fn(&ColdStart) -> u64| {
            statistics::median(&parts.iter().map(|parts| part(parts) as f64).collect::<Vec<_>>())
        };
        [
            ("process", median(|parts| parts.process_ns)),
            ("library", median(|parts| parts.library_ns)),
            ("session", median(|parts| parts.session_ns)),
            ("first run", median(|parts| parts.first_run_ns)),
            ("first output", median(|parts| parts.first_output_ns)),
        ]
        .into_iter()
        .filter_map(|(name, ns)| Some((name, ns?)))
        .collect()
    }

    /// What a reader should know of it besides numbers, in short phrases.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.preparation != Preparation::Running {
            notes.push(self.preparation.to_string());
        }
        if self.summaries.iter().any(|summary| summary.unstable) {
            notes.push("unstable".to_owned());
        }
        if self.summaries.iter().any(|summary| summary.drift.is_some_and(|drift| drift.drifting)) {
            notes.push("drifting".to_owned());
        }
        let steps: usize = self.summaries.iter().map(|summary| summary.changes.len()).sum();
        if steps > 0 {
            notes.push(format!("{} in its level", counted(steps, "step")));
        }
        let disturbed = self.trials.iter().filter(|trial| was_disturbed(trial)).count();
        if disturbed > 0 {
            notes.push("disturbed by other work".to_owned());
        }
        let changes = [
            ("power_source_changed", "the power source changed"),
            ("power_profile_changed", "the power profile changed"),
            ("governor_changed", "the clock governor changed"),
        ];
        for (name, told) in changes {
            if self.trials.iter().any(|trial| saw(trial, name)) {
                notes.push(told.to_owned());
            }
        }
        match (self.suspicion(), &self.against_first) {
            (Some(suspect), _) => {
                notes.push(format!("suspect, so nothing is learned and there is no verdict: {suspect}"));
            }
            (None, Some(Comparison { verdict: Verdict::Withheld, .. })) => {
                notes.push("no verdict: the first target is suspect".to_owned());
            }
            _ => {}
        }
        if let Some((comparison, medians)) = self.against_first.as_ref().zip(self.ratio_of_medians())
            && contradicts(comparison, medians)
        {
            notes.push(format!(
                "the medians say × {medians:.3} to the first, the rounds side by side the opposite"
            ));
        }
        let failures: Vec<_> = self.trials.iter().filter_map(|trial| trial.outcome.as_ref().err()).collect();
        if let (Some(failure), true) = (failures.first(), self.estimate.is_some()) {
            let (failed, all) = (failures.len(), counted(self.trials.len(), "session"));
            notes.push(format!("{failed} of {all} failed: {}", brief(&failure.to_string())));
        }
        let measured = self.trials.iter().filter_map(|trial| trial.outcome.as_ref().ok());
        if let Some(placement) = measured
            .filter_map(|measured| measured.placement.available())
            .find(|placement| !placement.fallback.is_empty())
        {
            notes.push(placement.to_string());
        }
        let parts = self.cold_parts().into_iter();
        let parts: Vec<String> =
            parts.map(|(name, ns)| format!("{name} {}", milliseconds(ns / 1e6))).collect();
        if !parts.is_empty() {
            notes.push(parts.join(", "));
        }
        notes
    }

    /// Its median over that of the first target.
    fn ratio_of_medians(&self) -> Option<f64> {
        Some(self.median_ns()? / self.first_median_ns?)
    }

    /// Why its trials may be of another chip than the target says.
    pub(super) fn suspicion(&self) -> Option<&str> {
        self.trials.iter().find_map(|trial| trial.suspect.as_deref())
    }

    /// The first failure, where no session has samples.
    pub(super) fn failure(&self) -> Option<String> {
        if self.estimate.is_some() {
            return None;
        }
        self.trials.iter().find_map(|trial| Some(trial.outcome.as_ref().err()?.to_string()))
    }

    /// The joules of an inference over all sessions in which one meter could tell them.
    pub(super) fn energy(&self) -> Reading<SessionEnergy> {
        SessionEnergy::of(&self.trials)
    }

    /// The most memory that any session's process held.
    pub(super) fn peak_resident_bytes(&self) -> Reading<u64> {
        self.most_bytes(|measured| &measured.peak_resident_bytes)
    }

    /// The most memory that any session added to its process.
    pub(super) fn session_bytes(&self) -> Reading<u64> {
        self.most_bytes(|measured| &measured.session_bytes)
    }

    /// The most memory of the chip that any session's process held.
    pub(super) fn device_bytes(&self) -> Reading<u64> {
        self.most_bytes(|measured| &measured.device_bytes)
    }

    /// The largest of what the sessions tell; the latest reason where none tells anything.
    fn most_bytes(&self, of: fn(&Measurement) -> &Reading<u64>) -> Reading<u64> {
        let mut most = Reading::unavailable("no session was measured");
        for measured in self.trials.iter().filter_map(|trial| trial.outcome.as_ref().ok()) {
            match (&most, of(measured)) {
                (Reading::Available(known), Reading::Available(bytes)) if known >= bytes => {}
                (Reading::Available(_), Reading::Unavailable(_)) => {}
                (_, reading) => most = reading.clone(),
            }
        }
        most
    }
}

/// Whether the interval of the paired ratios excludes that the faster one is the one whose median is less.
///
/// Rounds cancel what the machine did to both, so the two may differ in earnest.
fn contradicts(comparison: &Comparison, medians: f64) -> bool {
    comparison.interval.is_some_and(|it| (it.high < 1.0 && medians > 1.0) || (it.low > 1.0 && medians < 1.0))
}

/// Whether other programs or other machines took a noticeable part of the processor meanwhile.
fn was_disturbed(trial: &Trial) -> bool {
    meanwhile(trial).is_some_and(|meanwhile| meanwhile["disturbed"]["available"] == true)
}

/// Whether `change` was seen while the trial's case was measured.
fn saw(trial: &Trial, change: &str) -> bool {
    meanwhile(trial).is_some_and(|meanwhile| meanwhile["seen"]["available"][change]["available"] == true)
}

/// What a trial's conditions say of the time in which it was measured.
fn meanwhile(trial: &Trial) -> Option<serde_json::Value> {
    let mut conditions: serde_json::Value = serde_json::from_str(&trial.conditions).ok()?;
    Some(conditions["meanwhile"].take())
}

#[cfg(test)]
mod tests {
    use siliconroute_core::statistics::{PairedRound, compare_paired};

    use super::*;

    #[test]
    fn medians_against_rounds_are_told() {
        let drifting: Vec<([f64; 1], [f64; 1])> =
            (0..12).map(|round| 1.0 + f64::from(round)).map(|level| ([level * 0.9], [level])).collect();
        let rounds: Vec<PairedRound<'_>> =
            drifting.iter().map(|(first, second)| PairedRound { session: 0, first, second }).collect();
        let comparison = compare_paired(&rounds).unwrap();
        for (medians, expected) in [(0.9, false), (1.0, false), (1.1, true)] {
            assert_eq!(contradicts(&comparison, medians), expected, "{medians}");
        }
        let few = compare_paired(&rounds[..3]).unwrap();
        assert!(!contradicts(&few, 1.1), "no interval is no contradiction");
    }
}
