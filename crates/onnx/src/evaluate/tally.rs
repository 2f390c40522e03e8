//! What a walk counts, and the constants it meets.
//!
//! Invariant: a tally is a sum, so the tally of a body can be scaled and merged into that of its caller.

use std::collections::BTreeMap;

use siliconroute_core::OperatorClass;

use super::Walk;
use crate::constant::tensor_value;
use crate::data_type::DataType;
use crate::flops::{is_learned_slot, is_quantised_bias};
use crate::graph::Operation;
use crate::proto::{SparseTensorProto, TensorProto};
use crate::sorts::{Sort, SortTally};
use crate::value::{CONTENTS_LIMIT, ConstantNumber, Dim, Value, resolve_axis};

/// How many assumptions are spelled out before the rest is only counted.
const ASSUMPTION_LIMIT: usize = 24;

/// A value that is the same in every call.
#[derive(Debug, Clone)]
pub(crate) struct ConstantFact {
    pub(crate) data_type: DataType,
    pub(crate) elements: u64,
    pub(crate) bytes: u64,
    /// Whether it is computed from other constants, which count instead of it.
    pub(crate) derived: bool,
    pub(crate) read: bool,
    /// Whether a node uses it as learned values.
    pub(crate) learned: bool,
    scalar: bool,
}

/// Nodes, operations and bytes of one operator class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ClassTally {
    pub(crate) nodes: u64,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
}

/// The sums of a walk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) classes: BTreeMap<OperatorClass, ClassTally>,
    pub(crate) sorts: BTreeMap<Sort, SortTally>,
    /// Bytes of activations written.
    pub(crate) written: f64,
    /// Bytes of each constant that the nodes read.
    pub(crate) reads: BTreeMap<ConstantNumber, f64>,
    /// Whether a softmax weighs a product of two activations, or a fused attention runs.
    pub(crate) attention: bool,
    pub(crate) heavy: u64,
    /// Heavy nodes whose work could not be told.
    pub(crate) heavy_unsized: u64,
    pub(crate) unsized_nodes: u64,
    pub(crate) unknown_operators: BTreeMap<String, u64>,
    /// By the position of a caller's input: the rows of the smallest table that its values pick from. Not merged
    /// from bodies, which need not run.
    pub(crate) index_limits: BTreeMap<usize, u64>,
    assumptions: Vec<String>,
    assumptions_left_out: u64,
}

impl Tally {
    pub(crate) fn add_node(&mut self, class: OperatorClass, flops: f64, bytes: f64) {
        let sum = self.classes.entry(class).or_default();
        sum.nodes += 1;
        sum.flops += flops;
        sum.bytes += bytes;
    }

    /// Adds `work` done `times` times.
    pub(crate) fn add_to_sort(&mut self, sort: Sort, work: SortTally, times: f64) {
        let sum = self.sorts.entry(sort).or_default();
        sum.multiply_adds += work.multiply_adds * times;
        sum.bytes += work.bytes * times;
    }

    pub(crate) fn read(&mut self, constant: ConstantNumber, bytes: f64) {
        let read = self.reads.entry(constant).or_default();
        *read = read.max(bytes);
    }

    pub(crate) fn assume(&mut self, sentence: String) {
        if self.assumptions.contains(&sentence) {
            return;
        }
        if self.assumptions.len() < ASSUMPTION_LIMIT {
            self.assumptions.push(sentence);
        } else {
            self.assumptions_left_out += 1;
        }
    }

    /// Notes the length of the axis that a gathering node picks from by the numbers of a caller's input.
    pub(crate) fn limit_index(&mut self, op: &Operation<'_>) {
        if !matches!(op.kind(), "Gather" | "GatherElements") {
            return;
        }
        let Some(input) = op.input(1).and_then(|indices| indices.of_input) else { return };
        let axis = op.rank(0).and_then(|rank| resolve_axis(op.int_or("axis", 0), rank).ok());
        if let Some(rows) = axis.and_then(|axis| op.dim(0, axis)) {
            let limit = self.index_limits.entry(input).or_insert(rows);
            *limit = rows.min(*limit);
        }
    }

    pub(crate) fn flops(&self) -> f64 {
        self.classes.values().map(|c| c.flops).sum()
    }

    pub(crate) fn bytes(&self) -> f64 {
        self.classes.values().map(|c| c.bytes).sum()
    }

    /// Adds `body`, which runs `times` times.
    pub(crate) fn merge(&mut self, body: Self, times: u64) {
        let factor = times as f64;
        for (class, work) in body.classes {
            let sum = self.classes.entry(class).or_default();
            sum.nodes = sum.nodes.saturating_add(work.nodes.saturating_mul(times));
            sum.flops += work.flops * factor;
            sum.bytes += work.bytes * factor;
        }
        for (sort, work) in body.sorts {
            self.add_to_sort(sort, work, factor);
        }
        self.written += body.written * factor;
        for (constant, bytes) in body.reads {
            self.read(constant, bytes);
        }
        self.attention |= body.attention;
        self.heavy += body.heavy;
        self.heavy_unsized += body.heavy_unsized;
        self.unsized_nodes += body.unsized_nodes;
        for (operator, count) in body.unknown_operators {
            *self.unknown_operators.entry(operator).or_default() += count;
        }
        for sentence in body.assumptions {
            self.assume(sentence);
        }
        self.assumptions_left_out += body.assumptions_left_out;
    }

