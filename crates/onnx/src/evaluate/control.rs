//! Control flow and model-local functions: bodies that run once, several times or perhaps not at all.
//!
//! Invariant: what cannot be known before a call is assumed, and every assumption is stated.

use std::collections::HashMap;

use siliconroute_core::OperatorClass;

use super::{Branches, DEPTH_LIMIT, Frame, Scope, Tally, Walk, WalkError};
use crate::data_type::DataType;
use crate::graph::{Operation, canonical_domain, node_label, operator_name};
use crate::proto::{FunctionProto, GraphProto, NodeProto};
use crate::value::{Dim, Value, resolve_axis};

/// Loops with a higher limit are taken for ones that end by their condition.
const TRIP_LIMIT: f64 = 1_000_000.0;

impl Frame<'_> {
    fn deeper(&self) -> Self {
        Self { opsets: self.opsets.clone(), attributes: self.attributes.clone(), depth: self.depth + 1 }
    }
}

/// The body that `name` gives to a node, with the lifetime of the model.
fn body<'m>(node: &'m NodeProto, name: &str) -> Option<&'m GraphProto> {
    node.attribute.iter().find(|a| a.name == name)?.g.as_deref()
}

impl<'m> Walk<'m> {
    pub(super) fn run_function(
        &mut self,
        function: &'m FunctionProto,
        node: &'m NodeProto,
        op: &Operation<'_>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let names = function.opset_import.len() + function.attribute_proto.len() + function.value_info.len();
        self.spend((names + function.input.len() + frame.opsets.len() + frame.attributes.len()) / 8)?;
        let mut inner = frame.deeper();
        inner.opsets.extend(function.opset_import.iter().map(|o| (canonical_domain(&o.domain), o.version)));
        inner.attributes = function.attribute_proto.iter().map(|a| (a.name.as_str(), a)).collect();
        for attribute in &node.attribute {
            let given = match attribute.ref_attr_name.as_str() {
                "" => Some(attribute),
                outer => frame.attributes.get(outer).copied(),
            };
            if let Some(given) = given {
                inner.attributes.insert(&attribute.name, given);
            }
        }
        let values = function
            .input
            .iter()
            .zip(&op.inputs)
            .filter_map(|(name, value)| Some((name.as_str(), (*value)?.clone())))
            .collect();
        let declared = function.value_info.iter().map(|info| (info.name.as_str(), info)).collect();
        let mut scope = Scope { values, declared, parent: None };
        self.run_nodes(&function.node, &mut scope, &inner, tally)?;
        Ok(function.output.iter().map(|name| scope.get(name).cloned().unwrap_or_default()).collect())
    }

    pub(super) fn run_if(
        &mut self,
        node: &'m NodeProto,
        op: &Operation<'_>,
        scope: &Scope<'_, 'm>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let bodies = (body(node, "then_branch"), body(node, "else_branch"));
        let (Some(yes), Some(no), true) = (bodies.0, bodies.1, frame.depth < DEPTH_LIMIT) else {
            return Ok(uncounted(node, tally));
        };
        let inner = frame.deeper();
        self.mark_reads(op);
        tally.add_node(OperatorClass::Other, 0.0, 0.0);
        let condition = op.input(0).and_then(Value::scalar);
        if let (Some(condition), Branches::Taken) = (condition, self.branches) {
            let branch = if condition == 0.0 { no } else { yes };
            return self.run_graph(branch, HashMap::new(), Some(scope), &inner, tally);
        }
        let mut run = |branch| {
            let mut own = Tally::default();
            self.run_graph(branch, HashMap::new(), Some(scope), &inner, &mut own)
                .map(|outputs| (own, outputs))
        };
        let (first, second) = (run(yes), run(no));
        let ((chosen, outputs), other) = match (first, second) {
            (Err(WalkError::Endless), _) | (_, Err(WalkError::Endless)) => return Err(WalkError::Endless),
            (Ok(a), Ok(b)) => {
                if self.branches == Branches::Taken {
                    tally.assume(format!(
                        "the condition of {} is only known in the call; the branch with more work is counted",
                        node_label(node)
                    ));
                }
                let by_work = a.0.flops().total_cmp(&b.0.flops()).then(a.0.bytes().total_cmp(&b.0.bytes()));
                if by_work.is_ge() { (a, b.1) } else { (b, a.1) }
            }
            (Ok(only), Err(_)) | (Err(_), Ok(only)) => {
                tally.assume(format!(
                    "the bound sizes fit one branch of {} alone, which is counted",
                    node_label(node)
                ));
                (only, vec![])
            }
            (Err(why), Err(_)) => return Err(why),
        };
        tally.merge(chosen, 1);
        let merged = outputs.into_iter().enumerate().map(|(index, value)| {
            let same =
                other.get(index).is_none_or(|o| o.contents == value.contents && o.shape == value.shape);
            let contents = if same { value.contents } else { None };
            Value { contents, constant: None, of_input: None, ..value }
        });
        Ok(merged.collect())
    }

