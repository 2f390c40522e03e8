//! `fit`: the hardware models of this machine's targets.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::crossovers::Crossover;
use siliconroute::run::require_target;
use siliconroute_core::Workload;
use siliconroute_core::crossover::{Axis, Finding, Side};
use siliconroute_core::form::{Form, FormError, ParameterStatus, PhysicalParameter};
use siliconroute_core::statistics::Interval;

use super::Session;
use crate::output::{Output, table};

pub(super) fn run(session: &Session<'_>) -> Result<ExitCode, Error> {
    let targets = session.router.targets(&mut session.progress())?;
    require_target(&targets)?;
    let learned = session.router.learn(&targets)?;
    let output = session.output;
    let mut fits = Vec::new();
    for entry in learned.knowledge.targets() {
        for workload in Workload::ALL {
            if let Some(fit) = &entry.fits[workload.index()] {
                fits.push((&entry.target.key, workload, fit));
            }
        }
    }
    let mut spreads = Vec::new();
    for entry in learned.knowledge.targets() {
        for workload in Workload::ALL {
            if let Some(spread) = learned.session_spread(&entry.target.key, workload) {
                spreads.push((&entry.target.key, workload, spread));
            }
        }
    }
    let crossovers = learned.crossovers();
    if output.json {
        let fitted: Vec<_> = fits
            .iter()
            .map(|(target, workload, fit)| json!({"target": target, "workload": workload, "fit": fit}))
            .collect();
        let unfitted: Vec<_> = learned
            .unfitted
            .iter()
            .map(|((target, workload), reason)| json!({"target": target, "workload": workload, "reason": reason}))
            .collect();
        let spreads: Vec<_> = spreads
            .iter()
            .map(|(target, workload, spread)| json!({"target": target, "workload": workload, "session_spread": spread}))
            .collect();
        output.document(&json!({
            "schema": "siliconroute.fits/1", "fits": fitted, "unfitted": unfitted, "session_spreads": spreads,
            "crossovers": crossovers,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut errors = table(&["target", "workload", "form", "#rows", "#F1", "#F2", "#F3", "#F4", "#F5"]);
    let mut parameters = table(&["target", "workload", "parameter", "#value", "#95 % interval", "status"]);
    for (target, workload, fit) in &fits {
        let by_row = |form: Form| match fit.errors.get(&form) {
            Some(FormError::MapePct(error)) => Some(*error),
            Some(FormError::Failed(_)) | None => None,
        };
        let error = |form: Form| {
            let error = fit.model_out_errors.get(&form).copied().or_else(|| by_row(form));
            error.map_or_else(|| "–".to_owned(), |error| format!("{error:.1} %"))
        };
        let mut row =
            vec![target.to_string(), workload.to_string(), fit.form.to_string(), fit.rows.to_string()];
        row.extend(Form::ALL.map(error));
        errors.add_row(row);
        for parameter in &fit.parameters {
            parameters.add_row(parameter_row(target.as_str(), *workload, parameter));
        }
    }
    if fits.is_empty() {
        output.message("nothing is fitted yet: run `siliconroute up --once` first");
    } else {
        output.line(
            "error of each form for models that it was not fitted to, or for cases with fewer than 5 models (mean \
             absolute percentage error); the least one is taken",
        );
        output.table(&errors);
        output.table(&parameters);
    }
    if !spreads.is_empty() {
        output.line("how far sessions of one configuration differ (standard deviation, pooled)");
        let mut listed = table(&["target", "workload", "#spread", "#configurations", "#sessions"]);
        for (target, workload, spread) in &spreads {
            listed.add_row([
                target.to_string(),
                workload.to_string(),
                format!("{:.1} %", spread.spread * 100.0),
                spread.configurations.to_string(),
                spread.sessions.to_string(),
            ]);
        }
        output.table(&listed);
    }
    print_crossovers(output, &crossovers);
    if !learned.unfitted.is_empty() {
        let mut unfitted = table(&["target", "workload", "not fitted because"]);
        for ((target, workload), reason) in &learned.unfitted {
            unfitted.add_row([target.as_str(), workload, reason]);
        }
        output.table(&unfitted);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints where targets change places, for pairs of which either is the fastest somewhere.
fn print_crossovers(output: &Output, crossovers: &[Crossover]) {
    let mut listed =
        table(&["series", "workload", "axis", "faster below", "#from", "faster above", "#measured between"]);
    let mut rows = 0;
    for crossover in crossovers.iter().filter(|it| it.decides) {
        let axis = match crossover.axis {
            Axis::Parameters => "parameters",
            Axis::Batch => "batch",
        };
        let series = [crossover.series.clone(), crossover.workload.to_string(), axis.to_owned()];
        let told: Vec<[String; 4]> = match &crossover.finding {
            Finding::NotSeparable => Vec::new(),
            Finding::AlwaysFaster(side) => {
                let slower = crossover.target(if *side == Side::First { Side::Second } else { Side::First });
                let never = format!("never {slower}");
                vec![[crossover.target(*side).to_string(), "always".to_owned(), never, "–".to_owned()]]
            }
            Finding::Crosses(crossings) => crossings
                .iter()
                .map(|it| {
                    let above = if it.below == Side::First { Side::Second } else { Side::First };
                    let Interval { low, high } = it.between;
                    let beyond = if it.extrapolated { " (beyond the measured range)" } else { "" };
                    [
                        crossover.target(it.below).to_string(),
                        significant(it.at),
                        crossover.target(above).to_string(),
                        format!("{} – {}{beyond}", significant(low), significant(high)),
                    ]
                })
                .collect(),
        };
        for row in told {
            listed.add_row(series.iter().cloned().chain(row));
            rows += 1;
        }
    }
    if rows > 0 {
        output.line("where targets change places; pairs that nothing tells apart are left out");
        output.table(&listed);
    }
}

fn parameter_row(target: &str, workload: Workload, parameter: &PhysicalParameter) -> [String; 6] {
    let dash = || "–".to_owned();
    let status = match parameter.status {
        ParameterStatus::Reliable => "reliable",
        ParameterStatus::NotReliable => "not reliable",
        ParameterStatus::NotSeparable => "not separable",
        ParameterStatus::AtCeiling => "at the chip's limit",
    };
    [
        target.to_owned(),
        workload.to_string(),
        parameter.name.clone(),
        parameter.value.map_or_else(dash, significant),
        parameter.interval.map_or_else(dash, interval),
        status.to_owned(),
    ]
}

/// An interval, unless its ends lie so far apart that they tell nothing. A rate or an overhead may well be 0, so
/// a lower end of 0 still tells how large it can be.
fn interval(interval: Interval) -> String {
    if interval.low > 0.0 && interval.high > interval.low * 1e3 {
        return "too wide to tell".to_owned();
    }
    format!("{} – {}", significant(interval.low), significant(interval.high))
}

/// Three significant digits.
fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (2.0 - value.abs().max(1e-12).log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_beyond_a_factor_of_a_thousand_is_too_wide_to_tell() {
        #[track_caller]
        fn check(low: f64, high: f64, expected: &str) {
            assert_eq!(interval(Interval { low, high }), expected);
        }
        check(1.0, 2.0, "1.00 – 2.00");
        check(0.0, 2.0, "0 – 2.00");
        check(1.0, 1001.0, "too wide to tell");
        check(1e-12, 2.0, "too wide to tell");
    }
}
