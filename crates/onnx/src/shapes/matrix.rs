//! Matrix products, plain, quantised and fused, and `Einsum`.
//!
//! Invariant: the contracted axis of both operands agrees, or the product is a conflict.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::Operation;
use crate::value::{Dim, ShapeConflict, Value, broadcast, same_dim};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let type_of = |slot: usize| op.input(slot).map_or(first_type, |v| v.data_type);
    let outputs = match op.kind() {
        "MatMul" => vec![Value::new(first_type, product(op.shape(0), op.shape(1))?)],
        "FusedMatMul" | "FusedMatMulActivation" | "TransposeMatMul" => {
            let left = oriented(op.shape(0), op.int_or("transA", 0), op.int_or("transBatchA", 0));
            let right = oriented(op.shape(1), op.int_or("transB", 0), op.int_or("transBatchB", 0));
            vec![Value::new(first_type, product(left.as_deref(), right.as_deref())?)]
        }
        "MatMulInteger" => vec![Value::new(DataType::INT32, product(op.shape(0), op.shape(1))?)],
        "QLinearMatMul" => vec![Value::new(type_of(7), product(op.shape(0), op.shape(3))?)],
        "DynamicQuantizeMatMul" => vec![Value::new(DataType::FLOAT, product(op.shape(0), op.shape(1))?)],
        "MatMulIntegerToFloat" => vec![Value::new(type_of(2), product(op.shape(0), op.shape(1))?)],
        "MatMulNBits" | "MatMulBnb4" => vec![Value::new(first_type, packed_product(op))],
        "Gemm" | "FusedGemm" => vec![Value::new(first_type, gemm(op, 1)?)],
        "QGemm" => {
            vec![Value::new(if op.input(8).is_some() { type_of(8) } else { DataType::FLOAT }, gemm(op, 3)?)]
        }
        "Einsum" => vec![Value::new(first_type, einsum_shape(op)?)],
        "Det" => {
            let shape = op.shape(0).and_then(|s| s.get(..s.len().checked_sub(2)?)).map(<[Dim]>::to_vec);
            vec![Value::new(first_type, shape)]
        }
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

/// The shape of `MatMul` as NumPy defines it, vectors included.
fn product(left: Option<&[Dim]>, right: Option<&[Dim]>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
    let (Some((&inner, rows)), false) = (left.split_last(), right.is_empty()) else {
        return Err(ShapeConflict("a matrix product with a scalar".to_owned()));
    };
    let (contracted, columns) = match right {
        [length] => (*length, None),
        [.., rows, columns] => (*rows, Some(*columns)),
        [] => (None, None),
    };
    same_dim(inner, contracted)
        .map_err(|ShapeConflict(why)| ShapeConflict(format!("the contracted axes do not fit: {why}")))?;
    let right_batch = &right[..right.len().saturating_sub(2)];
    let left_batch = &rows[..rows.len().saturating_sub(1)];
    let mut result = broadcast(left_batch, right_batch)?;
    result.extend(rows.last());
    result.extend(columns);
    Ok(Some(result))
}

/// The operand of a fused product after its transposes.
fn oriented(shape: Option<&[Dim]>, transposed: i64, batch_transposed: i64) -> Option<Vec<Dim>> {
    let mut shape = shape?.to_vec();
    let rank = shape.len();
    if batch_transposed != 0 && rank >= 3 {
        shape[..rank - 1].rotate_left(1);
    }
    if transposed != 0 && rank >= 2 {
        shape.swap(rank - 1, rank - 2);
    }
    Some(shape)
}

fn packed_product(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let mut shape = op.shape(0)?.to_vec();
    *shape.last_mut()? = op.int("N").and_then(|n| u64::try_from(n).ok());
    Some(shape)
}

fn gemm(op: &Operation<'_>, right_slot: usize) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let (Some(left), Some(right)) = (op.shape(0), op.shape(right_slot)) else {
        return Ok(Some(vec![None, None]));
    };
    // Operator sets before 7 flatten data of more axes, as old classifiers rely on.
    let flattened;
    let left = match left {
        [_, _] => left,
        [first, rest @ ..] if op.opset < 7 => {
            flattened = [*first, crate::value::elements(rest)];
            &flattened
        }
        _ => return Err(ShapeConflict(format!("a Gemm of a tensor of {} axes", left.len()))),
    };
    let &[right_rows, right_columns] = right else {
        return Err(ShapeConflict(format!("a Gemm by a tensor of {} axes", right.len())));
    };
    let (rows, inner) = if op.int_or("transA", 0) != 0 { (left[1], left[0]) } else { (left[0], left[1]) };
    let transposed = op.int_or("transB", 0) != 0;
    let (contracted, columns) =
        if transposed { (right_columns, right_rows) } else { (right_rows, right_columns) };
    same_dim(inner, contracted)
        .map_err(|ShapeConflict(why)| ShapeConflict(format!("the contracted axes do not fit: {why}")))?;
    Ok(Some(vec![rows, columns]))
}

