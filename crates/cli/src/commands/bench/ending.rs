//! How a benchmark ends: as a success, interrupted, or with cases that nothing could measure.
//!
//! Invariant: it succeeds only if every case has a measurement in every workload that was asked for; what failed
//! beside one is told and fails nothing.

use std::time::Duration;

use siliconroute::campaign::all_refuse;
use siliconroute::machine::brief;
use siliconroute::measure::{Job, Measured, Missing};
use siliconroute::{Error, ErrorKind};
use siliconroute_core::Workload;

use super::configuration::Configuration;
use crate::output::Output;

/// The failure that a benchmark amounts to; `None` where every case was measured. `needed` is what all of it is expected to
/// take, where a budget had no room for a case.
pub(super) fn failure(
    jobs: &[Job],
    all: &[Configuration<'_>],
    measured: &Measured,
    needed: Option<Duration>,
) -> Option<Error> {
    if measured.interrupted {
        return Some(interrupted(&measured.missing));
    }
    let mut asked: Vec<&Job> = Vec::new();
    for job in jobs {
        if !asked.iter().any(|other| is_same(other, job)) {
            asked.push(job);
        }
    }
    let unmeasured: Vec<&Job> = asked.iter().copied().filter(|job| !is_measured(job, all)).collect();
    if unmeasured.is_empty() {
        return None;
    }
    let told: Vec<String> = unmeasured.iter().map(|job| reasons(job, all)).collect();
    let trials = all.iter().flat_map(|one| &one.trials);
    let failures = trials.filter_map(|trial| Some((&trial.target, trial.outcome.as_ref().err()?)));
    let refused = unmeasured.len() == asked.len() && all_refuse(failures);
    Some(Error::Finding {
        kind: if refused { ErrorKind::Usage } else { ErrorKind::WorkFailed },
        message: format!("not measured: {}", told.join("; ")),
        advice: Some(if let Some(needed) = needed {
            budget_advice(needed)
        } else if refused {
            "see that the model is what you mean, and that its operators are known to an engine".to_owned()
        } else {
            "`siliconroute doctor` shows what is wrong with a target; `siliconroute devices` lists all targets".to_owned()
        }),
    })
}

/// The most parts of a campaign that a message names.
const NAMED: usize = 8;

/// An interrupt, with what it kept from being measured.
pub(super) fn interrupted(missing: &[Missing]) -> Error {
    let usual = Error::Interrupted;
    if missing.is_empty() {
        return usual;
    }
    let mut named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        named.push(format!("{} more", missing.len() - NAMED));
    }
    let message = format!("{usual}; missing: {}", named.join("; "));
    Error::Finding { kind: ErrorKind::Interrupted, message, advice: usual.hint() }
}

/// Tells what failed beside measurements of the same case; what was not measured at all is the failure.
pub(super) fn tell_failures(output: &Output, all: &[Configuration<'_>]) {
    for one in all.iter().filter(|one| is_measured(one.job, all)) {
        if let Some(failure) = one.failure() {
            output.note(format!("not measured: {} on {}: {}", label(one.job), one.target, brief(&failure)));
        }
    }
}

/// What budget would do. Cut samples and warm-ups fit into less, but how little the machine decides.
pub(super) fn budget_advice(needed: Duration) -> String {
    let seconds = needed.as_secs_f64().ceil().max(1.0);
    format!(
        "all of it takes about {seconds:.0} s, as --plan shows case by case: give --budget {seconds:.0}, or fewer cases"
    )
}

fn is_same(one: &Job, other: &Job) -> bool {
    one.case.id == other.case.id && one.workload == other.workload
}

fn is_measured(job: &Job, all: &[Configuration<'_>]) -> bool {
    all.iter().any(|one| one.estimate.is_some() && is_same(one.job, job))
}

fn label(job: &Job) -> String {
    match job.workload {
        Workload::Sustained => job.case.label(),
        other => format!("{} {other}", job.case.label()),
    }
}

/// The case and what each target said of it.
fn reasons(job: &Job, all: &[Configuration<'_>]) -> String {
    let said: Vec<String> = all
        .iter()
        .filter(|one| is_same(one.job, job))
        .filter_map(|one| Some(format!("{}: {}", one.target, brief(&one.failure()?))))
        .collect();
    let why = if said.is_empty() { "the notices above say why".to_owned() } else { said.join(", ") };
    format!("{} ({why})", label(job))
}
