//! The idle-loaded workload: sessions stay alive, and each runs one inference after it has rested.
//!
//! Targets take turns spread evenly over the rest of each, not one right after the other: the first inference after a rest
//! wakes up the processor for all that follow at once, while a target that serves alone has no such help.
//!
//! Invariant: every sample carries the rest that it really had, and what others did meanwhile.

use std::time::Duration;

use siliconroute_core::trial::{Before, Preparation, Sample, Trial};
use siliconroute_core::{Reading, Workload};

use super::cold_start::nanoseconds;
use super::subject::Subject;
use super::{CaseToMeasure, OutOfTime, Setting, Shuffle, Workers, finish};
use crate::discovery::Found;

/// Calls after each sample, so that the next rest follows work and not another lone inference.
const CALLS_BEFORE_REST: u32 = 3;

pub(super) fn measure(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let mut order = Shuffle::new(setting.order_seed);
    let mut trials = Vec::new();
    for &rest in &setting.sampling.rests {
        if setting.surroundings.is_cancelled() {
            break;
        }
        trials.extend(measure_rest(workers, test, targets, rest, &mut order, setting)?);
    }
    Ok(trials)
}

/// When a target last worked, and how many inferences all targets had then made.
#[derive(Clone, Copy)]
struct LastWork {
    at: Duration,
    inferences: u32,
}

/// A session between two of its turns.
struct Resting<'a> {
    subject: Subject<'a>,
    last: LastWork,
}

/// The turns of all targets, and what any of them did last.
struct Turns<'s> {
    setting: &'s Setting<'s>,
    /// How long each target rests before its turn.
    rest: Duration,
    /// How long the machine rests between two turns: so long that they come round when the first one has rested.
    spacing: Duration,
    last: LastWork,
}

fn measure_rest(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    rest: Duration,
    order: &mut Shuffle,
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let surroundings = setting.surroundings;
    let before = surroundings.begin();
    let last = LastWork { at: surroundings.elapsed(), inferences: 0 };
    let mut resting: Vec<Resting<'_>> = Vec::new();
    for index in order.shuffled(targets.len()) {
        if surroundings.is_cancelled() {
            break;
        }
        let begun = Subject::begin(workers, targets[index], test, setting)?;
        resting.extend(begun.map(|subject| Resting { subject, last }));
    }
    let spacing = rest / u32::try_from(resting.len().max(1)).unwrap_or(u32::MAX);
    let mut turns = Turns { setting, rest, spacing, last };
    for round in 0..setting.sampling.repetitions {
        let calls: Duration = resting.iter().map(|one| one.subject.call_time()).sum();
        let spreading = rest.saturating_sub(spacing) + calls * CALLS_BEFORE_REST;
        let first = if round == 0 { spreading } else { Duration::ZERO };
        let closed = setting.room_for(first + rest + calls * (1 + CALLS_BEFORE_REST)).err();
        if let Some(closed) = closed.filter(|_| round == 0) {
            return Err(closed);
        }
        let out_of_time = setting.until.is_some_and(|until| surroundings.elapsed() + rest >= until);
        if (out_of_time || closed.is_some()) && round > 0 {
            setting.tell_cut_short(test, Workload::IdleLoaded, round);
            break;
        }
        if round == 0 {
            turns.spread(&mut resting, workers);
        }
        for one in resting.iter_mut().filter(|one| one.subject.state.is_ok()) {
            turns.take(one, round, workers);
        }
        if surroundings.is_cancelled() {
            break;
        }
    }
    let mut subjects: Vec<Subject<'_>> = resting.into_iter().map(|one| one.subject).collect();
    for subject in &mut subjects {
        if let Ok(progress) = &mut subject.state {
            progress.busy_cores = Reading::unavailable("a single inference is too short for the CPU clock");
        }
        subject.end(workers, setting);
    }
    let rested = Preparation::Rested { gap_ns: nanoseconds(rest) };
    Ok(finish(subjects, test, (Workload::IdleLoaded, rested), &before, setting))
}

impl Turns<'_> {
    /// Works with each target once, as far apart as their turns will be, so that all rest equally long from the first turn on.
    fn spread(&mut self, resting: &mut [Resting<'_>], workers: &mut Workers<'_>) {
        for (place, one) in resting.iter_mut().filter(|one| one.subject.state.is_ok()).enumerate() {
            if place > 0 {
                self.setting.surroundings.rest(self.spacing);
            }
            self.work_before_rest(one, workers);
        }
    }

    /// Waits until `one` has rested, and the machine its share, and samples one inference.
    fn take(&mut self, one: &mut Resting<'_>, round: u32, workers: &mut Workers<'_>) {
        let surroundings = self.setting.surroundings;
        let since = |last: LastWork| surroundings.elapsed().saturating_sub(last.at);
        let (own, machine) =
            (self.rest.saturating_sub(since(one.last)), self.spacing.saturating_sub(since(self.last)));
        surroundings.rest(own.max(machine));
        if surroundings.is_cancelled() {
            return;
        }
        let before = Before::Resting {
            gap_ns: nanoseconds(since(one.last)),
            machine_gap_ns: Some(nanoseconds(since(self.last))),
            others: self.last.inferences - one.last.inferences,
        };
        one.subject.with_session(workers, self.setting, |progress, session| {
            let total_ns = session.run()?;
            progress.samples.push(Sample { round, calls: 1, total_ns, before });
            Ok(())
        });
        self.last.inferences += 1;
        self.work_before_rest(one, workers);
    }

    fn work_before_rest(&mut self, one: &mut Resting<'_>, workers: &mut Workers<'_>) {
        one.subject.with_session(workers, self.setting, |progress, session| {
            progress.warmup_calls += session.warm_up(CALLS_BEFORE_REST.into(), Duration::ZERO)?.calls;
            Ok(())
        });
        let inferences = self.last.inferences + CALLS_BEFORE_REST;
        self.last = LastWork { at: self.setting.surroundings.elapsed(), inferences };
        one.last = self.last;
    }
}
