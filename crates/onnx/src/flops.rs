//! Operator classes, and the operations of one node.
//!
//! The convention, one line per class; `out` is the number of output elements and a multiply-add is two:
//! - `MatMul`: 2 · out · contracted axis; `Einsum` 2 · product of all axes. The bias starts the accumulator
//!   and costs nothing extra.
//! - `Conv`, `DepthwiseConv`: 2 · out · channels per group · kernel, padding included;
//!   transposed: 2 · in · output channels per group · kernel.
//! - `Recurrent`: 2 · steps · batch · directions · gates · hidden · (input + hidden); gate arithmetic is left out.
//! - `Attention`: 2 · batch · heads · queries · keys · (head + value head), softmax as below, and the
//!   projection where the operator includes it; masks save nothing.
//! - `Normalisation`, per element: batch norm 2, softmax 5, layer, instance and group norm 8, RMS norm 4,
//!   skip forms 1 more, LRN 2 · size + 3, others 4.
//! - `Pooling`: window elements per output; reductions one per input element.
//! - `ElementWise`: 1 per output element and further operand, transcendental functions too; fused
//!   activations of a product are not counted apart.
//! - `DataMovement`: 0, but interpolation in `Resize` and `GridSample` takes 2 · taps per output.
//! - `Other`: 0; control flow counts as what its bodies do.

#[cfg(test)]
mod tests;

use siliconroute_core::OperatorClass;

use crate::graph::{Operation, canonical_domain};
use crate::shapes::{attention_geometry, conv_slots, einsum_extent, hidden_size, pool_window};
use crate::value::{Dim, Value};

