//! `export` and `import`: measurements for other machines and from them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use siliconroute::Error;
use siliconroute::fleet::ImportedOrigin;
use siliconroute::wording::{counted, utc_date};
use siliconroute_core::fleet::unix_ms_of_day;

use super::Session;
use crate::arguments::{Export, Import};
use crate::output::{bytes, table};

pub(super) fn export(session: &Session<'_>, arguments: &Export) -> Result<ExitCode, Error> {
    let exported = session.router.export_knowledge(&arguments.knowledge)?;
    let output = session.output;
    if let Some(fault) = &exported.first_fault {
        output.note(format!(
            "{} cannot be told to others and left out, the first because {fault}",
            counted(exported.left_out, "session")
        ));
    }
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.export/1", "file": exported.file, "bytes": exported.bytes,
            "hardware_id": exported.hardware_id, "cases": exported.cases, "sessions": exported.sessions,
            "left_out": exported.left_out, "first_fault": exported.first_fault,
            "baselines_left_out": exported.baselines,
        }));
    } else {
        output.line(format!(
            "{}: {} of {} on {}, {}{}",
            exported.file.display(),
            counted(exported.sessions, "session"),
            counted(exported.cases, "case"),
            exported.hardware_id,
            bytes(exported.bytes as u64),
            of_baselines(&exported.baselines),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said of sessions that are in no file, since what they measure is no target.
fn of_baselines(sessions: &BTreeMap<String, usize>) -> String {
    let names: Vec<&str> = sessions.keys().map(String::as_str).collect();
    match sessions.values().sum() {
        0 => String::new(),
        count => format!(
            "; {} of {} left out, since what another program chooses for itself is no target",
            counted(count, "session"),
            names.join(", ")
        ),
    }
}

pub(super) fn import(session: &Session<'_>, arguments: &Import) -> Result<ExitCode, Error> {
    let output = session.output;
    if let Some(file) = &arguments.knowledge {
        let imported = session.router.import_knowledge(file)?;
        if output.json {
            output.document(&json!({
                "schema": "siliconroute.import/1", "origin": origin(&imported.origin), "new": imported.new,
                "known_cases": imported.known_cases, "own": imported.own,
            }));
        } else {
            output.line(sentence(&imported));
        }
        if imported.own {
            output.note("the file holds this machine's own measurements, which change nothing here");
        }
    } else if let Some(number) = &arguments.forget {
        let forgotten = session.router.forget_knowledge(number)?;
        if output.json {
            output.document(
                &json!({"schema": "siliconroute.import_forgotten/1", "forgotten": origin(&forgotten)}),
            );
        } else {
            output.line(format!(
                "forgotten: origin {}, {} of {}",
                forgotten.id,
                counted(forgotten.times as usize, "session"),
                forgotten.hardware_id
            ));
        }
    } else {
        list(session)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(session: &Session<'_>) -> Result<(), Error> {
    let (output, origins) = (session.output, session.router.store().origins()?);
    if output.json {
        let origins: Vec<_> = origins.iter().map(origin).collect();
        output.document(&json!({"schema": "siliconroute.origins/1", "origins": origins}));
        return Ok(());
    }
    if origins.is_empty() {
        output.message("nothing was imported");
    }
    let mut listed =
        table(&["#origin", "hardware", "system", "#sessions", "#cases", "written", "imported", "file"]);
    for origin in &origins {
        listed.add_row([
            origin.id.to_string(),
            origin.hardware_id.clone(),
            origin.os.clone(),
            origin.times.to_string(),
            origin.cases.to_string(),
            utc_date(unix_ms_of_day(origin.exported_unix_day)),
            utc_date(origin.imported_unix_ms),
            origin.file.clone(),
        ]);
    }
    output.table(&listed);
    Ok(())
}

fn origin(origin: &siliconroute::fleet::StoredOrigin) -> Value {
    json!({
        "origin": origin.id.0, "file": origin.file, "hardware_id": origin.hardware_id, "os": origin.os,
        "program_version": origin.program_version, "exported_unix_day": origin.exported_unix_day,
        "imported_unix_ms": origin.imported_unix_ms, "cases": origin.cases, "sessions": origin.times,
    })
}

fn sentence(imported: &ImportedOrigin) -> String {
    let origin = &imported.origin;
    if !imported.new {
        let date = utc_date(origin.imported_unix_ms);
        return format!("imported already, as origin {} on {date}; nothing changed", origin.id);
    }
    format!(
        "imported as origin {}: {} of {} on {}; this machine knows {} of the cases",
        origin.id,
        counted(origin.times as usize, "session"),
        counted(origin.cases as usize, "case"),
        origin.hardware_id,
        imported.known_cases
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_baselines_are_counted_with_the_reason() {
        assert_eq!(of_baselines(&BTreeMap::new()), "");
        let sessions =
            [("openvino-auto", 1), ("ort-prefer-cpu", 3)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(
            of_baselines(&sessions.into()),
            "; 4 sessions of openvino-auto, ort-prefer-cpu left out, since what another program chooses for itself is no target"
        );
    }
}
