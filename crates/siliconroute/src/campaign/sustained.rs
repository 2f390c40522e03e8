//! The sustained workload: warm sessions, sampled in interleaved rounds until each is precise enough.
//!
//! Invariant: in each round every target that is still sampled has one turn.

use std::time::Duration;

use siliconroute_core::trial::{Failure, Preparation, Trial};
use siliconroute_core::{Reading, Workload, statistics};
use siliconroute_engine::worker::client::WorkerSession;

use super::subject::{Progress, Subject};
use super::{CaseToMeasure, Sampling, Setting, Shuffle, Workers, finish};
use crate::discovery::Found;

/// Calls and time before a turn's first sample, which refill what the other targets evicted.
const REWARM: (u64, Duration) = (2, Duration::from_millis(10));

pub(super) fn measure(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Vec<Trial> {
    let (sampling, surroundings) = (setting.sampling, setting.surroundings);
    let before = surroundings.conditions();
    let mut order = Shuffle::new(setting.order_seed);
    let begin = |&index: &usize| {
        if surroundings.is_cancelled() {
            None
        } else {
            Subject::begin(workers, targets[index], test, setting)
        }
    };
    let mut subjects: Vec<Subject<'_>> = order.shuffled(targets.len()).iter().filter_map(begin).collect();
    let time_is_up = || setting.until.is_some_and(|until| surroundings.elapsed() >= until);
    let mut round = 0;
    while subjects.iter().any(|subject| wants_more(subject, sampling, round)) {
        for index in order.shuffled(subjects.len()) {
            let subject = &mut subjects[index];
            // A budget that is too small still leaves every target with one block.
            let may_go_on = !surroundings.is_cancelled() && (!time_is_up() || round == 0);
            if may_go_on && wants_more(subject, sampling, round) {
                surroundings.rest(sampling.cool_down);
                subject.with_session(workers, setting, |progress, session| {
                    progress.sample_block(session, sampling, round)
                });
            }
        }
        if surroundings.is_cancelled() || time_is_up() {
            break;
        }
        round += 1;
    }
    for subject in &mut subjects {
        subject.end(workers, setting);
    }
    finish(subjects, test, targets, (Workload::Sustained, Preparation::Running), &before, setting)
}

fn wants_more(subject: &Subject<'_>, sampling: &Sampling, round: u32) -> bool {
    let Ok(progress) = &subject.state else { return false };
    let taken = progress.samples.len();
    if let Some(iterations) = sampling.fixed_iterations {
        return taken < iterations as usize;
    }
    let spent = Duration::from_nanos(progress.sampled_ns);
    if spent >= sampling.hard_limit && taken > 0 {
        return false;
    }
    if round < sampling.rounds || taken < sampling.min_samples as usize {
        return true;
    }
    spent < sampling.budget && !progress.is_precise(sampling.precision)
}

impl Progress {
    /// One block of samples, after a short warm-up.
    fn sample_block(
        &mut self,
        session: &mut WorkerSession<'_>,
        sampling: &Sampling,
        round: u32,
    ) -> Result<(), Failure> {
        let (calls, time) = REWARM;
        self.warmup_calls += session.warm_up(calls, time)?.calls;
        let wanted = sampling.fixed_iterations.unwrap_or(sampling.min_samples);
        let block = wanted.div_ceil(sampling.rounds.max(1)).max(1);
        let count = match sampling.fixed_iterations {
            Some(iterations) => block.min(iterations - self.samples.len() as u32),
            None => block,
        };
        let left = sampling.hard_limit.saturating_sub(Duration::from_nanos(self.sampled_ns));
        let sampled = session.sample(round, self.calls_per_sample, count, left)?;
        self.sampled_ns += sampled.samples.iter().map(|sample| sample.total_ns).sum::<u64>();
        self.samples.extend(sampled.samples);
        if let Reading::Available(busy) = sampled.busy_cores {
            self.busy.push(busy);
            self.busy_cores = Reading::from_option(statistics::median(&self.busy), "no sample was taken");
        } else {
            self.busy_cores = sampled.busy_cores;
        }
        self.peak_resident_bytes = sampled.peak_resident_bytes;
        Ok(())
    }
}
