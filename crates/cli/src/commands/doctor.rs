//! `doctor`: what is wrong with this set-up and what to do.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::doctor::{Health, Patient, diagnose, failure};

use crate::output::{Output, table};
use crate::progress::Progress;

pub(super) fn run(patient: Patient, output: &Output) -> Result<ExitCode, Error> {
    let checks = diagnose(patient, &mut Progress::new(output))?;
    let failure = failure(&checks);
    if output.json {
        output.document_with(json!({"schema": "siliconroute.doctor/1", "checks": checks}), failure.as_ref());
    } else {
        let mut listed = table(&["subject", "state", "finding", "what to do"]);
        for check in &checks {
            let health = match check.health {
                Health::Good => "good",
                Health::Advice => "advice",
                Health::Broken => "broken",
            };
            let advice = check.advice.as_deref().unwrap_or("");
            listed.add_row([check.subject.as_str(), health, &check.finding, advice]);
        }
        output.table(&listed);
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}
