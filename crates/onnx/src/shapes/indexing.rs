//! Operators that choose elements: slices, gathers, and those whose output depends on the data.
//!
//! Invariant: a size that depends on the data stays unknown.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::Operation;
use crate::value::{Dim, ShapeConflict, Value, resolve_axis};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let one = |shape: Option<Vec<Dim>>| vec![Value::new(first_type, shape)];
    let outputs = match op.kind() {
        "Slice" => one(sliced(op)?),
        "Gather" => one(gathered(op)?),
        "GatherElements" => one(op.shape(1).map(<[Dim]>::to_vec)),
        "GatherND" => one(gathered_nd(op)?),
        "GatherBlockQuantized" => {
            vec![Value::new(op.input(2).map_or(first_type, |v| v.data_type), gathered(op)?)]
        }
        "OneHot" => vec![one_hot(op)?],
        "TopK" => top_k(op)?,
        "NonZero" => vec![Value::new(DataType::INT64, Some(vec![op.rank(0).map(|r| r.max(1) as u64), None]))],
        "NonMaxSuppression" => vec![Value::new(DataType::INT64, Some(vec![None, Some(3)]))],
        "Compress" => {
            let shape = match op.int("axis") {
                Some(axis) => op.shape(0).map(|s| with_axis(s, axis, None)).transpose()?,
                None => Some(vec![None]),
            };
            one(shape)
        }
        "Unique" => {
            let first = match op.int("axis") {
                Some(axis) => op.shape(0).map(|s| with_axis(s, axis, None)).transpose()?,
                None => Some(vec![None]),
            };
            let index = Value::new(DataType::INT64, Some(vec![None]));
            vec![Value::new(first_type, first), index.clone(), index.clone(), index]
        }
        "Multinomial" => {
            let samples = op.int_or("sample_size", 1);
            let data_type = DataType(op.int_or("dtype", 6) as i32);
            vec![Value::new(data_type, Some(vec![op.dim(0, 0), u64::try_from(samples).ok()]))]
        }
        "EmbedLayerNormalization" => {
            let width = op.dim(2, 1);
            let data_type = op.input(2).map_or(DataType::default(), |v| v.data_type);
            vec![
                Value::new(data_type, Some(vec![op.dim(0, 0), op.dim(0, 1), width])),
                Value::new(DataType::INT32, Some(vec![op.dim(0, 0)])),
            ]
        }
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

fn with_axis(shape: &[Dim], axis: i64, size: Dim) -> Result<Vec<Dim>, ShapeConflict> {
    let mut result = shape.to_vec();
    result[resolve_axis(axis, shape.len())?] = size;
    Ok(result)
}

/// One axis of a slice with its bounds resolved.
pub(crate) struct SliceAxis {
    pub(crate) axis: usize,
    /// Start, step and count; `None` when they are not known.
    pub(crate) run: Option<(u64, i64, u64)>,
}

/// The axes that a `Slice` cuts; `None` when not even the axes are known.
pub(crate) fn slice_axes(op: &Operation<'_>, shape: &[Dim]) -> Result<Option<Vec<SliceAxis>>, ShapeConflict> {
    let numbers = |name: &str, slot: usize| -> Option<Vec<Option<f64>>> {
        match op.ints(name) {
            Some(ints) => Some(ints.iter().map(|&i| Some(i as f64)).collect()),
            None => op.contents(slot).map(<[_]>::to_vec),
        }
    };
    let starts = numbers("starts", 1);
    let ends = numbers("ends", 2);
    let axes: Vec<usize> = match numbers("axes", 3) {
        Some(axes) => {
            let Some(axes) = axes.into_iter().collect::<Option<Vec<f64>>>() else { return Ok(None) };
            axes.into_iter().map(|a| resolve_axis(a as i64, shape.len())).collect::<Result<_, _>>()?
        }
        None if op.input(3).is_some() => return Ok(None),
        None => {
            let count = starts.as_ref().map(Vec::len).or_else(|| usize::try_from(op.dim(1, 0)?).ok());
            let Some(count) = count else { return Ok(None) };
            (0..count.min(shape.len())).collect()
        }
    };
    let steps = numbers("steps", 4);
    let steps_given = op.input(4).is_some();
    let run = |position: usize, axis: usize| {
        let at = |list: &Option<Vec<Option<f64>>>| list.as_ref()?.get(position).copied().flatten();
        let step = if steps_given || steps.is_some() { at(&steps)? } else { 1.0 };
        slice_run(shape[axis]?, at(&starts)?, at(&ends)?, step as i64)
    };
    Ok(Some(
        axes.iter()
            .enumerate()
            .map(|(position, &axis)| SliceAxis { axis, run: run(position, axis) })
            .collect(),
    ))
}

fn slice_run(size: u64, start: f64, end: f64, step: i64) -> Option<(u64, i64, u64)> {
    let length = size as f64;
    let wrap = |bound: f64| if bound < 0.0 { bound + length } else { bound };
    let step_size = step as f64;
    let (first, last) = match step {
        0 => return None,
        1.. => (wrap(start).clamp(0.0, length), wrap(end).clamp(0.0, length)),
        _ => (wrap(start).clamp(0.0, (length - 1.0).max(0.0)), wrap(end).clamp(-1.0, length - 1.0)),
    };
    let count = if size == 0 { 0.0 } else { ((last - first) / step_size).ceil().max(0.0) };
    Some((first as u64, step, count as u64))
}

fn sliced(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let Some(axes) = slice_axes(op, shape)? else { return Ok(Some(vec![None; shape.len()])) };
    let mut result = shape.to_vec();
    for cut in axes {
        result[cut.axis] = cut.run.map(|(_, _, count)| count);
    }
    Ok(Some(result))
}

fn gathered(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let default_axis = if op.kind() == "Gather" { 0 } else { op.int_or("gather_axis", 0) };
    let (Some(data), Some(indices)) = (op.shape(0), op.shape(1)) else { return Ok(None) };
    let axis = resolve_axis(op.int_or("axis", default_axis), data.len())?;
    Ok(Some([&data[..axis], indices, &data[axis + 1..]].concat()))
}

fn gathered_nd(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let (Some(data), Some(indices)) = (op.shape(0), op.shape(1)) else { return Ok(None) };
    let Some((Some(depth), outer)) = indices.split_last().map(|(&last, outer)| (last, outer)) else {
        return Ok(None);
    };
    let batch = usize::try_from(op.int_or("batch_dims", 0)).unwrap_or(0);
    let taken = usize::try_from(depth).unwrap_or(usize::MAX).saturating_add(batch);
    let Some(rest) = data.get(taken..) else {
        return Err(ShapeConflict(format!("indices of {depth} coordinates into {} axes", data.len())));
    };
    Ok(Some([outer, rest].concat()))
}

fn one_hot(op: &Operation<'_>) -> Result<Value, ShapeConflict> {
    let data_type = op.input(2).map_or(DataType::default(), |v| v.data_type);
    let Some(indices) = op.shape(0) else { return Ok(Value::new(data_type, None)) };
    let axis = resolve_axis(op.int_or("axis", -1), indices.len() + 1)?;
    let depth = op.input(1).and_then(Value::scalar).filter(|&d| d >= 0.0).map(|d| d as u64);
    let mut shape = indices.to_vec();
    shape.insert(axis, depth);
    Ok(Value::new(data_type, Some(shape)))
}

fn top_k(op: &Operation<'_>) -> Result<Vec<Value>, ShapeConflict> {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let count = op.int("k").map(|k| k as f64).or_else(|| op.input(1).and_then(Value::scalar));
    let count = count.filter(|&k| k >= 0.0).map(|k| k as u64);
    let shape = op.shape(0).map(|s| with_axis(s, op.int_or("axis", -1), count)).transpose()?;
    Ok(vec![Value::new(first_type, shape.clone()), Value::new(DataType::INT64, shape)])
}