    /// All that was assumed, in sentences.
    pub(crate) fn into_assumptions(self) -> Vec<String> {
        let mut sentences = self.assumptions;
        if self.assumptions_left_out > 0 {
            sentences
                .push(format!("{} more assumptions of these kinds were made", self.assumptions_left_out));
        }
        for (operator, count) in self.unknown_operators {
            sentences
                .push(format!("the operator {operator} ({count} nodes) is not known; its work counts as 0"));
        }
        if self.unsized_nodes > 0 {
            sentences.push(format!(
                "{} nodes read or write tensors of unknown size; each unknown size counts as 1",
                self.unsized_nodes
            ));
        }
        sentences
    }
}

impl Walk<'_> {
    pub(super) fn add_constant(&mut self, value: &Value, derived: bool) -> ConstantNumber {
        let elements = value.elements().unwrap_or(0);
        self.constants.push(ConstantFact {
            data_type: value.data_type,
            elements,
            bytes: value.data_type.bytes_of(elements),
            derived,
            read: false,
            learned: false,
            scalar: value.shape.as_ref().is_some_and(Vec::is_empty),
        });
        ConstantNumber(self.constants.len() - 1)
    }

    pub(super) fn stored_constant(&mut self, tensor: &TensorProto) -> Value {
        let value = tensor_value(tensor);
        let number = self.add_constant(&value, false);
        if value.data_type == DataType::STRING {
            self.constants[number.0].bytes = tensor.string_data.iter().map(|s| s.len() as u64).sum();
        }
        Value { constant: Some(number), ..value }
    }

    pub(super) fn sparse_constant(&mut self, sparse: &SparseTensorProto, values: &TensorProto) -> Value {
        let stored = tensor_value(values);
        let number = self.add_constant(&stored, false);
        let indices = sparse.indices.as_ref().map(tensor_value).and_then(|v| v.elements()).unwrap_or(0);
        let bytes = &mut self.constants[number.0].bytes;
        *bytes = bytes.saturating_add(DataType::INT64.bytes_of(indices));
        let shape: Vec<Dim> = sparse.dims.iter().map(|&d| u64::try_from(d).ok()).collect();
        Value { constant: Some(number), ..Value::new(stored.data_type, Some(shape)) }
    }

    /// The value of a `Constant` node.
    pub(super) fn constant_node(&mut self, op: &Operation<'_>) -> Value {
        if let Some(tensor) = op.tensor("value") {
            return self.stored_constant(tensor);
        }
        if let Some(sparse) = op.attribute("sparse_value").and_then(|a| a.sparse_tensor.as_deref())
            && let Some(values) = &sparse.values
        {
            return self.sparse_constant(sparse, values);
        }
        let list = |data_type, elements: Vec<Option<f64>>| {
            let mut value = Value::new(data_type, Some(vec![Some(elements.len() as u64)]));
            value.contents = (elements.len() as u64 <= CONTENTS_LIMIT).then_some(elements);
            value
        };
        let scalar = |data_type, element| Value {
            contents: Some(vec![Some(element)]),
            ..Value::new(data_type, Some(vec![]))
        };
        let mut value = if let Some(attribute) = op.attribute("value_int") {
            scalar(DataType::INT64, attribute.i as f64)
        } else if let Some(attribute) = op.attribute("value_float") {
            scalar(DataType::FLOAT, f64::from(attribute.f))
        } else if let Some(attribute) = op.attribute("value_ints") {
            list(DataType::INT64, attribute.ints.iter().map(|&i| Some(i as f64)).collect())
        } else if let Some(attribute) = op.attribute("value_floats") {
            list(DataType::FLOAT, attribute.floats.iter().map(|&f| Some(f64::from(f))).collect())
        } else if op.attribute("value_string").is_some() {
            Value::new(DataType::STRING, Some(vec![]))
        } else {
            let count = op.attribute("value_strings").map(|a| a.strings.len() as u64);
            Value::new(DataType::STRING, Some(vec![count]))
        };
        value.constant = Some(self.add_constant(&value, false));
        value
    }

    /// Notes which constants a node reads, and whether as learned values.
    pub(super) fn mark_reads(&mut self, op: &Operation<'_>) {
        for (slot, input) in op.inputs.iter().enumerate() {
            let Some(fact) =
                input.and_then(|v| v.constant).and_then(|number| self.constants.get_mut(number.0))
            else {
                continue;
            };
            fact.read = true;
            let learnable = fact.data_type.is_float()
                || fact.data_type.is_narrow_integer()
                || (fact.data_type == DataType::INT32 && is_quantised_bias(op, slot));
            fact.learned |= learnable && !fact.scalar && is_learned_slot(op, slot);
        }
    }
}
