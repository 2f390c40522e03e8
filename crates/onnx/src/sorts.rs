//! The work of a call by sort of node, as models are compared by what their work consists of.
//!
//! Invariant: a node is sorted by its sizes alone, as `data/count_board_models.py` sorts the layers of public networks.

#[cfg(test)]
mod tests;

use siliconroute_core::transfer::{Pack, SortOfWork};
use siliconroute_core::{Bindings, OperatorClass};

use crate::bind::BindError;
use crate::graph::Operation;
use crate::load::Model;
use crate::shapes::conv_slots;
use crate::value::{Dim, Value};

/// What nodes of one sort have in common: class, window, pack, and binary logarithms of length and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sort {
    class: OperatorClass,
    window: u8,
    pack: Option<Pack>,
    length: u8,
    size: u8,
}

/// Multiply-adds and bytes of the nodes of one sort.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SortTally {
    pub(crate) multiply_adds: f64,
    pub(crate) bytes: f64,
}

/// The sort of a node of which `written` is the first output, and its multiply-adds; `None` where it is not known how many
/// values it writes.
pub(crate) fn sort(
    op: &Operation<'_>,
    class: OperatorClass,
    flops: f64,
    written: &Value,
) -> Option<(Sort, f64)> {
    let values = written.elements()?.max(1);
    let multiply_adds = match class {
        OperatorClass::MatMul
        | OperatorClass::Conv
        | OperatorClass::DepthwiseConv
        | OperatorClass::Recurrent
        | OperatorClass::Attention => flops / 2.0,
        _ => 0.0,
    };
    let length = logarithm((multiply_adds / values as f64) as u64);
    let sort =
        Sort { class, window: window(op), pack: pack(op, class, written), length, size: logarithm(values) };
    Some((sort, multiply_adds))
}

/// The binary logarithm, rounded down; 0 of 0.
fn logarithm(value: u64) -> u8 {
    value.max(1).ilog2() as u8
}

/// The longest side of a convolution's window; 1 of any other node.
fn window(op: &Operation<'_>) -> u8 {
    let Some(slots) = conv_slots(op) else { return 1 };
    let Some(weights) = op.shape(slots.weights) else { return 1 };
    let kernel = if slots.channels_last { 1..weights.len().saturating_sub(1) } else { 2..weights.len() };
    let sides = weights.get(kernel).unwrap_or_default();
    let longest = sides.iter().flatten().copied().max().unwrap_or(1);
    u8::try_from(longest.max(1)).unwrap_or(u8::MAX)
}

/// Whether the channels that the node reads and writes fill packs; `None` where a number of channels is not known.
fn pack(op: &Operation<'_>, class: OperatorClass, written: &Value) -> Option<Pack> {
    let slots = conv_slots(op);
    // Channels are the planes of images, and else the last axis.
    let planes = |rank: usize| match &slots {
        Some(slots) => !slots.channels_last,
        None => rank > 3 && class != OperatorClass::MatMul,
    };
    let channels = |shape: &[Dim]| match shape.len() {
        0 => Some(1),
        rank if rank > 1 && planes(rank) => shape[1],
        rank => shape[rank - 1],
    };
    // Those of a depthwise convolution stand side by side.
    let grouped = slots.is_some() && class != OperatorClass::DepthwiseConv;
    let groups = if grouped { u64::try_from(op.int_or("group", 1)).unwrap_or(1).max(1) } else { 1 };
    let fill = |count: u64| (count / groups).is_multiple_of(Pack::CHANNELS);
    let read = channels(op.shape(0)?)?;
    let written = channels(written.shape.as_deref()?)?;
    Some(if fill(read) && fill(written) { Pack::Full } else { Pack::Open })
}

impl Model {
    /// The work of one call by sort of node, with every free dimension of the inputs bound. Nodes of which it is not known
    /// how many values they write are left out.
    ///
    /// # Errors
    /// As [`Model::output_shapes`].
    pub fn work_by_sort(&self, bindings: &Bindings) -> Result<Vec<SortOfWork>, BindError> {
        let inputs = self.bound_inputs(bindings)?;
        let (walk, _) = self.walk(&inputs, bindings)?;
        let of = |(sort, work): (Sort, SortTally)| SortOfWork {
            class: sort.class,
            window: sort.window,
            pack: sort.pack,
            length: sort.length,
            size: sort.size,
            multiply_adds: work.multiply_adds,
            bytes: work.bytes,
        };
        Ok(walk.tally.sorts.into_iter().map(of).collect())
    }
}
