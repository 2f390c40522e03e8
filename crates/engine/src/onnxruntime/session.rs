//! One model loaded by ONNX Runtime onto a named device.
//!
//! Invariant: input values are made once, in [`Session::set_inputs`]; a run passes them as they are.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use ort::environment::Environment;
use ort::session::{Session as OrtSession, SessionInputValue, builder::GraphOptimizationLevel};
use ort::value::{DynValue, Tensor as OrtTensor, TensorElementType, ValueType};
use siliconroute_core::Reading;
use siliconroute_core::tensor::{NamedTensor, Tensor, TensorData, TensorSpec};
use siliconroute_core::trial::Placement;

use super::automatic::Automatic;
use super::compile_cache::{self, Cached};
use super::devices::{self, Access, Configured};
use super::reported::dxgi_position;
use super::{ListAdapters, placement, threads};
use crate::session::{RunError, Session, SessionError, SessionRequest, check_inputs, one_line};

/// Providers that crash when two of their sessions are used at once take turns.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Loads a model onto the device behind `configured`.
pub(super) fn create(
    environment: &Environment,
    configured: &Configured,
    request: &SessionRequest<'_>,
    adapters: ListAdapters,
) -> Result<Box<dyn Session>, SessionError> {
    if let Some(reason) = &configured.offer.unavailable {
        return Err(SessionError::Refused(reason.clone()));
    }
    let turn =
        configured.quirks.one_at_a_time.then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
    let target = &configured.offer.target;
    let mut cached = match request.compile_cache {
        Some(folder) => {
            compile_cache::prepare(target.provider.as_str(), target.chip_kind, &target.options, folder)?
        }
        None => Cached::default(),
    };
    if configured.quirks.by_dxgi_position {
        // The library's own number is as old as its list, and another GPU that woke up may have taken it over.
        let position =
            dxgi_position(&target.chip, configured.luid, &adapters()).map_err(SessionError::Refused)?;
        cached.options.insert("device_id".to_owned(), position.to_string());
    }
    let setup = Setup::new(configured, request, &cached)?;
    let session = commit(environment, configured, request, &cached, &setup)
        .map_err(|error| SessionError::Refused(one_line(&error)))?;
    drop(turn);
    let placement = placement::read(&session, &configured.registered_name);
    loaded(session, placement, request, configured.quirks.one_at_a_time)
}

