//! `models`: the catalogue, models of one's own, synthetic families, and facts of any of them.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use siliconroute::Error;
use siliconroute::catalogue::Catalogue;
use siliconroute::event::{Event, Listener as _, Stage};
use siliconroute::models::KnownModel;
use siliconroute_core::Case;

use super::{Session, absolute};
use crate::arguments::{ModelsCommand, Shape};
use crate::output::{Output, bytes, count, quantity, table};

pub(super) fn run(session: &Session<'_>, command: &ModelsCommand) -> Result<ExitCode, Error> {
    match command {
        ModelsCommand::List => list(session),
        ModelsCommand::Add { files } => add(session, files),
        ModelsCommand::Fetch { names } => fetch(session, names),
        ModelsCommand::Inspect { model, shape } => inspect(session, model, shape),
        ModelsCommand::Generate { names, to } => generate(session, names, to.as_deref()),
    }
}

fn list(session: &Session<'_>) -> Result<ExitCode, Error> {
    let catalogue = Catalogue::embedded();
    let known = session.router.store().models()?;
    let models = session.router.models();
    if session.output.json {
        let catalogue: Vec<_> = catalogue
            .models()
            .iter()
            .map(|model| {
                json!({
                    "name": model.name, "task": model.task, "version": model.version, "licence": model.licence,
                    "size_bytes": model.member.size_bytes, "here": models.is_here(&model.name),
                })
            })
            .collect();
        let known: Vec<_> = known
            .iter()
            .map(|model| {
                json!({
                    "name": model.name, "id": model.facts.id, "path": model.path,
                    "parameters": model.facts.parameters, "precision": model.facts.precision,
                })
            })
            .collect();
        session.output.document(&json!({
            "schema": "siliconroute.models/1", "catalogue": catalogue, "known": known,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut listed = table(&["catalogue", "task", "#size", "licence", "here"]);
    for model in catalogue.models() {
        let here = if models.is_here(&model.name) { "yes" } else { "no" };
        listed.add_row([&model.name, &model.task, &bytes(model.member.size_bytes), &model.licence, here]);
    }
    session.output.table(&listed);
    let mut listed = table(&["known model", "#parameters", "precision", "#nodes", "file"]);
    for model in &known {
        let path = model.path.as_ref().map_or_else(|| "–".to_owned(), |path| path.display().to_string());
        listed.add_row([
            model.name.clone(),
            count(model.facts.parameters as f64),
            model.facts.precision.to_string(),
            model.facts.nodes.to_string(),
            path,
        ]);
    }
    session.output.table(&listed);
    Ok(ExitCode::SUCCESS)
}

fn add(session: &Session<'_>, files: &[String]) -> Result<ExitCode, Error> {
    session.router.require_writable("remember models")?;
    let mut added = Vec::new();
    for file in files {
        let path = absolute(Path::new(file));
        added.push(session.router.find_model(&path.display().to_string(), &mut session.progress())?);
    }
    print_models(session.output, &added);
    Ok(ExitCode::SUCCESS)
}

fn fetch(session: &Session<'_>, names: &[String]) -> Result<ExitCode, Error> {
    session.router.require_writable("fetch models")?;
    let names: Vec<String> = if names.is_empty() {
        Catalogue::embedded().models().iter().map(|model| model.name.clone()).collect()
    } else {
        names.to_vec()
    };
    let mut progress = session.progress();
    progress.event(Event::Begin { stage: Stage::Models, steps: Some(names.len() as u64) });
    let mut fetched = Vec::new();
    for name in &names {
        progress.event(Event::Step(name.clone()));
        fetched.push(session.router.fetch_model(name, &mut progress)?);
        progress.event(Event::StepDone);
    }
    progress.event(Event::End(String::new()));
    print_models(session.output, &fetched);
    Ok(ExitCode::SUCCESS)
}

fn generate(session: &Session<'_>, names: &[String], to: Option<&Path>) -> Result<ExitCode, Error> {
    let folder = to.map_or_else(|| session.router.home().models(), absolute);
    let written = session.router.generate_models(names, &folder, &mut session.progress())?;
    if session.output.json {
        session.output.document(&json!({"schema": "siliconroute.models/1", "generated": written}));
    } else {
        for path in &written {
            session.output.line(path.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_models(output: &Output, models: &[KnownModel]) {
    if output.json {
        let models: Vec<_> = models
            .iter()
            .map(|model| json!({"name": model.name, "path": model.path, "facts": model.facts}))
            .collect();
        output.document(&json!({"schema": "siliconroute.models/1", "models": models}));
        return;
    }
    let mut listed = table(&["model", "#parameters", "precision", "#nodes", "file"]);
    for model in models {
        listed.add_row([
            model.name.clone(),
            count(model.facts.parameters as f64),
            model.facts.precision.to_string(),
            model.facts.nodes.to_string(),
            model.path.display().to_string(),
        ]);
    }
    output.table(&listed);
}

fn inspect(session: &Session<'_>, reference: &str, shape: &Shape) -> Result<ExitCode, Error> {
    let (model, case) = session.case(reference, None, shape)?;
    if session.output.json {
        session.output.document(&json!({
            "schema": "siliconroute.model/1",
            "name": model.name, "path": model.path, "facts": model.facts,
            "case": {"id": case.id, "bindings": case.bindings, "facts": case.facts},
        }));
    } else {
        print_facts(session.output, &model, &case);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_facts(output: &Output, model: &KnownModel, case: &Case) {
    let facts = &model.facts;
    output.line(format!("{} ({})", model.name, model.path.display()));
    output.line(format!("sha256      {}", facts.id));
    output.line(format!("parameters  {} ({})", count(facts.parameters as f64), facts.parameters));
    output.line(format!("weights     {} ({})", bytes(facts.weight_bytes), facts.precision));
    for input in &facts.inputs {
        output.line(format!("input       {input}"));
    }
    for spec in &facts.outputs {
        output.line(format!("output      {spec}"));
    }
    let bindings =
        if case.bindings.0.is_empty() { "nothing is free".to_owned() } else { case.bindings.to_string() };
    output.line(format!("case        {bindings}"));
    let flops = case.facts.flops;
    output.line(format!(
        "work        {} ({}), family {}",
        quantity(flops, "FLOP"),
        quantity(flops / 2.0, "MAC"),
        case.facts.family
    ));
    let mut classes = table(&["class", "#nodes", "#FLOP", "#bytes moved"]);
    for class in &case.facts.by_class {
        classes.add_row([
            format!("{:?}", class.class),
            class.nodes.to_string(),
            count(class.flops),
            bytes(class.bytes as u64),
        ]);
    }
    output.table(&classes);
    let operators: Vec<String> =
        facts.operators.iter().map(|(name, nodes)| format!("{name} {nodes}")).collect();
    output.line(format!("operators   {}", operators.join(", ")));
    for assumption in &case.facts.assumptions {
        output.line(format!("assumed     {assumption}"));
    }
}
