//! Contents of small tensors: the arithmetic on shapes that exporters leave in graphs.
//!
//! Invariant: an element is known only when every element it depends on is; folding never changes a shape.

#[cfg(test)]
mod tests;

use crate::graph::Operation;
use crate::shapes::{permutation, reduced_axes, shape_bounds, slice_axes, split_sizes};
use crate::value::{CONTENTS_LIMIT, Dim, Value, elements, resolve_axis};

type Contents = Vec<Option<f64>>;

/// Fills in the contents of `outputs` where they are small and follow from those of the inputs.
pub(crate) fn fold_outputs(op: &Operation<'_>, outputs: &mut [Value]) {
    if op.kind() == "Split" {
        fold_split(op, outputs);
        return;
    }
    let Some(output) = outputs.first_mut() else { return };
    if output.contents.is_some() {
        return;
    }
    let folded = match (op.kind(), output.shape.as_deref()) {
        ("NonZero", _) => {
            if let Some((shape, contents)) = non_zero(op) {
                output.shape = Some(shape);
                Some(contents)
            } else {
                None
            }
        }
        (_, Some(shape)) if elements(shape).is_some_and(|n| n <= CONTENTS_LIMIT) => fold(op, output, shape),
        _ => None,
    };
    output.contents = folded.filter(|contents| {
        output.elements() == Some(contents.len() as u64)
            && (contents.is_empty() || contents.iter().any(Option::is_some))
    });
}

fn fold(op: &Operation<'_>, output: &Value, shape: &[Dim]) -> Option<Contents> {
    let known: Vec<usize> =
        shape.iter().map(|d| d.and_then(|d| usize::try_from(d).ok())).collect::<Option<_>>()?;
    match op.kind() {
        "Shape" => {
            let dims = op.shape(0)?;
            Some(dims[shape_bounds(op, dims.len())].iter().map(|d| d.map(|d| d as f64)).collect())
        }
        "Size" => Some(vec![op.input(0)?.elements().map(|n| n as f64)]),
        "ConstantOfShape" => {
            let fill = match op.tensor("value") {
                Some(tensor) => crate::constant::small_contents(tensor)?.first().copied().flatten(),
                None => Some(0.0),
            };
            Some(vec![fill; extent(&known)])
        }
        "Range" => {
            let (start, delta) = (op.input(0)?.scalar()?, op.input(2)?.scalar()?);
            Some((0..known[0]).map(|i| Some(start + delta * i as f64)).collect())
        }
        "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" | "Dropout" => op.contents(0).map(<[_]>::to_vec),
        "Cast" | "CastLike" => {
            let to_integer = !output.data_type.is_float();
            Some(op.contents(0)?.iter().map(|e| e.map(|x| if to_integer { x.trunc() } else { x })).collect())
        }
        "Concat" => concat(op, &known),
        "Gather" => gather(op),
        "Slice" => slice(op, &known),
        "Transpose" => transpose(op, &known),
        "Expand" => Some(positions(&known).map(|at| pick(op, 0, &at)).collect()),
        "Tile" => {
            let source = sizes(op, 0)?;
            let contents = op.contents(0)?;
            Some(positions(&known).map(|at| contents.get(wrapped(&at, &source)).copied().flatten()).collect())
        }
        "Where" => {
            let chosen = |at: &[usize]| pick(op, if pick(op, 0, at)? == 0.0 { 2 } else { 1 }, at);
            Some(positions(&known).map(|at| chosen(&at)).collect())
        }
        "ReduceProd" | "ReduceSum" | "ReduceMin" | "ReduceMax" => reduce(op, extent(&known)),
        kind => {
            if let Some(function) = unary(kind) {
                return Some(op.contents(0)?.iter().map(|e| e.map(function)).collect());
            }
            let integer = op.input(0).is_some_and(|v| !v.data_type.is_float());
            let function = binary(kind, integer)?;
            let combined = |at: &[usize]| {
                let mut operands = (0..op.inputs.len()).map(|slot| pick(op, slot, at));
                let first = operands.next()??;
                operands.try_fold(first, |sum, next| function(sum, next?))
            };
            Some(positions(&known).map(|at| combined(&at)).collect())
        }
    }
}