    pub(super) fn run_loop(
        &mut self,
        node: &'m NodeProto,
        op: &Operation<'_>,
        scope: &Scope<'_, 'm>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let Some(graph) = body(node, "body").filter(|_| frame.depth < DEPTH_LIMIT) else {
            return Ok(uncounted(node, tally));
        };
        self.mark_reads(op);
        tally.add_node(OperatorClass::Other, 0.0, 0.0);
        let carried = op.inputs.len().saturating_sub(2);
        let mut inputs = HashMap::new();
        for (index, info) in graph.input.iter().enumerate() {
            let value = match index {
                0 => Value::new(DataType::INT64, Some(vec![])),
                1 => Value::new(DataType::BOOL, Some(vec![])),
                _ => op.input(index).map(without_contents).unwrap_or_default(),
            };
            inputs.insert(info.name.as_str(), value);
        }
        let mut own = Tally::default();
        let outputs = self.run_graph(graph, inputs, Some(scope), &frame.deeper(), &mut own)?;
        let limit = op.input(0).and_then(Value::scalar).filter(|m| (0.0..=TRIP_LIMIT).contains(m));
        let always_goes_on =
            outputs.first().and_then(Value::scalar) == Some(1.0) || passes_condition_on(graph);
        if let (Some(limit), false) = (limit, always_goes_on) {
            tally.assume(format!("{} is counted with its limit of {limit} rounds", node_label(node)));
        } else if limit.is_none() {
            tally.assume(format!(
                "{} is counted with 1 round; their number depends on data",
                node_label(node)
            ));
        }
        let trips = limit.map(|limit| limit as u64);
        tally.merge(own, trips.unwrap_or(1));
        let results = outputs.into_iter().skip(1).enumerate().map(|(index, value)| {
            if index < carried { agreed(op.input(index + 2), &value) } else { stacked(&value, trips, 0) }
        });
        Ok(results.collect())
    }

    pub(super) fn run_scan(
        &mut self,
        node: &'m NodeProto,
        op: &Operation<'_>,
        scope: &Scope<'_, 'm>,
        frame: &Frame<'m>,
        tally: &mut Tally,
    ) -> Result<Vec<Value>, WalkError> {
        let graph = body(node, "body").filter(|_| frame.depth < DEPTH_LIMIT && op.opset >= 9);
        let Some(graph) = graph else { return Ok(uncounted(node, tally)) };
        self.mark_reads(op);
        tally.add_node(OperatorClass::Other, 0.0, 0.0);
        let scanned = usize::try_from(op.int_or("num_scan_inputs", 0)).unwrap_or(0);
        let states = op.inputs.len().saturating_sub(scanned);
        let axis_of =
            |list: &str, position: usize| op.ints(list).and_then(|a| a.get(position)).copied().unwrap_or(0);
        let mut trips: Dim = None;
        let mut inputs = HashMap::new();
        for (index, info) in graph.input.iter().enumerate() {
            let mut value = op.input(index).map(without_contents).unwrap_or_default();
            if let Some(position) = index.checked_sub(states)
                && let Some(shape) = &mut value.shape
                && let Ok(axis) = resolve_axis(axis_of("scan_input_axes", position), shape.len())
            {
                trips = trips.or(shape.remove(axis));
            }
            inputs.insert(info.name.as_str(), value);
        }
        let mut own = Tally::default();
        let outputs = self.run_graph(graph, inputs, Some(scope), &frame.deeper(), &mut own)?;
        if trips.is_none() {
            tally.assume(format!("{} is counted with 1 round; their number is not known", node_label(node)));
        }
        tally.merge(own, trips.unwrap_or(1));
        let results = outputs.into_iter().enumerate().map(|(index, value)| match index.checked_sub(states) {
            None => agreed(op.input(index), &value),
            Some(position) => stacked(&value, trips, axis_of("scan_output_axes", position)),
        });
        Ok(results.collect())
    }
}

/// Counts a node whose body cannot be entered.
fn uncounted(node: &NodeProto, tally: &mut Tally) -> Vec<Value> {
    tally.add_node(OperatorClass::Other, 0.0, 0.0);
    *tally.unknown_operators.entry(operator_name(node)).or_default() += 1;
    vec![Value::unknown(); node.output.len()]
}

/// Whether a loop's body hands its condition on unchanged.
fn passes_condition_on(graph: &GraphProto) -> bool {
    let (Some(given), Some(out)) = (graph.input.get(1), graph.output.first()) else { return false };
    out.name == given.name
        || graph
            .node
            .iter()
            .any(|n| n.op_type == "Identity" && n.output.contains(&out.name) && n.input.contains(&given.name))
}

fn without_contents(value: &Value) -> Value {
    Value { contents: None, constant: None, ..value.clone() }
}

/// A carried value after the loop: sizes that a round changes are not known.
fn agreed(before: Option<&Value>, after: &Value) -> Value {
    let shape = match (before.and_then(|v| v.shape.as_deref()), after.shape.as_deref()) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            Some(a.iter().zip(b).map(|(a, b)| if a == b { *a } else { None }).collect())
        }
        _ => None,
    };
    Value::new(after.data_type, shape)
}

/// What the rounds of a loop leave in a scan output.
fn stacked(value: &Value, trips: Dim, axis: i64) -> Value {
    let shape = value.shape.as_ref().map(|shape| {
        let mut shape = shape.clone();
        let axis = resolve_axis(axis, shape.len() + 1).unwrap_or(0);
        shape.insert(axis, trips);
        shape
    });
    Value::new(value.data_type, shape)
}
