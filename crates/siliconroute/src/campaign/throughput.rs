//! Throughput: several sessions of one target run at the same time, each in a process of its own.
//!
//! Invariant: a sample's round is the number of the session that took it, so that the sessions can be told apart.

use siliconroute_core::trial::{Failure, FailureKind, Preparation, Sample, Trial};
use siliconroute_core::{Reading, Workload};
use siliconroute_engine::worker::client::WorkerClient;
use siliconroute_engine::worker::process::Launcher;

use super::subject::{Progress, Subject};
use super::{CaseToMeasure, OutOfTime, Setting, Workers, finish};
use crate::discovery::Found;

/// Inferences per second of a trial whose rounds are sessions that ran at the same time; `None` without samples.
pub fn concurrent_rate(samples: &[Sample]) -> Option<f64> {
    let sessions = samples.iter().map(|sample| sample.round).max()? + 1;
    let rate = |session: u32| {
        let own = || samples.iter().filter(|sample| sample.round == session);
        let (calls, ns) = own().fold((0_u64, 0_u64), |(calls, ns), sample| {
            (calls + u64::from(sample.calls), ns + sample.total_ns)
        });
        if ns == 0 { 0.0 } else { calls as f64 * 1e9 / ns as f64 }
    };
    Some((0..sessions).map(rate).sum())
}

/// Measures each of `targets` in turn with as many sessions at once as its key asks for.
pub(super) fn measure(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let surroundings = setting.surroundings;
    let mut trials = Vec::new();
    for (number, found) in (1_u64..).zip(targets) {
        // Nothing took turns with it, so it shares its seed with nothing.
        let setting = &Setting { order_seed: setting.order_seed.wrapping_add(number), ..*setting };
        if surroundings.is_cancelled() {
            break;
        }
        setting.room_to_begin(found)?;
        surroundings.rest(setting.sampling.cool_down);
        let (before, started_unix_ms) = (surroundings.begin(), surroundings.unix_ms());
        let state = run_at_once(workers.launcher(), found, test, setting);
        let subject = Subject::of_processes(found, started_unix_ms, state);
        let what = (Workload::Sustained, Preparation::Running);
        trials.extend(finish(vec![subject], test, what, &before, setting));
    }
    Ok(trials)
}

/// One of the sessions, warm.
struct Warm {
    worker: WorkerClient,
    progress: Progress,
}

fn run_at_once(
    launcher: &dyn Launcher,
    found: &Found,
    test: &CaseToMeasure<'_>,
    setting: &Setting<'_>,
) -> Result<Progress, Failure> {
    let sessions = found.base().1.concurrency.unwrap_or(1);
    let mut warm: Vec<Warm> = Vec::new();
    for made in 0..sessions {
        if setting.until.is_some_and(|until| setting.surroundings.elapsed() >= until) {
            let detail = format!("the budget was used up with {made} of {sessions} sessions");
            return Err(Failure::new(FailureKind::Refused, detail));
        }
        warm.push(warm_up(launcher, found, test, setting)?);
    }
    let sampling = setting.sampling;
    let taken: Vec<Result<Vec<Sample>, Failure>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0_u32..)
            .zip(&mut warm)
            .map(|(number, Warm { worker, progress })| {
                let (create_ns, placement) = (progress.create_ns, progress.placement.clone());
                let calls = progress.calls_per_sample;
                scope.spawn(move || {
                    let mut session = worker.resume(create_ns, placement, sampling.deadline);
                    Ok(session.sample(number, calls, u32::MAX, sampling.budget)?.samples)
                })
            })
            .collect();
        let gone = || Failure::new(FailureKind::Crashed, "the thread of a session ended early");
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_panic| Err(gone()))).collect()
    });
    let mut merged: Option<Progress> = None;
    for (Warm { progress, .. }, samples) in warm.into_iter().zip(taken) {
        let samples = samples?;
        let merged = merged.get_or_insert(progress);
        merged.sampled_ns += samples.iter().map(|sample| sample.total_ns).sum::<u64>();
        merged.samples.extend(samples);
    }
    merged.ok_or_else(|| Failure::new(FailureKind::Refused, "no session was asked for"))
}

fn warm_up(
    launcher: &dyn Launcher,
    found: &Found,
    test: &CaseToMeasure<'_>,
    setting: &Setting<'_>,
) -> Result<Warm, Failure> {
    let mut worker = WorkerClient::open(launcher, &found.engine, setting.deadline())?;
    let (mut progress, _) = Progress::first_run(&mut worker, found, test, setting)?;
    progress.warm_up(&mut worker, found, setting)?;
    // The memory of one process is not that of all of them.
    progress.session_bytes = Reading::unavailable("several processes ran at once");
    Ok(Warm { worker, progress })
}
