//! Turns a checked recipe into elements.
//!
//! Invariant: as many elements as asked for, each of which the element type holds.

use half::{bf16, f16};
use siliconroute_core::tensor::{ElementType, TensorData};

use super::random::Random;
use super::recipe::{Recipe, is_float, whole_bounds};

/// `count` elements of a tensor of this `shape`; `recipe` must have passed its check.
pub(super) fn fill(
    recipe: &Recipe,
    element: ElementType,
    shape: &[usize],
    count: usize,
    mut random: Random,
) -> TensorData {
    let row = shape.last().copied().unwrap_or(1).max(1);
    match *recipe {
        Recipe::Text { ref value } => TensorData::String(vec![value.clone(); count]),
        Recipe::Normal { mean, std } => floats(element, count, |_| mean + std * random.normal()),
        Recipe::Uniform { low, high } => floats(element, count, |_| low + (high - low) * random.unit()),
        Recipe::Constant { value } if is_float(element) => floats(element, count, |_| value),
        Recipe::Constant { value } => wholes(element, count, |_| value as i128),
        Recipe::Integers { low, high } => {
            let span = high.abs_diff(low);
            wholes(element, count, |_| i128::from(low) + i128::from(random.below(span)))
        }
        Recipe::Zeros => wholes(element, count, |_| 0),
        Recipe::Ones => wholes(element, count, |_| 1),
        Recipe::Range { wrap } => {
            let wrap = wrap.unwrap_or(u64::MAX).max(1);
            wholes(element, count, |index| i128::from((index % row) as u64 % wrap))
        }
        Recipe::OneHot => {
            let mut hot = 0;
            wholes(element, count, |index| {
                if index % row == 0 {
                    hot = random.below(row as u64);
                }
                i128::from((index % row) as u64 == hot)
            })
        }
    }
}

/// Elements of a float type, rounded to nearest.
fn floats(element: ElementType, count: usize, mut value: impl FnMut(usize) -> f64) -> TensorData {
    let values = (0..count).map(&mut value);
    match element {
        ElementType::Float64 => TensorData::Float64(values.collect()),
        ElementType::Float16 => TensorData::Float16(values.map(|x| f16::from_f64(x).to_bits()).collect()),
        ElementType::Bfloat16 => TensorData::Bfloat16(values.map(|x| bf16::from_f64(x).to_bits()).collect()),
        _ => TensorData::Float32(values.map(|x| x as f32).collect()),
    }
}

/// Elements of any numeric type, whose bounds the recipe's check has compared.
fn wholes(element: ElementType, count: usize, mut value: impl FnMut(usize) -> i128) -> TensorData {
    let (low, high) = whole_bounds(element).unwrap_or_default();
    let values = (0..count).map(|index| value(index).clamp(low, high));
    match element {
        ElementType::Int8 => TensorData::Int8(values.map(|x| x as i8).collect()),
        ElementType::Int16 => TensorData::Int16(values.map(|x| x as i16).collect()),
        ElementType::Int32 => TensorData::Int32(values.map(|x| x as i32).collect()),
        ElementType::Int64 => TensorData::Int64(values.map(|x| x as i64).collect()),
        ElementType::Uint8 => TensorData::Uint8(values.map(|x| x as u8).collect()),
        ElementType::Uint16 => TensorData::Uint16(values.map(|x| x as u16).collect()),
        ElementType::Uint32 => TensorData::Uint32(values.map(|x| x as u32).collect()),
        ElementType::Uint64 => TensorData::Uint64(values.map(|x| x as u64).collect()),
        ElementType::Bool => TensorData::Bool(values.map(|x| x != 0).collect()),
        float => {
            let mut values = values;
            floats(float, count, |_| values.next().unwrap_or_default() as f64)
        }
    }
}