fn unary(kind: &str) -> Option<fn(f64) -> f64> {
    Some(match kind {
        "Neg" => |x| -x,
        "Abs" => f64::abs,
        "Floor" => f64::floor,
        "Ceil" => f64::ceil,
        "Round" => f64::round_ties_even,
        "Sqrt" => f64::sqrt,
        "Reciprocal" => f64::recip,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Relu" => |x| x.max(0.0),
        "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        "Not" => |x| f64::from(u8::from(x == 0.0)),
        _ => return None,
    })
}

/// Operators of two or more operands; a result of `None` is an element that cannot be known.
fn binary(kind: &str, integer: bool) -> Option<fn(f64, f64) -> Option<f64>> {
    fn truth(value: bool) -> f64 {
        f64::from(u8::from(value))
    }
    #[expect(clippy::float_cmp, reason = "the operators compare exactly")]
    Some(match kind {
        "Add" | "Sum" => |a, b| Some(a + b),
        "Sub" => |a, b| Some(a - b),
        "Mul" => |a, b| Some(a * b),
        "Div" if integer => |a, b| (b != 0.0).then(|| (a / b).trunc()),
        "Div" => |a, b| Some(a / b),
        "Mod" => |a, b| (b != 0.0).then(|| a - b * (a / b).floor()),
        "Pow" => |a, b| Some(a.powf(b)),
        "Min" => |a, b| Some(a.min(b)),
        "Max" => |a, b| Some(a.max(b)),
        "Equal" => |a, b| Some(truth(a == b)),
        "Greater" => |a, b| Some(truth(a > b)),
        "Less" => |a, b| Some(truth(a < b)),
        "GreaterOrEqual" => |a, b| Some(truth(a >= b)),
        "LessOrEqual" => |a, b| Some(truth(a <= b)),
        "And" => |a, b| Some(truth(a != 0.0 && b != 0.0)),
        "Or" => |a, b| Some(truth(a != 0.0 || b != 0.0)),
        "Xor" => |a, b| Some(truth((a != 0.0) != (b != 0.0))),
        _ => return None,
    })
}

fn sizes(op: &Operation<'_>, slot: usize) -> Option<Vec<usize>> {
    op.shape(slot)?.iter().map(|d| d.and_then(|d| usize::try_from(d).ok())).collect()
}

/// The number of elements; parts of a shape with an empty axis may be too large to multiply.
fn extent(shape: &[usize]) -> usize {
    shape.iter().fold(1, |product: usize, &size| product.saturating_mul(size))
}

/// All positions of a tensor, row-major.
fn positions(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let count = extent(shape);
    (0..count).map(move |mut linear| {
        let mut at = vec![0; shape.len()];
        for (axis, &size) in shape.iter().enumerate().rev() {
            at[axis] = linear % size;
            linear /= size;
        }
        at
    })
}

/// The row-major place of a position, each coordinate taken modulo the size of its axis.
fn wrapped(at: &[usize], shape: &[usize]) -> usize {
    at.iter()
        .zip(shape)
        .fold(0, |linear, (&index, &size)| linear * size + index.checked_rem(size).unwrap_or(0))
}

/// The element that an operand gives to a broadcast position, where it is known.
fn pick(op: &Operation<'_>, slot: usize, at: &[usize]) -> Option<f64> {
    let shape = sizes(op, slot)?;
    let own = at.get(at.len().checked_sub(shape.len())?..)?;
    *op.contents(slot)?.get(wrapped(own, &shape))?
}

fn concat(op: &Operation<'_>, known: &[usize]) -> Option<Contents> {
    let axis = resolve_axis(op.int_or("axis", 1), known.len()).ok()?;
    let outer = extent(&known[..axis]);
    let mut result = Vec::with_capacity(extent(known));
    for row in 0..outer {
        for slot in 0..op.inputs.len() {
            let input = op.input(slot)?;
            let count = usize::try_from(input.elements()?).ok()? / outer;
            match input.contents.as_deref() {
                Some(contents) => result.extend_from_slice(contents.get(row * count..(row + 1) * count)?),
                None if (count as u64) <= CONTENTS_LIMIT => result.extend(std::iter::repeat_n(None, count)),
                None => return None,
            }
        }
    }
    Some(result)
}

