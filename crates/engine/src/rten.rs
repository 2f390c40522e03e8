//! The embedded engine: rten, a plain Rust runtime that needs no download.
//!
//! Invariant: outputs have the element types that the model declares, though rten itself computes
//! 64-bit integers and truth values as 32-bit integers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_tensor::{AsView, Layout, Tensor as RtenTensor};
use siliconroute_core::tensor::{ElementType, NamedTensor, Tensor, TensorData, TensorSpec};
use siliconroute_core::trial::Placement;
use siliconroute_core::{ChipKey, ChipKind, ProviderName, Reading, Target, TargetKey};

use crate::session::{
    Engine, Offer, RunError, Session, SessionError, SessionRequest, check_inputs, one_line,
};

/// The version of rten that this program was built with; `Cargo.lock` pins it and a test compares them.
pub const RTEN_VERSION: &str = "0.27.0";

/// The plain Rust engine.
#[derive(Debug, Default)]
pub struct RtenEngine;

impl RtenEngine {
    /// The engine's only target.
    pub fn target() -> Target {
        let (chip, provider) = (ChipKey::cpu(), ProviderName::parse("rten"));
        Target {
            key: TargetKey::new(&chip, &provider, None),
            provider,
            provider_version: RTEN_VERSION.to_owned(),
            chip,
            chip_kind: ChipKind::Cpu,
            options: BTreeMap::new(),
        }
    }
}

impl Engine for RtenEngine {
    fn version(&self) -> String {
        format!("rten {RTEN_VERSION}")
    }

    fn offers(&self) -> Vec<Offer> {
        vec![Offer { target: Self::target(), device: BTreeMap::new(), unavailable: None }]
    }

    fn create_session(
        &self,
        target: &TargetKey,
        request: &SessionRequest<'_>,
    ) -> Result<Box<dyn Session>, SessionError> {
        if *target != Self::target().key {
            return Err(SessionError::UnknownTarget(target.clone()));
        }
        if request.compile_cache.is_some() {
            return Err(SessionError::Refused("rten compiles nothing that it could keep".to_owned()));
        }
        if let Some(option) = request.threads.beyond_count() {
            return Err(SessionError::Refused(format!("rten takes no `{option}`")));
        }
        let model = ModelOptions::with_all_ops()
            .prepack_weights(true)
            .load_file(request.model)
            .map_err(|error| SessionError::Refused(one_line(&error)))?;
        let input_ids = node_ids(&model, request.inputs)?;
        let output_ids = node_ids(&model, request.outputs)?;
        let pool =
            request.threads.count.map(|threads| Arc::new(ThreadPool::with_num_threads(threads as usize)));
        Ok(Box::new(RtenSession {
            model,
            pool,
            input_specs: request.inputs.to_vec(),
            output_specs: request.outputs.to_vec(),
            input_ids,
            output_ids,
            inputs: None,
            outputs: None,
        }))
    }
}

struct RtenSession {
    model: Model,
    pool: Option<Arc<ThreadPool>>,
    input_specs: Vec<TensorSpec>,
    output_specs: Vec<TensorSpec>,
    input_ids: Vec<NodeId>,
    output_ids: Vec<NodeId>,
    inputs: Option<Vec<Value>>,
    outputs: Option<Vec<Value>>,
}

impl Session for RtenSession {
    fn placement(&self) -> Reading<Placement> {
        Reading::unavailable("rten has no other provider to fall back to: every node runs on it")
    }

    fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), RunError> {
        let ordered = check_inputs(&self.input_specs, inputs)?;
        self.inputs = Some(ordered.into_iter().map(to_value).collect::<Result<_, _>>()?);
        Ok(())
    }

    fn run(&mut self) -> Result<(), RunError> {
        let inputs = self.inputs.as_ref().ok_or(RunError::NoInputs)?;
        let feeds = self.input_ids.iter().copied().zip(inputs.iter().map(ValueOrView::from)).collect();
        let options =
            self.pool.as_ref().map(|pool| RunOptions::default().with_thread_pool(Some(Arc::clone(pool))));
        let outputs = self
            .model
            .run(feeds, &self.output_ids, options)
            .map_err(|error| RunError::Refused(one_line(&error)))?;
        self.outputs = Some(outputs);
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<NamedTensor>, RunError> {
        let outputs = self.outputs.as_ref().ok_or(RunError::NoInputs)?;
        self.output_specs.iter().zip(outputs).map(|(spec, value)| from_value(spec, value)).collect()
    }
}

fn node_ids(model: &Model, specs: &[TensorSpec]) -> Result<Vec<NodeId>, SessionError> {
    let id = |spec: &TensorSpec| {
        model.node_id(&spec.name).map_err(|error| SessionError::Refused(one_line(&error)))
    };
    specs.iter().map(id).collect()
}

/// Hands a tensor to rten, narrowing 64-bit integers where their values allow it.
fn to_value(input: &NamedTensor) -> Result<Value, RunError> {
    let shape = input.tensor.shape();
    let refuse = |why: &str| RunError::Refused(format!("input `{}`: rten {why}", input.name));
    Ok(match input.tensor.data() {
        TensorData::Float32(values) => RtenTensor::from_data(shape, values.clone()).into(),
        TensorData::Int32(values) => RtenTensor::from_data(shape, values.clone()).into(),
        TensorData::Int8(values) => RtenTensor::from_data(shape, values.clone()).into(),
        TensorData::Uint8(values) => RtenTensor::from_data(shape, values.clone()).into(),
        TensorData::Bool(values) => {
            RtenTensor::from_data(shape, values.iter().map(|&v| i32::from(v)).collect::<Vec<_>>()).into()
        }
        TensorData::Int64(values) => {
            let narrow: Result<Vec<i32>, _> = values.iter().map(|&v| i32::try_from(v)).collect();
            let narrow =
                narrow.ok().ok_or_else(|| refuse("has no 64-bit integers, and a value exceeds 32 bits"))?;
            RtenTensor::from_data(shape, narrow).into()
        }
        other => return Err(refuse(&format!("has no element type {}", other.element()))),
    })
}

/// Takes a tensor from rten in the element type that the model declares.
fn from_value(spec: &TensorSpec, value: &Value) -> Result<NamedTensor, RunError> {
    let (shape, data) = match value {
        Value::FloatTensor(tensor) => (tensor.shape().to_vec(), TensorData::Float32(tensor.to_vec())),
        Value::Int8Tensor(tensor) => (tensor.shape().to_vec(), TensorData::Int8(tensor.to_vec())),
        Value::UInt8Tensor(tensor) => (tensor.shape().to_vec(), TensorData::Uint8(tensor.to_vec())),
        Value::Int32Tensor(tensor) => {
            let values = tensor.to_vec();
            let data = match spec.element {
                ElementType::Int64 => TensorData::Int64(values.into_iter().map(i64::from).collect()),
                ElementType::Bool => TensorData::Bool(values.into_iter().map(|v| v != 0).collect()),
                _ => TensorData::Int32(values),
            };
            (tensor.shape().to_vec(), data)
        }
        _ => return Err(RunError::Refused(format!("output `{}` is a sequence, not a tensor", spec.name))),
    };
    let tensor = Tensor::new(shape, data).map_err(|error| RunError::Refused(error.to_string()))?;
    Ok(NamedTensor { name: spec.name.clone(), tensor })
}
