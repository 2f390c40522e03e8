//! Walks a graph once in node order, inferring shapes, folding constants and counting work.
//!
//! Invariant: every node is visited a bounded number of times whatever the graph says: names that nothing
//! defines read as unknown, depth and the total number of visits are limited.
//!
//! Reading order: this file, `order`, `control` (If, Loop, Scan, functions), `tally` (what is counted).

mod control;
mod order;
mod tally;

#[cfg(test)]
mod tests;

pub(crate) use order::sorted;
pub(crate) use tally::{ConstantFact, Tally};

use std::collections::HashMap;
use std::rc::Rc;

use siliconroute_core::{Bindings, OperatorClass};

use crate::constant::RANK_LIMIT;
use crate::data_type::DataType;
use crate::flops::{classify, count_flops, is_fully_sized, is_heavy, is_view, reads_what_it_writes};
use crate::fold::fold_outputs;
use crate::graph::{AttributeBindings, Operation, canonical_domain, node_label, operator_name, tensor_type};
use crate::proto::{DimensionKind, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use crate::shapes::infer_outputs;
use crate::sorts::{SortTally, sort};
use crate::value::{Dim, ELEMENT_LIMIT, ShapeConflict, Value};

/// Bodies nested deeper than this (branches, loops, functions) are not entered.
const DEPTH_LIMIT: usize = 48;

/// How much one walk may do in bodies, in nodes visited; functions that call each other could otherwise take for ever.
const VISIT_LIMIT: u64 = 400_000;

/// How many elements one walk may keep the contents of; beyond, shapes alone are inferred.
const CONTENTS_BUDGET: u64 = 1 << 24;

/// Why a walk stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WalkError {
    /// Sizes contradict each other at a node.
    Conflict { node: String, detail: String },
    /// A tensor is larger than any memory.
    TooLarge { node: String, detail: String },
    /// The walk would visit too many nodes.
    Endless,
}

/// Which branches of an `If` a walk takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branches {
    /// The one that runs, or the one with more work where that cannot be told.
    Taken,
    /// All of them; conflicts make tensors unknown instead of stopping the walk.
    All,
}

static UNKNOWN: Value = Value {
    data_type: DataType(0),
    shape: None,
    contents: None,
    constant: None,
    after_softmax: false,
    of_input: None,
};

/// The values that a body can see.
struct Scope<'p, 'm> {
    values: HashMap<&'m str, Value>,
    declared: HashMap<&'m str, &'m ValueInfoProto>,
    parent: Option<&'p Scope<'p, 'm>>,
}

impl Scope<'_, '_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name).or_else(|| self.parent?.get(name))
    }
}

/// What a body inherits besides values.
struct Frame<'m> {
    opsets: HashMap<&'m str, i64>,
    attributes: AttributeBindings<'m>,
    depth: usize,
}

/// One walk over a model.
pub(crate) struct Walk<'m> {
    functions: HashMap<(&'m str, &'m str), &'m FunctionProto>,
    bindings: &'m Bindings,
    branches: Branches,
    visits_left: u64,
    contents_left: u64,
    /// Orders by the address of the list of nodes, which a walk does not move.
    orders: HashMap<*const NodeProto, Rc<[usize]>>,
    pub(crate) constants: Vec<ConstantFact>,
    pub(crate) tally: Tally,
}

