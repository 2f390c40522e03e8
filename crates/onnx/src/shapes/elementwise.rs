//! Operators that work element by element, along axes without changing the shape, or that reduce axes.
//!
//! Invariant: outputs have the broadcast shape of the inputs, or that of the first input.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::{Operation, Setting};
use crate::value::{Dim, ShapeConflict, Value, broadcast_all, resolve_axis};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first = op.input(0);
    let first_type = first.map_or(DataType::default(), |v| v.data_type);
    let like_first = |data_type| Value::new(data_type, first.and_then(|v| v.shape.clone()));
    let outputs = match op.kind() {
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
        | "Softmax"
        | "LogSoftmax"
        | "Hardmax"
        | "LRN"
        | "InstanceNormalization"
        | "GroupNormalization"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "CumSum"
        | "CumProd"
        | "Trilu"
        | "ReverseSequence"
        | "ScatterElements"
        | "ScatterND"
        | "Scatter"
        | "TensorScatter"
        | "FastGelu"
        | "BiasGelu"
        | "QuickGelu"
        | "RotaryEmbedding"
        | "QLinearSigmoid"
        | "QLinearLeakyRelu"
        | "QLinearSoftmax"
        | "ParametricSoftplus"
        | "ImageScaler"
        | "GroupNorm"
        | "SkipGroupNorm"
        | "ScaledTanh"
        | "Affine" => {
            vec![like_first(first_type)]
        }
        "BatchNormalization" => {
            let like = |slot: usize| {
                op.input(slot).map_or_else(Value::unknown, |v| Value::new(v.data_type, v.shape.clone()))
            };
            vec![like_first(first_type), like(3), like(4), like(3), like(4)]
        }
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => {
            let labels = op.shape(1).map(<[Dim]>::to_vec);
            let shape = if op.text("reduction") == Some("none") { labels } else { Some(vec![]) };
            vec![Value::new(first_type, shape), like_first(first_type)]
        }
        "Identity" => vec![first.cloned().unwrap_or_default()],
        "Dropout" => vec![like_first(first_type), like_first(DataType::BOOL)],
        "IsNaN" | "IsInf" => vec![like_first(DataType::BOOL)],
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
            let statistics = normalised_statistics(op)?;
            vec![like_first(first_type), statistics.clone(), statistics]
        }
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
            vec![like_first(first_type), Value::unknown(), Value::unknown(), like_first(first_type)]
        }
        "Bernoulli" | "RandomNormalLike" | "RandomUniformLike" | "EyeLike" => {
            vec![like_first(op.int("dtype").map_or(first_type, |t| DataType(t as i32)))]
        }
        "Cast" | "BitCast" => vec![like_first(DataType(op.int_or("to", 0) as i32))],
        "CastLike" => vec![like_first(op.input(1).map_or(DataType::default(), |v| v.data_type))],
        "QuantizeLinear" => vec![like_first(quantised_type(op))],
        "DequantizeLinear" => {
            let scale = op.input(1).map_or(DataType::FLOAT, |v| v.data_type);
            vec![like_first(op.int("output_dtype").filter(|&t| t != 0).map_or(scale, |t| DataType(t as i32)))]
        }
        "DynamicQuantizeLinear" => {
            let scalar = |data_type| Value::new(data_type, Some(vec![]));
            vec![like_first(DataType::UINT8), scalar(DataType::FLOAT), scalar(DataType::UINT8)]
        }
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "Min" | "Max" | "Sum" | "Mean" | "And" | "Or"
        | "Xor" | "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "PRelu" | "StringConcat" => {
            vec![Value::new(first_type, legacy_broadcast(op)?)]
        }
        "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" => {
            vec![Value::new(DataType::BOOL, legacy_broadcast(op)?)]
        }
        "Where" => {
            let shape = broadcast_all((0..3).map(|index| op.shape(index)))?;
            vec![Value::new(op.input(1).map_or(DataType::default(), |v| v.data_type), shape)]
        }
        "QLinearAdd" | "QLinearMul" => {
            let shape = broadcast_all([op.shape(0), op.shape(3)].into_iter())?;
            vec![Value::new(first_type, shape)]
        }
        "ArgMax" | "ArgMin" => vec![Value::new(DataType::INT64, arg_reduced(op)?)],
        kind if kind.starts_with("Reduce") => vec![Value::new(first_type, reduced(op)?)],
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

/// The type that a `QuantizeLinear` writes: its zero point's, or the one its attribute names.
fn quantised_type(op: &Operation<'_>) -> DataType {
    let named = op.int("output_dtype").filter(|&t| t != 0).map(|t| DataType(t as i32));
    op.input(2).map(|v| v.data_type).or(named).unwrap_or(DataType::UINT8)
}

/// Broadcasting with the `axis` of operator sets before 7, where the second shape is a part of the first.
fn legacy_broadcast(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    if op.opset < 7 && op.int("broadcast") == Some(1) {
        return Ok(op.shape(0).map(<[Dim]>::to_vec));
    }
    broadcast_all((0..op.inputs.len()).map(|index| op.shape(index)))
}

fn normalised_statistics(op: &Operation<'_>) -> Result<Value, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(Value::unknown()) };
    let axis = resolve_axis(op.int_or("axis", -1), shape.len())?;
    let mut statistics = shape.to_vec();
    statistics[axis..].fill(Some(1));
    Ok(Value::new(DataType::FLOAT, Some(statistics)))
}

fn arg_reduced(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let axis = resolve_axis(op.int_or("axis", 0), shape.len())?;
    Ok(Some(without_axes(shape, &[axis], op.int_or("keepdims", 1) != 0)))
}

fn reduced(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let keep = op.int_or("keepdims", 1) != 0;
    let Some(axes) = reduced_axes(op, shape.len())? else {
        return Ok(keep.then(|| vec![None; shape.len()]));
    };
    Ok(Some(without_axes(shape, &axes, keep)))
}

/// The axes that a reduction removes; `None` when they are given but unknown.
pub(crate) fn reduced_axes(op: &Operation<'_>, rank: usize) -> Result<Option<Vec<usize>>, ShapeConflict> {
    Ok(match op.ints_or_input("axes", 1) {
        Setting::Unknown => None,
        Setting::Given(axes) if !axes.is_empty() => {
            Some(axes.into_iter().map(|axis| resolve_axis(axis, rank)).collect::<Result<_, _>>()?)
        }
        _ if op.int_or("noop_with_empty_axes", 0) != 0 => Some(vec![]),
        _ => Some((0..rank).collect()),
    })
}

fn without_axes(shape: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    shape
        .iter()
        .enumerate()
        .filter(|(index, _)| keep || !axes.contains(index))
        .map(|(index, &dim)| if axes.contains(&index) { Some(1) } else { dim })
        .collect()
}
