//! Writes arrays as `{"NAME": {"element": …, "shape": […], "data": […]}}`.
//!
//! Invariant: reading the text back gives the same values, NaN payloads aside.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use half::{bf16, f16};
use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use siliconroute_core::tensor::{NamedTensor, Tensor, TensorData};

use super::elements::{INFINITY, NAN, NEGATIVE_INFINITY};
use crate::array_file::error::ArrayFileError;

/// Writes `outputs` as one JSON object, in their order.
pub(in crate::array_file) fn write(
    path: &Path,
    writer: &mut BufWriter<&mut File>,
    outputs: &[NamedTensor],
) -> Result<(), ArrayFileError> {
    serde_json::to_writer(writer, &Outputs(outputs))
        .map_err(|error| ArrayFileError::Write { path: path.to_owned(), source: error.into() })
}

struct Outputs<'a>(&'a [NamedTensor]);

impl Serialize for Outputs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for output in self.0 {
            map.serialize_entry(&output.name, &Array(&output.tensor))?;
        }
        map.end()
    }
}

struct Array<'a>(&'a Tensor);

impl Serialize for Array<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut array = serializer.serialize_struct("Array", 3)?;
        array.serialize_field("element", self.0.element().name())?;
        array.serialize_field("shape", self.0.shape())?;
        array.serialize_field("data", &Data(self.0.data()))?;
        array.end()
    }
}

struct Data<'a>(&'a TensorData);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            TensorData::Float32(values) => floats(serializer, values.iter().copied()),
            TensorData::Float64(values) => floats(serializer, values.iter().copied()),
            TensorData::Float16(values) => {
                floats(serializer, values.iter().map(|&bits| f16::from_bits(bits).to_f32()))
            }
            TensorData::Bfloat16(values) => {
                floats(serializer, values.iter().map(|&bits| bf16::from_bits(bits).to_f32()))
            }
            TensorData::Int8(values) => values.serialize(serializer),
            TensorData::Int16(values) => values.serialize(serializer),
            TensorData::Int32(values) => values.serialize(serializer),
            TensorData::Int64(values) => values.serialize(serializer),
            TensorData::Uint8(values) => values.serialize(serializer),
            TensorData::Uint16(values) => values.serialize(serializer),
            TensorData::Uint32(values) => values.serialize(serializer),
            TensorData::Uint64(values) => values.serialize(serializer),
            TensorData::Bool(values) => values.serialize(serializer),
            TensorData::String(values) => values.serialize(serializer),
        }
    }
}

/// A list of floats in their shortest exact form; JSON has no number for those that are not finite.
fn floats<S, T>(serializer: S, values: impl ExactSizeIterator<Item = T>) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    T: Serialize + Copy + Into<f64>,
{
    let mut list = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        let wide: f64 = value.into();
        if wide.is_finite() {
            list.serialize_element(&value)?;
        } else if wide.is_nan() {
            list.serialize_element(NAN)?;
        } else {
            list.serialize_element(if wide > 0.0 { INFINITY } else { NEGATIVE_INFINITY })?;
        }
    }
    list.end()
}
