//! `packages`: engine packages of this machine.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::engine_packages::PackageSource;
use siliconroute::event::{Event, Listener as _, Stage};

use super::Session;
use crate::arguments::Packages;
use crate::output::{bytes, table};

pub(super) fn run(session: &Session<'_>, command: &Packages) -> Result<ExitCode, Error> {
    match command {
        Packages::List => Ok(list(session)),
        Packages::Install { names, wheel } => install(session, names, wheel.as_deref()),
        Packages::Remove { names } => remove(session, names),
        Packages::Verify { names } => verify(session, names),
    }
}

fn list(session: &Session<'_>) -> ExitCode {
    let packages = session.router.package_states();
    let output = session.output;
    if output.json {
        output.document(&json!({"schema": "siliconroute.packages/1", "packages": packages}));
        return ExitCode::SUCCESS;
    }
    let mut listed =
        table(&["package", "version", "kind", "#size", "licence", "installed", "fits this machine"]);
    for package in &packages {
        let size = package.size_bytes.map_or_else(|| "–".to_owned(), bytes);
        let fits = match (&package.unfit, package.recommended) {
            (Some(reason), _) => format!("no: {reason}"),
            (None, true) => "yes".to_owned(),
            (None, false) => format!("on request: {}", package.why),
        };
        let installed = if package.installed { "yes" } else { "no" };
        listed.add_row([
            &package.name,
            &package.version,
            &package.kind,
            &size,
            &package.licence,
            installed,
            &fits,
        ]);
    }
    output.table(&listed);
    ExitCode::SUCCESS
}

fn install(session: &Session<'_>, names: &[String], wheel: Option<&Path>) -> Result<ExitCode, Error> {
    let mut progress = session.progress();
    let source = match wheel {
        Some(_) if names.len() != 1 => {
            return Err(Error::Usage("--wheel goes with exactly one package name".to_owned()));
        }
        Some(path) => PackageSource::Wheel(path),
        None => PackageSource::Fetch,
    };
    let names = if names.is_empty() { session.router.recommended_packages() } else { names.to_vec() };
    progress.event(Event::Begin { stage: Stage::Packages, steps: Some(names.len() as u64) });
    let mut installed = Vec::new();
    for name in &names {
        progress.event(Event::Step(name.clone()));
        let package = session.router.install_package(name, source, &mut progress)?;
        progress.event(Event::StepDone);
        installed.push(json!({"name": package.name, "version": package.version, "library": package.library}));
    }
    progress.event(Event::End(names.join(", ")));
    if session.output.json {
        session.output.document(&json!({"schema": "siliconroute.packages/1", "installed": installed}));
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(session: &Session<'_>, names: &[String]) -> Result<ExitCode, Error> {
    for name in names {
        session.router.remove_package(name, &mut session.progress())?;
    }
    if session.output.json {
        session.output.document(&json!({"schema": "siliconroute.packages/1", "removed": names}));
    } else {
        session.output.line(format!("removed {}", names.join(", ")));
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(session: &Session<'_>, names: &[String]) -> Result<ExitCode, Error> {
    let verified = session.router.verify_packages(names, &mut session.progress())?;
    let failure = verified.failure();
    if session.output.json {
        let document = json!({
            "schema": "siliconroute.packages/1",
            "verified": verified.packages,
            "strays": verified.strays,
        });
        session.output.document_with(document, failure.as_ref());
    } else {
        let mut listed = table(&["package", "version", "files", "state"]);
        for package in &verified.packages {
            let state = if package.intact { "intact".to_owned() } else { package.faults.join("; ") };
            listed.add_row([&package.name, &package.version, &package.files.to_string(), &state]);
        }
        session.output.table(&listed);
        for stray in &verified.strays {
            session.output.line(format!("`{}` is no package and is not used; remove it", stray.display()));
        }
        if verified.packages.is_empty() {
            session.output.message("no package is installed, so there is nothing to verify");
        }
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}
