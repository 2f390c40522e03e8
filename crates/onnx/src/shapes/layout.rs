//! Operators that move elements without choosing among them: reshapes, transposes, joins, splits.
//!
//! Invariant: no rule here depends on more of the contents than the shapes that inputs spell out.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::{Operation, Setting};
use crate::value::{Dim, ShapeConflict, Value, broadcast, elements, resolve_axis, same_dim};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let one = |shape: Option<Vec<Dim>>| vec![Value::new(first_type, shape)];
    let outputs = match op.kind() {
        "Reshape" => one(reshaped(op)?),
        "Flatten" => one(flattened(op)?),
        "Squeeze" => one(squeezed(op)?),
        "Unsqueeze" => one(unsqueezed(op)?),
        "Transpose" => one(transposed(op)?),
        "Concat" => one(concatenated(op, (0..op.inputs.len()).collect())?),
        "QLinearConcat" => {
            let data_type = op.input(1).map_or(DataType::default(), |v| v.data_type);
            vec![Value::new(data_type, concatenated(op, (2..op.inputs.len()).step_by(3).collect())?)]
        }
        "Split" => split(op)?,
        "Expand" => one(expanded(op)?),
        "Tile" => one(tiled(op)),
        "Pad" => one(padded(op)?),
        "DepthToSpace" | "SpaceToDepth" => one(block_moved(op)?),
        "Resize" | "Upsample" => one(resized(op)?),
        "CenterCropPad" => one(centre_cropped(op)?),
        "Shape" => vec![Value::new(DataType::INT64, Some(vec![shape_length(op)]))],
        "Size" => vec![Value::new(DataType::INT64, Some(vec![]))],
        "ConstantOfShape" => {
            let data_type = op.tensor("value").map_or(DataType::FLOAT, |t| DataType(t.data_type));
            vec![Value::new(data_type, spelled_shape(op, 0)?)]
        }
        "RandomNormal" | "RandomUniform" => {
            let data_type = DataType(op.int_or("dtype", 1) as i32);
            let shape = op.ints("shape").map(|s| s.iter().map(|&d| u64::try_from(d).ok()).collect());
            vec![Value::new(data_type, shape)]
        }
        "Range" => vec![Value::new(first_type, Some(vec![range_length(op)]))],
        "ReorderInput" | "ReorderOutput" => one(reordered(op)),
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

/// The shape that the contents of an input spell out.
pub(super) fn spelled_shape(op: &Operation<'_>, index: usize) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    if let Some(contents) = op.contents(index) {
        return contents
            .iter()
            .map(|element| element.map(size).transpose())
            .collect::<Result<_, _>>()
            .map(Some);
    }
    let rank = op.dim(index, 0).and_then(|rank| usize::try_from(rank).ok()).filter(|&rank| rank <= 64);
    Ok(rank.map(|rank| vec![None; rank]))
}

fn size(element: f64) -> Result<u64, ShapeConflict> {
    if element >= 0.0 { Ok(element as u64) } else { Err(ShapeConflict(format!("a size of {element}"))) }
}

fn reshaped(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let from_attribute: Option<Vec<Option<f64>>> =
        op.ints("shape").map(|ints| ints.iter().map(|&d| Some(d as f64)).collect());
    let Some(target) = from_attribute.as_deref().or_else(|| op.contents(1)) else {
        return spelled_shape(op, 1);
    };
    let copies_zero = op.int_or("allowzero", 0) == 0;
    let mut wildcard = None;
    let mut shape: Vec<Dim> = Vec::with_capacity(target.len());
    for (axis, element) in target.iter().enumerate() {
        shape.push(match *element {
            Some(-1.0) => {
                wildcard = Some(axis);
                None
            }
            Some(0.0) if copies_zero => op.dim(0, axis),
            Some(d) => Some(size(d)?),
            None => None,
        });
    }
    let total = op.input(0).and_then(Value::elements);
    let unknown: Vec<usize> = (0..shape.len()).filter(|&axis| shape[axis].is_none()).collect();
    match (total, unknown.as_slice()) {
        (Some(total), &[axis]) => {
            shape[axis] = Some(1);
            let rest = elements(&shape).unwrap_or(u64::MAX);
            shape[axis] = match (rest, total) {
                (0, _) => Some(0),
                (rest, total) if total % rest == 0 => Some(total / rest),
                _ => return Err(ShapeConflict(format!("{total} elements do not divide into {rest}"))),
            };
        }
        (Some(total), []) if elements(&shape) != Some(total) => {
            return Err(ShapeConflict(format!("{total} elements do not fit the shape {}", describe(&shape))));
        }
        (None, _) => {
            if let Some(axis) = wildcard {
                shape[axis] = matching_rest(op, &shape, axis);
            }
        }
        _ => {}
    }
    Ok(Some(shape))
}

