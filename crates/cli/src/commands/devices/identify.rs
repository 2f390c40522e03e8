//! `devices identify`: loads a target and shows which chip answers.
//!
//! Invariant: a figure that a chip does not tell is shown as absent, and the document says why.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::identify::{Agreement, ChipSummary, Evidence, Identification, Level, Verdict};
use siliconroute_core::{ChipKey, Reading};

use crate::commands::Session;
use crate::output::{Output, bytes, table};

pub(super) fn run(session: &Session<'_>, target: &str, seconds: f64) -> Result<ExitCode, Error> {
    let found = session.router.identify(target, seconds, &mut session.progress())?;
    let output = session.output;
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.identification/1",
            "target": found.target,
            "expected": found.expected,
            "agrees": found.agrees,
            "verdict": found.verdict,
            "load": found.load,
            "worked_s": found.worked_s,
            "chips": found.chips,
        }));
    } else {
        show(&found, output);
    }
    Ok(match found.agrees {
        Agreement::Agrees | Agreement::CannotTell(_) => ExitCode::SUCCESS,
        Agreement::Contradicts => ExitCode::FAILURE,
    })
}

fn show(found: &Identification, output: &Output) {
    output.line(format!("{} worked on {} for {:.1} s", found.target, found.load, found.worked_s));
    let mut listed =
        table(&["chip", "", "#busy", "#of it for the target", "#power", "#temperature", "#clock", "#memory"]);
    for chip in &found.chips {
        listed.add_row(row(chip, "at rest", &chip.rest, None));
        listed.add_row(row(chip, "at work", &chip.load, Some(&chip.process_percent)));
    }
    output.table(&listed);
    for chip in &found.chips {
        if let Reading::Unavailable(reason) = &chip.load.busy_percent {
            output.line(format!("{}: how busy it is is not told: {reason}", chip.chip));
        }
    }
    output.line(sentence(found));
}

fn row(chip: &ChipSummary, state: &str, level: &Level, process: Option<&Reading<f64>>) -> [String; 8] {
    let shown = |reading: &Reading<f64>, show: &dyn Fn(f64) -> String| match reading {
        Reading::Available(value) => show(*value),
        Reading::Unavailable(_) => "–".to_owned(),
    };
    let percent = |value: f64| format!("{value:.0} %");
    let state = if level.asleep == Reading::Available(true) { "asleep" } else { state };
    [
        chip.chip.to_string(),
        state.to_owned(),
        shown(&level.busy_percent, &percent),
        process.map_or_else(String::new, |process| shown(process, &percent)),
        shown(&level.power_watts, &|watts| format!("{watts:.1} W")),
        shown(&level.temperature_celsius, &|celsius| format!("{celsius:.0} °C")),
        shown(&level.clock_mhz, &|mhz| format!("{mhz:.0} MHz")),
        shown(&level.memory_used_bytes, &|used| bytes(used as u64)),
    ]
}

/// The result in one sentence.
fn sentence(found: &Identification) -> String {
    let Identification { target, expected, agrees, verdict, .. } = found;
    match (agrees, verdict) {
        (Agreement::CannotTell(reason), _) => {
            format!("sensors cannot tell which chip answers to {target}: {reason}")
        }
        (Agreement::Agrees, Verdict::Answered { evidence, unseen, .. }) => {
            format!("{expected} answers to {target}, as its name says: {}{}", reason(*evidence), also(unseen))
        }
        (Agreement::Contradicts, Verdict::Answered { chip, evidence, unseen }) => format!(
            "{chip} answers to {target}, not {expected}: {}{}; its trials would be another chip's",
            reason(*evidence),
            also(unseen)
        ),
        (Agreement::Agrees, _) => format!("{expected} answers to {target}"),
        (Agreement::Contradicts, _) => format!("another chip than {expected} answers to {target}"),
    }
}

fn reason(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::ProcessWork => "its driver counted the work of this very process",
        Evidence::Load => "its load rose with the work",
        Evidence::Power => "its power rose with the work",
        Evidence::Awoke => "it awoke for the work",
    }
}

fn also(unseen: &[ChipKey]) -> String {
    if unseen.is_empty() {
        return String::new();
    }
    let keys: Vec<&str> = unseen.iter().map(ChipKey::as_str).collect();
    format!(" (no sensor tells whether {} worked too)", keys.join(", "))
}

#[cfg(test)]
mod tests;
