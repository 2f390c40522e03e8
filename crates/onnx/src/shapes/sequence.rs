//! Recurrent layers, attention operators and signal transforms.
//!
//! Invariant: the geometry that sizes an attention's outputs is the one its work is counted from.

use super::Inferred;
use crate::data_type::DataType;
use crate::graph::{Operation, canonical_domain};
use crate::value::{Dim, ShapeConflict, Value};

pub(super) fn infer(op: &Operation<'_>) -> Inferred {
    let first_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let outputs = match op.kind() {
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => recurrent(op),
        "Attention"
        | "QAttention"
        | "MultiHeadAttention"
        | "GroupQueryAttention"
        | "DecoderMaskedMultiHeadAttention" => match attention_geometry(op) {
            Some(geometry) => attention_outputs(op, &geometry),
            None => vec![Value::new(first_type, op.shape(0).map(<[Dim]>::to_vec))],
        },
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => {
            let data_type = DataType(op.int_or("output_datatype", 1) as i32);
            vec![Value::new(data_type, Some(vec![positive_scalar(op, 0)]))]
        }
        "MelWeightMatrix" => {
            let data_type = DataType(op.int_or("output_datatype", 1) as i32);
            let bins = positive_scalar(op, 1).map(|length| length / 2 + 1);
            vec![Value::new(data_type, Some(vec![bins, positive_scalar(op, 0)]))]
        }
        "DFT" => vec![Value::new(first_type, transform(op)?)],
        "STFT" => vec![Value::new(first_type, short_transform(op))],
        "AffineGrid" => vec![Value::new(first_type, affine_grid(op))],
        "Col2Im" => vec![Value::new(first_type, image_of_columns(op))],
        _ => return Ok(None),
    };
    Ok(Some(outputs))
}

fn positive_scalar(op: &Operation<'_>, slot: usize) -> Dim {
    op.input(slot).and_then(Value::scalar).filter(|&v| v >= 0.0).map(|v| v as u64)
}

fn recurrent(op: &Operation<'_>) -> Vec<Value> {
    let data_type = op.input(0).map_or(DataType::default(), |v| v.data_type);
    let batch_first = op.int_or("layout", 0) == 1;
    let (steps, batch) =
        if batch_first { (op.dim(0, 1), op.dim(0, 0)) } else { (op.dim(0, 0), op.dim(0, 1)) };
    let directions = Some(if op.text("direction") == Some("bidirectional") { 2 } else { 1 });
    let hidden = hidden_size(op);
    let (sequence, last) = if batch_first {
        (vec![batch, steps, directions, hidden], vec![batch, directions, hidden])
    } else {
        (vec![steps, directions, batch, hidden], vec![directions, batch, hidden])
    };
    let last = Value::new(data_type, Some(last));
    vec![Value::new(data_type, Some(sequence)), last.clone(), last]
}

/// The hidden size of a recurrent layer, from its attribute or its recurrence weights.
pub(crate) fn hidden_size(op: &Operation<'_>) -> Dim {
    let given = op.int("hidden_size").filter(|&h| h > 0).map(|h| h as u64);
    let axis = if op.kind() == "DynamicQuantizeLSTM" { 1 } else { 2 };
    given.or_else(|| op.dim(2, axis))
}

/// The sizes that an attention operator works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionGeometry {
    pub(crate) batch: Dim,
    pub(crate) heads: Dim,
    pub(crate) key_heads: Dim,
    /// Positions that ask.
    pub(crate) queries: Dim,
    /// Positions that are attended to, cached ones included.
    pub(crate) keys: Dim,
    pub(crate) head: Dim,
    pub(crate) value_head: Dim,
    /// Whether queries and outputs carry their heads on an axis of their own.
    pub(crate) split_heads: bool,
    /// Operations of the projection that some forms include.
    pub(crate) projection_flops: f64,
}

fn attribute_size(op: &Operation<'_>, name: &str) -> Dim {
    op.int(name).filter(|&n| n > 0).map(|n| n as u64)
}

fn times(a: Dim, b: Dim) -> Dim {
    a?.checked_mul(b?)
}

fn plus(a: Dim, b: Dim) -> Dim {
    a?.checked_add(b?)
}

fn divided(a: Dim, b: Dim) -> Dim {
    a?.checked_div(b?)
}

