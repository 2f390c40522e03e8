//! `bench`: measures models on targets and prints what was measured.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use siliconroute::campaign::all_refuse;
use siliconroute::discovery::Found;
use siliconroute::event::{Event, Listener as _, Stage};
use siliconroute::measure::{Job, Order};
use siliconroute::settings::parse_workload;
use siliconroute::{Error, ErrorKind, Targets};
use siliconroute_core::statistics::{Summary, summarise};
use siliconroute_core::trial::{OutputCheck, Purpose, Sample, Trial};
use siliconroute_core::{Reading, TargetKey, Workload};

use super::Session;
use crate::arguments::{Bench, Format};
use crate::output::{milliseconds, table};

/// A measured trial beside the job that it belongs to.
struct Row<'a> {
    job: &'a Job,
    trial: &'a Trial,
    summary: Option<Summary>,
}

pub(super) fn run(session: &Session<'_>, arguments: &Bench) -> Result<ExitCode, Error> {
    let workload = parse_workload(&arguments.workload).ok_or_else(|| {
        let names = Workload::ALL.map(|workload| format!("`{workload}`")).join(", ");
        Error::Usage(format!("unknown workload `{}`; there are {names}", arguments.workload))
    })?;
    let mut sampling = session.router.sampling();
    sampling.warmup_calls = arguments.warmup;
    sampling.fixed_iterations = arguments.iterations;
    if let Some(seconds) = arguments.time {
        sampling.budget = Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| {
            Error::Usage(format!("--time {seconds} is no length of time; give seconds, such as 0.5"))
        })?;
        sampling.hard_limit = sampling.hard_limit.max(sampling.budget);
    }
    let mut progress = session.progress();
    let targets = session.router.targets(&mut progress)?;
    let chosen = select(&targets, &arguments.device)?;
    let jobs = jobs(session, arguments, workload, &chosen)?;
    progress.event(Event::Begin { stage: Stage::Learning, steps: Some(jobs.len() as u64) });
    let measured =
        session.router.measure(&jobs, &targets, &Order::new(Purpose::Bench, &sampling), &mut progress)?;
    progress.event(Event::End(String::new()));
    let rows: Vec<Row<'_>> = jobs
        .iter()
        .flat_map(|job| measured.of_case(job.case.id).map(move |trial| (job, trial)))
        .map(|(job, trial)| Row { job, trial, summary: summary(trial) })
        .collect();
    if !rows.is_empty() || !measured.interrupted {
        print(session, arguments, &rows);
    }
    if measured.interrupted {
        return Err(Error::Interrupted);
    }
    if rows.iter().any(|row| row.summary.is_some()) {
        return Ok(ExitCode::SUCCESS);
    }
    let failures = rows.iter().filter_map(|row| Some((&row.trial.target, row.trial.outcome.as_ref().err()?)));
    let kind = if all_refuse(failures) { ErrorKind::Usage } else { ErrorKind::WorkFailed };
    Ok(ExitCode::from(kind.exit_code()))
}

fn jobs(
    session: &Session<'_>,
    arguments: &Bench,
    workload: Workload,
    chosen: &[TargetKey],
) -> Result<Vec<Job>, Error> {
    let batches: Vec<Option<u64>> = match arguments.batch.as_slice() {
        [] => vec![None],
        batches => batches.iter().copied().map(Some).collect(),
    };
    let mut jobs: Vec<Job> = Vec::new();
    for reference in &arguments.models {
        for &batch in &batches {
            let (model, case) = session.case(reference, batch, &arguments.shape)?;
            if !jobs.iter().any(|job| job.case.id == case.id) {
                jobs.push(Job { model, case, workload, targets: chosen.to_vec() });
            }
        }
    }
    Ok(jobs)
}

/// The targets that the words of `--device` mean.
fn select(targets: &Targets, words: &[String]) -> Result<Vec<TargetKey>, Error> {
    let mut chosen: Vec<TargetKey> = Vec::new();
    for word in words {
        let matching: Vec<&Found> = match super::chip_kind(word) {
            Some(kind) => targets.of_kind(kind)?,
            None if word == "auto" => targets.discovery.available().collect(),
            None => vec![targets.get(word)?],
        };
        for found in matching {
            if !chosen.contains(&found.target.key) {
                chosen.push(found.target.key.clone());
            }
        }
    }
    Ok(chosen)
}

fn summary(trial: &Trial) -> Option<Summary> {
    let times: Vec<f64> = trial.outcome.as_ref().ok()?.samples.iter().map(Sample::per_call_ns).collect();
    summarise(&times)
}

