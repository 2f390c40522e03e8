//! Constants of a graph: sizes, types and small contents of stored tensors.
//!
//! Invariant: a tensor that passes [`check_tensor`] stores exactly the data its dimensions promise.

use bytes::Bytes;

use crate::data_type::DataType;
use crate::proto::TensorProto;
use crate::value::{CONTENTS_LIMIT, Dim, ELEMENT_LIMIT, Value};

/// Tensors with more axes than this are taken for a mistake.
pub(crate) const RANK_LIMIT: usize = 64;

/// The number of elements that a tensor's dimensions promise.
///
/// # Errors
/// What is wrong with the dimensions.
pub(crate) fn element_count(tensor: &TensorProto) -> Result<u64, String> {
    if tensor.dims.len() > RANK_LIMIT {
        return Err(format!("it has {} axes", tensor.dims.len()));
    }
    let sizes = tensor.dims.iter().map(|&d| u64::try_from(d));
    let sizes: Vec<u64> = sizes.collect::<Result<_, _>>().or(Err("it has a negative size".to_owned()))?;
    sizes
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size))
        .filter(|&count| count <= ELEMENT_LIMIT)
        .ok_or_else(|| format!("its size {sizes:?} is beyond any memory"))
}

/// Checks that the data stored in the model itself are as many as the dimensions promise.
///
/// # Errors
/// What does not fit.
pub(crate) fn check_tensor(tensor: &TensorProto) -> Result<(), String> {
    let count = element_count(tensor)?;
    let data_type = DataType(tensor.data_type);
    if tensor.data_location == 1 {
        return Ok(());
    }
    if !tensor.raw_data.is_empty() {
        let needed = data_type.bytes_of(count);
        let found = tensor.raw_data.len() as u64;
        return if data_type.bits().is_none() || needed == found {
            Ok(())
        } else {
            Err(format!("it needs {needed} bytes and stores {found}"))
        };
    }
    let per_element = match tensor.data_type {
        14 | 15 => 2,
        _ => 1,
    };
    let found = tensor.float_data.len()
        + tensor.int32_data.len()
        + tensor.int64_data.len()
        + tensor.double_data.len()
        + tensor.uint64_data.len()
        + tensor.string_data.len();
    let needed = match data_type.bits() {
        Some(bits @ (2 | 4)) => count.div_ceil(8 / bits),
        _ => count * per_element,
    };
    if needed == found as u64 {
        Ok(())
    } else {
        Err(format!("it needs {needed} elements and stores {found}"))
    }
}

/// Drops the contents of a large tensor, which nothing here reads; what is left shares no memory with the file.
///
/// Text stays, since its size is that of its contents.
pub(crate) fn keep_small_contents(tensor: &mut TensorProto) {
    tensor.string_data.iter_mut().for_each(detach);
    if element_count(tensor).is_ok_and(|count| count <= CONTENTS_LIMIT) {
        detach(&mut tensor.raw_data);
        return;
    }
    tensor.raw_data = Bytes::new();
    tensor.float_data = Vec::new();
    tensor.int32_data = Vec::new();
    tensor.int64_data = Vec::new();
    tensor.double_data = Vec::new();
    tensor.uint64_data = Vec::new();
}

/// Copies bytes out of the file's, of which each part keeps the whole.
pub(crate) fn detach(bytes: &mut Bytes) {
    *bytes = Bytes::copy_from_slice(bytes);
}

/// The value of a stored tensor, with its contents where they are small.
pub(crate) fn tensor_value(tensor: &TensorProto) -> Value {
    let shape: Vec<Dim> = tensor.dims.iter().map(|&d| u64::try_from(d).ok()).collect();
    let mut value = Value::new(DataType(tensor.data_type), Some(shape));
    value.contents = small_contents(tensor).filter(|c| value.elements() == Some(c.len() as u64));
    value
}

/// The elements of a small numeric tensor; `None` for large ones, text and packed types.
pub(crate) fn small_contents(tensor: &TensorProto) -> Option<Vec<Option<f64>>> {
    let count = element_count(tensor).ok().filter(|&count| count <= CONTENTS_LIMIT)?;
    if tensor.data_location == 1 {
        return None;
    }
    let numbers: Vec<f64> = if tensor.raw_data.is_empty() {
        typed_numbers(tensor)
    } else {
        raw_numbers(&tensor.raw_data, DataType(tensor.data_type))?
    };
    (numbers.len() as u64 == count).then(|| numbers.into_iter().map(Some).collect())
}

fn typed_numbers(tensor: &TensorProto) -> Vec<f64> {
    let data_type = DataType(tensor.data_type);
    match data_type {
        DataType::FLOAT => tensor.float_data.iter().map(|&x| f64::from(x)).collect(),
        DataType::DOUBLE => tensor.double_data.clone(),
        DataType::INT64 => tensor.int64_data.iter().map(|&x| x as f64).collect(),
        DataType::FLOAT16 => {
            tensor.int32_data.iter().map(|&x| half::f16::from_bits(x as u16).to_f64()).collect()
        }
        DataType::BFLOAT16 => {
            tensor.int32_data.iter().map(|&x| half::bf16::from_bits(x as u16).to_f64()).collect()
        }
        _ if !tensor.uint64_data.is_empty() => tensor.uint64_data.iter().map(|&x| x as f64).collect(),
        _ => tensor.int32_data.iter().map(|&x| f64::from(x)).collect(),
    }
}

fn raw_numbers(raw: &Bytes, data_type: DataType) -> Option<Vec<f64>> {
    fn each<const N: usize>(raw: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        raw.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
    }
    Some(match data_type.0 {
        1 => each(raw, |b| f64::from(f32::from_le_bytes(b))),
        2 | 9 => each(raw, |[b]| f64::from(b)),
        3 => each(raw, |[b]| f64::from(b.cast_signed())),
        4 => each(raw, |b| f64::from(u16::from_le_bytes(b))),
        5 => each(raw, |b| f64::from(i16::from_le_bytes(b))),
        6 => each(raw, |b| f64::from(i32::from_le_bytes(b))),
        7 => each(raw, |b| i64::from_le_bytes(b) as f64),
        10 => each(raw, |b| half::f16::from_le_bytes(b).to_f64()),
        11 => each(raw, f64::from_le_bytes),
        12 => each(raw, |b| f64::from(u32::from_le_bytes(b))),
        13 => each(raw, |b| u64::from_le_bytes(b) as f64),
        16 => each(raw, |b| half::bf16::from_le_bytes(b).to_f64()),
        _ => return None,
    })
}