impl<'m> Walk<'m> {
    /// Walks the main graph of `model` with the values of its `inputs`; returns the walk and the outputs.
    ///
    /// # Errors
    /// When sizes contradict each other or are too large.
    pub(crate) fn run(
        model: &'m ModelProto,
        inputs: HashMap<&'m str, Value>,
        bindings: &'m Bindings,
        branches: Branches,
    ) -> Result<(Self, Vec<Value>), WalkError> {
        let functions =
            model.functions.iter().map(|f| ((canonical_domain(&f.domain), f.name.as_str()), f)).collect();
        let mut walk = Self {
            functions,
            bindings,
            branches,
            visits_left: VISIT_LIMIT,
            contents_left: CONTENTS_BUDGET,
            orders: HashMap::new(),
            constants: Vec::new(),
            tally: Tally::default(),
        };
        let opsets = model.opset_import.iter().map(|o| (canonical_domain(&o.domain), o.version)).collect();
        let frame = Frame { opsets, attributes: HashMap::new(), depth: 0 };
        let Some(graph) = model.graph.as_ref() else { return Ok((walk, vec![])) };
        let mut tally = Tally::default();
        let outputs = walk.run_graph(graph, inputs, None, &frame, &mut tally)?;
        walk.tally = tally;
        Ok((walk, outputs))
    }

    /// Takes `cost` visits from what is left.
    fn spend(&mut self, cost: usize) -> Result<(), WalkError> {
        self.visits_left = self.visits_left.checked_sub(cost as u64).ok_or(WalkError::Endless)?;
        Ok(())
    }

    fn run_graph(
        &mut self,
        graph: &'m GraphProto,
        inputs: HashMap<&'m str, Value>,
        parent: Option<&Scope<'_, 'm>>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        if frame.depth > 0 {
            let names = graph.initializer.len() + graph.value_info.len() + graph.output.len();
            self.spend((names + frame.opsets.len() + frame.attributes.len()) / 8)?;
        }
        let declared =
            graph.value_info.iter().chain(&graph.output).map(|info| (info.name.as_str(), info)).collect();
        let mut scope = Scope { values: inputs, declared, parent };
        for tensor in &graph.initializer {
            let value = self.stored_constant(tensor);
            scope.values.insert(&tensor.name, value);
        }
        for sparse in &graph.sparse_initializer {
            if let Some(values) = &sparse.values {
                let value = self.sparse_constant(sparse, values);
                scope.values.insert(&values.name, value);
            }
        }
        self.run_nodes(&graph.node, &mut scope, frame, tally)?;
        Ok(graph.output.iter().map(|info| scope.get(&info.name).cloned().unwrap_or_default()).collect())
    }

