//! Outputs of a model, for people and as JSON: a few values whole, many by their range.
//!
//! Invariant: a value shows in its own type, and what is no finite number is counted, never part of a range.

use std::fmt::Display;

use serde_json::{Value, json};
use siliconroute_core::tensor::{NamedTensor, TensorData};

use super::floats::Floats;

/// Outputs with more elements are described and not printed.
const MOST_PRINTED: usize = 16;

/// Describes each output in a line; a model without any gets one as well.
pub(super) fn describe(outputs: &[NamedTensor]) -> Vec<String> {
    if outputs.is_empty() {
        return vec!["the model has no output".to_owned()];
    }
    outputs.iter().map(describe_one).collect()
}

fn describe_one(output: &NamedTensor) -> String {
    let tensor = &output.tensor;
    let head = format!("{}: {}{:?}", output.name, tensor.element(), tensor.shape());
    match tensor.data().len() {
        0 => format!("{head}, no elements"),
        1..=MOST_PRINTED => format!("{head} = {}", values(tensor.data())),
        _ => format!("{head}, {}", range(tensor.data())),
    }
}

/// Describes an output for a program; values are absent where there are many.
pub(super) fn describe_json(output: &NamedTensor) -> Value {
    let tensor = &output.tensor;
    let values = (tensor.data().len() <= MOST_PRINTED).then(|| values_json(tensor.data()));
    let mut document = json!({
        "name": output.name, "element": tensor.element(), "shape": tensor.shape(), "values": values,
    });
    if let Some(floats) = Floats::of(tensor.data()) {
        document["not_finite"] = floats.not_finite_json();
        document["range"] = json!(floats.range.map(|(low, high)| [low, high]));
    }
    document
}

fn values(data: &TensorData) -> String {
    match data {
        TensorData::Float32(values) => format!("{values:?}"),
        TensorData::Float64(values) => format!("{values:?}"),
        TensorData::Float16(_) | TensorData::Bfloat16(_) => {
            // Every float of 16 bits is one of 32 bits, and prints shorter as such.
            let values: Vec<f32> =
                data.to_f64().unwrap_or_default().into_iter().map(|value| value as f32).collect();
            format!("{values:?}")
        }
        TensorData::Int8(values) => format!("{values:?}"),
        TensorData::Int16(values) => format!("{values:?}"),
        TensorData::Int32(values) => format!("{values:?}"),
        TensorData::Int64(values) => format!("{values:?}"),
        TensorData::Uint8(values) => format!("{values:?}"),
        TensorData::Uint16(values) => format!("{values:?}"),
        TensorData::Uint32(values) => format!("{values:?}"),
        TensorData::Uint64(values) => format!("{values:?}"),
        TensorData::Bool(values) => format!("{values:?}"),
        TensorData::String(values) => format!("{values:?}"),
    }
}

fn values_json(data: &TensorData) -> Value {
    match data {
        TensorData::Float32(_)
        | TensorData::Float64(_)
        | TensorData::Float16(_)
        | TensorData::Bfloat16(_) => json!(data.to_f64()),
        TensorData::Int8(values) => json!(values),
        TensorData::Int16(values) => json!(values),
        TensorData::Int32(values) => json!(values),
        TensorData::Int64(values) => json!(values),
        TensorData::Uint8(values) => json!(values),
        TensorData::Uint16(values) => json!(values),
        TensorData::Uint32(values) => json!(values),
        TensorData::Uint64(values) => json!(values),
        TensorData::Bool(values) => json!(values),
        TensorData::String(values) => json!(values),
    }
}

fn range(data: &TensorData) -> String {
    match data {
        TensorData::Float32(_)
        | TensorData::Float64(_)
        | TensorData::Float16(_)
        | TensorData::Bfloat16(_) => {
            Floats::of(data).map_or_else(String::new, |floats| floats.sentence(data.element()))
        }
        TensorData::Int8(values) => integer_range(values),
        TensorData::Int16(values) => integer_range(values),
        TensorData::Int32(values) => integer_range(values),
        TensorData::Int64(values) => integer_range(values),
        TensorData::Uint8(values) => integer_range(values),
        TensorData::Uint16(values) => integer_range(values),
        TensorData::Uint32(values) => integer_range(values),
        TensorData::Uint64(values) => integer_range(values),
        TensorData::Bool(values) => {
            let yes = values.iter().filter(|&&value| value).count();
            format!("{yes} true, {} false", values.len() - yes)
        }
        TensorData::String(_) => "text".to_owned(),
    }
}

