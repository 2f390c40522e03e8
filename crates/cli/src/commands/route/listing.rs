//! A decision as a table, a sentence, and what is too long for a table.
//!
//! Invariant: a cell holds a few words; what a provider said in full stands below the table.

use siliconroute_core::decide::{
    Candidate, Decision, Lineup, format_duration_ns, format_interval_ns, format_joules,
};
use siliconroute_core::knowledge::{Exclusion, Knowledge};

use crate::output::{Output, milliseconds, table};

/// The table of all targets; energy has a column where anything is known of it.
pub(super) fn print_candidates(output: &Output, decision: &Decision<'_>, lineup: &impl Lineup) {
    let of_energy = decision.candidates.iter().any(|candidate| candidate.energy.is_some());
    let mut heads = vec!["target", "#predicted", "#95 % interval", "#energy", "known from"];
    if !of_energy {
        heads.retain(|head| *head != "#energy");
    }
    let mut listed = table(&heads);
    for candidate in &decision.candidates {
        let dash = || "–".to_owned();
        let mut row = vec![lineup.target(candidate.target).key.to_string()];
        match candidate.outlook {
            Ok(p) => row.extend([milliseconds(p.time_ns / 1e6), format_interval_ns(p.interval, " – ")]),
            Err(_) => row.extend([dash(), dash()]),
        }
        if of_energy {
            let known = candidate.energy.map(|energy| format_joules(energy.joules));
            row.push(known.unwrap_or_else(|| "not measured".to_owned()));
        }
        let out = candidate.outlook.err().map(Exclusion::brief).or(candidate.barred.map(|bar| bar.brief()));
        let source = || candidate.outlook.map_or_else(|_| String::new(), |it| it.source.name().to_owned());
        row.push(out.map_or_else(source, |out| format!("out: {out}")));
        listed.add_row(row);
    }
    output.table(&listed);
}

/// Why targets are out, in full, a paragraph for each.
pub(super) fn print_reasons(output: &Output, decision: &Decision<'_>, lineup: &impl Lineup) {
    // Variants of a provider often fail alike.
    let mut alike: Vec<(String, Vec<&str>)> = Vec::new();
    for candidate in &decision.candidates {
        let Some(reason) = reason(candidate) else { continue };
        let key = lineup.target(candidate.target).key.as_str();
        match alike.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, keys)) => keys.push(key),
            None => alike.push((reason, vec![key])),
        }
    }
    for (reason, keys) in alike {
        let are = if keys.len() == 1 { "is" } else { "are" };
        output.paragraph(format!("{} {are} out: {reason}", keys.join(", ")));
    }
}

/// What excludes or bars a candidate, in full.
fn reason(candidate: &Candidate<'_>) -> Option<String> {
    candidate.outlook.err().map(Exclusion::sentence).or(candidate.barred.map(|bar| bar.sentence()))
}

/// What each prediction rests on, a paragraph for each target.
pub(super) fn print_sources(output: &Output, decision: &Decision<'_>, lineup: &impl Lineup) {
    for candidate in &decision.candidates {
        if let Ok(prediction) = candidate.outlook {
            let key = &lineup.target(candidate.target).key;
            output.paragraph(format!("{key}: {}", prediction.source.sentence()));
        }
    }
}

/// What a rest of another length than the usual one changes.
pub(super) fn print_rests(output: &Output, decision: &Decision<'_>, knowledge: &Knowledge, rest_ns: f64) {
    for candidate in decision.candidates.iter().filter(|candidate| candidate.outlook.is_ok()) {
        let key = &knowledge.target(candidate.target).key;
        output.paragraph(match knowledge.waking(candidate.target) {
            Some(curve) => format!(
                "{key}: {} of rest add {:.0} % of what the usual 10 s add, by {} times of other rests",
                format_duration_ns(rest_ns),
                curve.share(rest_ns) * 100.0,
                curve.times
            ),
            None => format!("{key}: taken as after 10 s, since no other rests were measured"),
        });
    }
}