/// The class of a node; `None` for operators that this program does not know.
pub(crate) fn classify(op: &Operation<'_>) -> Option<OperatorClass> {
    Some(match op.kind() {
        "MatMul"
        | "Gemm"
        | "MatMulInteger"
        | "QLinearMatMul"
        | "QGemm"
        | "FusedMatMul"
        | "FusedMatMulActivation"
        | "TransposeMatMul"
        | "FusedGemm"
        | "DynamicQuantizeMatMul"
        | "MatMulIntegerToFloat"
        | "MatMulNBits"
        | "MatMulBnb4" => OperatorClass::MatMul,
        // An Einsum that sums over nothing is a transpose or an outer product.
        "Einsum" => match einsum_extent(op) {
            Some((_, false)) => OperatorClass::ElementWise,
            _ => OperatorClass::MatMul,
        },
        "Conv"
        | "ConvInteger"
        | "QLinearConv"
        | "FusedConv"
        | "NhwcConv"
        | "NhwcFusedConv"
        | "DeformConv"
        | "ConvTranspose"
        | "QLinearConvTranspose" => {
            if is_depthwise(op) {
                OperatorClass::DepthwiseConv
            } else {
                OperatorClass::Conv
            }
        }
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => OperatorClass::Recurrent,
        "Attention"
        | "QAttention"
        | "MultiHeadAttention"
        | "GroupQueryAttention"
        | "DecoderMaskedMultiHeadAttention" => OperatorClass::Attention,
        "BatchNormalization"
        | "LayerNormalization"
        | "InstanceNormalization"
        | "GroupNormalization"
        | "RMSNormalization"
        | "SimplifiedLayerNormalization"
        | "SkipLayerNormalization"
        | "GroupNorm"
        | "SkipGroupNorm"
        | "SkipSimplifiedLayerNormalization"
        | "EmbedLayerNormalization"
        | "LRN"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "Softmax"
        | "LogSoftmax"
        | "Hardmax"
        | "QLinearSoftmax" => OperatorClass::Normalisation,
        "MaxPool"
        | "AveragePool"
        | "LpPool"
        | "GlobalAveragePool"
        | "GlobalMaxPool"
        | "GlobalLpPool"
        | "QLinearAveragePool"
        | "QLinearGlobalAveragePool"
        | "NhwcMaxPool"
        | "MaxRoiPool"
        | "RoiAlign"
        | "ArgMax"
        | "ArgMin" => OperatorClass::Pooling,
        "Reshape"
        | "Flatten"
        | "Squeeze"
        | "Unsqueeze"
        | "Transpose"
        | "Concat"
        | "QLinearConcat"
        | "Split"
        | "Expand"
        | "Tile"
        | "Pad"
        | "DepthToSpace"
        | "SpaceToDepth"
        | "Resize"
        | "Upsample"
        | "CenterCropPad"
        | "Shape"
        | "Size"
        | "ConstantOfShape"
        | "Range"
        | "ReorderInput"
        | "ReorderOutput"
        | "Slice"
        | "Gather"
        | "GatherElements"
        | "GatherND"
        | "GatherBlockQuantized"
        | "OneHot"
        | "NonZero"
        | "Compress"
        | "Identity"
        | "Trilu"
        | "ReverseSequence"
        | "ScatterElements"
        | "ScatterND"
        | "Scatter"
        | "TensorScatter"
        | "EyeLike"
        | "GridSample"
        | "AffineGrid"
        | "Col2Im"
        | "MaxUnpool"
        | "Constant" => OperatorClass::DataMovement,
        "Relu"
        | "LeakyRelu"
        | "ThresholdedRelu"
        | "Sigmoid"
        | "Tanh"
        | "Exp"
        | "Log"
        | "Sqrt"
        | "Erf"
        | "Neg"
        | "Abs"
        | "Ceil"
        | "Floor"
        | "Round"
        | "Reciprocal"
        | "Clip"
        | "HardSigmoid"
        | "HardSwish"
        | "Softplus"
        | "Softsign"
        | "Elu"
        | "Selu"
        | "Celu"
        | "Gelu"
        | "Mish"
        | "Swish"
        | "Sin"
        | "Cos"
        | "Tan"
        | "Asin"
        | "Acos"
        | "Atan"
        | "Sinh"
        | "Cosh"
        | "Asinh"
        | "Acosh"
        | "Atanh"
        | "Sign"
        | "Not"
        | "BitwiseNot"
        | "Shrink"
        | "CumSum"
        | "CumProd"
        | "FastGelu"
        | "BiasGelu"
        | "QuickGelu"
        | "Affine"
        | "RotaryEmbedding"
        | "QLinearSigmoid"
        | "QLinearLeakyRelu"
        | "Dropout"
        | "IsNaN"
        | "IsInf"
        | "ParametricSoftplus"
        | "ImageScaler"
        | "ScaledTanh"
        | "Cast"
        | "BitCast"
        | "CastLike"
        | "QuantizeLinear"
        | "DequantizeLinear"
        | "DynamicQuantizeLinear"
        | "Add"
        | "Sub"
        | "Mul"
        | "Div"
        | "Pow"
        | "Mod"
        | "Min"
        | "Max"
        | "Sum"
        | "Mean"
        | "And"
        | "Or"
        | "Xor"
        | "BitShift"
        | "BitwiseAnd"
        | "BitwiseOr"
        | "BitwiseXor"
        | "PRelu"
        | "Equal"
        | "Greater"
        | "Less"
        | "GreaterOrEqual"
        | "LessOrEqual"
        | "Where"
        | "QLinearAdd"
        | "QLinearMul"
        | "Bernoulli"
        | "RandomNormalLike"
        | "NegativeLogLikelihoodLoss"
        | "SoftmaxCrossEntropyLoss"
        | "RandomUniformLike"
        | "RandomNormal"
        | "RandomUniform" => OperatorClass::ElementWise,
        kind if kind.starts_with("Reduce") => OperatorClass::Pooling,
        _ => return None,
    })
}

/// Whether operators of the class hold the bulk of a model's work.
pub(crate) fn is_heavy(class: OperatorClass) -> bool {
    matches!(
        class,
        OperatorClass::MatMul
            | OperatorClass::Conv
            | OperatorClass::DepthwiseConv
            | OperatorClass::Recurrent
            | OperatorClass::Attention
    )
}

/// Whether engines pass the input's buffer on instead of copying it.
pub(crate) fn is_view(op: &Operation<'_>) -> bool {
    matches!(
        op.kind(),
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Dropout" | "Shape" | "Size"
    )
}

/// Whether the node reads of the input in `slot` no more than it writes.
pub(crate) fn reads_what_it_writes(op: &Operation<'_>, slot: usize) -> bool {
    match op.kind() {
        "Gather" | "GatherElements" | "GatherND" | "GatherBlockQuantized" | "Slice" => slot == 0,
        "EmbedLayerNormalization" => (2..5).contains(&slot),
        _ => false,
    }
}

