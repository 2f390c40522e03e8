//! What is known of one tensor of a graph: type, shape, small contents.
//!
//! Invariant: `contents`, where known, holds exactly as many elements as the shape, at most
//! [`CONTENTS_LIMIT`].

use crate::data_type::DataType;

/// Tensors with more elements than this keep their shape but not their contents.
pub(crate) const CONTENTS_LIMIT: u64 = 4096;

/// A tensor with more elements than this is taken for a mistake.
pub(crate) const ELEMENT_LIMIT: u64 = 1 << 40;

/// The size of an axis, where known.
pub(crate) type Dim = Option<u64>;

/// The number of a constant in the evaluator's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConstantNumber(pub(crate) usize);

/// What is known of a tensor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value {
    pub(crate) data_type: DataType,
    /// `None` when not even the number of axes is known.
    pub(crate) shape: Option<Vec<Dim>>,
    /// Elements of small tensors, row-major, unknown ones as `None`. Integers beyond 2⁵³ lose low bits;
    /// they occur only as "to the end" marks, where that does no harm.
    pub(crate) contents: Option<Vec<Option<f64>>>,
    /// Set when the value is the same in every call.
    pub(crate) constant: Option<ConstantNumber>,
    /// Whether the value comes from a softmax by way of element-wise operators alone.
    pub(crate) after_softmax: bool,
    /// The position among the caller's inputs of the one whose elements these are, in any order or shape.
    pub(crate) of_input: Option<usize>,
}

impl Value {
    pub(crate) fn unknown() -> Self {
        Self::default()
    }

    pub(crate) fn new(data_type: DataType, shape: Option<Vec<Dim>>) -> Self {
        Self { data_type, shape, ..Self::default() }
    }

    /// The number of elements, where all axes are known.
    pub(crate) fn elements(&self) -> Option<u64> {
        elements(self.shape.as_deref()?)
    }

    /// The number of elements with every unknown axis as 1.
    pub(crate) fn elements_at_least(&self) -> f64 {
        self.shape.as_deref().map_or(0.0, |shape| shape.iter().map(|d| d.unwrap_or(1) as f64).product())
    }

    /// Bytes with every unknown axis as 1.
    pub(crate) fn bytes_at_least(&self) -> f64 {
        self.elements_at_least() * self.data_type.bits().unwrap_or(0) as f64 / 8.0
    }

    pub(crate) fn is_fully_known(&self) -> bool {
        self.shape.as_deref().is_some_and(|shape| shape.iter().all(Option::is_some))
    }

    /// The only element, where known.
    pub(crate) fn scalar(&self) -> Option<f64> {
        match self.contents.as_deref() {
            Some([only]) => *only,
            _ => None,
        }
    }

    /// All elements as integers, where all are known.
    pub(crate) fn integers(&self) -> Option<Vec<i64>> {
        self.contents.as_ref()?.iter().map(|element| element.map(|x| x as i64)).collect()
    }
}

/// The product of `shape`; `None` when an axis is unknown or the product overflows.
pub(crate) fn elements(shape: &[Dim]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |product, dim| product.checked_mul((*dim)?))
}

/// Shapes that cannot go together, or that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShapeConflict(pub(crate) String);

/// Two sizes of one axis, either of which may be unknown.
pub(crate) fn same_dim(a: Dim, b: Dim) -> Result<Dim, ShapeConflict> {
    match (a, b) {
        (Some(x), Some(y)) if x != y => Err(ShapeConflict(format!("sizes {x} and {y} of one axis differ"))),
        (known, None) | (None, known) => Ok(known),
        (known, _) => Ok(known),
    }
}

/// The shape of a multidirectional broadcast.
pub(crate) fn broadcast(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, ShapeConflict> {
    let rank = a.len().max(b.len());
    let axis = |shape: &[Dim], index: usize| {
        let missing = rank - shape.len();
        if index < missing { Some(1) } else { shape[index - missing] }
    };
    (0..rank)
        .map(|index| match (axis(a, index), axis(b, index)) {
            (Some(1), other) | (other, Some(1)) => Ok(other),
            (Some(x), Some(y)) if x == y => Ok(Some(x)),
            (Some(x), Some(y)) => {
                Err(ShapeConflict(format!("sizes {x} and {y} of axis {index} do not broadcast")))
            }
            (known, None) | (None, known) => Ok(known),
        })
        .collect()
}

/// Broadcasts any number of shapes; unknown when one of them is.
pub(crate) fn broadcast_all<'a>(
    shapes: impl Iterator<Item = Option<&'a [Dim]>>,
) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let mut result = Vec::new();
    for shape in shapes {
        match shape {
            Some(shape) => result = broadcast(&result, shape)?,
            None => return Ok(None),
        }
    }
    Ok(Some(result))
}

/// Turns an axis that may count from the end into an index below `rank`.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Result<usize, ShapeConflict> {
    let signed_rank = i64::try_from(rank).unwrap_or(i64::MAX);
    let resolved = if axis < 0 { axis.checked_add(signed_rank) } else { Some(axis) };
    resolved
        .filter(|&a| (0..signed_rank).contains(&a))
        .and_then(|a| usize::try_from(a).ok())
        .ok_or_else(|| ShapeConflict(format!("axis {axis} of a tensor of {rank} axes")))
}