/// The letters of an `Einsum` with their sizes, ellipses expanded to upper-case stand-ins.
struct Equation {
    output: Vec<char>,
    sizes: Vec<(char, Dim)>,
}

fn parse_equation(op: &Operation<'_>) -> Result<Option<Equation>, ShapeConflict> {
    let invalid = |why: &str| ShapeConflict(format!("an Einsum equation {why}"));
    let text: String = op
        .text("equation")
        .ok_or_else(|| invalid("is missing"))?
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let (left, right) = text.split_once("->").map_or((text.as_str(), None), |(l, r)| (l, Some(r)));
    let mut sizes: Vec<(char, Dim)> = Vec::new();
    let mut letters = Vec::new();
    let mut ellipsis: Vec<char> = Vec::new();
    for (index, term) in left.split(',').enumerate() {
        let Some(shape) = op.shape(index) else { return Ok(None) };
        let named = term.chars().filter(|c| *c != '.').count();
        let hidden =
            shape.len().checked_sub(named).ok_or_else(|| invalid("names more axes than there are"))?;
        if hidden > 0 && !term.contains("...") || hidden > 64 {
            return Err(invalid("names fewer axes than there are"));
        }
        // Broadcast axes align at the end, so the last of them gets the first stand-in.
        let stand_ins: Vec<char> =
            (0..hidden as u32).rev().filter_map(|i| char::from_u32(0x2460 + i)).collect();
        if stand_ins.len() > ellipsis.len() {
            ellipsis.clone_from(&stand_ins);
        }
        let expanded: Vec<char> = expand(term, &stand_ins);
        for (&letter, &dim) in expanded.iter().zip(shape) {
            letters.push(letter);
            match sizes.iter_mut().find(|(known, _)| *known == letter) {
                Some((_, size)) => *size = broadcast(&[*size], &[dim])?[0],
                None => sizes.push((letter, dim)),
            }
        }
    }
    let output = if let Some(right) = right {
        expand(right, &ellipsis)
    } else {
        let mut once: Vec<char> = letters
            .iter()
            .copied()
            .filter(|c| c.is_ascii_alphabetic() && letters.iter().filter(|other| *other == c).count() == 1)
            .collect();
        once.sort_unstable();
        [ellipsis, once].concat()
    };
    Ok(Some(Equation { output, sizes }))
}

fn expand(term: &str, stand_ins: &[char]) -> Vec<char> {
    match term.split_once("...") {
        Some((before, after)) => {
            before.chars().chain(stand_ins.iter().copied()).chain(after.chars()).collect()
        }
        None => term.chars().collect(),
    }
}

fn einsum_shape(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(equation) = parse_equation(op)? else { return Ok(None) };
    let size =
        |letter: &char| equation.sizes.iter().find(|(known, _)| known == letter).and_then(|(_, size)| *size);
    Ok(Some(equation.output.iter().map(size).collect()))
}

/// The product of all axes that an `Einsum` names, and whether it sums over any of them.
pub(crate) fn einsum_extent(op: &Operation<'_>) -> Option<(f64, bool)> {
    let equation = parse_equation(op).ok().flatten()?;
    let extent = equation.sizes.iter().map(|(_, size)| size.unwrap_or(1) as f64).product();
    Some((extent, equation.sizes.iter().any(|(letter, _)| !equation.output.contains(letter))))
}
