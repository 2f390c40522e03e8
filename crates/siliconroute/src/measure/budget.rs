//! A job's part of a budget, and the jobs that it has no room for.
//!
//! Invariant: a case that was measured in one session is never told to be left out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Job;
use crate::campaign::Sampling;

/// The jobs that a budget had no room for, each with the reason.
#[derive(Debug, Default)]
pub(super) struct PassedOver(BTreeMap<usize, String>);

impl PassedOver {
    pub(super) fn add(&mut self, index: usize, reason: String) {
        self.0.insert(index, reason);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What to tell of them: a job that has fewer sessions than it should is not one that was left out.
    pub(super) fn sentences(&self, jobs: &[Job]) -> Vec<String> {
        let first = |(index, reason)| {
            let job: &Job = &jobs[index];
            let again = |&other: &usize| jobs[other].is_again(job);
            let sessions: Vec<usize> = (0..jobs.len()).filter(again).collect();
            let measured = sessions.iter().filter(|session| !self.0.contains_key(session)).count();
            // Told once, at the first session that is missing.
            sessions.iter().find(|session| self.0.contains_key(session)).filter(|first| **first == index)?;
            let (label, workload, wanted) = (job.case.label(), job.workload, sessions.len());
            Some(if measured == 0 {
                format!("{label} {workload} is left out: {reason}")
            } else {
                format!("{label} {workload}: the budget left room for {measured} of {wanted} sessions")
            })
        };
        self.0.iter().filter_map(|(&index, reason)| first((index, reason))).collect()
    }
}

/// A job's part of the time for the whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// When no new sample may begin, since the campaign began.
    pub(crate) until: Option<Duration>,
    /// The time that there is.
    pub(crate) time: Option<Duration>,
}

impl Share {
    /// The sampling with which a job on `targets` targets uses its share and no more.
    pub(super) fn sampling(self, sampling: &Sampling, targets: usize) -> Sampling {
        let mut sampling = sampling.clone();
        if let Some(time) = self.time {
            let each = time / u32::try_from(targets.max(1)).unwrap_or(u32::MAX);
            sampling.budget = each;
            sampling.hard_limit = sampling.hard_limit.min(each.max(Duration::from_millis(10)));
            sampling.warmup_time = sampling.warmup_time.min(each / 4);
            sampling.warmup_limit = Some(each / 4);
        }
        sampling
    }
}