    fn run_nodes(
        &mut self,
        nodes: &'m [NodeProto],
        scope: &mut Scope<'_, 'm>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<(), WalkError> {
        let known = self.orders.entry(nodes.as_ptr());
        let order = Rc::clone(known.or_insert_with(|| order::node_order(nodes).into()));
        for &index in order.iter() {
            let node = &nodes[index];
            // The main graph runs once, so the file bounds it already.
            if frame.depth > 0 {
                self.spend(1 + (node.input.len() + node.output.len() + node.attribute.len()) / 8)?;
            }
            let outputs = match self.run_node(node, scope, frame, tally) {
                Err(WalkError::Conflict { .. } | WalkError::TooLarge { .. })
                    if self.branches == Branches::All =>
                {
                    vec![]
                }
                result => result?,
            };
            let mut outputs = outputs.into_iter();
            for name in &node.output {
                let value = outputs.next().unwrap_or_default();
                if !name.is_empty() {
                    scope.values.insert(name, value);
                }
            }
        }
        Ok(())
    }

    fn run_node(
        &mut self,
        node: &'m NodeProto,
        scope: &Scope<'_, 'm>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let domain = canonical_domain(&node.domain);
        let inputs = node.input.iter().map(|name| match name.as_str() {
            "" => None,
            name => Some(scope.get(name).unwrap_or_else(|| {
                tally.assume(format!("nothing defines `{name}`, which {} reads", node_label(node)));
                &UNKNOWN
            })),
        });
        let op = Operation {
            node,
            opset: frame.opsets.get(domain).copied().unwrap_or(1),
            inputs: inputs.collect(),
            bound: Some(&frame.attributes),
        };
        if let Some(&function) = self.functions.get(&(domain, node.op_type.as_str()))
            && frame.depth < DEPTH_LIMIT
        {
            return self.run_function(function, node, &op, frame, tally);
        }
        match op.kind() {
            "Constant" => Ok(vec![self.constant_node(&op)]),
            "If" => self.run_if(node, &op, scope, frame, tally),
            "Loop" => self.run_loop(node, &op, scope, frame, tally),
            "Scan" => self.run_scan(node, &op, scope, frame, tally),
            _ => self.run_operator(&op, scope, tally),
        }
    }

    fn run_operator(
        &mut self,
        op: &Operation<'_>,
        scope: &Scope<'_, 'm>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let conflict = |ShapeConflict(detail)| WalkError::Conflict { node: node_label(op.node), detail };
        let mut outputs = infer_outputs(op).map_err(conflict)?.unwrap_or_default();
        outputs.resize_with(op.output_count(), Value::unknown);
        for (output, name) in outputs.iter_mut().zip(&op.node.output) {
            if let Some(info) = scope.declared.get(name.as_str()) {
                self.fill_from_declaration(output, info);
            }
            check_size(op, output)?;
        }
        if self.contents_left > 0 {
            fold_outputs(op, &mut outputs);
            let kept: usize = outputs.iter().filter_map(|v| v.contents.as_ref()).map(Vec::len).sum();
            self.contents_left = self.contents_left.saturating_sub(kept as u64);
        }
        if let (true, Some(first)) = (repeats_its_input(op), outputs.first_mut()) {
            first.of_input = op.input(0).and_then(|value| value.of_input);
        }
        tally.limit_index(op);
        self.mark_reads(op);
        let class = classify(op);
        if is_foldable(op, class) {
            let generated = op.kind() == "ConstantOfShape";
            for output in &mut outputs {
                output.constant = Some(self.add_constant(output, !generated));
            }
            return Ok(outputs);
        }
        if let (true, Some(first)) = (passes_softmax_on(op, class), outputs.first_mut()) {
            first.after_softmax = true;
        }
        self.count(op, class, &outputs, tally);
        Ok(outputs)
    }

    /// Takes sizes that inference could not tell from what the model declares.
    fn fill_from_declaration(&self, output: &mut Value, info: &ValueInfoProto) {
        let Some(declared) = tensor_type(info) else { return };
        if output.data_type == DataType::default() {
            output.data_type = DataType(declared.elem_type);
        }
        let Some(shape) = &declared.shape else { return };
        let known: Vec<Dim> = shape
            .dim
            .iter()
            .map(|dim| match &dim.value {
                Some(DimensionKind::Value(size)) => u64::try_from(*size).ok().filter(|&s| s > 0),
                Some(DimensionKind::Param(name)) => self.bindings.get(name),
                None => None,
            })
            .collect();
        match &mut output.shape {
            Some(own) if own.len() == known.len() => {
                for (own, declared) in own.iter_mut().zip(known) {
                    *own = own.or(declared);
                }
            }
            Some(_) => {}
            none => *none = Some(known),
        }
    }

    fn count(
        &mut self,
        op: &Operation<'_>,
        class: Option<OperatorClass>,
        outputs: &[Value],
        tally: &mut Tally,
    ) {
        let Some(known_class) = class else {
            *tally.unknown_operators.entry(operator_name(op.node)).or_default() += 1;
            tally.add_node(OperatorClass::Other, 0.0, 0.0);
            return;
        };
        let first = outputs.first().unwrap_or(&UNKNOWN);
        let written: f64 = outputs
            .iter()
            .zip(&op.node.output)
            .filter(|(_, n)| !n.is_empty())
            .map(|(v, _)| v.bytes_at_least())
            .sum();
        let mut moved = written;
        for (slot, input) in op.inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            let repeated = op.node.input[..slot].contains(&op.node.input[slot]);
            let whole = input.bytes_at_least();
            let read = if reads_what_it_writes(op, slot) { whole.min(written) } else { whole };
            if let Some(constant) = input.constant {
                tally.read(constant, read);
            }
            moved += if repeated { 0.0 } else { read };
        }
        if is_view(op) {
            tally.add_node(known_class, 0.0, 0.0);
        } else {
            let flops = count_flops(op, known_class, first);
            tally.add_node(known_class, flops, moved);
            if let Some((sort, multiply_adds)) = sort(op, known_class, flops, first) {
                tally.add_to_sort(sort, SortTally { multiply_adds, bytes: moved }, 1.0);
            }
            tally.written += written;
        }
        if is_heavy(known_class) {
            tally.heavy += 1;
            if !is_fully_sized(op, known_class, first) {
                tally.heavy_unsized += 1;
            }
        }
        tally.attention |= known_class == OperatorClass::Attention
            || (known_class == OperatorClass::MatMul
                && op.inputs.iter().flatten().any(|v| v.after_softmax)
                && op.inputs.iter().flatten().all(|v| v.constant.is_none() || v.elements() == Some(1)));
        self.note_unknown_sizes(op, outputs, tally);
    }