fn integer_range<T: Ord + Display>(values: &[T]) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(low), Some(high)) => format!("from {low} to {high}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use siliconroute_core::tensor::Tensor;

    use super::*;

    #[track_caller]
    fn check(data: TensorData, described: &str) {
        let tensor = Tensor::new(vec![data.len()], data).unwrap();
        let output = NamedTensor { name: "y".to_owned(), tensor };
        assert_eq!(describe(&[output]), [format!("y: {described}")]);
    }

    #[test]
    fn values_show_in_their_own_type() {
        check(TensorData::Float32(vec![0.1, 1e-9, f32::NAN]), "float32[3] = [0.1, 1e-9, NaN]");
        check(TensorData::Float64(vec![0.1, -f64::INFINITY]), "float64[2] = [0.1, -inf]");
        check(TensorData::Float16(vec![0x3c00, 0x7c00]), "float16[2] = [1.0, inf]");
        check(TensorData::Int64(vec![i64::MAX, -1]), "int64[2] = [9223372036854775807, -1]");
        check(TensorData::Uint8(vec![255]), "uint8[1] = [255]");
        check(TensorData::Bool(vec![true, false]), "bool[2] = [true, false]");
        check(TensorData::String(vec!["a\n".to_owned()]), "string[1] = [\"a\\n\"]");
        check(TensorData::Int32(Vec::new()), "int32[0], no elements");
    }

    #[test]
    fn no_output_is_told() {
        assert_eq!(describe(&[]), ["the model has no output"]);
    }

    #[test]
    fn many_values_show_by_their_range() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        check(TensorData::Float32(vec![nan; 20]), "float32[20], all NaN");
        check(TensorData::Float32(vec![-infinity; 17]), "float32[17], all -inf");
        let mut values = vec![0.5_f32; 17];
        values[1] = 1e-9;
        check(TensorData::Float32(values.clone()), "float32[17], from 1e-9 to 0.5");
        values[2..5].copy_from_slice(&[nan, infinity, -infinity]);
        values[5] = nan;
        let described = "float32[17], from 1e-9 to 0.5, 2 NaN, 1 inf, 1 -inf";
        check(TensorData::Float32(values), described);
        check(TensorData::Float64(vec![0.1; 17]), "float64[17], from 0.1 to 0.1");
        check(TensorData::Int64((-3..=i64::from(u8::MAX)).collect()), "int64[259], from -3 to 255");
        let bools = (0..20).map(|index| index < 3).collect();
        check(TensorData::Bool(bools), "bool[20], 3 true, 17 false");
    }

    #[test]
    fn documents_keep_types_and_count_what_is_not_finite() {
        let document = |data: TensorData| {
            let tensor = Tensor::new(vec![data.len()], data).unwrap();
            describe_json(&NamedTensor { name: "y".to_owned(), tensor })
        };
        assert_eq!(document(TensorData::Int64(vec![i64::MAX]))["values"], json!([i64::MAX]));
        assert_eq!(document(TensorData::Bool(vec![true]))["values"], json!([true]));
        let floats = document(TensorData::Float32(vec![f32::NAN, 1.0, f32::INFINITY]));
        assert_eq!(floats["values"], json!([null, 1.0, null]));
        assert_eq!(floats["not_finite"], json!({"nan": 1, "inf": 1, "-inf": 0}));
        assert_eq!(floats["range"], json!([1.0, 1.0]));
        let nothing = document(TensorData::Float32(vec![f32::NAN; 20]));
        assert_eq!((&nothing["values"], &nothing["range"]), (&Value::Null, &Value::Null));
    }
}
