//! Throughput: several sessions of one target run at the same time, each in a process of its own.
//!
//! Invariant: a sample's round is the number of the session that took it, so that the sessions can be told apart.

use std::time::Duration;

use siliconroute_core::trial::{Failure, FailureKind, Preparation, Sample, Trial};
use siliconroute_core::{Reading, Workload};
use siliconroute_engine::worker::client::WorkerClient;
use siliconroute_engine::worker::process::Launcher;

use super::subject::{Progress, Subject, check_placement, remote_model, stopping};
use super::{CaseToMeasure, SessionOutputs, Setting, Workers, finish};
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
) -> Vec<Trial> {
    let surroundings = setting.surroundings;
    let mut trials = Vec::new();
    for (number, found) in (1_u64..).zip(targets) {
        // Nothing took turns with it, so it shares its seed with nothing.
        let setting = &Setting { order_seed: setting.order_seed.wrapping_add(number), ..*setting };
        if surroundings.is_cancelled() {
            break;
        }
        surroundings.rest(setting.sampling.cool_down);
        let (before, started_unix_ms) = (surroundings.conditions(), surroundings.unix_ms());
        let state = run_at_once(workers.launcher(), found, test, setting);
        let subject = Subject::of_processes(found, started_unix_ms, state);
        let what = (Workload::Sustained, Preparation::Running);
        trials.extend(finish(vec![subject], test, targets, what, &before, setting));
    }
    trials
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
    let mut warm: Vec<Warm> =
        (0..sessions).map(|_| warm_up(launcher, found, test, setting)).collect::<Result<_, _>>()?;
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
    let sampling = setting.sampling;
    let mut worker = WorkerClient::open(launcher, &found.engine, sampling.deadline)?;
    let (base, settings) = found.base();
    let model = remote_model(test, settings.threads, None);
    let mut session = worker.create_session(&base, &model, sampling.deadline)?;
    let (create_ns, placement) = (session.create_ns, session.placement.clone());
    check_placement(&found.engine, &placement)?;
    session.set_inputs(test.values.to_vec())?;
    let first_run_ns = session.run()?;
    let first: Vec<_> = session.outputs()?.into_iter().map(|output| output.tensor).collect();
    let warm = session.warm_up(sampling.warmup_calls, sampling.warmup_time)?;
    let usage = worker.usage(sampling.deadline)?;
    let calls_per_sample =
        siliconroute_engine::timing::calls_per_sample(warm.fastest_ns, Duration::from_millis(1));
    let progress = Progress {
        create_ns,
        first_run_ns,
        placement,
        outputs: SessionOutputs { first: first.clone(), last: first },
        warmup_calls: warm.calls,
        calls_per_sample,
        samples: Vec::new(),
        busy: Vec::new(),
        busy_cores: Reading::unavailable("several processes ran at once"),
        session_bytes: Reading::unavailable("several processes ran at once"),
        peak_resident_bytes: usage.peak_resident_bytes,
        device_bytes: usage.device_bytes,
        sampled_ns: 0,
        stopping: stopping(sampling),
        wanted: 0,
    };
    Ok(Warm { worker, progress })
}
