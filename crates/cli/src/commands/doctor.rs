//! `doctor`: what is wrong with this set-up and what to do.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::doctor::Health;

use super::Session;
use crate::output::{brief, table};

pub(super) fn run(session: &Session<'_>) -> Result<ExitCode, Error> {
    let checks = session.router.diagnose(&mut session.progress())?;
    let broken = checks.iter().any(|check| check.health == Health::Broken);
    if session.output.json {
        session.output.document(&json!({"schema": "siliconroute.doctor/1", "checks": checks}));
    } else {
        let mut listed = table(&["subject", "state", "finding", "what to do"]);
        for check in &checks {
            let health = match check.health {
                Health::Good => "good",
                Health::Advice => "advice",
                Health::Broken => "broken",
            };
            let advice = check.advice.as_deref().unwrap_or("");
            listed.add_row([check.subject.as_str(), health, &brief(&check.finding), advice]);
        }
        session.output.line(listed);
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