/// The size of a `-1` when the only unknown axis of the input is copied elsewhere in the target.
fn matching_rest(op: &Operation<'_>, target: &[Dim], wildcard: usize) -> Dim {
    let source = op.shape(0)?;
    let copied = source.iter().position(Option::is_none)?;
    if copied == wildcard || op.contents(1)?.get(copied).copied().flatten() != Some(0.0) {
        return None;
    }
    let product = |shape: &[Dim], skipped: &[usize]| {
        let mut rest = shape.iter().enumerate().filter(|(axis, _)| !skipped.contains(axis));
        rest.try_fold(1_u64, |product, (_, dim)| product.checked_mul((*dim)?))
    };
    product(source, &[copied])?.checked_div(product(target, &[copied, wildcard])?)
}

pub(super) fn describe(shape: &[Dim]) -> String {
    let sizes: Vec<String> =
        shape.iter().map(|d| d.map_or_else(|| "?".to_owned(), |d| d.to_string())).collect();
    format!("[{}]", sizes.join(","))
}

fn flattened(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(Some(vec![None, None])) };
    let axis = op.int_or("axis", 1);
    let axis =
        if usize::try_from(axis) == Ok(shape.len()) { shape.len() } else { resolve_axis(axis, shape.len())? };
    Ok(Some(vec![elements(&shape[..axis]), elements(&shape[axis..])]))
}

fn squeezed(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let removed: Vec<usize> = match op.ints_or_input("axes", 1) {
        Setting::Given(axes) => {
            axes.into_iter().map(|a| resolve_axis(a, shape.len())).collect::<Result<_, _>>()?
        }
        Setting::Absent if shape.iter().all(Option::is_some) => {
            (0..shape.len()).filter(|&axis| shape[axis] == Some(1)).collect()
        }
        Setting::Absent | Setting::Unknown => return Ok(None),
    };
    if let Some(axis) = removed.iter().find(|&&axis| shape[axis].is_some_and(|d| d != 1)) {
        return Err(ShapeConflict(format!("axis {axis} of {} cannot be squeezed", describe(shape))));
    }
    Ok(Some(shape.iter().enumerate().filter(|(axis, _)| !removed.contains(axis)).map(|(_, &d)| d).collect()))
}

fn unsqueezed(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let (Some(shape), Setting::Given(axes)) = (op.shape(0), op.ints_or_input("axes", 1)) else {
        return Ok(None);
    };
    let rank = shape.len() + axes.len();
    let added: Vec<usize> = axes.into_iter().map(|a| resolve_axis(a, rank)).collect::<Result<_, _>>()?;
    let mut rest = shape.iter().copied();
    let result: Vec<Dim> =
        (0..rank).map(|axis| if added.contains(&axis) { Some(1) } else { rest.next().flatten() }).collect();
    Ok(Some(result))
}

/// The order of axes of a `Transpose`: its attribute, or the reverse.
pub(crate) fn permutation(op: &Operation<'_>, rank: usize) -> Result<Vec<usize>, ShapeConflict> {
    let Some(order) = op.ints("perm") else { return Ok((0..rank).rev().collect()) };
    let order: Vec<usize> = order.iter().map(|&a| resolve_axis(a, rank)).collect::<Result<_, _>>()?;
    if order.len() == rank {
        Ok(order)
    } else {
        Err(ShapeConflict(format!("{} of {rank} axes permuted", order.len())))
    }
}

fn transposed(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    Ok(Some(permutation(op, shape.len())?.into_iter().map(|axis| shape[axis]).collect()))
}

