//! `bench`: measures models on targets and prints what was measured.

mod batches;
mod configuration;
mod document;
mod ending;
mod energy;
mod listing;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use siliconroute::campaign::Sampling;
use siliconroute::compare::{Compared, compare_targets, judge_all, suspicion};
use siliconroute::discovery::Found;
use siliconroute::event::{Event, Listener as _, Stage};
use siliconroute::measure::{CampaignId, Job, Measured, Missing, Order};
use siliconroute::plan::Plan;
use siliconroute::run::require_target;
use siliconroute::settings::parse_workload;
use siliconroute::{Error, Targets};
use siliconroute_core::statistics::Replication;
use siliconroute_core::target::SessionSettings;
use siliconroute_core::trial::{FileCache, Preparation, Purpose};
use siliconroute_core::{Case, TargetKey, Workload};

use self::configuration::{Configuration, configurations};
use super::Session;
use crate::arguments::{Bench, Format, LONGEST_REST_S};
use crate::output::table;

/// How narrow the interval of a median is to be.
const PRECISION_PERCENT: f64 = 2.0;

/// What the samples of one trial may take beyond the least number.
const SAMPLES_SECONDS: f64 = 10.0;

/// Samples of a trial before its precision is looked at.
const LEAST_SAMPLES: u32 = 64;