    fn note_unknown_sizes(&self, op: &Operation<'_>, outputs: &[Value], tally: &mut Tally) {
        let inputs_known = op.inputs.iter().flatten().all(|v| v.is_fully_known());
        let lost =
            outputs.iter().zip(&op.node.output).find(|(v, name)| !name.is_empty() && !v.is_fully_known());
        if !inputs_known || lost.is_some() {
            tally.unsized_nodes += 1;
        }
        if let (true, Some((_, name)), Branches::Taken) = (inputs_known, lost, self.branches) {
            tally.assume(format!(
                "the size of `{name}`, an output of {}, depends on data; what is unknown of it counts as 1",
                node_label(op.node)
            ));
        }
    }
}

/// Whether engines compute the node once, when they load the model.
///
/// Dequantisation of weights is left to each call, because engines fuse it into integer products.
fn is_foldable(op: &Operation<'_>, class: Option<OperatorClass>) -> bool {
    class.is_some()
        && !op.inputs.is_empty()
        && !op.kind().starts_with("Random")
        && !matches!(op.kind(), "DequantizeLinear" | "Bernoulli" | "Multinomial")
        && op.inputs.iter().flatten().all(|v| v.constant.is_some())
}

/// Whether the first output holds the first input's numbers, in another order, shape or integer type at most.
fn repeats_its_input(op: &Operation<'_>) -> bool {
    match op.kind() {
        "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Expand" | "Tile" => {
            true
        }
        // A narrower type would wrap the numbers.
        "Cast" => [DataType::INT32, DataType::INT64].iter().any(|to| op.int("to") == Some(to.0.into())),
        _ => false,
    }
}

/// Whether the first output is a softmax, or one that only element-wise operators have touched since.
fn passes_softmax_on(op: &Operation<'_>, class: Option<OperatorClass>) -> bool {
    matches!(op.kind(), "Softmax" | "QLinearSoftmax")
        || (op.input(0).is_some_and(|v| v.after_softmax)
            && (class == Some(OperatorClass::ElementWise)
                || matches!(op.kind(), "Identity" | "Reshape" | "Transpose" | "Squeeze" | "Unsqueeze")))
}

fn check_size(op: &Operation<'_>, value: &Value) -> Result<(), WalkError> {
    let Some(shape) = &value.shape else { return Ok(()) };
    let too_large = |detail| WalkError::TooLarge { node: node_label(op.node), detail };
    if shape.len() > RANK_LIMIT {
        return Err(too_large(format!("a tensor of {} axes", shape.len())));
    }
    let count = shape.iter().flatten().fold(1_u64, |product, &size| product.saturating_mul(size));
    if count > ELEMENT_LIMIT {
        Err(too_large(format!("a tensor of {count} elements or more")))
    } else {
        Ok(())
    }
}
