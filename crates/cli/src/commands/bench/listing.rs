//! The measurements as tables: for people, for Markdown and as CSV.
//!
//! Invariant: one row for each configuration; what is not known shows as a dash, in CSV as an empty field.

use siliconroute::machine::brief;
use siliconroute::wording::{binary_size, counted};
use siliconroute_core::Reading;
use siliconroute_core::decide::format_interval_ns;
use siliconroute_core::statistics::{Comparison, SIGNIFICANCE, Scope, SessionSpread, Verdict};
use siliconroute_core::trial::{OutputCheck, Preparation, Trial};

use super::configuration::Configuration;
use crate::output::{Listing, Output, milliseconds, table};

const COLUMNS: &[&str] = &[
    "model",
    "target",
    "#median",
    "#interval",
    "#p95",
    "#per second",
    "#time to first",
    "#spread",
    "#samples",
    "#sessions",
    "#memory",
    "outputs",
    "note",
];

/// Joules of an inference beyond rest, with their interval, the scope and the method.
const ENERGY_COLUMN: &str = "#energy";

/// The columns, with that of energy where it was asked for.
fn columns(energy: bool) -> Vec<&'static str> {
    let mut columns = COLUMNS.to_vec();
    if energy {
        columns.push(ENERGY_COLUMN);
    }
    columns
}

