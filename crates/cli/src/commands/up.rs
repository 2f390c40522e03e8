//! `up`: the main job.

use std::process::ExitCode;

use siliconroute::Error;
use siliconroute::tuning::Anew;
use siliconroute::up::{UpPlan, UpReport};

use super::Session;
use super::evaluate::print_evaluation;
use crate::arguments::Up;

pub(super) fn run(session: &Session<'_>, arguments: &Up, tuning: Anew) -> Result<ExitCode, Error> {
    let plan = UpPlan { tuning, models: arguments.models.clone() };
    let report = session.router.up(&plan, &mut session.progress())?;
    print(session, &report);
    if !arguments.once && !session.output.json {
        session.output.message("the server and its dashboard are not part of this version; `up` ends here");
    }
    Ok(report.failure().map_or(ExitCode::SUCCESS, |kind| ExitCode::from(kind.exit_code())))
}

fn print(session: &Session<'_>, report: &UpReport) {
    let output = session.output;
    if output.json {
        output.document(report);
        return;
    }
    print_evaluation(output, &report.evaluation);
    let targets: Vec<&str> = report.targets.iter().map(siliconroute_core::TargetKey::as_str).collect();
    output.line(format!("targets: {}", targets.join(", ")));
    output.line(match report.measured_trials {
        0 => "everything was known: nothing was measured by this start".to_owned(),
        1 => "1 trial was measured by this start".to_owned(),
        many => format!("{many} trials were measured by this start"),
    });
}