/// Loads a model onto whatever device `automatic` chooses. Of its placement all nodes stand by their provider, since
/// none of them is the one that was asked for.
pub(super) fn create_automatic(
    environment: &Environment,
    automatic: Automatic,
    request: &SessionRequest<'_>,
) -> Result<Box<dyn Session>, SessionError> {
    let commit = || -> ort::Result<OrtSession> {
        let builder = OrtSession::builder(environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_config_entry(placement::RECORD_KEY, "1")?;
        automatic.choose(environment, builder)?.commit_from_file(request.model)
    };
    let session = commit().map_err(|error| SessionError::Refused(one_line(&error)))?;
    let placement = placement::read(&session, "");
    // Each is alone in its worker, so nobody waits for a turn.
    loaded(session, placement, request, false)
}

fn loaded(
    session: OrtSession,
    placement: Reading<Placement>,
    request: &SessionRequest<'_>,
    one_at_a_time: bool,
) -> Result<Box<dyn Session>, SessionError> {
    let in_engine_order: Option<Vec<usize>> = session
        .inputs()
        .iter()
        .map(|input| request.inputs.iter().position(|spec| spec.name == input.name()))
        .collect();
    let order = in_engine_order.filter(|order| order.len() == request.inputs.len()).ok_or_else(|| {
        SessionError::Refused("the runtime library sees other inputs than the model file declares".to_owned())
    })?;
    Ok(Box::new(LoadedModel {
        session: Some(session),
        placement,
        specs: request.inputs.to_vec(),
        order,
        one_at_a_time,
        inputs: None,
        outputs: None,
    }))
}

/// What a session is set up with, whatever its device.
#[derive(Debug, PartialEq, Eq)]
struct Setup {
    /// Threads of the library's own pool.
    threads: Option<usize>,
    /// Whether memory patterns and operators side by side are switched off; else they are as the library has them.
    one_operator_at_a_time: bool,
    /// Sizes for the free dimensions, by name.
    dimensions: Vec<(String, i64)>,
    entries: Vec<(&'static str, String)>,
    /// The provider's options, by their plain keys.
    options: BTreeMap<String, String>,
}

impl Setup {
    fn new(
        configured: &Configured,
        request: &SessionRequest<'_>,
        cached: &Cached,
    ) -> Result<Self, SessionError> {
        let mut entries = vec![(placement::RECORD_KEY, "1".to_owned())];
        entries.extend(cached.entries.clone());
        let mut options = configured.offer.target.options.clone();
        options.extend(cached.options.clone());
        let threads = threads::set_up(&configured.offer.target, &options, request.threads)?;
        entries.extend(threads.entries);
        options.extend(threads.options);
        let dimensions = request.bindings.0.iter().filter(|_| configured.quirks.static_shapes);
        Ok(Self {
            threads: threads.pool.map(|threads| threads as usize),
            one_operator_at_a_time: configured.quirks.one_operator_at_a_time,
            dimensions: dimensions
                .map(|(name, &size)| (name.clone(), i64::try_from(size).unwrap_or(i64::MAX)))
                .collect(),
            entries,
            options,
        })
    }

    /// The options as a device's provider takes them.
    fn prefixed_options(&self, registered_name: &str) -> Vec<(String, String)> {
        self.options.iter().map(|(key, value)| (format!("{registered_name}.{key}"), value.clone())).collect()
    }
}

fn commit(
    environment: &Environment,
    configured: &Configured,
    request: &SessionRequest<'_>,
    cached: &Cached,
    setup: &Setup,
) -> ort::Result<OrtSession> {
    let mut builder =
        OrtSession::builder(environment)?.with_optimization_level(GraphOptimizationLevel::All)?;
    if let Some(threads) = setup.threads {
        builder = builder.with_intra_threads(threads)?;
    }
    if setup.one_operator_at_a_time {
        builder = builder.with_memory_pattern(false)?.with_parallel_execution(false)?;
    }
    for (dimension, size) in &setup.dimensions {
        builder = builder.with_dimension_override(dimension, *size)?;
    }
    for (key, value) in &setup.entries {
        builder = builder.with_config_entry(*key, value)?;
    }
    let mut builder = match configured.access {
        Access::Device(index) => {
            let device = environment
                .devices()
                .nth(index)
                .ok_or_else(|| ort::Error::new("the device vanished from the runtime library's list"))?;
            let options = setup.prefixed_options(&configured.registered_name);
            builder.with_devices([device], Some(&options))?
        }
        Access::Name => {
            let provider = devices::provider_by_name(&configured.registered_name, &setup.options);
            builder.with_execution_providers([provider])?
        }
    };
    builder.commit_from_file(cached.model.as_deref().unwrap_or(request.model))
}

struct LoadedModel {
    /// Taken only by `drop`.
    session: Option<OrtSession>,
    placement: Reading<Placement>,
    specs: Vec<TensorSpec>,
    /// For each input of the engine, its position in `specs`.
    order: Vec<usize>,
    one_at_a_time: bool,
    inputs: Option<Vec<SessionInputValue<'static>>>,
    outputs: Option<Vec<(String, DynValue)>>,
}

impl Session for LoadedModel {
    fn placement(&self) -> Reading<Placement> {
        self.placement.clone()
    }

    fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), RunError> {
        let checked = check_inputs(&self.specs, inputs)?;
        let values: Result<Vec<_>, RunError> = self
            .order
            .iter()
            .map(|&position| {
                let input = checked[position];
                let value = to_value(&input.tensor).map_err(|error| {
                    RunError::Refused(format!("input `{}`: {}", input.name, one_line(&error)))
                })?;
                Ok(SessionInputValue::Owned(value))
            })
            .collect();
        self.inputs = Some(values?);
        Ok(())
    }

    fn run(&mut self) -> Result<(), RunError> {
        let inputs = self.inputs.as_deref().ok_or(RunError::NoInputs)?;
        let session = self.session.as_mut().ok_or(RunError::NoInputs)?;
        let _turn = self.one_at_a_time.then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        let outputs = session.run(inputs).map_err(|error| RunError::Refused(one_line(&error)))?;
        let kept = self.outputs.get_or_insert_default();
        if kept.len() == outputs.len() {
            for ((_, slot), (_, value)) in kept.iter_mut().zip(outputs) {
                *slot = value;
            }
        } else {
            *kept = outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        }
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<NamedTensor>, RunError> {
        let outputs = self.outputs.as_ref().ok_or(RunError::NoInputs)?;
        outputs
            .iter()
            .map(|(name, value)| {
                let tensor = from_value(value)
                    .map_err(|error| RunError::Refused(format!("output `{name}`: {error}")))?;
                Ok(NamedTensor { name: name.clone(), tensor })
            })
            .collect()
    }
}

impl Drop for LoadedModel {
    fn drop(&mut self) {
        let _turn = self.one_at_a_time.then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        self.outputs = None;
        self.inputs = None;
        self.session = None;
    }
}

fn to_value(tensor: &Tensor) -> ort::Result<DynValue> {
    let shape = tensor.shape().to_vec();
    Ok(match tensor.data() {
        TensorData::Float32(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Float64(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Float16(v) => {
            OrtTensor::from_array((shape, v.iter().map(|&bits| f16::from_bits(bits)).collect::<Vec<_>>()))?
                .into_dyn()
        }
        TensorData::Bfloat16(v) => {
            OrtTensor::from_array((shape, v.iter().map(|&bits| bf16::from_bits(bits)).collect::<Vec<_>>()))?
                .into_dyn()
        }
        TensorData::Int8(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Int16(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Int32(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Int64(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Uint8(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Uint16(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Uint32(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Uint64(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::Bool(v) => OrtTensor::from_array((shape, v.clone()))?.into_dyn(),
        TensorData::String(v) => OrtTensor::from_string_array((shape, v.as_slice()))?.into_dyn(),
    })
}

fn from_value(value: &DynValue) -> Result<Tensor, String> {
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err("is no tensor".to_owned());
    };
    macro_rules! extract {
        ($type:ty, $variant:ident, $convert:expr) => {{
            let (shape, values) = value.try_extract_tensor::<$type>().map_err(|error| one_line(&error))?;
            (shape.to_vec(), TensorData::$variant(values.iter().map($convert).collect()))
        }};
    }
    let (shape, data) = match ty {
        TensorElementType::Float32 => extract!(f32, Float32, |v| *v),
        TensorElementType::Float64 => extract!(f64, Float64, |v| *v),
        TensorElementType::Float16 => extract!(f16, Float16, |v| v.to_bits()),
        TensorElementType::Bfloat16 => extract!(bf16, Bfloat16, |v| v.to_bits()),
        TensorElementType::Int8 => extract!(i8, Int8, |v| *v),
        TensorElementType::Int16 => extract!(i16, Int16, |v| *v),
        TensorElementType::Int32 => extract!(i32, Int32, |v| *v),
        TensorElementType::Int64 => extract!(i64, Int64, |v| *v),
        TensorElementType::Uint8 => extract!(u8, Uint8, |v| *v),
        TensorElementType::Uint16 => extract!(u16, Uint16, |v| *v),
        TensorElementType::Uint32 => extract!(u32, Uint32, |v| *v),
        TensorElementType::Uint64 => extract!(u64, Uint64, |v| *v),
        TensorElementType::Bool => extract!(bool, Bool, |v| *v),
        TensorElementType::String => {
            let (shape, values) = value.try_extract_strings().map_err(|error| one_line(&error))?;
            (shape.to_vec(), TensorData::String(values))
        }
        other => return Err(format!("has the element type {other}, which is not supported")),
    };
    let shape = shape.into_iter().map(|size| usize::try_from(size).unwrap_or(0)).collect();
    Tensor::new(shape, data).map_err(|error| one_line(&error))
}

#[cfg(test)]
mod tests;
