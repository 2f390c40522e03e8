//! The idle-loaded workload: sessions stay alive, all targets rest, then each runs one inference.
//!
//! Invariant: every sample carries the rest that it really had and how many inferences of others ran meanwhile.

use std::time::Duration;

use siliconroute_core::trial::{Before, Preparation, Sample, Trial};
use siliconroute_core::{Reading, Workload};

use super::subject::Subject;
use super::{CaseToMeasure, OutOfTime, Setting, Shuffle, Workers, finish};
use crate::discovery::Found;

/// Calls after each sample, so that the next rest follows work and not another lone inference.
const CALLS_BEFORE_REST: u64 = 3;

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
#[derive(Clone, Copy, Default)]
struct LastWork {
    at: Duration,
    inferences: u32,
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
    let mut inferences = 0;
    let mut subjects: Vec<(Subject<'_>, LastWork)> = Vec::new();
    for index in order.shuffled(targets.len()) {
        if surroundings.is_cancelled() {
            break;
        }
        if let Some(subject) = Subject::begin(workers, targets[index], test, setting)? {
            subjects.push((subject, LastWork { at: surroundings.elapsed(), inferences }));
        }
    }
    for round in 0..setting.sampling.repetitions {
        let calls: Duration = subjects.iter().map(|(subject, _)| subject.call_time()).sum();
        let closed = setting.room_for(rest + calls * (1 + CALLS_BEFORE_REST as u32)).err();
        if let Some(closed) = closed.filter(|_| round == 0) {
            return Err(closed);
        }
        let out_of_time = setting.until.is_some_and(|until| surroundings.elapsed() + rest >= until);
        if (out_of_time || closed.is_some()) && round > 0 {
            setting.tell_cut_short(test, Workload::IdleLoaded, round);
            break;
        }
        if surroundings.is_cancelled() {
            break;
        }
        surroundings.rest(rest);
        for index in order.shuffled(subjects.len()) {
            if surroundings.is_cancelled() {
                break;
            }
            let (subject, last) = &mut subjects[index];
            let gap = surroundings.elapsed().saturating_sub(last.at);
            let before = Before::Resting {
                gap_ns: u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX),
                others: inferences - last.inferences,
            };
            subject.with_session(workers, setting, |progress, session| {
                let total_ns = session.run()?;
                progress.samples.push(Sample { round, calls: 1, total_ns, before });
                progress.warmup_calls += session.warm_up(CALLS_BEFORE_REST, Duration::ZERO)?.calls;
                Ok(())
            });
            inferences += 1 + CALLS_BEFORE_REST as u32;
            *last = LastWork { at: surroundings.elapsed(), inferences };
        }
    }
    let mut subjects: Vec<Subject<'_>> = subjects.into_iter().map(|(subject, _)| subject).collect();
    for subject in &mut subjects {
        if let Ok(progress) = &mut subject.state {
            progress.busy_cores = Reading::unavailable("a single inference is too short for the CPU clock");
        }
        subject.end(workers, setting);
    }
    let gap_ns = u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX);
    Ok(finish(subjects, test, (Workload::IdleLoaded, Preparation::Rested { gap_ns }), &before, setting))
}
