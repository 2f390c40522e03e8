//! Element types, tensor descriptions and owned tensors, independent of any engine.
//!
//! Invariant: a [`Tensor`] holds exactly as many elements as its shape says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The element types of ONNX tensors that SiliconRoute handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// 32-bit IEEE float.
    Float32,
    /// 64-bit IEEE float.
    Float64,
    /// 16-bit IEEE float.
    Float16,
    /// 16-bit brain float.
    Bfloat16,
    /// Signed 8-bit integer.
    Int8,
    /// Signed 16-bit integer.
    Int16,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// Unsigned 8-bit integer.
    Uint8,
    /// Unsigned 16-bit integer.
    Uint16,
    /// Unsigned 32-bit integer.
    Uint32,
    /// Unsigned 64-bit integer.
    Uint64,
    /// Truth value, one byte each.
    Bool,
    /// UTF-8 text.
    String,
}

impl ElementType {
    /// Bytes of one element; `None` for strings, which have no fixed size.
    pub fn size_bytes(self) -> Option<usize> {
        match self {
            Self::Int8 | Self::Uint8 | Self::Bool => Some(1),
            Self::Float16 | Self::Bfloat16 | Self::Int16 | Self::Uint16 => Some(2),
            Self::Float32 | Self::Int32 | Self::Uint32 => Some(4),
            Self::Float64 | Self::Int64 | Self::Uint64 => Some(8),
            Self::String => None,
        }
    }

    /// The lower-case name, as in NumPy where NumPy has the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Bool => "bool",
            Self::String => "string",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One axis of a model's input or output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dimension {
    /// A size that the model fixes.
    Fixed(u64),
    /// A free dimension by name; an unnamed one is called `<tensor>.<axis>`.
    Free(String),
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Free(name) => name.fmt(f),
        }
    }
}

/// Name, element type and shape of a model's input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// The tensor's name in the graph.
    pub name: String,
    /// Its element type.
    pub element: ElementType,
    /// Its axes, outermost first.
    pub shape: Vec<Dimension>,
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{}: {}[{}]", self.name, self.element, shape.join(","))
    }
}