fn known(dim: Dim) -> f64 {
    dim.unwrap_or(1) as f64
}

/// Operations of one run of a node whose first output is `output`; unknown sizes count as 1.
pub(crate) fn count_flops(op: &Operation<'_>, class: OperatorClass, output: &Value) -> f64 {
    let out = output.elements_at_least();
    let read = op.input(0).map_or(0.0, Value::elements_at_least);
    match class {
        OperatorClass::MatMul => matrix_flops(op, out),
        OperatorClass::Conv | OperatorClass::DepthwiseConv => convolution_flops(op, out, read),
        OperatorClass::Recurrent => recurrent_flops(op),
        OperatorClass::Attention => attention_flops(op),
        OperatorClass::Normalisation => out * normalisation_factor(op),
        OperatorClass::Pooling if op.kind().starts_with("Reduce") || op.kind().starts_with("Arg") => read,
        OperatorClass::Pooling => match op.kind() {
            "RoiAlign" => out * 8.0 * (op.int_or("sampling_ratio", 1).max(1) as f64).powi(2),
            _ => out * pool_window(op).unwrap_or(1.0),
        },
        OperatorClass::ElementWise => match op.kind() {
            "Cast" | "BitCast" | "CastLike" | "Dropout" => 0.0,
            "Sum" | "Mean" | "Min" | "Max" => out * op.inputs.len().saturating_sub(1).max(1) as f64,
            "QuantizeLinear" | "DequantizeLinear" | "QLinearAdd" | "QLinearMul" | "BiasGelu" => 2.0 * out,
            "DynamicQuantizeLinear" => 4.0 * out,
            "RotaryEmbedding" => 3.0 * out,
            _ => out,
        },
        OperatorClass::DataMovement => out * 2.0 * interpolation_taps(op, output),
        OperatorClass::Other => 0.0,
    }
}

fn is_depthwise(op: &Operation<'_>) -> bool {
    let groups = op.int_or("group", 1);
    let Some(slots) = conv_slots(op) else { return false };
    if slots.channels_last || op.kind().contains("Transpose") {
        let axis = if slots.channels_last { op.rank(0).unwrap_or(0).saturating_sub(1) } else { 1 };
        return groups > 1 && op.dim(0, axis) == u64::try_from(groups).ok();
    }
    groups > 1 && op.dim(slots.weights, 1) == Some(1)
}

fn matrix_flops(op: &Operation<'_>, out: f64) -> f64 {
    let contracted = match op.kind() {
        "Einsum" => return 2.0 * einsum_extent(op).map_or(0.0, |(extent, _)| extent),
        "Gemm" | "FusedGemm" | "QGemm" => {
            let axis = usize::from(op.int_or("transA", 0) == 0);
            match op.shape(0) {
                // The rest of the axes, in operator sets whose Gemm flattens.
                Some(shape) if shape.len() > 2 => shape[1..].iter().copied().map(known).product(),
                _ => known(op.dim(0, axis)),
            }
        }
        _ => {
            let rank = op.rank(0).unwrap_or(0);
            let from_end = if op.int_or("transA", 0) != 0 { 2 } else { 1 };
            known(rank.checked_sub(from_end).and_then(|axis| op.dim(0, axis)))
        }
    };
    2.0 * out * contracted
}

fn convolution_flops(op: &Operation<'_>, out: f64, read: f64) -> f64 {
    let Some(slots) = conv_slots(op) else { return 0.0 };
    let Some(weights) = op.shape(slots.weights) else { return 0.0 };
    // All axes but the first: channels per group times the kernel, in either layout. For the transposed
    // form that is the output's channels per group.
    let per_element: f64 = weights.iter().skip(1).copied().map(known).product();
    2.0 * per_element * if op.kind().contains("Transpose") { read } else { out }
}

fn recurrent_flops(op: &Operation<'_>) -> f64 {
    let gates = match op.kind() {
        "LSTM" | "DynamicQuantizeLSTM" => 4.0,
        "GRU" => 3.0,
        _ => 1.0,
    };
    let directions = if op.text("direction") == Some("bidirectional") { 2.0 } else { 1.0 };
    let hidden = known(hidden_size(op));
    let rows = known(op.dim(0, 0)) * known(op.dim(0, 1));
    2.0 * rows * directions * gates * hidden * (known(op.dim(0, 2)) + hidden)
}

