//! The cold-start workload: a fresh worker process, a new session and its first inference, each part timed apart.
//!
//! Invariant: no process that has the target's library loaded is alive when a sample begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use siliconroute_core::Workload;
use siliconroute_core::trial::{
    Before, ColdStart, Failure, FailureKind, FileCache, Preparation, Sample, Trial,
};
use siliconroute_engine::worker::client::WorkerClient;
use siliconroute_engine::worker::process::Launcher;
use siliconroute_engine::worker::wire::EngineSpec;

use super::subject::{Progress, Subject};
use super::{CaseToMeasure, OutOfTime, Setting, Shuffle, Workers, finish};
use crate::discovery::Found;
use crate::machine::brief;

pub(super) fn measure(
    workers: &mut Workers<'_>,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    workers.drop_all();
    let mut order = Shuffle::new(setting.order_seed);
    let mut trials = Vec::new();
    for &files in &setting.sampling.cold_files {
        if setting.surroundings.is_cancelled() {
            break;
        }
        trials.extend(measure_starts(workers.launcher(), test, targets, files, &mut order, setting)?);
    }
    Ok(trials)
}

fn measure_starts(
    launcher: &dyn Launcher,
    test: &CaseToMeasure<'_>,
    targets: &[&Found],
    files: FileCache,
    order: &mut Shuffle,
    setting: &Setting<'_>,
) -> Result<Vec<Trial>, OutOfTime> {
    let (sampling, surroundings) = (setting.sampling, setting.surroundings);
    let before = surroundings.begin();
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    // One start that does not count: it fills the file cache, and the compile cache where there is one.
    for index in order.shuffled(targets.len()) {
        if surroundings.is_cancelled() {
            break;
        }
        let (found, started_unix_ms) = (targets[index], surroundings.unix_ms());
        setting.room_to_begin(found)?;
        let primed = start(launcher, found, test, setting, (0, Duration::ZERO, FileCache::Warm));
        match primed {
            Err(Unstarted::Worker(failure)) => left_out(found, &failure, setting),
            Err(Unstarted::Model(failure)) => {
                subjects.push(Subject::of_processes(found, started_unix_ms, Err(failure)));
            }
            Ok(mut progress) => {
                progress.samples.clear();
                subjects.push(Subject::of_processes(found, started_unix_ms, Ok(progress)));
            }
        }
    }
    let mut last_work = vec![surroundings.elapsed(); subjects.len()];
    for round in 0..sampling.repetitions {
        let time_is_up = setting.until.is_some_and(|until| surroundings.elapsed() >= until);
        let found = subjects.iter().filter(|subject| subject.state.is_ok()).map(|subject| subject.found);
        let starts = found.fold(Duration::ZERO, |all, found| {
            all.saturating_add(setting.time_to_begin(found)).saturating_add(sampling.cold_rest)
        });
        let closed = setting.room_for(starts).err();
        if let Some(closed) = closed.filter(|_| round == 0) {
            return Err(closed);
        }
        if (time_is_up || closed.is_some()) && round > 0 {
            setting.tell_cut_short(test, Workload::ColdStart, round);
            break;
        }
        if surroundings.is_cancelled() {
            break;
        }
        for index in order.shuffled(subjects.len()) {
            let subject = &mut subjects[index];
            let Ok(progress) = &mut subject.state else { continue };
            surroundings.rest(sampling.cold_rest);
            if surroundings.is_cancelled() {
                break;
            }
            if files == FileCache::Dropped
                && let Err(reason) = surroundings.drop_from_file_cache(&files_of(subject.found, test))
            {
                let detail = format!("its files cannot be dropped from the file cache: {reason}");
                surroundings.notice(format!("{}: {detail}", subject.found.target.key));
                subject.state = Err(Failure::new(FailureKind::Refused, detail));
                continue;
            }
            let gap = surroundings.elapsed().saturating_sub(last_work[index]);
            let started = start(launcher, subject.found, test, setting, (round, gap, files));
            last_work[index] = surroundings.elapsed();
            match started {
                Ok(fresh) => progress.add_start(fresh),
                Err(_) if surroundings.is_cancelled() => {}
                // A start that the end of the budget cut off says nothing of the target.
                Err(_) if round > 0 && setting.room_for(Duration::ZERO).is_err() => {}
                // A machine that cannot start a process says nothing of the model; what there is stays.
                Err(Unstarted::Worker(failure)) => left_out(subject.found, &failure, setting),
                Err(Unstarted::Model(failure)) => subject.state = Err(failure),
            }
        }
    }
    let gap_ns = nanoseconds(sampling.cold_rest);
    subjects.retain(|subject| subject.state.is_err() || subject.has_samples());
    Ok(finish(subjects, test, (Workload::ColdStart, Preparation::Absent { gap_ns, files }), &before, setting))
}

