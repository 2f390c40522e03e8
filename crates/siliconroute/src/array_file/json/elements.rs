//! A growing list of elements of one type, filled from JSON's few types.
//!
//! Invariant: an element that is taken is exactly what the text says, except for decimal fractions, which
//! round to the nearest float of the type.

use half::{bf16, f16};
use siliconroute_core::tensor::{ElementType, TensorData};

/// A value of JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'a> {
    Whole(i128),
    Real(f64),
    Truth(bool),
    Text(&'a str),
}

/// The first magnitude from which 64-bit floats no longer hold every whole number.
const EXACT_WHOLE_LIMIT: f64 = 9_007_199_254_740_992.0;

pub(super) const NAN: &str = "NaN";
pub(super) const INFINITY: &str = "Infinity";
pub(super) const NEGATIVE_INFINITY: &str = "-Infinity";

/// No elements of the type yet.
pub(super) fn empty(element: ElementType) -> TensorData {
    match element {
        ElementType::Float32 => TensorData::Float32(Vec::new()),
        ElementType::Float64 => TensorData::Float64(Vec::new()),
        ElementType::Float16 => TensorData::Float16(Vec::new()),
        ElementType::Bfloat16 => TensorData::Bfloat16(Vec::new()),
        ElementType::Int8 => TensorData::Int8(Vec::new()),
        ElementType::Int16 => TensorData::Int16(Vec::new()),
        ElementType::Int32 => TensorData::Int32(Vec::new()),
        ElementType::Int64 => TensorData::Int64(Vec::new()),
        ElementType::Uint8 => TensorData::Uint8(Vec::new()),
        ElementType::Uint16 => TensorData::Uint16(Vec::new()),
        ElementType::Uint32 => TensorData::Uint32(Vec::new()),
        ElementType::Uint64 => TensorData::Uint64(Vec::new()),
        ElementType::Bool => TensorData::Bool(Vec::new()),
        ElementType::String => TensorData::String(Vec::new()),
    }
}

/// Adds `scalar` to `data`, or tells why its type cannot take it.
pub(super) fn push(data: &mut TensorData, scalar: Scalar<'_>) -> Result<(), String> {
    match data {
        TensorData::Float32(values) => {
            values.push(float(scalar, "float32", |value| value as f32, |held| f64::from(*held))?);
        }
        TensorData::Float64(values) => values.push(float(scalar, "float64", |value| value, |held| *held)?),
        TensorData::Float16(values) => {
            let held = |bits: &u16| f16::from_bits(*bits).to_f64();
            values.push(float(scalar, "float16", |value| f16::from_f64(value).to_bits(), held)?);
        }
        TensorData::Bfloat16(values) => {
            let held = |bits: &u16| bf16::from_bits(*bits).to_f64();
            values.push(float(scalar, "bfloat16", |value| bf16::from_f64(value).to_bits(), held)?);
        }
        TensorData::Int8(values) => values.push(whole(scalar, "int8")?),
        TensorData::Int16(values) => values.push(whole(scalar, "int16")?),
        TensorData::Int32(values) => values.push(whole(scalar, "int32")?),
        TensorData::Int64(values) => values.push(whole(scalar, "int64")?),
        TensorData::Uint8(values) => values.push(whole(scalar, "uint8")?),
        TensorData::Uint16(values) => values.push(whole(scalar, "uint16")?),
        TensorData::Uint32(values) => values.push(whole(scalar, "uint32")?),
        TensorData::Uint64(values) => values.push(whole(scalar, "uint64")?),
        TensorData::Bool(values) => match scalar {
            Scalar::Truth(value) => values.push(value),
            other => return Err(format!("is {}, and the model wants true or false", shown(other))),
        },
        TensorData::String(values) => match scalar {
            Scalar::Text(text) => values.push(text.to_owned()),
            other => return Err(format!("is {}, and the model wants a text", shown(other))),
        },
    }
    Ok(())
}

fn float<T>(
    scalar: Scalar<'_>,
    name: &str,
    narrow: impl Fn(f64) -> T,
    held: impl Fn(&T) -> f64,
) -> Result<T, String> {
    let value = match scalar {
        Scalar::Real(value) => value,
        Scalar::Whole(value) => value as f64,
        Scalar::Text(NAN) => return Ok(narrow(f64::NAN)),
        Scalar::Text(INFINITY) => return Ok(narrow(f64::INFINITY)),
        Scalar::Text(NEGATIVE_INFINITY) => return Ok(narrow(f64::NEG_INFINITY)),
        other => return Err(format!("is {}, and the model wants {name}", shown(other))),
    };
    let narrowed = narrow(value);
    if held(&narrowed).is_finite() {
        Ok(narrowed)
    } else {
        Err(format!("is {value}, outside the range of {name}"))
    }
}

fn whole<T: TryFrom<i128>>(scalar: Scalar<'_>, name: &str) -> Result<T, String> {
    let value = match scalar {
        Scalar::Whole(value) => value,
        Scalar::Real(value) if value.fract() == 0.0 && value.abs() < EXACT_WHOLE_LIMIT => value as i128,
        Scalar::Real(value) if value.fract() == 0.0 => {
            return Err(format!(
                "is {value:e}, outside the range of {name}, or written as a float too large to be exact"
            ));
        }
        Scalar::Real(value) => {
            return Err(format!("is {value}, and the model wants {name}, which has no fractions"));
        }
        other => return Err(format!("is {}, and the model wants {name}", shown(other))),
    };
    T::try_from(value).map_err(|_out_of_range| format!("is {value}, outside the range of {name}"))
}

fn shown(scalar: Scalar<'_>) -> String {
    match scalar {
        Scalar::Whole(value) => value.to_string(),
        Scalar::Real(value) => value.to_string(),
        Scalar::Truth(value) => value.to_string(),
        Scalar::Text(_) => "a text".to_owned(),
    }
}
