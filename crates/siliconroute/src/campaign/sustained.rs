//! The sustained workload: warm sessions, sampled in interleaved rounds until each is precise enough.
//!
//! Invariant: in each round every target that is still sampled has one turn.

use std::time::Duration;

use siliconroute_core::trial::{Failure, Preparation, Sample, Trial};
use siliconroute_core::{Reading, Workload, statistics};
use siliconroute_engine::worker::client::WorkerSession;

use super::subject::{Progress, Subject};
use super::{CaseToMeasure, OutOfTime, Sampling, Setting, Shuffle, Workers, energy, finish};
use crate::discovery::Found;

/// Calls that a turn makes at least: those before its first sample, and one sample.
const CALLS_OF_A_TURN: u32 = REWARM.0 as u32 + 1;

/// Calls and time before a turn's first sample, which refill what the other targets evicted.
const REWARM: (u64, Duration) = (2, Duration::from_millis(10));

pub(super) fn measure(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let (sampling, surroundings) = (setting.sampling, setting.surroundings);
    let before = surroundings.begin();
    let mut order = Shuffle::new(setting.order_seed);
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for index in order.shuffled(targets.len()) {
        if !surroundings.is_cancelled() {
            subjects.extend(Subject::begin(workers, targets[index], test, setting)?);
        }
    }
    let time_is_up = || setting.until.is_some_and(|until| surroundings.elapsed() >= until);
    let mut round = 0;
    while subjects.iter().any(|subject| wants_more(subject, sampling, round)) {
        let alone = subjects.len() == 1;
        let turns = subjects.len();
        for (turn, index) in order.shuffled(turns).into_iter().enumerate() {
            // Of what is left of a budget, each target that has not had its turn in this round gets its part.
            let left = setting.until.map(|until| {
                until.saturating_sub(surroundings.elapsed()) / u32::try_from(turns - turn).unwrap_or(u32::MAX)
            });
            let subject = &mut subjects[index];
            // A budget that is too small still leaves every target with one block.
            let may_go_on = !surroundings.is_cancelled() && (!time_is_up() || round == 0);
            if may_go_on && wants_more(subject, sampling, round) {
                // Of what a turn runs at least, no call can be cut off without losing the trial.
                if let Err(closed) = setting.room_for(subject.call_time() * CALLS_OF_A_TURN) {
                    if round == 0 {
                        return Err(closed);
                    }
                    continue;
                }
                if !alone {
                    surroundings.rest(sampling.cool_down);
                }
                subject.with_session(workers, setting, |progress, session| {
                    // What others evicted is refilled before the first sample.
                    let rewarm = if alone && round > 0 { None } else { Some(REWARM) };
                    progress.sample_block(session, sampling, (round, left), rewarm)
                });
            }
        }
        if surroundings.is_cancelled() || time_is_up() {
            break;
        }
        round += 1;
    }
    if time_is_up() && subjects.iter().any(|subject| lacks_samples(subject, sampling)) {
        surroundings.notice(format!("{}: the budget ended sampling early", test.case.label()));
    }
    if let Some(windows) = sampling.energy {
        for index in order.shuffled(subjects.len()) {
            energy::measure(&mut subjects[index], workers, setting, windows);
        }
    }
    for subject in &mut subjects {
        subject.end(workers, setting);
    }
    Ok(finish(subjects, test, (Workload::Sustained, Preparation::Running), &before, setting))
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
    spent < sampling.budget && progress.wanted > 0
}

/// Whether it has fewer samples than were asked for in any case.
fn lacks_samples(subject: &Subject<'_>, sampling: &Sampling) -> bool {
    let asked = sampling.fixed_iterations.unwrap_or(sampling.min_samples);
    subject.state.as_ref().is_ok_and(|progress| progress.samples.len() < asked as usize)
}

impl Progress {
    /// One block of samples, after a short warm-up.
    fn sample_block(
        &mut self,
        session: &mut WorkerSession<'_>,
        sampling: &Sampling,
        (round, budget): (u32, Option<Duration>),
        rewarm: Option<(u64, Duration)>,
    ) -> Result<(), Failure> {
        if let Some((calls, time)) = rewarm {
            self.warmup_calls += session.warm_up(calls, time)?.calls;
        }
        let count = self.block(sampling);
        let left = sampling.hard_limit.saturating_sub(Duration::from_nanos(self.sampled_ns));
        let left = budget.map_or(left, |budget| left.min(budget));
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
        self.wanted = self.still_wanted(sampling);
        Ok(())
    }

    /// The samples of the next block: an even part of the least number, and once that is there a block that grows
    /// with what was taken, so that turns cost little of a long trial.
    fn block(&self, sampling: &Sampling) -> u32 {
        let taken = self.samples.len() as u32;
        let rounds = sampling.rounds.max(1);
        if let Some(iterations) = sampling.fixed_iterations {
            return iterations.div_ceil(rounds).max(1).min(iterations - taken);
        }
        let block = sampling.min_samples.div_ceil(rounds).max(1);
        let next = block.max(taken / 4);
        match self.wanted {
            _ if taken < sampling.min_samples => block,
            wanted if wanted <= 2 * next => wanted.max(1),
            _ => next,
        }
    }

    /// How many samples the precision asks for beyond those that there are.
    fn still_wanted(&mut self, sampling: &Sampling) -> u32 {
        if sampling.precision <= 0.0 {
            return 0;
        }
        let times: Vec<f64> = self.samples.iter().map(Sample::per_call_ns).collect();
        match self.stopping.next(&times) {
            statistics::Step::Take(more) => u32::try_from(more).unwrap_or(u32::MAX),
            statistics::Step::Stop(_) => 0,
        }
    }
}
