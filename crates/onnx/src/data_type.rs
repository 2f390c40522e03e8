//! The element types of ONNX tensors by their number in the schema.
//!
//! Invariant: a type that this program does not know has no size, and its tensors count no bytes.

use siliconroute_core::ElementType;
use siliconroute_core::model::Precision;

/// A `TensorProto.DataType`; 0 is undefined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct DataType(pub(crate) i32);

impl DataType {
    pub(crate) const FLOAT: Self = Self(1);
    pub(crate) const UINT8: Self = Self(2);
    pub(crate) const INT32: Self = Self(6);
    pub(crate) const INT64: Self = Self(7);
    pub(crate) const STRING: Self = Self(8);
    pub(crate) const BOOL: Self = Self(9);
    pub(crate) const FLOAT16: Self = Self(10);
    pub(crate) const DOUBLE: Self = Self(11);
    pub(crate) const BFLOAT16: Self = Self(16);

    /// The type as SiliconRoute's engines know it.
    pub(crate) fn element(self) -> Option<ElementType> {
        Some(match self.0 {
            1 => ElementType::Float32,
            2 => ElementType::Uint8,
            3 => ElementType::Int8,
            4 => ElementType::Uint16,
            5 => ElementType::Int16,
            6 => ElementType::Int32,
            7 => ElementType::Int64,
            8 => ElementType::String,
            9 => ElementType::Bool,
            10 => ElementType::Float16,
            11 => ElementType::Float64,
            12 => ElementType::Uint32,
            13 => ElementType::Uint64,
            16 => ElementType::Bfloat16,
            _ => return None,
        })
    }

    /// Bits of one element; `None` for strings and unknown types.
    pub(crate) fn bits(self) -> Option<u64> {
        Some(match self.0 {
            2 | 3 | 9 | 17..=20 | 24 => 8,
            4 | 5 | 10 | 16 => 16,
            1 | 6 | 12 => 32,
            7 | 11 | 13 | 14 => 64,
            15 => 128,
            21..=23 => 4,
            25 | 26 => 2,
            _ => return None,
        })
    }

    /// Bytes of `elements` packed elements; 0 for types without a size.
    pub(crate) fn bytes_of(self, elements: u64) -> u64 {
        let bits = u128::from(elements) * u128::from(self.bits().unwrap_or(0));
        u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
    }

    /// Whether the type holds whole numbers in whole bytes.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self.0, 2..=7 | 12 | 13)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self.0, 1 | 10 | 11 | 14..=20 | 23 | 24)
    }

    /// Whether the type is a narrow integer, as quantised weights use.
    pub(crate) fn is_narrow_integer(self) -> bool {
        matches!(self.0, 2 | 3 | 21 | 22 | 25 | 26)
    }

    pub(crate) fn precision(self) -> Precision {
        match self.0 {
            1 => Precision::Fp32,
            2 | 3 => Precision::Int8,
            10 => Precision::Fp16,
            11 => Precision::Fp64,
            16 => Precision::Bf16,
            _ => Precision::Other,
        }
    }
}
