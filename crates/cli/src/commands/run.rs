//! `run`: one inference on the best target.

use std::process::ExitCode;

use serde_json::json;
use siliconroute::machine::brief;
use siliconroute::{Error, array_file, inputs};
use siliconroute_core::tensor::NamedTensor;

use super::Session;
use crate::arguments::Run;
use crate::output::milliseconds;

/// Outputs with more elements are described and not printed.
const MOST_PRINTED: usize = 16;

pub(super) fn run(session: &Session<'_>, arguments: &Run) -> Result<ExitCode, Error> {
    let router = &session.router;
    if let Some(path) = &arguments.write {
        array_file::check_output_path(path)?;
    }
    let mut routing = super::routing(&arguments.case)?;
    let model = router.find_model(&arguments.case.model, &mut session.progress())?;
    let mut given = super::given(arguments.case.batch, &arguments.case.shape)?;
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
        routing.target = Some(targets.get(&arguments.device)?.target.key.clone());
    }
    let mut routed = router.open_session(&model, &case, &targets, &learned, &routing)?;
    let outcome = routed.infer(arrays)?;
    if let Some(path) = &arguments.write {
        array_file::write_outputs(path, &outcome.outputs)?;
    }
    let output = session.output;
    if output.json {
        output.document(&json!({
            "schema": "siliconroute.run/1",
            "model": case.model_name, "bindings": case.bindings,
            "target": outcome.target, "run_ms": outcome.run_ms, "fell_back": outcome.fell_back,
            "outputs": outcome.outputs.iter().map(describe_json).collect::<Vec<_>>(),
            "written": arguments.write,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for fallen in &outcome.fell_back {
        let failure = brief(&fallen.failure.to_string());
        output.message(format!("{} failed, so another target answered: {failure}", fallen.target));
    }
    output.line(format!("{} on {} in {}", case.label(), outcome.target, milliseconds(outcome.run_ms)));
    for tensor in &outcome.outputs {
        output.line(describe(tensor));
    }
    if outcome.outputs.is_empty() {
        output.line("the model has no output that is a tensor");
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(output: &NamedTensor) -> String {
    let tensor = &output.tensor;
    let head = format!("{}: {}{:?}", output.name, tensor.element(), tensor.shape());
    match tensor.data().to_f64() {
        Some(values) if values.len() <= MOST_PRINTED => format!("{head} = {values:?}"),
        Some(values) => {
            let (low, high) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
                    (low.min(value), high.max(value))
                });
            format!("{head}, from {low:.6} to {high:.6}")
        }
        None => format!("{head}, text"),
    }
}

fn describe_json(output: &NamedTensor) -> serde_json::Value {
    let tensor = &output.tensor;
    let values = tensor.data().to_f64().filter(|values| values.len() <= MOST_PRINTED);
    json!({"name": output.name, "element": tensor.element(), "shape": tensor.shape(), "values": values})
}
