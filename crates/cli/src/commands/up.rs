//! `up`: the main job.

mod page;

use std::process::ExitCode;

use siliconroute::Error;
use siliconroute::machine::describe_error;
use siliconroute::tuning::Anew;
use siliconroute::up::{UpPlan, UpReport};

use super::Session;
use super::evaluate::print_evaluation;
use crate::arguments::Up;

/// The page of the latest start, in the home.
const PAGE: &str = "results.html";

pub(super) fn run(session: &Session<'_>, arguments: &Up, tuning: Anew) -> Result<ExitCode, Error> {
    let plan = UpPlan { tuning, models: arguments.models.clone() };
    let report = session.router.up(&plan, &mut session.progress())?;
    print(session, &report);
    if arguments.open {
        open_page(session, &report);
    }
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
    for line in summary(report) {
        output.line(line);
    }
}

/// What the start found and did beside its decisions.
fn summary(report: &UpReport) -> [String; 2] {
    let targets: Vec<&str> = report.targets.iter().map(siliconroute_core::TargetKey::as_str).collect();
    let measured = match report.measured_trials {
        0 => "everything was known: nothing was measured by this start".to_owned(),
        1 => "1 trial was measured by this start".to_owned(),
        many => format!("{many} trials were measured by this start"),
    };
    [format!("targets: {}", targets.join(", ")), measured]
}

/// Keeps the results as a page and shows it. Neither failing is a failure of the start, whose results stand above.
fn open_page(session: &Session<'_>, report: &UpReport) {
    let page = page::page(report, &session.router.machine().hardware_id);
    let path = match session.router.keep_in_home(PAGE, page.as_bytes()) {
        Ok(path) => path,
        Err(error) => {
            session.output.note(format!("no page of the results: {}", describe_error(&error)));
            return;
        }
    };
    if let Err(error) = open::that_detached(&path) {
        session.output.note(format!("no browser was found ({error}); the results are in {}", path.display()));
    }
}