/// Tells of a start that there was not.
fn left_out(found: &Found, failure: &Failure, setting: &Setting<'_>) {
    let reason = brief(&failure.to_string());
    setting.surroundings.notice(format!("a start of {} is left out: {reason}", found.target.key));
}

/// Why a start gave no sample.
enum Unstarted {
    /// The worker cannot be started, which says nothing of the model.
    Worker(Failure),
    /// The target failed on the model.
    Model(Failure),
}

/// One cold start, in a process that ends with it.
fn start(
    launcher: &dyn Launcher,
    found: &Found,
    test: &CaseToMeasure<'_>,
    setting: &Setting<'_>,
    (round, gap, files): (u32, Duration, FileCache),
) -> Result<Progress, Unstarted> {
    let (deadline, surroundings) = (setting.deadline(), setting.surroundings);
    let wish = surroundings.elapsed();
    let mut worker = WorkerClient::open(launcher, &found.engine, deadline).map_err(Unstarted::Worker)?;
    let opened = surroundings.elapsed().saturating_sub(wish);
    let library_ns = worker.load_ns();
    let (mut progress, first_output_ns) =
        Progress::first_run(&mut worker, found, test, setting).map_err(Unstarted::Model)?;
    let parts = ColdStart {
        gap_ns: nanoseconds(gap),
        process_ns: nanoseconds(opened).saturating_sub(library_ns),
        library_ns,
        session_ns: progress.create_ns,
        first_run_ns: progress.first_run_ns,
        first_output_ns,
        files,
    };
    let total_ns = parts.session_ns + parts.first_run_ns;
    progress.samples.push(Sample { round, calls: 1, total_ns, before: Before::Absent(parts) });
    progress.sampled_ns = total_ns;
    Ok(progress)
}

impl Progress {
    /// Adds the sample of a further start, and the outputs that it ended with.
    fn add_start(&mut self, fresh: Self) {
        if self.samples.is_empty() {
            (self.create_ns, self.first_run_ns) = (fresh.create_ns, fresh.first_run_ns);
        }
        self.samples.extend(fresh.samples);
        self.outputs.last = fresh.outputs.last;
        self.sampled_ns += fresh.sampled_ns;
        self.peak_resident_bytes = fresh.peak_resident_bytes;
        self.session_bytes = fresh.session_bytes;
        self.device_bytes = fresh.device_bytes;
    }
}

/// The files that a cold start of `found` may read: the model, the libraries and what lies beside them, since
/// libraries load each other.
fn files_of(found: &Found, test: &CaseToMeasure<'_>) -> Vec<PathBuf> {
    let mut files = vec![test.path.to_owned()];
    if let EngineSpec::OnnxRuntime { library, plugins, .. } = &found.engine {
        let libraries = std::iter::once(library).chain(plugins.iter().map(|plugin| &plugin.library));
        let folders: BTreeSet<&Path> = libraries.filter_map(|library| library.parent()).collect();
        let entries = folders.into_iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        files.extend(entries.map(|entry| entry.path()).filter(|path| path.is_file()));
    }
    files
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