fn concatenated(op: &Operation<'_>, parts: Vec<usize>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let mut result: Option<Vec<Dim>> = None;
    for index in parts {
        let Some(shape) = op.shape(index) else { return Ok(None) };
        let axis = resolve_axis(op.int_or("axis", 1), shape.len())?;
        result = Some(match result {
            None => shape.to_vec(),
            Some(sum) if sum.len() != shape.len() => {
                return Err(ShapeConflict(format!("{} joined with {}", describe(&sum), describe(shape))));
            }
            Some(sum) => sum
                .iter()
                .zip(shape)
                .enumerate()
                .map(|(i, (&a, &b))| if i == axis { Ok(add(a, b)) } else { same_dim(a, b) })
                .collect::<Result<_, _>>()?,
        });
    }
    Ok(result)
}

fn add(a: Dim, b: Dim) -> Dim {
    a?.checked_add(b?)
}

fn split(op: &Operation<'_>) -> Result<Vec<Value>, ShapeConflict> {
    let count = op.output_count();
    let Some(input) = op.input(0) else { return Ok(vec![]) };
    let Some(shape) = input.shape.as_deref() else {
        return Ok(vec![Value::new(input.data_type, None); count]);
    };
    let axis = resolve_axis(op.int_or("axis", 0), shape.len())?;
    let sizes = split_sizes(op, shape[axis], count);
    let part = |size: Dim| {
        let mut shape = shape.to_vec();
        shape[axis] = size;
        Value::new(input.data_type, Some(shape))
    };
    Ok(sizes.into_iter().map(part).collect())
}

/// The sizes of the parts of a `Split`: as given, or nearly equal ones.
pub(crate) fn split_sizes(op: &Operation<'_>, size: Dim, count: usize) -> Vec<Dim> {
    match op.ints_or_input("split", 1) {
        Setting::Given(sizes) => {
            (0..count).map(|part| sizes.get(part).and_then(|&s| u64::try_from(s).ok())).collect()
        }
        Setting::Absent => {
            let parts =
                op.int("num_outputs").and_then(|n| u64::try_from(n).ok()).unwrap_or(count as u64).max(1);
            let chunk = size.map(|s| s.div_ceil(parts));
            (0..count as u64)
                .map(|part| Some(chunk?.min(size?.saturating_sub(chunk?.saturating_mul(part)))))
                .collect()
        }
        Setting::Unknown => vec![None; count],
    }
}

fn expanded(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    match (op.shape(0), spelled_shape(op, 1)?) {
        (Some(shape), Some(target)) => broadcast(shape, &target).map(Some),
        _ => Ok(None),
    }
}

fn tiled(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let shape = op.shape(0)?;
    let repeats = op.contents(1);
    Some(
        shape
            .iter()
            .enumerate()
            .map(|(axis, &dim)| {
                let repeat = repeats?.get(axis).copied().flatten().filter(|&r| r >= 0.0)?;
                dim?.checked_mul(repeat as u64)
            })
            .collect(),
    )
}

fn padded(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let given = op.ints("pads").or_else(|| op.ints("paddings"));
    let pads: Vec<Option<f64>> = match (given, op.contents(1)) {
        (Some(ints), _) => ints.iter().map(|&p| Some(p as f64)).collect(),
        (None, Some(contents)) => contents.to_vec(),
        (None, None) => return Ok(Some(vec![None; shape.len()])),
    };
    let axes: Vec<usize> = match op.input(3) {
        Some(value) => match value.integers() {
            Some(axes) => axes.into_iter().map(|a| resolve_axis(a, shape.len())).collect::<Result<_, _>>()?,
            None => return Ok(Some(vec![None; shape.len()])),
        },
        None => (0..shape.len()).collect(),
    };
    let mut result = shape.to_vec();
    for (position, &axis) in axes.iter().enumerate() {
        let begin = pads.get(position).copied().flatten();
        let end = pads.get(position + axes.len()).copied().flatten();
        result[axis] = match (shape[axis], begin, end) {
            (Some(dim), Some(begin), Some(end)) => Some(size(dim as f64 + begin + end)?),
            _ => None,
        };
    }
    Ok(Some(result))
}

fn block_moved(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(&[batch, channels, height, width]) = op.shape(0) else { return Ok(None) };
    let Some(block) =
        op.int("blocksize").and_then(|b| u64::try_from(b).ok()).filter(|&b| (1..1 << 16).contains(&b))
    else {
        return Err(ShapeConflict("a block size that is not positive".to_owned()));
    };
    let grow = |dim: Dim, by: u64| dim.and_then(|d| d.checked_mul(by));
    let shrink = |dim: Dim, by: u64| dim.map(|d| d / by);
    Ok(Some(if op.kind() == "DepthToSpace" {
        vec![batch, shrink(channels, block * block), grow(height, block), grow(width, block)]
    } else {
        vec![batch, grow(channels, block * block), shrink(height, block), shrink(width, block)]
    }))
}