fn attention_flops(op: &Operation<'_>) -> f64 {
    let Some(g) = attention_geometry(op) else { return 0.0 };
    let scores = known(g.batch) * known(g.heads) * known(g.queries) * known(g.keys);
    scores * (2.0 * (known(g.head) + known(g.value_head)) + 5.0) + g.projection_flops
}

/// Whether the work of a heavy node follows from sizes that are all known.
pub(crate) fn is_fully_sized(op: &Operation<'_>, class: OperatorClass, output: &Value) -> bool {
    let input = |slot: usize| op.input(slot).is_none_or(Value::is_fully_known);
    match class {
        OperatorClass::Recurrent => input(0) && hidden_size(op).is_some(),
        OperatorClass::Conv | OperatorClass::DepthwiseConv => {
            conv_slots(op).is_some_and(|s| input(s.weights)) && input(0) && output.is_fully_known()
        }
        OperatorClass::Attention => attention_geometry(op).is_some_and(|g| {
            [g.batch, g.heads, g.queries, g.keys, g.head, g.value_head].iter().all(Option::is_some)
        }),
        _ => input(0) && output.is_fully_known(),
    }
}

fn normalisation_factor(op: &Operation<'_>) -> f64 {
    match op.kind() {
        "BatchNormalization" => 2.0,
        "Softmax" | "LogSoftmax" | "Hardmax" | "QLinearSoftmax" => 5.0,
        "LayerNormalization" | "InstanceNormalization" | "GroupNormalization" | "GroupNorm" => 8.0,
        "SkipLayerNormalization" | "SkipGroupNorm" => 9.0,
        "EmbedLayerNormalization" => 10.0,
        "SkipSimplifiedLayerNormalization" => 5.0,
        "LRN" => 2.0 * op.int_or("size", 1).max(1) as f64 + 3.0,
        _ => 4.0,
    }
}

/// How many source elements an interpolation weighs for one output element; 0 for plain moves.
fn interpolation_taps(op: &Operation<'_>, output: &Value) -> f64 {
    let taps: f64 = match (op.kind(), op.text("mode")) {
        ("Resize" | "Upsample" | "GridSample", Some("linear" | "bilinear")) => 2.0,
        ("GridSample", None) => 2.0,
        ("Resize" | "GridSample", Some("cubic" | "bicubic")) => 4.0,
        _ => return 0.0,
    };
    let axes = match (op.kind(), op.shape(0), output.shape.as_deref()) {
        ("GridSample", Some(shape), _) => shape.len().saturating_sub(2),
        (_, Some(from), Some(to)) => from.iter().zip(to).filter(|(a, b)| a != b).count(),
        _ => 2,
    };
    taps.powf(axes.min(8) as f64)
}

/// Whether the input in `slot` of the node holds learned values, given that it is constant.
///
/// Scales, zero points, bounds and sizes are settings of the operator, not values that training found.
pub(crate) fn is_learned_slot(op: &Operation<'_>, slot: usize) -> bool {
    if !canonical_domain(&op.node.domain).is_empty() && op.kind().is_empty() {
        return true;
    }
    match op.kind() {
        "QuantizeLinear" | "DequantizeLinear" | "Clip" | "Pad" | "Resize" | "Upsample" | "OneHot" => {
            slot == 0
        }
        "QLinearConv" => matches!(slot, 3 | 8),
        "QLinearMatMul" | "QLinearAdd" | "QLinearMul" => matches!(slot, 0 | 3),
        "ConvInteger" | "MatMulInteger" => slot < 2,
        "MatMulIntegerToFloat" | "DynamicQuantizeMatMul" => slot == 1,
        "QGemm" => matches!(slot, 3 | 6),
        "DynamicQuantizeLSTM" => slot < 4,
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" => slot == 0,
        _ => true,
    }
}

/// Whether a constant of 32-bit integers in `slot` is the bias of a quantised product.
pub(crate) fn is_quantised_bias(op: &Operation<'_>, slot: usize) -> bool {
    matches!((op.kind(), slot), ("QLinearConv", 8) | ("DequantizeLinear", 0) | ("QGemm", 6))
}
