//! `run`: one inference on the best target.

mod floats;
mod outputs;

use std::process::ExitCode;

use serde_json::json;
use siliconroute::event::{Event, Listener as _};
use siliconroute::machine::brief;
use siliconroute::run::Routing;
use siliconroute::{Error, array_file, inputs};

use super::Session;
use crate::arguments::Run;
use crate::output::milliseconds;

pub(super) fn run(session: &Session<'_>, arguments: &Run) -> Result<ExitCode, Error> {
    let router = &session.router;
    if let Some(path) = &arguments.write {
        array_file::check_output_path(path)?;
    }
    let mut routing = Routing { inferences: Some(1), ..super::routing(&arguments.case)? };
    let model = router.find_model(arguments.case.model(), &mut session.progress())?;
    let mut given = super::given(arguments.case.batch, &arguments.case.shape)?;
    let mut warnings = Vec::new();
    let arrays = match &arguments.input {
        Some(path) => {
            let arrays = array_file::read_inputs(path, &model.facts.inputs)?;
            // The given arrays bind the free dimensions.
            for array in &arrays {
                let shape: Vec<u64> = array.tensor.shape().iter().map(|&size| size as u64).collect();
                if let Some(other) = given.shapes.insert(array.name.clone(), shape.clone())
                    && other != shape
                {
                    return Err(Error::Usage(format!(
                        "--shape gives `{}` the shape {other:?}, and {} holds it with {shape:?}; leave out one of them",
                        array.name,
                        path.display()
                    )));
                }
            }
            warnings.extend(floats::remark("inputs", &arrays));
            for warning in &warnings {
                session.output.note(warning);
            }
            arrays
        }
        None => {
            let case = router.models().case(&model, &given)?;
            inputs::generate_for(&case.facts, &model.recipes, router.settings().seed)?
        }
    };
    let case = router.models().case(&model, &given)?;
    let targets = router.targets(&mut session.progress())?;
    let learned = router.learn(&targets)?;
    routing.chip_kind = super::chip_kind(&arguments.device);
    if routing.chip_kind.is_none() && arguments.device != "auto" {
        routing.target = Some(targets.resolve(&arguments.device)?.target.key);
    }
    let mut routed = router.open_session(&model, &case, &targets, &learned, &routing)?;
    if let Some(notice) = routed.notice() {
        session.progress().event(Event::Notice(notice.to_owned()));
    }
    let mut progress = session.progress();
    routed.on_fall_back(move |fallen, next| {
        let failure = brief(&fallen.failure.to_string());
        progress.event(Event::Notice(format!("{} failed ({failure}); trying {next} next", fallen.target)));
    });
    let outcome = routed.infer(arrays)?;
    if let Some(warning) = floats::remark("outputs", &outcome.outputs) {
        session.output.note(&warning);
        warnings.push(warning);
    }
    if let Some(path) = &arguments.write {
        let written = array_file::write_outputs(path, &outcome.outputs)?;
        for name in written.widened {
            session.output.message(format!("`{name}` is float32 in the file, which has no bfloat16"));
        }
    }
    let output = session.output;
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.run/1",
            "model": case.model_name, "bindings": case.bindings,
            "target": outcome.target, "run_ms": outcome.run_ms, "fell_back": outcome.fell_back,
            "workload": routed.workload(), "workload_inferred": routed.inference(),
            "choice": routed.choice(), "notice": routed.notice(),
            "warnings": warnings,
            "outputs": outcome.outputs.iter().map(outputs::describe_json).collect::<Vec<_>>(),
            "written": arguments.write,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for fallen in &outcome.fell_back {
        let failure = brief(&fallen.failure.to_string());
        output.message(format!("{} failed, so another target answered: {failure}", fallen.target));
    }
    output.line(format!("{} on {} in {}", case.label(), outcome.target, milliseconds(outcome.run_ms)));
    if let Some(inference) = routed.inference() {
        output.line(inference);
    }
    for line in outputs::describe(&outcome.outputs) {
        output.line(line);
    }
    if outcome.outputs.is_empty() {
        output.line("the model has no output that is a tensor");
    }
    Ok(ExitCode::SUCCESS)
}