fn print(session: &Session<'_>, arguments: &Bench, rows: &[Row<'_>]) {
    let output = session.output;
    let format = if output.json { Format::Json } else { arguments.output };
    match format {
        Format::Json => match rows {
            [only] => output.document(&document(only)),
            _ => {
                let results: Vec<Value> = rows.iter().map(document).collect();
                output.document(&json!({"schema": "siliconroute.bench/1", "results": results}));
            }
        },
        Format::Table => {
            let mut listed = table(COLUMNS);
            for row in rows {
                listed.add_row(cells(row));
            }
            output.table(listed);
        }
        Format::Md => {
            let names: Vec<&str> = COLUMNS.iter().map(|name| name.trim_start_matches('#')).collect();
            output.line(format!("| {} |", names.join(" | ")));
            output.line(format!("|{}", " --- |".repeat(COLUMNS.len())));
            for row in rows {
                output.line(format!("| {} |", cells(row).map(|cell| cell.replace('|', "\\|")).join(" | ")));
            }
        }
        Format::Csv => print_csv(session, rows),
    }
}

const COLUMNS: &[&str] =
    &["model", "target", "#median", "#95 % interval", "#spread", "#samples", "#calls/s", "outputs", "note"];

fn cells(row: &Row<'_>) -> [String; 9] {
    let dash = || "–".to_owned();
    let (model, target) = (row.job.case.label(), row.trial.target.to_string());
    let Some(summary) = &row.summary else {
        let note =
            row.trial.outcome.as_ref().err().map_or_else(|| "no samples".to_owned(), ToString::to_string);
        return [model, target, dash(), dash(), dash(), dash(), dash(), dash(), note];
    };
    let ms = |ns: f64| milliseconds(ns / 1e6);
    [
        model,
        target,
        ms(summary.median_ns),
        summary.interval.map_or_else(dash, |i| format!("{} – {}", ms(i.low), ms(i.high))),
        summary.robust_spread.map_or_else(dash, |spread| format!("{:.0} %", spread * 100.0)),
        summary.samples.to_string(),
        format!("{:.1}", 1e9 / summary.median_ns),
        outputs(row.trial),
        note(row.trial, summary),
    ]
}

fn outputs(trial: &Trial) -> String {
    match trial.outcome.as_ref().map(|measurement| &measurement.outputs) {
        Ok(OutputCheck::Reference) => "reference".to_owned(),
        Ok(OutputCheck::Compared { difference, .. }) => {
            let class = difference.class().map_or_else(|| "fails all".to_owned(), |class| class.to_string());
            format!("{class} ({:.0e})", difference.max_relative_error)
        }
        Ok(OutputCheck::Faulty { fault, .. }) => format!("wrong: {fault}"),
        Ok(OutputCheck::NotCompared { .. }) | Err(_) => "not compared".to_owned(),
    }
}

fn note(trial: &Trial, summary: &Summary) -> String {
    let mut notes = Vec::new();
    if summary.unstable {
        notes.push("unstable".to_owned());
    }
    if let Ok(measurement) = &trial.outcome
        && let Reading::Available(placement) = &measurement.placement
        && !placement.fallback.is_empty()
    {
        notes.push(placement.to_string());
    }
    notes.join(", ")
}

