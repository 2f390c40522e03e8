//! What an interrupt kept a campaign from measuring.
//!
//! Invariant: a target that has a whole trial of every session of a case is not among it.

use std::collections::BTreeMap;

use serde::Serialize;
use siliconroute_core::{CaseId, TargetKey, Workload};

use super::Job;
use crate::wording::counted;

/// Sessions of a case, on some of its targets, that have no whole trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The case, as people call it.
    pub case: String,
    /// The case.
    pub case_id: CaseId,
    /// The workload.
    pub workload: Workload,
    /// The targets.
    pub targets: Vec<TargetKey>,
    /// Whether those are all targets of the case.
    pub all_targets: bool,
    /// How many sessions each of them lacks.
    pub sessions: usize,
    /// How many sessions there were to be.
    pub of_sessions: usize,
}

impl Missing {
    /// All that `jobs` ask for, each of them one session of its case.
    pub fn all(jobs: &[Job]) -> Vec<Self> {
        let unfinished: Vec<_> =
            jobs.iter().enumerate().map(|(index, job)| (index, &job.targets[..])).collect();
        Self::of(jobs, &unfinished)
    }

    /// What `unfinished` comes to: numbers of `jobs`, each with the targets that lack their trial.
    pub(super) fn of(jobs: &[Job], unfinished: &[(usize, &[TargetKey])]) -> Vec<Self> {
        let mut missing = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            let is_again = |other: usize| jobs[other].is_again(job);
            if (0..index).any(is_again) {
                continue;
            }
            let own = unfinished.iter().filter(|(other, _)| is_again(*other));
            let lacks =
                |target: &TargetKey| own.clone().filter(|(_, lacking)| lacking.contains(target)).count();
            // Targets that lack as many sessions are told together, those that lack most first.
            let mut by_number: BTreeMap<usize, Vec<TargetKey>> = BTreeMap::new();
            for target in &job.targets {
                by_number.entry(lacks(target)).or_default().push(target.clone());
            }
            let of_sessions = (0..jobs.len()).filter(|&other| is_again(other)).count();
            let told = by_number.into_iter().rev().filter(|(sessions, _)| *sessions > 0);
            missing.extend(told.map(|(sessions, targets)| Self {
                case: job.case.label(),
                case_id: job.case.id,
                workload: job.workload,
                all_targets: targets.len() == job.targets.len(),
                targets,
                sessions,
                of_sessions,
            }));
        }
        missing
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.case, self.workload)?;
        if !self.all_targets {
            let names: Vec<&str> = self.targets.iter().map(TargetKey::as_str).collect();
            write!(f, " on {}", names.join(", "))?;
        }
        if self.of_sessions > 1 {
            write!(f, " ({} of {})", self.sessions, counted(self.of_sessions, "session"))?;
        }
        Ok(())
    }
}
