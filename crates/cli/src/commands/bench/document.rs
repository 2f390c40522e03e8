//! The measurements as JSON documents.
//!
//! Invariant: what is absent is null or an object with the reason, never 0.

use serde_json::{Value, json};
use siliconroute::compare::{Compared, times_ns};
use siliconroute::measure::{Job, Measured};
use siliconroute_core::Reading;
use siliconroute_core::statistics::summarise;
use siliconroute_core::trial::{Before, OutputCheck, Trial};

use super::configuration::Configuration;

/// The document of a benchmark: that of the only trial, or all of them with what is known of them together.
pub(super) fn document(
    configurations: &[Configuration<'_>],
    measured: &Measured,
    compared: &[Compared],
    energy: bool,
) -> Value {
    let result = |job: &Job, trial: &Trial| {
        let mut result = trial_document(job, trial);
        if energy {
            result["energy"] = super::energy::document(trial);
        }
        result
    };
    let mut results: Vec<Value> =
        configurations.iter().flat_map(|one| one.trials.iter().map(|trial| result(one.job, trial))).collect();
    if let [only] = &mut results[..]
        && compared.is_empty()
    {
        only["interrupted"] = json!(measured.interrupted);
        only["missing"] = json!(measured.missing);
        only["notices"] = json!(measured.notices);
        return only.take();
    }
    json!({
        "schema": "siliconroute.bench/1",
        "campaign": measured.campaign.to_string(),
        "interrupted": measured.interrupted,
        "missing": measured.missing,
        "notices": measured.notices,
        "results": results,
        "configurations": configurations.iter().map(configuration_document).collect::<Vec<_>>(),
        "comparisons": compared,
    })
}

fn configuration_document(one: &Configuration<'_>) -> Value {
    let ms = |ns: f64| ns / 1e6;
    let interval = one.interval();
    let parts: serde_json::Map<String, Value> = one
        .cold_parts()
        .into_iter()
        .map(|(name, ns)| (format!("{}_ms", name.replace(' ', "_")), json!(ms(ns))))
        .collect();
    json!({
        "case_id": one.job.case.id, "model": one.job.case.model_name, "bindings": one.job.case.bindings,
        "workload": one.job.workload, "preparation": one.preparation, "target": one.target,
        "sessions": one.summaries.len(), "samples": one.samples(),
        "median_ms": one.median_ns().map(ms),
        "ci_low_ms": interval.map(|it| ms(it.low)), "ci_high_ms": interval.map(|it| ms(it.high)),
        "ci_confidence": match &one.summaries[..] {
            [_] => interval.map(|_| 0.95),
            _ => one.estimate.and_then(|estimate| estimate.confidence),
        },
        "shortest_session_median_ms": one.estimate.map(|estimate| ms(estimate.shortest)),
        "session_spread": one.estimate.and_then(|estimate| estimate.spread),
        "p95_ms": one.p95_ns().map(ms),
        "samples_per_sec": one.items_per_second(),
        "against_first": one.against_first, "suspect": one.suspicion(),
        "cold_start": if parts.is_empty() { Value::Null } else { Value::Object(parts) },
        "peak_resident_bytes": one.peak_resident_bytes(), "session_bytes": one.session_bytes(),
        "device_bytes": one.device_bytes(),
        "notes": one.notes(), "failure": one.failure(),
    })
}

/// The document of one trial.
pub(super) fn trial_document(job: &Job, trial: &Trial) -> Value {
    let summary = summarise(&times_ns(trial));
    let warmup = trial.outcome.as_ref().ok().map(|measurement| measurement.warmup_calls);
    // Every call that was timed, of which a sample of a short inference holds many.
    let calls = trial.outcome.as_ref().ok().map(|measurement| {
        measurement.samples.iter().fold(0, |sum: u64, sample| sum.saturating_add(sample.calls.into()))
    });
    let (case, facts) = (&job.case, &job.case.facts);
    let mut document = json!({
        "schema": "siliconroute.bench/1",
        "benchmark_info": {
            "model_id": case.model, "model": case.model_name, "case_id": case.id, "bindings": case.bindings,
            "target": trial.target, "provider": trial.target.as_str().rsplit('/').next(),
            "iterations": calls, "samples": summary.as_ref().map(|summary| summary.samples), "warmup": warmup,
            "batch_size": facts.batch, "workload": trial.workload,
            "preparation": trial.preparation, "suspect": trial.suspect,
            "timestamp": trial.started_unix_ms, "seed": trial.input_seed,
        },
        "model_info": {
            "input_names": facts.inputs.iter().map(|input| &input.name).collect::<Vec<_>>(),
            "input_shapes": facts.inputs.iter().map(|input| &input.shape).collect::<Vec<_>>(),
            "input_types": facts.inputs.iter().map(|input| input.element).collect::<Vec<_>>(),
            "parameters": facts.parameters, "flops": facts.flops,
        },
        "conditions": serde_json::from_str::<Value>(&trial.conditions).unwrap_or(Value::Null),
    });
    match &trial.outcome {
        Err(failure) => document["failure"] = json!(failure),
        Ok(measurement) => {
            let ms = |value: f64| value / 1e6;
            if let Some(s) = &summary {
                document["latency_ms"] = json!({
                    "mean": ms(s.mean_ns), "p50": ms(s.median_ns), "pseudomedian": s.pseudomedian_ns.map(ms), "p90": s.p90_ns.map(ms), "p95": s.p95_ns.map(ms),
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
            if let Some(s) = &summary {
                document["stability"] = json!({
                    "dependence": s.dependence, "drift": s.drift, "changes": s.changes, "outliers": s.outliers,
                    "robust_deviation_ms": s.robust_deviation_ns.map(ms),
                    "quantiles": s.tails().map(|(name, reading)| json!({name: reading})),
                });
            }
            if measurement.samples.iter().any(|sample| sample.before != Before::Running) {
                document["before_samples"] =
                    measurement.samples.iter().map(|sample| json!(sample.before)).collect();
            }
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
            document["memory"] = json!({
                "peak_resident_bytes": measurement.peak_resident_bytes,
                "session_bytes": measurement.session_bytes,
                "device_bytes": measurement.device_bytes,
            });
            document["busy_cores"] = json!(measurement.busy_cores);
        }
    }
    document
}