fn resized(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let with_region = op.kind() == "Resize" && op.opset > 10;
    let scales_slot = if with_region { 2 } else { 1 };
    let axes: Vec<usize> = match op.ints("axes") {
        Some(axes) => axes.iter().map(|&a| resolve_axis(a, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect(),
    };
    let mut result = shape.to_vec();
    let attribute_scales: Option<Vec<Option<f64>>> =
        op.attribute("scales").map(|a| a.floats.iter().map(|&s| Some(f64::from(s))).collect());
    let scales = attribute_scales.as_deref().or_else(|| op.contents(scales_slot));
    if let Some(scales) = scales.filter(|s| !s.is_empty()) {
        for (&axis, scale) in axes.iter().zip(scales) {
            result[axis] = match (shape[axis], scale) {
                (Some(dim), Some(scale)) => Some(size((dim as f64 * scale).floor())?),
                _ => None,
            };
        }
        return Ok(Some(result));
    }
    let sizes = if with_region { op.contents(3) } else { None };
    let keep_aspect = op.text("keep_aspect_ratio_policy").unwrap_or("stretch");
    for (position, &axis) in axes.iter().enumerate() {
        let wanted = sizes.and_then(|s| s.get(position).copied().flatten());
        result[axis] = wanted.map(size).transpose()?;
    }
    if keep_aspect != "stretch" {
        let ratios: Option<Vec<f64>> =
            axes.iter().map(|&axis| Some(result[axis]? as f64 / shape[axis]?.max(1) as f64)).collect();
        let scale = ratios.and_then(|r| {
            if keep_aspect == "not_larger" {
                r.into_iter().reduce(f64::min)
            } else {
                r.into_iter().reduce(f64::max)
            }
        });
        for &axis in &axes {
            result[axis] = shape[axis].zip(scale).map(|(dim, scale)| (dim as f64 * scale).round() as u64);
        }
    }
    Ok(Some(result))
}

/// ONNX Runtime's moves between plain layouts and blocked channels.
fn reordered(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let mut shape = op.shape(0)?.to_vec();
    let channels_last = op.int_or("channels_last", 0) != 0 && shape.len() > 2;
    if op.kind() == "ReorderInput" {
        if channels_last {
            shape[1..].rotate_right(1);
        }
        return Some(shape);
    }
    if let Some(channels) = op.int("channels") {
        *shape.get_mut(1)? = u64::try_from(channels).ok();
    }
    if channels_last {
        shape[1..].rotate_left(1);
    }
    Some(shape)
}

fn centre_cropped(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let axes: Vec<usize> = match op.ints("axes") {
        Some(axes) => axes.iter().map(|&a| resolve_axis(a, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect(),
    };
    let target = spelled_shape(op, 1)?.unwrap_or_default();
    let mut result = shape.to_vec();
    for (position, &axis) in axes.iter().enumerate() {
        result[axis] = target.get(position).copied().flatten();
    }
    Ok(Some(result))
}

/// The part of the axes that a `Shape` reads.
pub(crate) fn shape_bounds(op: &Operation<'_>, rank: usize) -> std::ops::Range<usize> {
    let signed = i64::try_from(rank).unwrap_or(i64::MAX);
    let clamp = |bound: i64| {
        let bound = if bound < 0 { bound.saturating_add(signed) } else { bound };
        usize::try_from(bound.clamp(0, signed)).unwrap_or(0)
    };
    let start = clamp(op.int_or("start", 0));
    start..clamp(op.int_or("end", i64::MAX)).max(start)
}

fn shape_length(op: &Operation<'_>) -> Dim {
    op.rank(0).map(|rank| shape_bounds(op, rank).len() as u64)
}

/// The number of elements of a `Range`.
fn range_length(op: &Operation<'_>) -> Dim {
    let scalar = |index| op.input(index).and_then(Value::scalar);
    let (start, limit, delta) = (scalar(0)?, scalar(1)?, scalar(2)?);
    let length = ((limit - start) / delta).ceil();
    length.is_finite().then_some(length.max(0.0) as u64)
}