/// Elements of a tensor, row-major.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant is the element type of the same name")]
pub enum TensorData {
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    /// Bit patterns of IEEE half floats.
    Float16(Vec<u16>),
    /// Bit patterns of brain floats.
    Bfloat16(Vec<u16>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Bool(Vec<bool>),
    String(Vec<String>),
}

impl TensorData {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Float32(v) => v.len(),
            Self::Float64(v) => v.len(),
            Self::Float16(v) | Self::Bfloat16(v) | Self::Uint16(v) => v.len(),
            Self::Int8(v) => v.len(),
            Self::Int16(v) => v.len(),
            Self::Int32(v) => v.len(),
            Self::Int64(v) => v.len(),
            Self::Uint8(v) => v.len(),
            Self::Uint32(v) => v.len(),
            Self::Uint64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::String(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type of the data.
    pub fn element(&self) -> ElementType {
        match self {
            Self::Float32(_) => ElementType::Float32,
            Self::Float64(_) => ElementType::Float64,
            Self::Float16(_) => ElementType::Float16,
            Self::Bfloat16(_) => ElementType::Bfloat16,
            Self::Int8(_) => ElementType::Int8,
            Self::Int16(_) => ElementType::Int16,
            Self::Int32(_) => ElementType::Int32,
            Self::Int64(_) => ElementType::Int64,
            Self::Uint8(_) => ElementType::Uint8,
            Self::Uint16(_) => ElementType::Uint16,
            Self::Uint32(_) => ElementType::Uint32,
            Self::Uint64(_) => ElementType::Uint64,
            Self::Bool(_) => ElementType::Bool,
            Self::String(_) => ElementType::String,
        }
    }

    /// The first element that `wanted` accepts, with its position, row-major; `None` for anything but integers.
    pub fn find_integer(&self, wanted: impl Fn(i128) -> bool) -> Option<(usize, i128)> {
        fn find<T: Copy + Into<i128>>(all: &[T], wanted: impl Fn(i128) -> bool) -> Option<(usize, i128)> {
            all.iter().map(|&element| element.into()).enumerate().find(|&(_, element)| wanted(element))
        }
        match self {
            Self::Int8(v) => find(v, wanted),
            Self::Int16(v) => find(v, wanted),
            Self::Int32(v) => find(v, wanted),
            Self::Int64(v) => find(v, wanted),
            Self::Uint8(v) => find(v, wanted),
            Self::Uint16(v) => find(v, wanted),
            Self::Uint32(v) => find(v, wanted),
            Self::Uint64(v) => find(v, wanted),
            Self::Float32(_)
            | Self::Float64(_)
            | Self::Float16(_)
            | Self::Bfloat16(_)
            | Self::Bool(_)
            | Self::String(_) => None,
        }
    }

    /// Visits the elements of a float type in order, as 64-bit floats and without a copy of them all;
    /// gives `false`, and visits nothing, for other types.
    pub fn visit_floats(&self, mut visit: impl FnMut(f64)) -> bool {
        match self {
            Self::Float32(v) => v.iter().for_each(|&x| visit(f64::from(x))),
            Self::Float64(v) => v.iter().for_each(|&x| visit(x)),
            Self::Float16(v) => v.iter().for_each(|&x| visit(half::f16::from_bits(x).to_f64())),
            Self::Bfloat16(v) => v.iter().for_each(|&x| visit(half::bf16::from_bits(x).to_f64())),
            _ => return false,
        }
        true
    }

    /// The elements as 64-bit floats; `None` for strings.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        Some(match self {
            Self::Float32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Float64(v) => v.clone(),
            Self::Float16(v) => v.iter().map(|&x| half::f16::from_bits(x).to_f64()).collect(),
            Self::Bfloat16(v) => v.iter().map(|&x| half::bf16::from_bits(x).to_f64()).collect(),
            Self::Int8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Int16(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Int32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Int64(v) => v.iter().map(|&x| x as f64).collect(),
            Self::Uint8(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Uint16(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Uint32(v) => v.iter().map(|&x| f64::from(x)).collect(),
            Self::Uint64(v) => v.iter().map(|&x| x as f64).collect(),
            Self::Bool(v) => v.iter().map(|&x| f64::from(u8::from(x))).collect(),
            Self::String(_) => return None,
        })
    }
}

/// A shape that does not fit the number of elements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shape {shape:?} needs {needed} elements, the data has {found}")]
pub struct ShapeMismatch {
    /// The shape asked for.
    pub shape: Vec<usize>,
    /// How many elements the shape needs; `usize::MAX` stands for an overflow.
    pub needed: usize,
    /// How many elements there are.
    pub found: usize,
}

/// An owned, row-major tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    shape: Vec<usize>,
    data: TensorData,
}

impl Tensor {
    /// Joins `data` with its `shape`.
    ///
    /// # Errors
    /// When the product of `shape` is not the number of elements.
    pub fn new(shape: Vec<usize>, data: TensorData) -> Result<Self, ShapeMismatch> {
        let needed = element_count(&shape).unwrap_or(usize::MAX);
        if needed == data.len() {
            Ok(Self { shape, data })
        } else {
            Err(ShapeMismatch { needed, found: data.len(), shape })
        }
    }

    /// The sizes of the axes, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements.
    pub fn data(&self) -> &TensorData {
        &self.data
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.data.element()
    }

    /// Gives up the tensor for its shape and elements.
    pub fn into_parts(self) -> (Vec<usize>, TensorData) {
        (self.shape, self.data)
    }
}

/// A tensor under the name of a model's input or output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedTensor {
    /// The input's or output's name.
    pub name: String,
    /// Its value.
    pub tensor: Tensor,
}

/// The product of `shape`, 1 for a scalar; `None` when it overflows.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_shape_that_does_not_fit() {
        assert!(Tensor::new(vec![2, 3], TensorData::Float32(vec![0.0; 5])).is_err());
        assert!(Tensor::new(vec![usize::MAX, 3], TensorData::Float32(vec![0.0; 5])).is_err());
        assert!(Tensor::new(vec![], TensorData::Int64(vec![1])).is_ok());
        assert!(Tensor::new(vec![0, 4], TensorData::Int64(vec![])).is_ok());
    }

    #[test]
    fn widens_half_floats() {
        let halves = TensorData::Float16(vec![0x3c00, 0xc000, 0x0001, 0x7bff]);
        assert_eq!(halves.to_f64(), Some(vec![1.0, -2.0, 2_f64.powi(-24), 65504.0]));
        assert_eq!(TensorData::Bfloat16(vec![0x3f80, 0xc000]).to_f64(), Some(vec![1.0, -2.0]));
        let mut visited = Vec::new();
        assert!(halves.visit_floats(|value| visited.push(value)));
        assert_eq!(Some(visited), halves.to_f64());
        assert!(!TensorData::Int8(vec![1]).visit_floats(|_| panic!("no float")));
    }
}