pub(super) fn print_table(output: &Output, all: &[Configuration<'_>], energy: bool) {
    let mut listed: Listing = table(&columns(energy));
    for one in all {
        listed.add_row(cells(one, energy));
    }
    output.table(&listed);
}

pub(super) fn print_markdown(output: &Output, all: &[Configuration<'_>], energy: bool) {
    let columns = columns(energy);
    let names: Vec<&str> = columns.iter().map(|name| name.trim_start_matches('#')).collect();
    output.line(format!("| {} |", names.join(" | ")));
    let rules: Vec<&str> =
        columns.iter().map(|name| if name.starts_with('#') { "---:" } else { "---" }).collect();
    output.line(format!("| {} |", rules.join(" | ")));
    for one in all {
        let cells: Vec<String> = cells(one, energy).iter().map(|cell| cell.replace('|', "\\|")).collect();
        output.line(format!("| {} |", cells.join(" | ")));
    }
}

fn cells(one: &Configuration<'_>, energy: bool) -> Vec<String> {
    let dash = || "–".to_owned();
    let ms = |ns: f64| milliseconds(ns / 1e6);
    let notes = one.failure().map_or_else(|| one.notes().join("; "), |failure| brief(&failure));
    let sessions = match one.estimate.and_then(|estimate| estimate.spread) {
        Some(spread) => format!("{} ± {:.1} %", one.summaries.len(), spread * 100.0),
        None => one.summaries.len().to_string(),
    };
    let mut cells = vec![
        one.job.case.label(),
        one.target.to_string(),
        one.median_ns().map_or_else(dash, ms),
        one.interval().map_or_else(dash, |it| format_interval_ns(it, " – ")),
        one.p95_ns().map_or_else(dash, ms),
        one.items_per_second().map_or_else(dash, |rate| format!("{rate:.1}")),
        one.against_first.as_ref().map_or_else(dash, relative),
        one.robust_spread().map_or_else(dash, |spread| format!("{:.0} %", spread * 100.0)),
        one.samples().to_string(),
        sessions,
        memory(one),
        one.trials.last().map_or_else(dash, |trial| outputs(trial)),
        notes,
    ];
    if energy {
        cells.push(one.energy().available().map_or_else(dash, ToString::to_string));
    }
    cells
}

/// The most memory that its process held, and of the chip's own where it held any.
fn memory(one: &Configuration<'_>) -> String {
    let dash = || "–".to_owned();
    let resident = one.peak_resident_bytes().available().map_or_else(dash, |&bytes| binary_size(bytes));
    match one.device_bytes() {
        Reading::Available(bytes) if bytes > 0 => {
            format!("{resident} + {} on the chip", binary_size(bytes))
        }
        Reading::Available(_) | Reading::Unavailable(_) => resident,
    }
}

/// The time over that of the first target: with its interval, or all that few rounds say, which is how far they differ.
fn relative(comparison: &Comparison) -> String {
    let Comparison { ratio, interval, range, rounds, .. } = comparison;
    let flag = if comparison.verdict == Verdict::Withheld { " suspect" } else { "" };
    match (interval, range) {
        (Some(interval), _) => format!("× {ratio:.3} [{:.3} – {:.3}]{flag}", interval.low, interval.high),
        (None, Some(range)) if *rounds > 1 => {
            format!("× {:.3} – {:.3} ({}){flag}", range.low, range.high, counted(*rounds, "round"))
        }
        (None, Some(_)) => format!("× {ratio:.3} (1 round){flag}"),
        (None, None) => format!("× {ratio:.3}{flag}"),
    }
}

/// A verdict in one sentence.
pub(super) fn sentence(first: &str, second: &str, comparison: &Comparison) -> String {
    let Comparison { sessions, rounds, .. } = comparison;
    let basis = match (sessions, rounds) {
        (1, _) => "1 session, so what another would say is unknown".to_owned(),
        (sessions, 0) => format!("{sessions} sessions each, measured apart"),
        (sessions, rounds) => format!("{sessions} sessions, {} side by side", counted(*rounds, "round")),
    };
    match comparison.verdict {
        Verdict::Faster { percent, interval } => format!(
            "{first} is faster than {second} by {percent:.1} % [{:.1} – {:.1} %] ({basis})",
            interval.low, interval.high
        ),
        Verdict::Slower { percent, interval } => format!(
            "{first} is slower than {second} by {percent:.1} % [{:.1} – {:.1} %] ({basis})",
            interval.low, interval.high
        ),
        Verdict::Withheld => {
            let ratio = relative(comparison);
            format!("no verdict on {first} and {second}: {ratio} ({basis})")
        }
        Verdict::NotSeparable => {
            let ratio = relative(comparison);
            let excludes_equality = comparison.interval.is_some_and(|interval| !interval.contains(1.0));
            // The 95 % interval may exclude what a verdict, which is stricter, does not.
            let strictness = match comparison.adjusted_p {
                Some(p) if excludes_equality && comparison.scope == Scope::Sessions => {
                    format!("; p = {p:.3}, and a verdict asks for {SIGNIFICANCE} at most")
                }
                _ => String::new(),
            };
            format!(
                "{first} and {second} are not separable: the first takes {ratio} of the second ({basis}{strictness})"
            )
        }
    }
}

/// How far sessions of what was measured in one alone are known to differ, and of what that is not known.
pub(super) fn session_spreads(all: impl IntoIterator<Item = (String, Option<SessionSpread>)>) -> String {
    let mut text =
        "intervals of one session say nothing of the next; take several with --sessions".to_owned();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (what, spread) in all {
        match spread {
            Some(SessionSpread { spread, sessions, .. }) => {
                known.push(format!("{what} ± {:.1} % (n = {sessions})", spread * 100.0));
            }
            None => unknown.push(what),
        }
    }
    if !known.is_empty() {
        text = format!("{text}; those known here differ by {}", known.join(", "));
        if !unknown.is_empty() {
            text = format!("{text}; of {} that is not known yet", unknown.join(", "));
        }
    }
    text
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

const CSV_COLUMNS: &str = "model,bindings,target,workload,preparation,median_ms,ci_low_ms,ci_high_ms,p95_ms,min_ms,\
    max_ms,samples,sessions,session_spread_pct,spread_pct,items_per_s,ratio_to_first,ratio_low,ratio_high,\
    outputs,accuracy_class,max_rel_err,note,failure,peak_resident_bytes,session_bytes,device_bytes,\
    joules_per_inference,joules_low,joules_high,gross_joules_per_inference,energy_method,energy_scope,energy_absence,\
    ratio_least_round,ratio_largest_round";

pub(super) fn print_csv(output: &Output, all: &[Configuration<'_>]) {
    output.line(CSV_COLUMNS);
    for one in all {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        let ms = |ns: Option<f64>| number(ns.map(|ns| ns / 1e6));
        let bytes = |reading: Reading<u64>| reading.available().map_or_else(String::new, u64::to_string);
        let extreme = |pick: fn(f64, f64) -> f64, of: fn(&siliconroute_core::statistics::Summary) -> f64| {
            one.summaries.iter().map(of).reduce(pick)
        };
        let preparation = match one.preparation {
            Preparation::Running => String::new(),
            other => other.to_string(),
        };
        let ratio = one.against_first.as_ref();
        let (checked, class, max_rel_err) = one
            .trials
            .last()
            .map_or_else(|| ("not_compared", String::new(), String::new()), |trial| outputs_in_fields(trial));
        let fields = [
            quote(&one.job.case.model_name),
            quote(&one.job.case.bindings.to_string()),
            quote(one.target.as_str()),
            one.job.workload.to_string(),
            preparation,
            ms(one.median_ns()),
            ms(one.interval().map(|it| it.low)),
            ms(one.interval().map(|it| it.high)),
            ms(one.p95_ns()),
            ms(extreme(f64::min, |summary| summary.min_ns)),
            ms(extreme(f64::max, |summary| summary.max_ns)),
            one.samples().to_string(),
            one.summaries.len().to_string(),
            number(one.estimate.and_then(|estimate| estimate.spread).map(|spread| spread * 100.0)),
            number(one.robust_spread().map(|spread| spread * 100.0)),
            number(one.items_per_second()),
            // Without an interval it may contradict the medians beside it; the rounds' own ratios do not.
            number(ratio.filter(|it| it.interval.is_some()).map(|it| it.ratio)),
            number(ratio.and_then(|it| it.interval).map(|it| it.low)),
            number(ratio.and_then(|it| it.interval).map(|it| it.high)),
            checked.to_owned(),
            class,
            max_rel_err,
            quote(&one.notes().join("; ")),
            quote(&one.failure().unwrap_or_default()),
            bytes(one.peak_resident_bytes()),
            bytes(one.session_bytes()),
            bytes(one.device_bytes()),
        ];
        let range = ratio.and_then(|it| it.range);
        let range = [number(range.map(|it| it.low)), number(range.map(|it| it.high))];
        let fields = [&fields[..], &super::energy::csv_fields(&one.energy()), &range].concat();
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

#[cfg(test)]
mod tests {
    use siliconroute_core::statistics::{PairedRound, compare_paired, compare_unpaired};

    use super::*;

    #[test]
    fn few_rounds_are_shown_as_what_they_are() {
        // The medians are 2 and 5; the center of the paired ratios is over 1.
        let rounds = [(30.0, 1.0), (2.0, 5.0), (1.9, 6.0)].map(|(first, second)| ([first], [second]));
        let rounds: Vec<PairedRound<'_>> =
            rounds.iter().map(|(first, second)| PairedRound { session: 0, first, second }).collect();
        let comparison = compare_paired(&rounds).unwrap();
        assert!(comparison.ratio > 1.0, "{comparison:?}");
        assert_eq!(relative(&comparison), "× 0.317 – 30.000 (3 rounds)");
        let said = sentence("a", "b", &comparison);
        let told = "a and b are not separable: the first takes × 0.317 – 30.000 (3 rounds) of the second";
        assert!(said.starts_with(told), "{said}");
        assert_eq!(relative(&compare_paired(&rounds[..1]).unwrap()), "× 30.000 (1 round)");
        assert_eq!(relative(&compare_unpaired(&[1.0], &[2.0]).unwrap()), "× 0.500");
    }

    #[test]
    fn a_withheld_verdict_is_no_verdict() {
        let rounds = [0, 1, 2].map(|session| PairedRound { session, first: &[1.0], second: &[2.0] });
        let comparison = compare_paired(&rounds).unwrap();
        assert!(sentence("a", "b", &comparison).starts_with("a is faster than b by 50.0 %"));
        let withheld = comparison.withheld();
        let said = sentence("a", "b", &withheld);
        assert!(said.starts_with("no verdict on a and b: × 0.500"), "{said}");
        assert!(relative(&withheld).ends_with(" suspect"));
    }

    #[test]
    fn a_target_whose_sessions_are_not_known_is_named() {
        let known = SessionSpread { spread: 0.123, configurations: 2, sessions: 16 };
        let check = |all: &[(&str, Option<SessionSpread>)], expected: &str| {
            let all = all.iter().map(|(what, spread)| ((*what).to_owned(), *spread));
            assert_eq!(
                session_spreads(all),
                format!(
                    "intervals of one session say nothing of the next; take several with --sessions{expected}"
                )
            );
        };
        check(&[("cpu/rten sustained", None)], "");
        let told = "; those known here differ by cpu/ort sustained ± 12.3 % (n = 16)";
        check(&[("cpu/ort sustained", Some(known))], told);
        check(
            &[("cpu/ort sustained", Some(known)), ("cpu/rten sustained", None), ("cpu/x idle_loaded", None)],
            &format!("{told}; of cpu/rten sustained, cpu/x idle_loaded that is not known yet"),
        );
    }
}
