//! `devices`: chips and targets of this machine.

mod identify;

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute_core::Reading;

use super::Session;
use crate::arguments::{Devices, DevicesCommand};
use crate::output::table;

pub(super) fn run(session: &Session<'_>, command: &Devices) -> Result<ExitCode, Error> {
    match &command.command {
        None => list(session),
        Some(DevicesCommand::Identify { target, seconds }) => identify::run(session, target, *seconds),
    }
}

fn list(session: &Session<'_>) -> Result<ExitCode, Error> {
    let targets = session.router.targets(&mut session.progress())?;
    let machine = session.router.machine();
    let output = session.output;
    let known = targets.discovery.chips(&machine.chips);
    if output.json {
        let found: Vec<_> = targets
            .discovery
            .found
            .iter()
            .map(|found| {
                json!({
                    "key": found.target.key,
                    "provider": found.target.provider,
                    "provider_version": found.target.provider_version,
                    "chip": found.target.chip,
                    "options": found.target.options,
                    "device": found.device,
                    "proven_error": found.proven_error,
                    "checks_indices": found.checks_indices,
                    "available": found.unavailable.is_none(),
                    "reason": found.unavailable,
                })
            })
            .collect();
        output.document(&json!({
            "schema": "siliconroute.devices/1",
            "hardware_id": machine.hardware_id,
            "host": machine.host,
            "chips": known,
            "targets": found,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    output.line(format!("{} ({})", machine.hardware_id, machine.host.cpu_name));
    let mut chips = table(&["chip", "name", "vendor", "driver"]);
    for finding in &known {
        match &finding.chip {
            Reading::Available(chip) => {
                let driver = chip.driver.as_deref().unwrap_or("–");
                chips.add_row([chip.key.as_str(), &chip.name, &chip.vendor, driver]);
            }
            Reading::Unavailable(reason) => {
                chips.add_row([&finding.kind.to_string(), &format!("none: {reason}"), "–", "–"]);
            }
        }
    }
    output.table(&chips);
    let mut listed = table(&["target", "provider", "available"]);
    for found in &targets.discovery.found {
        let provider = format!("{} {}", found.target.provider, found.target.provider_version);
        let state = match &found.unavailable {
            None if matches!(found.checks_indices, Reading::Available(false)) => {
                "yes, but it does not check indices computed inside a model".to_owned()
            }
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        };
        listed.add_row([found.target.key.to_string(), provider, state]);
    }
    output.table(&listed);
    Ok(ExitCode::SUCCESS)
}