/// The geometry of an attention operator; `None` when its query's axes are not even counted.
pub(crate) fn attention_geometry(op: &Operation<'_>) -> Option<AttentionGeometry> {
    match op.kind() {
        "Attention" if canonical_domain(&op.node.domain).is_empty() => standard_attention(op),
        "Attention" | "QAttention" => projecting_attention(op),
        "MultiHeadAttention" | "DecoderMaskedMultiHeadAttention" => multi_head(op),
        "GroupQueryAttention" => group_query(op),
        _ => None,
    }
}

fn standard_attention(op: &Operation<'_>) -> Option<AttentionGeometry> {
    let query = op.shape(0)?;
    let split_heads = query.len() == 4;
    let (heads, queries, head) = if split_heads {
        (query[1], query[2], query[3])
    } else {
        let heads = attribute_size(op, "q_num_heads");
        (heads, *query.get(1)?, divided(*query.get(2)?, heads))
    };
    let (key_heads, new_keys, value_head) = if op.rank(1) == Some(4) {
        (op.dim(1, 1), op.dim(1, 2), op.dim(2, 3))
    } else {
        let key_heads = attribute_size(op, "kv_num_heads");
        (key_heads, op.dim(1, 1), divided(op.dim(2, 2), key_heads))
    };
    let past = if op.input(4).is_some() { op.dim(4, 2) } else { Some(0) };
    Some(AttentionGeometry {
        batch: query[0],
        heads,
        key_heads,
        queries,
        keys: plus(past, new_keys),
        head,
        value_head,
        split_heads,
        projection_flops: 0.0,
    })
}

/// ONNX Runtime's `Attention`, which projects queries, keys and values itself.
fn projecting_attention(op: &Operation<'_>) -> Option<AttentionGeometry> {
    let &[batch, queries, width] = op.shape(0)? else { return None };
    let heads = attribute_size(op, "num_heads");
    let projected = op.dim(1, 1);
    let (query_width, value_width) = match op.ints("qkv_hidden_sizes") {
        Some(&[q, _, v]) => (u64::try_from(q).ok(), u64::try_from(v).ok()),
        _ => (divided(projected, Some(3)), divided(projected, Some(3))),
    };
    let past_slot = if op.kind() == "QAttention" { 8 } else { 4 };
    let past = if op.input(past_slot).is_some() { op.dim(past_slot, 3) } else { Some(0) };
    let known = |d: Dim| d.unwrap_or(1) as f64;
    Some(AttentionGeometry {
        batch,
        heads,
        key_heads: heads,
        queries,
        keys: plus(past, queries),
        head: divided(query_width, heads),
        value_head: divided(value_width, heads),
        split_heads: false,
        projection_flops: 2.0 * known(batch) * known(queries) * known(width) * known(projected),
    })
}

fn multi_head(op: &Operation<'_>) -> Option<AttentionGeometry> {
    let query = op.shape(0)?;
    let heads = attribute_size(op, "num_heads");
    let (batch, queries) = (*query.first()?, *query.get(1)?);
    let past = if op.input(6).is_some() { op.dim(6, 2) } else { Some(0) };
    if query.len() == 5 {
        let head = query[4];
        return Some(AttentionGeometry {
            batch,
            heads: query[2],
            key_heads: query[2],
            queries,
            keys: plus(past, queries),
            head,
            value_head: head,
            split_heads: false,
            projection_flops: 0.0,
        });
    }
    let head = divided(*query.get(2)?, heads);
    let (new_keys, value_head) = match (op.rank(1), op.rank(2)) {
        (Some(5), _) => (op.dim(1, 1), head),
        (_, Some(4)) => (op.dim(1, 2), op.dim(2, 3)),
        _ => (op.dim(1, 1), divided(op.dim(2, 2), heads)),
    };
    Some(AttentionGeometry {
        batch,
        heads,
        key_heads: heads,
        queries,
        keys: plus(past, new_keys),
        head,
        value_head,
        split_heads: false,
        projection_flops: 0.0,
    })
}