fn gather(op: &Operation<'_>) -> Option<Contents> {
    let shape = sizes(op, 0)?;
    let contents = op.contents(0)?;
    let axis = resolve_axis(op.int_or("axis", 0), shape.len()).ok()?;
    let outer = extent(&shape[..axis]);
    let inner = extent(&shape[axis + 1..]);
    let size = shape[axis];
    let mut result = Vec::new();
    for row in 0..outer {
        for index in op.contents(1)? {
            let chosen = index.and_then(|i| {
                let i = if i < 0.0 { i + size as f64 } else { i };
                (i >= 0.0 && i < size as f64).then_some(i as usize)
            });
            for column in 0..inner {
                result.push(
                    chosen.and_then(|i| contents.get((row * size + i) * inner + column).copied().flatten()),
                );
            }
        }
    }
    Some(result)
}

fn slice(op: &Operation<'_>, known: &[usize]) -> Option<Contents> {
    let shape = sizes(op, 0)?;
    let contents = op.contents(0)?;
    let cuts = slice_axes(op, op.shape(0)?).ok().flatten()?;
    positions(known)
        .map(|mut at| {
            for cut in &cuts {
                let (start, step, _) = cut.run?;
                let index = i128::from(start) + i128::from(step) * at[cut.axis] as i128;
                at[cut.axis] = usize::try_from(index).ok()?;
            }
            contents.get(wrapped(&at, &shape)).copied()
        })
        .collect()
}

fn transpose(op: &Operation<'_>, known: &[usize]) -> Option<Contents> {
    let shape = sizes(op, 0)?;
    let contents = op.contents(0)?;
    let order = permutation(op, shape.len()).ok()?;
    positions(known)
        .map(|at| {
            let mut source = vec![0; shape.len()];
            for (&axis, &index) in order.iter().zip(&at) {
                source[axis] = index;
            }
            contents.get(wrapped(&source, &shape)).copied()
        })
        .collect()
}

fn reduce(op: &Operation<'_>, count: usize) -> Option<Contents> {
    let shape = sizes(op, 0)?;
    let contents = op.contents(0)?;
    let axes = reduced_axes(op, shape.len()).ok().flatten()?;
    let (function, start): (fn(f64, f64) -> f64, f64) = match op.kind() {
        "ReduceProd" => (|a, b| a * b, 1.0),
        "ReduceSum" => (|a, b| a + b, 0.0),
        "ReduceMin" => (f64::min, f64::INFINITY),
        _ => (f64::max, f64::NEG_INFINITY),
    };
    let mut result = vec![Some(start); count];
    for (at, element) in positions(&shape).zip(contents) {
        let place = (0..shape.len())
            .filter(|axis| !axes.contains(axis))
            .fold(0, |linear, axis| linear * shape[axis] + at[axis]);
        let sum = result.get_mut(place)?;
        *sum = sum.zip(*element).map(|(a, b)| function(a, b));
    }
    Some(result)
}

fn non_zero(op: &Operation<'_>) -> Option<(Vec<Dim>, Contents)> {
    let shape = sizes(op, 0)?;
    let contents: Vec<f64> = op.contents(0)?.iter().copied().collect::<Option<_>>()?;
    let hits: Vec<Vec<usize>> =
        positions(&shape).zip(&contents).filter(|(_, x)| **x != 0.0).map(|(at, _)| at).collect();
    let rank = shape.len().max(1);
    let rows =
        (0..rank).flat_map(|axis| hits.iter().map(move |at| Some(at.get(axis).copied().unwrap_or(0) as f64)));
    Some((vec![Some(rank as u64), Some(hits.len() as u64)], rows.collect()))
}

fn fold_split(op: &Operation<'_>, outputs: &mut [Value]) {
    let Some(([size], contents)) = op.shape(0).zip(op.contents(0)) else { return };
    let mut rest = contents;
    for (output, size) in outputs.iter_mut().zip(split_sizes(op, *size, op.output_count())) {
        let Some(size) = size.and_then(|s| usize::try_from(s).ok()).filter(|&s| s <= rest.len()) else {
            return;
        };
        let (part, others) = rest.split_at(size);
        output.contents = Some(part.to_vec());
        rest = others;
    }
}
