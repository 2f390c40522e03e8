//! Convolutions and pooling: operators that slide a window over spatial axes.
//!
//! Invariant: tensors are `[batch, channels, spatial…]`, except in the channels-last forms of ONNX Runtime.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::Operation;
use crate::value::{Dim, ShapeConflict, Value};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let outputs = match op.kind() {
        "ConvTranspose" | "QLinearConvTranspose" => vec![Value::new(first_type, transposed_convolution(op)?)],
        kind if conv_slots(op).is_some() => {
            let data_type = match kind {
                "ConvInteger" => DataType::INT32,
                "QLinearConv" => op.input(7).map_or(first_type, |v| v.data_type),
                _ => first_type,
            };
            vec![Value::new(data_type, convolution(op)?)]
        }
        "MaxPool" | "AveragePool" | "LpPool" | "QLinearAveragePool" | "NhwcMaxPool" => {
            let shape = pooled(op)?;
            vec![Value::new(first_type, shape.clone()), Value::new(DataType::INT64, shape)]
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "QLinearGlobalAveragePool" => {
            vec![Value::new(first_type, globally_pooled(op))]
        }
        "MaxRoiPool" | "RoiAlign" => {
            let (height, width) = match op.ints("pooled_shape") {
                Some(&[h, w]) => (h, w),
                _ => (op.int_or("output_height", 1), op.int_or("output_width", 1)),
            };
            let size = |side: i64| u64::try_from(side).ok();
            vec![Value::new(first_type, Some(vec![op.dim(1, 0), op.dim(0, 1), size(height), size(width)]))]
        }
        "MaxUnpool" => vec![Value::new(first_type, unpooled(op)?)],
        "GridSample" => vec![Value::new(first_type, grid_sampled(op))],
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

/// Where a convolution finds its data and its weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConvSlots {
    pub(crate) weights: usize,
    pub(crate) channels_last: bool,
}

/// The slots of a convolution's inputs; `None` for other operators.
pub(crate) fn conv_slots(op: &Operation<'_>) -> Option<ConvSlots> {
    let (weights, channels_last) = match op.kind() {
        "Conv" | "FusedConv" if op.node.domain == "com.ms.internal.nhwc" => (1, true),
        "Conv" | "ConvInteger" | "FusedConv" | "DeformConv" | "ConvTranspose" => (1, false),
        "NhwcConv" | "NhwcFusedConv" => (1, true),
        "QLinearConv" | "QLinearConvTranspose" => (3, op.int_or("channels_last", 0) != 0),
        _ => return None,
    };
    Some(ConvSlots { weights, channels_last })
}

fn globally_pooled(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let shape = op.shape(0)?;
    if op.int_or("channels_last", 0) != 0 {
        let last = shape.len().checked_sub(1)?;
        return Some(
            (0..shape.len())
                .map(|axis| if axis == 0 || axis == last { shape[axis] } else { Some(1) })
                .collect(),
        );
    }
    Some(shape.iter().enumerate().map(|(axis, &dim)| if axis < 2 { dim } else { Some(1) }).collect())
}

fn grid_sampled(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let (data, grid) = (op.shape(0)?, op.shape(1)?);
    let spatial = grid.get(1..grid.len().checked_sub(1)?)?;
    Some([data.get(..2)?, spatial].concat())
}

/// The geometry of a window over one spatial axis.
struct Axis {
    kernel: u64,
    stride: u64,
    dilation: u64,
    /// Padding before and after.
    pads: (i64, i64),
}

/// Attributes of a window that lie outside any sensible range are refused rather than multiplied.
const SIDE_LIMIT: i64 = 1 << 32;

fn positive(list: Option<&[i64]>, axis: usize) -> Result<u64, ShapeConflict> {
    let value = list.and_then(|l| l.get(axis)).copied().unwrap_or(1);
    if (1..SIDE_LIMIT).contains(&value) {
        Ok(value as u64)
    } else {
        Err(ShapeConflict(format!("a stride, dilation or kernel of {value}")))
    }
}

fn window_axis(op: &Operation<'_>, kernel: u64, axis: usize, spatial: usize) -> Result<Axis, ShapeConflict> {
    let pads = op.ints("pads");
    let pad = |index: usize| {
        let pad = pads.and_then(|p| p.get(index)).copied().unwrap_or(0);
        if pad.abs() < SIDE_LIMIT { Ok(pad) } else { Err(ShapeConflict(format!("a padding of {pad}"))) }
    };
    Ok(Axis {
        kernel,
        stride: positive(op.ints("strides"), axis)?,
        dilation: positive(op.ints("dilations"), axis)?,
        pads: (pad(axis)?, pad(axis + spatial)?),
    })
}

/// How many positions the window takes along an axis of `size`.
fn positions(op: &Operation<'_>, axis: &Axis, size: u64, round_up: bool) -> Result<u64, ShapeConflict> {
    if let Some("SAME_UPPER" | "SAME_LOWER") = op.text("auto_pad") {
        return Ok(size.div_ceil(axis.stride));
    }
    let valid = op.text("auto_pad") == Some("VALID");
    let (before, after) = if valid { (0, 0) } else { axis.pads };
    let covered = i128::from(axis.dilation) * (i128::from(axis.kernel) - 1) + 1;
    let room = i128::from(size) + i128::from(before) + i128::from(after) - covered;
    if room < 0 {
        return Err(ShapeConflict(format!("a window of {covered} over an axis of {size}, padding included")));
    }
    let stride = i128::from(axis.stride);
    let mut count = if round_up { (room + stride - 1) / stride } else { room / stride } + 1;
    if round_up && (count - 1) * stride >= i128::from(size) + i128::from(before) {
        // The last window would start in the padding behind the data; engines leave it out.
        count -= 1;
    }
    u64::try_from(count).or(Err(ShapeConflict("a window without positions".to_owned())))
}

/// Sizes of the window of a pooling node, where its input's axes are known.
pub(crate) fn pool_window(op: &Operation<'_>) -> Option<f64> {
    let shape = op.shape(0)?;
    if op.kind().contains("Global") {
        let channels_last = op.int_or("channels_last", 0) != 0;
        let spatial =
            if channels_last { shape.get(1..shape.len().checked_sub(1)?)? } else { shape.get(2..)? };
        return Some(spatial.iter().map(|d| d.unwrap_or(1) as f64).product());
    }
    Some(op.ints("kernel_shape")?.iter().map(|&k| k as f64).product())
}

fn pooled(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let Some(kernel) = op.ints("kernel_shape") else {
        return Err(ShapeConflict("a pool without kernel_shape".to_owned()));
    };
    if shape.len() != kernel.len() + 2 {
        return Err(ShapeConflict(format!(
            "a pool of {} axes over a tensor of {}",
            kernel.len(),
            shape.len()
        )));
    }
    let round_up = op.int_or("ceil_mode", 0) != 0;
    let channels_last = op.kind() == "NhwcMaxPool" || op.int_or("channels_last", 0) != 0;
    let first = if channels_last { 1 } else { 2 };
    let mut result = shape.to_vec();
    for axis in 0..kernel.len() {
        let window = window_axis(op, positive(Some(kernel), axis)?, axis, kernel.len())?;
        result[first + axis] =
            shape[first + axis].map(|size| positions(op, &window, size, round_up)).transpose()?;
    }
    Ok(Some(result))
}

/// The inverse of a pool: an explicit output shape, or the smallest input that gives these outputs.
fn unpooled(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    if op.input(2).is_some() {
        return super::layout::spelled_shape(op, 2);
    }
    let (Some(shape), Some(kernel)) = (op.shape(0), op.ints("kernel_shape")) else { return Ok(None) };
    let mut result = shape.to_vec();
    for axis in 0..kernel.len().min(shape.len().saturating_sub(2)) {
        let window = window_axis(op, positive(Some(kernel), axis)?, axis, kernel.len())?;
        let size = |count: u64| {
            let covered = (i128::from(count) - 1) * i128::from(window.stride) + i128::from(window.kernel);
            u64::try_from(covered - i128::from(window.pads.0) - i128::from(window.pads.1)).ok()
        };
        result[axis + 2] = shape[axis + 2].and_then(size);
    }
    Ok(Some(result))
}

fn groups(op: &Operation<'_>) -> Result<u64, ShapeConflict> {
    positive(op.int("group").as_ref().map(std::slice::from_ref), 0)
}

fn convolution(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(slots) = conv_slots(op) else { return Ok(None) };
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let Some(spatial) = shape.len().checked_sub(2) else {
        return Err(ShapeConflict(format!("a convolution over a tensor of {} axes", shape.len())));
    };
    let (channel_axis, first) = if slots.channels_last { (spatial + 1, 1) } else { (1, 2) };
    let weights = op.shape(slots.weights);
    // Blocked weights of ONNX Runtime are padded to whole blocks of channels.
    let is_blocked = op.node.domain == "com.microsoft.nchwc";
    let mut weights_channels_last = false;
    if let Some(weights) = weights {
        if weights.len() != shape.len() {
            return Err(ShapeConflict(format!(
                "weights of {} axes for data of {}",
                weights.len(),
                shape.len()
            )));
        }
        if let Some(channels) = shape[channel_axis].filter(|_| !is_blocked) {
            let groups = groups(op)?;
            let fits = |axis: usize| weights[axis].is_none_or(|w| w.checked_mul(groups) == Some(channels));
            // Channels-last operators come with weights in either layout.
            weights_channels_last = slots.channels_last && !fits(1);
            let axis = if weights_channels_last { spatial + 1 } else { 1 };
            if let Some(per_group) = weights[axis].filter(|_| !fits(axis)) {
                return Err(ShapeConflict(format!(
                    "{channels} channels meet weights for {per_group} per group"
                )));
            }
        }
    }
    let mut result = vec![None; shape.len()];
    result[0] = shape[0];
    result[channel_axis] = weights.and_then(|w| w[0]);
    for axis in 0..spatial {
        let weight_axis = if weights_channels_last { axis + 1 } else { axis + 2 };
        let given = op.ints("kernel_shape").and_then(|k| k.get(axis)).copied();
        let kernel = match (weights.and_then(|w| w[weight_axis]), given) {
            (Some(kernel), _) => kernel,
            (None, Some(kernel)) => positive(Some(&[kernel]), 0)?,
            (None, None) => continue,
        };
        let window = window_axis(op, kernel, axis, spatial)?;
        result[first + axis] =
            shape[first + axis].map(|size| positions(op, &window, size, false)).transpose()?;
    }
    Ok(Some(result))
}

fn transposed_convolution(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(slots) = conv_slots(op) else { return Ok(None) };
    let (Some(shape), Some(weights)) = (op.shape(0), op.shape(slots.weights)) else { return Ok(None) };
    if shape.len() < 2 || weights.len() != shape.len() {
        return Err(ShapeConflict(format!("weights of {} axes for data of {}", weights.len(), shape.len())));
    }
    let spatial = shape.len() - 2;
    let mut result = vec![shape[0], weights[1].and_then(|w| w.checked_mul(groups(op).ok()?))];
    for axis in 0..spatial {
        if let Some(&size) = op.ints("output_shape").and_then(|s| s.get(axis)) {
            result.push(u64::try_from(size).ok());
            continue;
        }
        let (Some(size), Some(kernel)) = (shape[axis + 2], weights[axis + 2]) else {
            result.push(None);
            continue;
        };
        let window = window_axis(op, kernel, axis, spatial)?;
        let stride = i128::from(window.stride);
        let extra = op.ints("output_padding").and_then(|p| p.get(axis)).copied().unwrap_or(0);
        let covered = i128::from(window.dilation) * (i128::from(kernel) - 1) + 1;
        let grown = match op.text("auto_pad") {
            Some("SAME_UPPER" | "SAME_LOWER") => i128::from(size) * stride,
            _ => {
                stride * (i128::from(size) - 1) + i128::from(extra) + covered
                    - i128::from(window.pads.0)
                    - i128::from(window.pads.1)
            }
        };
        result.push(Some(u64::try_from(grown).or(Err(ShapeConflict(format!("an output axis of {grown}"))))?));
    }
    Ok(Some(result))
}