fn group_query(op: &Operation<'_>) -> Option<AttentionGeometry> {
    let &[batch, queries, width] = op.shape(0)? else { return None };
    let heads = attribute_size(op, "num_heads");
    let key_heads = attribute_size(op, "kv_num_heads");
    // Without a key the first input holds queries, keys and values side by side.
    let packed = op.input(1).is_none();
    let head =
        if packed { divided(width, plus(heads, times(Some(2), key_heads))) } else { divided(width, heads) };
    let past = if op.input(3).is_some() { op.dim(3, 2) } else { Some(0) };
    Some(AttentionGeometry {
        batch,
        heads,
        key_heads,
        queries,
        keys: positive_scalar(op, 6).or_else(|| plus(past, queries)),
        head,
        value_head: head,
        split_heads: false,
        projection_flops: 0.0,
    })
}

fn attention_outputs(op: &Operation<'_>, g: &AttentionGeometry) -> Vec<Value> {
    let data_type = match op.kind() {
        "QAttention" => op.input(3).map_or(DataType::FLOAT, |v| v.data_type),
        _ => op.input(0).map_or(DataType::default(), |v| v.data_type),
    };
    let of = |shape: Vec<Dim>| Value::new(data_type, Some(shape));
    let output = if g.split_heads {
        of(vec![g.batch, g.heads, g.queries, g.value_head])
    } else {
        of(vec![g.batch, g.queries, times(g.heads, g.value_head)])
    };
    if matches!(op.kind(), "Attention" | "QAttention") && op.is_microsoft() {
        return vec![output, of(vec![Some(2), g.batch, g.heads, g.keys, g.head])];
    }
    vec![
        output,
        of(vec![g.batch, g.key_heads, g.keys, g.head]),
        of(vec![g.batch, g.key_heads, g.keys, g.value_head]),
        of(vec![g.batch, g.heads, g.queries, g.keys]),
    ]
}

fn transform(op: &Operation<'_>) -> Result<Option<Vec<Dim>>, ShapeConflict> {
    let Some(shape) = op.shape(0) else { return Ok(None) };
    let axis = op.int("axis").or_else(|| op.input(2).and_then(Value::scalar).map(|a| a as i64));
    let default = if op.opset >= 20 { -2 } else { 1 };
    let axis = crate::value::resolve_axis(axis.unwrap_or(default), shape.len())?;
    let mut result = shape.to_vec();
    let one_sided = op.int_or("onesided", 0) != 0;
    let inverse = op.int_or("inverse", 0) != 0;
    let length = match op.input(1) {
        Some(_) => positive_scalar(op, 1),
        None if one_sided && inverse => shape[axis].map(|bins| 2 * bins.saturating_sub(1)),
        None => shape[axis],
    };
    result[axis] = if one_sided && !inverse { length.map(|l| l / 2 + 1) } else { length };
    if let Some(last) = result.last_mut() {
        *last = Some(if one_sided && inverse { 1 } else { 2 });
    }
    Ok(Some(result))
}

fn short_transform(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let shape = op.shape(0)?;
    let step = positive_scalar(op, 1).filter(|&s| s > 0);
    let length = if op.input(3).is_some() { positive_scalar(op, 3) } else { op.dim(2, 0) };
    let frames = match (shape.get(1).copied().flatten(), length, step) {
        (Some(size), Some(length), Some(step)) => Some(size.checked_sub(length)? / step + 1),
        _ => None,
    };
    let bins = length.map(|l| if op.int_or("onesided", 1) != 0 { l / 2 + 1 } else { l });
    Some(vec![*shape.first()?, frames, bins, Some(2)])
}

fn affine_grid(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let size: Vec<Dim> = op.contents(1)?.iter().map(|s| s.filter(|&s| s >= 0.0).map(|s| s as u64)).collect();
    let spatial = size.get(2..)?;
    let coordinates = Some(spatial.len() as u64);
    Some([&size[..1], spatial, &[coordinates]].concat())
}

fn image_of_columns(op: &Operation<'_>) -> Option<Vec<Dim>> {
    let image: Vec<Dim> = op.contents(1)?.iter().map(|s| s.filter(|&s| s >= 0.0).map(|s| s as u64)).collect();
    let block: Vec<Dim> = op.contents(2)?.iter().map(|s| s.filter(|&s| s >= 0.0).map(|s| s as u64)).collect();
    let channels = divided(op.dim(0, 1), crate::value::elements(&block));
    Some([vec![op.dim(0, 0), channels], image].concat())
}
