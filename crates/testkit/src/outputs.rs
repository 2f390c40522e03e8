//! What a simulated target computes: made-up numbers that all honest targets agree on.
//!
//! Invariant: right outputs depend on the model's name, its bindings and the output's place alone; the
//! precision probe's are its true ones.

use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::{
    Dimension, ElementType, NamedTensor, Tensor, TensorData, TensorSpec, element_count,
};

/// The model name of the precision probe.
pub const PROBE: &str = "precision-probe";

/// How outputs relate to the right ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Outputs {
    /// As right as 32-bit floats are.
    #[default]
    Right,
    /// Scaled so that the relative error is this, the largest element where it was.
    Off(f64),
    /// The largest element lowered by this share of it, so that from 1e-3 on another one is the largest.
    OffAtTheTop(f64),
    /// Right in a session's first run, and then as [`Self::Off`].
    OffLater(f64),
    /// One element is not a number.
    NotANumber,
    /// One axis more.
    WrongShape,
    /// One output more.
    WrongCount,
}

impl Outputs {
    /// The outputs of `model` with `bindings` in the run of a session that is its `run`th, from 1.
    ///
    /// # Errors
    /// When a shape overflows or an element type is none that the simulation has.
    pub fn make(
        self,
        model: &str,
        bindings: &Bindings,
        specs: &[TensorSpec],
        run: u32,
    ) -> Result<Vec<NamedTensor>, String> {
        let right = specs.iter().enumerate().map(|(index, spec)| right_output(model, bindings, index, spec));
        let mut outputs = right.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = outputs.first_mut() else { return Ok(outputs) };
        let (mut shape, mut data) = first.tensor.clone().into_parts();
        if let TensorData::Float32(values) = &mut data {
            match self {
                Self::Right | Self::WrongShape | Self::WrongCount => {}
                Self::OffLater(_) if run <= 1 => {}
                Self::Off(error) | Self::OffLater(error) => {
                    for value in values {
                        *value = (f64::from(*value) * (1.0 + error)) as f32;
                    }
                }
                Self::OffAtTheTop(error) => {
                    if let Some(top) = values.iter_mut().max_by(|a, b| a.total_cmp(b)) {
                        *top = (f64::from(*top) * (1.0 - error)) as f32;
                    }
                }
                Self::NotANumber => {
                    if let Some(first) = values.first_mut() {
                        *first = f32::NAN;
                    }
                }
            }
        }
        if self == Self::WrongShape {
            shape.push(1);
        }
        first.tensor = Tensor::new(shape, data).map_err(|mismatch| mismatch.to_string())?;
        if self == Self::WrongCount {
            let extra = NamedTensor { name: "extra".to_owned(), tensor: first.tensor.clone() };
            outputs.push(extra);
        }
        Ok(outputs)
    }
}

fn right_output(
    model: &str,
    bindings: &Bindings,
    index: usize,
    spec: &TensorSpec,
) -> Result<NamedTensor, String> {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => usize::try_from(*size).ok(),
        Dimension::Free(name) => usize::try_from(bindings.get(name).unwrap_or(1)).ok(),
    };
    let too_large = || format!("output `{}` is too large to be simulated", spec.name);
    let shape = spec.shape.iter().map(size).collect::<Option<Vec<_>>>().ok_or_else(too_large)?;
    let count = element_count(&shape).filter(|&count| count <= 1 << 26).ok_or_else(too_large)?;
    let seed = model.bytes().chain(bindings.to_string().into_bytes()).fold(index as u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
    });
    let data = match spec.element {
        ElementType::Float32 if model == PROBE => {
            let exact = siliconroute_onnx::precision_probe_reference().output;
            TensorData::Float32(exact.into_iter().map(|value| value as f32).collect())
        }
        ElementType::Float32 => TensorData::Float32((0..count).map(|at| made_up(seed, at)).collect()),
        ElementType::Int64 => TensorData::Int64(
            (0..count).map(|at| (seed.wrapping_add(at as u64) % 100).cast_signed()).collect(),
        ),
        other => return Err(format!("the simulated engine has no element type {other}")),
    };
    let tensor = Tensor::new(shape, data).map_err(|mismatch| mismatch.to_string())?;
    Ok(NamedTensor { name: spec.name.clone(), tensor })
}

/// A value in ±0.5, but for the first two, which are the largest and all but as large.
fn made_up(seed: u64, at: usize) -> f32 {
    match at {
        0 => 1.0,
        1 => 0.999,
        _ => {
            let mixed = seed.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 40) as f32 / (1_u32 << 24) as f32 - 0.5
        }
    }
}