pub(super) fn run(session: &Session<'_>, arguments: &Bench) -> Result<ExitCode, Error> {
    if let Some((first, second)) = campaigns(&arguments.compare)? {
        return compare_campaigns(session, first, second);
    }
    if arguments.models.is_empty() {
        return Err(Error::Usage("name what to measure with --model".to_owned()));
    }
    let (sampling, workloads) = (sampling(session, arguments)?, workloads(&arguments.workload)?);
    let batches = batches::parse(&arguments.batch)?;
    let budget = arguments.budget.map(|seconds| time("--budget", seconds)).transpose()?;
    let mut progress = session.progress();
    let targets = session.router.targets(&mut progress)?;
    require_target(&targets)?;
    let chosen = choose(&targets, arguments)?;
    let jobs = jobs(session, arguments, (&batches, &workloads), (&targets, &chosen))?;
    // A comparison goes on until sessions that differ no longer hide what it is to find.
    let replication =
        (!arguments.compare.is_empty() && arguments.sessions.is_none()).then(Replication::default);
    let is_usual = |rest: &Duration| {
        u64::try_from(rest.as_nanos()).is_ok_and(|gap_ns| Preparation::Rested { gap_ns }.is_usual())
    };
    if workloads.contains(&Workload::IdleLoaded) && !sampling.rests.iter().any(is_usual) {
        progress.event(Event::Notice(
            "decisions for the idle-loaded workload rest on times after 10 s; other rests tell how a target wakes, from three of them on"
                .to_owned(),
        ));
    }
    let mut order = Order { budget, replication, ..Order::new(Purpose::Bench, &sampling) };
    if arguments.plan {
        let plan = session.router.plan(&jobs, &targets, &order)?;
        print_plan(session, &plan, budget);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.resume {
        order.resumed = session.router.interrupted_benchmark(&jobs, &order)?;
        if order.resumed.is_none() {
            progress.event(Event::Notice(
                "no benchmark of these arguments was stopped before its end".to_owned(),
            ));
        }
    }
    progress.event(Event::Begin { stage: Stage::Learning, steps: Some(jobs.len() as u64) });
    let measured =
        session.router.measure(&jobs, &targets, &order, &mut progress).map_err(|error| match error {
            // It waited for another program, so nothing was measured at all.
            Error::Interrupted => ending::interrupted(&Missing::all(&jobs)),
            other => other,
        })?;
    progress.event(Event::End(String::new()));
    let all = configurations(&jobs, &measured);
    let compared = compare(arguments, &all, &measured, &chosen);
    let needed = match budget {
        Some(_) if measured.out_of_time => Some(session.router.plan(&jobs, &targets, &order)?.expected()),
        _ => None,
    };
    let failure = ending::failure(&jobs, &all, &measured, needed);
    if session.output.json {
        let document = document::document(&all, &measured, &compared, arguments.energy);
        session.output.document_with(document, failure.as_ref());
    } else if !all.is_empty() || !measured.interrupted {
        print(session, arguments, &all, &measured, &compared);
        tell_session_spreads(session, &targets, &all)?;
    }
    ending::tell_failures(session.output, &all);
    if let (Some(needed), None) = (needed, &failure) {
        session.output.note(ending::budget_advice(needed));
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The sampling that the arguments ask for.
fn sampling(session: &Session<'_>, arguments: &Bench) -> Result<Sampling, Error> {
    let precision = arguments.precision.unwrap_or(PRECISION_PERCENT);
    if !(precision > 0.0 && precision <= 100.0) {
        return Err(Error::Usage(format!("--precision {precision} must be over 0 and at most 100 percent")));
    }
    let usual = Sampling::default();
    let limit = time("--time", arguments.time.unwrap_or(SAMPLES_SECONDS))?;
    if let Some(rest) = arguments.rests.iter().find(|rest| **rest > LONGEST_REST_S) {
        return Err(Error::Usage(format!("--rests {rest} is over {LONGEST_REST_S} seconds")));
    }
    let rests: Vec<Duration> =
        arguments.rests.iter().map(|&rest| time("--rests", rest)).collect::<Result<_, _>>()?;
    let file = |word: &String| match word.as_str() {
        "warm" => Ok(FileCache::Warm),
        "dropped" => Ok(FileCache::Dropped),
        other => Err(Error::Usage(format!("--files {other} is neither `warm` nor `dropped`"))),
    };
    let files: Vec<FileCache> = arguments.files.iter().map(file).collect::<Result<_, _>>()?;
    let sampling = Sampling {
        warmup_calls: arguments.warmup,
        fixed_iterations: arguments.iterations,
        precision: precision / 100.0,
        min_samples: LEAST_SAMPLES,
        rounds: usual.rounds,
        budget: limit,
        hard_limit: limit.max(session.router.sampling().hard_limit),
        repetitions: arguments.repetitions.unwrap_or(usual.repetitions),
        rests: if rests.is_empty() { usual.rests } else { rests },
        cold_files: if files.is_empty() { usual.cold_files } else { files },
        energy: energy::windows(arguments)?,
        ..session.router.sampling()
    };
    Ok(if arguments.compare.is_empty() { sampling } else { sampling.for_comparison() })
}

fn time(flag: &str, seconds: f64) -> Result<Duration, Error> {
    let unfit = || Error::Usage(format!("{flag} {seconds} is no length of time; give seconds, such as 0.5"));
    let time = Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| unfit())?;
    if time.is_zero() { Err(unfit()) } else { Ok(time) }
}

/// The targets to measure, the one that others are compared with first.
fn choose(targets: &Targets, arguments: &Bench) -> Result<Vec<TargetKey>, Error> {
    let mut chosen = match &arguments.compare[..] {
        [] => select(targets, &arguments.device)?,
        // The second one of the two is what the first is compared with.
        [first, second] if first == second => {
            vec![targets.resolve(second)?.target.key, targets.resolve(&format!("{first}+again"))?.target.key]
        }
        [first, second] => vec![targets.resolve(second)?.target.key, targets.resolve(first)?.target.key],
        _ => return Err(two_to_compare()),
    };
    if let Some(sessions) = arguments.concurrency {
        for key in &mut chosen {
            let (base, mut settings) =
                SessionSettings::split(key.as_str()).map_err(|error| Error::Usage(error.to_string()))?;
            settings.concurrency = Some(sessions);
            *key = settings.apply(targets.get(base.as_str())?.target.clone()).key;
        }
    }
    Ok(chosen)
}

fn two_to_compare() -> Error {
    Error::Usage("--compare takes two targets or two campaigns, separated by a comma".to_owned())
}

/// The campaigns to compare, where both words are numbers.
fn campaigns(words: &[String]) -> Result<Option<(CampaignId, CampaignId)>, Error> {
    let number = |word: &String| word.parse::<i64>().ok().map(CampaignId);
    match words {
        [] => Ok(None),
        [first, second] => match (number(first), number(second)) {
            (Some(first), Some(second)) if first == second => {
                Err(Error::Usage(format!("--compare names campaign {first} twice; it equals itself")))
            }
            (Some(first), Some(second)) => Ok(Some((first, second))),
            (None, None) => Ok(None),
            _ => Err(two_to_compare()),
        },
        _ => Err(two_to_compare()),
    }
}

fn jobs(
    session: &Session<'_>,
    arguments: &Bench,
    (batches, workloads): (&[u64], &[Workload]),
    (targets, chosen): (&Targets, &[TargetKey]),
) -> Result<Vec<Job>, Error> {
    let batches: Vec<Option<u64>> = match batches {
        [] => vec![None],
        batches => batches.iter().copied().map(Some).collect(),
    };
    let mut cases: Vec<Job> = Vec::new();
    for reference in &arguments.models {
        for &batch in &batches {
            let (model, case) = session.case(reference, batch, &arguments.shape)?;
            if cases.iter().any(|job| job.case.id == case.id) {
                continue;
            }
            let chosen = tuned(session, arguments, targets, (chosen, &case))?;
            for &workload in workloads {
                let (model, case) = (model.clone(), case.clone());
                cases.push(Job { model, case, workload, targets: chosen.clone() });
            }
        }
    }
    let usual = if arguments.compare.is_empty() { 1 } else { Replication::default().least };
    let sessions = arguments.sessions.map_or(usual, |sessions| sessions as usize);
    // All of the first sessions before any second one, so that what passes with time falls on all alike.
    Ok(std::iter::repeat_n(cases, sessions).flatten().collect())
}

/// The targets for one case: those that no word names take the settings that tuning found for it.
fn tuned(
    session: &Session<'_>,
    arguments: &Bench,
    targets: &Targets,
    (chosen, case): (&[TargetKey], &Case),
) -> Result<Vec<TargetKey>, Error> {
    if !arguments.compare.is_empty() || arguments.concurrency.is_some() {
        return Ok(chosen.to_vec());
    }
    let tuned = session.router.tuned_targets(targets, case)?;
    for notice in tuned.notices {
        session.progress().event(Event::Notice(notice));
    }
    let in_place = |key: &TargetKey| {
        let named = arguments.device.iter().any(|word| word == key.as_str());
        if named { key.clone() } else { tuned.targets.in_place_of(key).clone() }
    };
    Ok(chosen.iter().map(in_place).collect())
}

fn workloads(words: &[String]) -> Result<Vec<Workload>, Error> {
    let mut chosen = Vec::new();
    for word in words {
        let meant: &[Workload] = match (word.as_str(), parse_workload(word)) {
            ("all", _) => &Workload::ALL,
            (_, Some(workload)) => &[workload],
            (_, None) => {
                let names = Workload::ALL.map(|workload| format!("`{workload}`")).join(", ");
                return Err(Error::Usage(format!("unknown workload `{word}`; there are {names} and `all`")));
            }
        };
        for workload in meant {
            if !chosen.contains(workload) {
                chosen.push(*workload);
            }
        }
    }
    Ok(chosen)
}

/// The targets that the words of `--device` mean.
fn select(targets: &Targets, words: &[String]) -> Result<Vec<TargetKey>, Error> {
    let mut chosen: Vec<TargetKey> = Vec::new();
    for word in words {
        let matching: Vec<&Found> = match super::chip_kind(word) {
            Some(kind) => targets.of_kind(kind)?,
            None if word == "auto" => targets.discovery.available().collect(),
            None => {
                let key = targets.resolve(word)?.target.key;
                if !chosen.contains(&key) {
                    chosen.push(key);
                }
                continue;
            }
        };
        for found in matching {
            if !chosen.contains(&found.target.key) {
                chosen.push(found.target.key.clone());
            }
        }
    }
    Ok(chosen)
}

/// The comparison that was asked for, on every case.
fn compare(
    arguments: &Bench,
    all: &[Configuration<'_>],
    measured: &Measured,
    chosen: &[TargetKey],
) -> Vec<Compared> {
    let ([second, first], false) = (chosen, arguments.compare.is_empty()) else { return Vec::new() };
    let mut compared: Vec<Compared> = all
        .iter()
        .filter(|one| one.target == second)
        .map(|one| Compared {
            case: one.job.case.label(),
            workload: one.job.workload,
            preparation: one.preparation,
            first: first.to_string(),
            second: second.to_string(),
            comparison: compare_targets(
                &measured.trials,
                one.job.case.id,
                (one.job.workload, one.preparation),
                first,
                second,
            ),
            suspect: [first, second]
                .into_iter()
                .find_map(|target| suspicion(&measured.trials, target, one.job.case.id)),
        })
        .collect();
    judge_all(&mut compared);
    compared
}

fn compare_campaigns(
    session: &Session<'_>,
    first: CampaignId,
    second: CampaignId,
) -> Result<ExitCode, Error> {
    let compared = session.router.compare_campaigns(first, second)?;
    if compared.is_empty() {
        return Err(Error::Usage(format!(
            "campaigns {first} and {second} have no case, target and workload in common"
        )));
    }
    let output = session.output;
    if output.json {
        output.document(&json!({"schema": "siliconroute.bench/1", "results": [], "comparisons": compared}));
    } else {
        print_verdicts(session, &compared);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(
    session: &Session<'_>,
    arguments: &Bench,
    all: &[Configuration<'_>],
    measured: &Measured,
    compared: &[Compared],
) {
    let output = session.output;
    match arguments.output {
        Some(Format::Csv) => listing::print_csv(output, all),
        Some(Format::Md) => {
            listing::print_markdown(output, all, arguments.energy);
            if !compared.is_empty() {
                output.line("");
            }
            print_verdicts(session, compared);
        }
        // A document is printed elsewhere.
        Some(Format::Table | Format::Json) | None => {
            listing::print_table(output, all, arguments.energy);
            print_verdicts(session, compared);
            output.line(format!("campaign {}", measured.campaign));
        }
    }
    if arguments.energy {
        energy::tell_absences(output, all);
    }
}

/// Tells how far sessions differ where only one of each was measured, whose interval knows nothing of that.
fn tell_session_spreads(
    session: &Session<'_>,
    targets: &Targets,
    all: &[Configuration<'_>],
) -> Result<(), Error> {
    let alone: BTreeSet<(&TargetKey, Workload)> = all
        .iter()
        .filter(|one| {
            one.trials.len() == 1 && one.summaries.len() == 1 && one.job.workload != Workload::ColdStart
        })
        .map(|one| (one.target, one.job.workload))
        .collect();
    if alone.is_empty() {
        return Ok(());
    }
    let learned = session.router.learn(targets)?;
    let known = alone
        .into_iter()
        .map(|(target, workload)| (format!("{target} {workload}"), learned.session_spread(target, workload)));
    session.output.note(listing::session_spreads(known));
    Ok(())
}

fn print_verdicts(session: &Session<'_>, compared: &[Compared]) {
    for pair in compared {
        let what = format!("{} {}", pair.case, pair.workload);
        let sentence = match (&pair.comparison, &pair.suspect) {
            (Some(comparison), Some(suspect)) => {
                let numbers = listing::sentence(&pair.first, &pair.second, comparison);
                format!("{numbers}: {suspect}")
            }
            (Some(comparison), None) => listing::sentence(&pair.first, &pair.second, comparison),
            (None, _) => {
                format!("{} and {} cannot be compared: one has no measurement", pair.first, pair.second)
            }
        };
        session.output.line(format!("{what}: {sentence}"));
    }
}

fn print_plan(session: &Session<'_>, plan: &Plan, budget: Option<Duration>) {
    let expected_s = plan.expected().as_secs_f64();
    if session.output.json {
        session.output.document(&json!({
            "schema": "siliconroute.plan/1", "jobs": plan.jobs, "expected_s": expected_s,
            "budget_s": budget.map(|budget| budget.as_secs_f64()),
        }));
        return;
    }
    let mut listed = table(&["case", "workload", "#targets", "#seconds", "reckoned from"]);
    for job in &plan.jobs {
        let source = if job.known { "measurements and fits" } else { "the model's work" };
        listed.add_row([
            job.case.clone(),
            job.workload.to_string(),
            job.targets.len().to_string(),
            format!("{:.1}", job.expected_s),
            source.to_owned(),
        ]);
    }
    session.output.table(&listed);
    session.output.line(format!("about {expected_s:.0} s in all"));
    if let Some(budget) = budget.map(|budget| budget.as_secs_f64()).filter(|budget| *budget < expected_s) {
        session.output.line(format!(
            "that is more than the budget of {budget} s, so warm-ups and samples are cut to fit it"
        ));
    }
}