fn document(row: &Row<'_>) -> Value {
    let warmup = row.trial.outcome.as_ref().ok().map(|measurement| measurement.warmup_calls);
    let (case, facts) = (&row.job.case, &row.job.case.facts);
    let mut document = json!({
        "schema": "siliconroute.bench/1",
        "benchmark_info": {
            "model_id": case.model, "model": case.model_name, "case_id": case.id, "bindings": case.bindings,
            "target": row.trial.target, "provider": row.trial.target.as_str().rsplit('/').next(),
            "iterations": row.summary.as_ref().map(|summary| summary.samples), "warmup": warmup,
            "batch_size": facts.batch, "workload": row.trial.workload,
            "timestamp": row.trial.started_unix_ms, "seed": row.trial.input_seed,
        },
        "model_info": {
            "input_names": facts.inputs.iter().map(|input| &input.name).collect::<Vec<_>>(),
            "input_shapes": facts.inputs.iter().map(|input| &input.shape).collect::<Vec<_>>(),
            "input_types": facts.inputs.iter().map(|input| input.element).collect::<Vec<_>>(),
            "parameters": facts.parameters, "flops": facts.flops,
        },
        "conditions": serde_json::from_str::<Value>(&row.trial.conditions).unwrap_or(Value::Null),
    });
    match &row.trial.outcome {
        Err(failure) => document["failure"] = json!(failure),
        Ok(measurement) => {
            let ms = |value: f64| value / 1e6;
            if let Some(s) = &row.summary {
                document["latency_ms"] = json!({
                    "mean": ms(s.mean_ns), "p50": ms(s.median_ns), "p90": s.p90_ns.map(ms), "p95": s.p95_ns.map(ms),
                    "p99": s.p99_ns.map(ms), "min": ms(s.min_ns), "max": ms(s.max_ns),
                    "std": s.standard_deviation_ns.map(ms), "robust_spread": s.robust_spread,
                    "unstable": s.unstable,
                    "ci95_low": s.interval.map(|i| ms(i.low)), "ci95_high": s.interval.map(|i| ms(i.high)),
                });
                let per_second = facts.batch as f64 * 1e9 / s.median_ns;
                document["throughput"] = json!({"samples_per_sec": per_second});
            }
            let samples = measurement.samples.iter();
            document["raw_samples_ms"] = samples.map(|sample| ms(sample.per_call_ns())).collect();
            document["calls_per_sample"] = json!(measurement.samples.first().map(|sample| sample.calls));
            document["session_create_ms"] = json!(ms(measurement.session_create_ns as f64));
            document["first_run_ms"] = json!(ms(measurement.first_run_ns as f64));
            document["placement"] = match &measurement.placement {
                Reading::Available(placement) => json!({
                    "nodes": placement.nodes(), "on_target": placement.on_target, "fallback": placement.fallback,
                }),
                Reading::Unavailable(reason) => json!({"unavailable": reason}),
            };
            document["outputs"] = match &measurement.outputs {
                OutputCheck::Compared { difference, reference } => json!({
                    "check": "compared", "max_rel_err": difference.max_relative_error, "class": difference.class(), "reference": reference,
                }),
                other => json!(other),
            };
            document["memory"] = json!({"peak_resident_bytes": measurement.peak_resident_bytes});
            document["busy_cores"] = json!(measurement.busy_cores);
        }
    }
    document
}

const CSV_COLUMNS: &str = "model,bindings,target,median_ms,ci95_low_ms,ci95_high_ms,p95_ms,min_ms,max_ms,\
    samples,spread_pct,calls_per_s,outputs,accuracy_class,max_rel_err,note,failure";

fn print_csv(session: &Session<'_>, rows: &[Row<'_>]) {
    let output = session.output;
    output.line(CSV_COLUMNS);
    for row in rows {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let number = |value: Option<f64>| value.map_or_else(String::new, |ns| format!("{:.6}", ns / 1e6));
        let summary = row.summary.as_ref();
        let failure = row.trial.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let (outputs, class, max_rel_err) = outputs_in_fields(row.trial);
        let fields = [
            quote(&row.job.case.model_name),
            quote(&row.job.case.bindings.to_string()),
            quote(row.trial.target.as_str()),
            number(summary.map(|s| s.median_ns)),
            number(summary.and_then(|s| s.interval).map(|i| i.low)),
            number(summary.and_then(|s| s.interval).map(|i| i.high)),
            number(summary.and_then(|s| s.p95_ns)),
            number(summary.map(|s| s.min_ns)),
            number(summary.map(|s| s.max_ns)),
            summary.map_or_else(String::new, |s| s.samples.to_string()),
            summary.and_then(|s| s.robust_spread).map_or_else(String::new, |s| format!("{:.2}", s * 100.0)),
            summary.map_or_else(String::new, |s| format!("{:.3}", 1e9 / s.median_ns)),
            outputs.to_owned(),
            class,
            max_rel_err,
            quote(&summary.map_or_else(String::new, |s| note(row.trial, s))),
            quote(&failure),
        ];
        output.line(fields.join(","));
    }
}

/// How the outputs were checked, the class that they satisfy, and their error; empty where there is none.
fn outputs_in_fields(trial: &Trial) -> (&'static str, String, String) {
    let none = String::new;
    match trial.outcome.as_ref().map(|measurement| &measurement.outputs) {
        Ok(OutputCheck::Reference) => ("reference", none(), none()),
        Ok(OutputCheck::Compared { difference, .. }) => {
            let class = difference.class().map_or_else(|| "none".to_owned(), |class| class.to_string());
            ("compared", class, format!("{:e}", difference.max_relative_error))
        }
        Ok(OutputCheck::Faulty { .. }) => ("faulty", "none".to_owned(), none()),
        Ok(OutputCheck::NotCompared { .. }) | Err(_) => ("not_compared", none(), none()),
    }
}
