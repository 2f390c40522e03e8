//! `tune`: how many threads are best on this machine, and how work is best divided among them.

use std::process::ExitCode;

use serde_json::{Value, json};
use siliconroute::Error;
use siliconroute::tuning::{Anew, Choice, Measurement, Source, Tuned, Tuning};
use siliconroute_core::chip_figure::{ChipFigure, ChipQuantity};
use siliconroute_core::statistics::median;

use super::{Session, tune_model};
use crate::arguments::Tune;
use crate::output::{Output, count, optional, table};

/// The length of the longest bar.
const BAR_CELLS: f64 = 40.0;

pub(super) fn run(session: &Session<'_>, arguments: &Tune, anew: Anew) -> Result<ExitCode, Error> {
    if let Some(model) = &arguments.model {
        return tune_model::run(session, arguments, model);
    }
    tracing::debug!(asked = arguments.all_policies, "all policies are measured");
    let tuned = session.router.tune(anew, &mut session.progress())?;
    let figures = session.router.cpu_figures()?;
    let output = session.output;
    if output.json {
        let hardware_id = &session.router.machine().hardware_id;
        output.document(&document(hardware_id, &tuned, &figures));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(tuning) = &tuned.tuning {
        print_measurements(output, tuning);
        print_bars(output, tuning);
    }
    print_figures(output, &figures);
    output.line(tuned.summary());
    if let Some(tuning) = tuned.tuning.as_ref().filter(|tuning| tuning.is_tie()) {
        let tied: Vec<String> = tuning.tied.iter().map(describe).collect();
        output.line(format!("cannot be told apart: {}", tied.join("; ")));
    }
    if let Some(tuning) = &tuned.tuning {
        output.line(format!("meanwhile {}; for the figures, {}", tuning.load, tuning.figures_load));
    }
    if let Some(path) = &tuned.kept_in {
        output.line(format!("kept in {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn document(hardware_id: &str, tuned: &Tuned, figures: &[ChipFigure]) -> Value {
    let choice = &tuned.choice;
    let tuning = tuned.tuning.as_ref();
    json!({
        "schema": "siliconroute.tuning/1",
        "hardware_id": hardware_id,
        "threads": choice.threads,
        "policy": choice.policy,
        "place": choice.place,
        "cpus": choice.cpus,
        "tie": tuning.is_some_and(Tuning::is_tie),
        "tied": tuning.map(|tuning| &tuning.tied),
        "best": tuning.map(|tuning| &tuning.best),
        "cached": tuned.source == Source::Kept,
        "source": tuned.source,
        "elapsed_ms": tuned.elapsed_ms,
        "measured_in_ms": tuning.map(|tuning| tuning.elapsed_ms),
        "measured_unix_ms": tuning.map(|tuning| tuning.measured_unix_ms),
        "program": tuning.map(|tuning| &tuning.program),
        "method": tuning.map(|tuning| tuning.method),
        "limits": tuning.map(|tuning| &tuning.limits),
        "work": tuning.map(|tuning| &tuning.work),
        "rounds": tuning.map(|tuning| tuning.rounds),
        "settled": tuning.map(|tuning| tuning.settled),
        "measurements": tuning.map_or(&[][..], |tuning| &tuning.measurements),
        "load": tuning.map(|tuning| &tuning.load),
        "figures": figures,
        "figures_load": tuning.map(|tuning| &tuning.figures_load),
        "kept_in": tuned.kept_in.as_ref().map(|path| path.display().to_string()),
    })
}

fn describe(choice: &Choice) -> String {
    let place = if choice.place == "all" { String::new() } else { format!(" on {}", choice.place) };
    format!("{}{place} {}", choice.threads, choice.policy.name())
}

fn is_of(measurement: &Measurement, choice: &Choice) -> bool {
    (measurement.threads, measurement.policy, &measurement.place)
        == (choice.threads, choice.policy, &choice.place)
}

/// The measurements by place, threads and policy.
fn in_order(tuning: &Tuning) -> Vec<&Measurement> {
    let mut measurements: Vec<&Measurement> = tuning.measurements.iter().collect();
    measurements.sort_by_key(|it| (it.place.clone(), it.threads, it.policy));
    measurements
}

fn print_measurements(output: &Output, tuning: &Tuning) {
    let mut listed = table(&["#threads", "cores", "policy", "#GB/s", "#median", "#runs", ""]);
    for measurement in in_order(tuning) {
        let note = if is_of(measurement, &tuning.choice) {
            "chosen".to_owned()
        } else if tuning.tied.iter().any(|tied| is_of(measurement, tied)) {
            "tie".to_owned()
        } else if let Some(failure) = &measurement.failure {
            failure.clone()
        } else {
            measurement.dropped_after.map_or_else(String::new, |_| "left out as slower".to_owned())
        };
        listed.add_row([
            measurement.threads.to_string(),
            measurement.place.clone(),
            measurement.policy.name().to_owned(),
            optional(measurement.gb_per_s, |rate| format!("{rate:.1}")),
            optional(median(&measurement.samples_ms), crate::output::milliseconds),
            measurement.samples_ms.len().to_string(),
            note,
        ]);
    }
    output.line(format!("{}; {}", tuning.work.name, tuning.work.pages));
    output.table(&listed);
}

/// A bar for each measurement, as long as its rate beside the best.
fn print_bars(output: &Output, tuning: &Tuning) {
    let rates = tuning.measurements.iter().filter_map(|measurement| measurement.gb_per_s);
    let best = rates.fold(0.0, f64::max);
    for measurement in in_order(tuning) {
        let Some(rate) = measurement.gb_per_s.filter(|_| best > 0.0) else { continue };
        let bar = "█".repeat((rate / best * BAR_CELLS).round() as usize);
        let place = if measurement.place == "all" { "" } else { &measurement.place };
        let name = format!("{:>3} {:13} {place}", measurement.threads, measurement.policy.name());
        output.line(format!("{name} {bar} {rate:.1}"));
    }
}

fn print_figures(output: &Output, figures: &[ChipFigure]) {
    let mut listed = table(&["figure of the CPU", "level", "#threads", "#value"]);
    for figure in figures {
        let value = match figure.quantity {
            ChipQuantity::ReadBandwidth => format!("{:.1} GB/s", figure.value / 1e9),
            ChipQuantity::PeakThroughput => format!("{}FLOP/s", count(figure.value)),
            ChipQuantity::DispatchOverhead => crate::output::milliseconds(figure.value * 1e3),
        };
        listed.add_row([
            figure.quantity.to_string(),
            optional(figure.level, |level| level.to_string()),
            figure.threads.to_string(),
            value,
        ]);
    }
    output.table(&listed);
}
