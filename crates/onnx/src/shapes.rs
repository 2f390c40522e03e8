//! Shape inference: what a node's outputs look like, given what is known of its inputs.
//!
//! Invariant: a rule states a size only when the operator's definition fixes it; what it cannot tell it
//! leaves unknown, and it reports a conflict only when no engine could run the node.
//!
//! Reading order: `elementwise`, `layout`, `indexing`, `windows`, `matrix`, `sequence`.

mod elementwise;
mod indexing;
mod layout;
mod matrix;
mod sequence;
mod windows;

#[cfg(test)]
mod tests;

pub(crate) use elementwise::reduced_axes;
pub(crate) use indexing::slice_axes;
pub(crate) use layout::{permutation, shape_bounds, split_sizes};
pub(crate) use matrix::einsum_extent;
pub(crate) use sequence::{attention_geometry, hidden_size};
pub(crate) use windows::{conv_slots, pool_window};

use crate::graph::Operation;
use crate::value::{ShapeConflict, Value};

/// The outputs of a node; `None` for operators without a rule.
pub(crate) type Inferred = Result<Option<Vec<Value>>, ShapeConflict>;

/// Infers the outputs of `op`, which may be fewer than the node names.
///
/// # Errors
/// When the known sizes contradict each other.
pub(crate) fn infer_outputs(op: &Operation<'_>) -> Inferred {
    const RULES: [fn(&Operation<'_>) -> Inferred; 6] =
        [elementwise::infer, layout::infer, indexing::infer, windows::infer, matrix::infer, sequence::infer];
    for rule in RULES {
        if let Some(outputs) = rule(op)? {
            return Ok(Some(outputs));
        }
    }
    Ok(None)
}
