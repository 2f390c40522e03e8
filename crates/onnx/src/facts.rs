//! Facts of a model and of its cases.
//!
//! Invariant: facts are counted from the graph alone; what could not be counted is in the assumptions.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use siliconroute_core::model::{BoundInput, ClassWork, Precision};
use siliconroute_core::{
    Bindings, CaseFacts, Dimension, Family, ModelFacts, ModelId, OperatorClass, TensorSpec,
};

use crate::bind::BindError;
use crate::data_type::DataType;
use crate::evaluate::{Branches, Tally, Walk, WalkError};
use crate::graph::{canonical_domain, operator_name, tensor_type};
use crate::load::Model;
use crate::proto::{DimensionKind, GraphProto, ModelProto, NodeProto, TensorShapeProto};
use crate::value::{Dim, Value};

/// The newest operator set of the default domain whose operators this program knows.
pub const NEWEST_KNOWN_OPSET: i64 = 26;

/// The version of the method by which facts are collected and work is counted; facts of another version are counted
/// anew. It grows with every change that gives other facts for the same bytes, or refuses bytes accepted before.
pub const METHOD_VERSION: u32 = 2;

/// The facts of a model; an input that no caller could give is an error of its name and what is wrong.
pub(crate) fn collect_facts(
    proto: &ModelProto,
    id: ModelId,
    file_bytes: u64,
    external_data: bool,
) -> Result<ModelFacts, (String, String)> {
    let empty = GraphProto::default();
    let graph = proto.graph.as_ref().unwrap_or(&empty);
    let inputs = caller_inputs(graph)?;
    let mut operators = BTreeMap::new();
    let mut nodes = 0;
    count_operators(&graph.node, &mut nodes, &mut operators);
    for function in &proto.functions {
        count_operators(&function.node, &mut nodes, &mut operators);
    }
    let mut free_dimensions: Vec<String> = Vec::new();
    for dimension in inputs.iter().flat_map(|input| &input.shape) {
        if let Dimension::Free(name) = dimension
            && !free_dimensions.contains(name)
        {
            free_dimensions.push(name.clone());
        }
    }
    let values = inputs.iter().zip(graph_inputs(graph)).map(|(spec, info)| {
        let data_type = tensor_type(info).map_or(DataType::default(), |t| DataType(t.elem_type));
        let shape =
            spec.shape.iter().map(|d| if let Dimension::Fixed(size) = d { Some(*size) } else { None });
        (info.name.as_str(), Value::new(data_type, Some(shape.collect())))
    });
    let bindings = Bindings::default();
    let walked = Walk::run(proto, values.collect(), &bindings, Branches::All).ok();
    let constants = walked.as_ref().map(|(walk, _)| walk.constants.as_slice()).unwrap_or_default();
    let stored = || constants.iter().filter(|c| c.read && !c.derived);
    let weight_bytes = stored().fold(0_u64, |sum, c| sum.saturating_add(c.bytes));
    let learned = || stored().filter(|c| c.learned);
    let outputs =
        output_specs(graph, walked.as_ref().map(|(_, outputs)| outputs.as_slice()).unwrap_or_default());
    Ok(ModelFacts {
        id,
        ir_version: proto.ir_version,
        opsets: proto
            .opset_import
            .iter()
            .map(|o| (canonical_domain(&o.domain).to_owned(), o.version))
            .collect(),
        producer: producer(proto),
        parameters: learned().fold(0_u64, |sum, c| sum.saturating_add(c.elements)),
        weight_bytes,
        file_bytes,
        precision: main_precision(learned().map(|c| (c.data_type, c.bytes))),
        nodes,
        operators,
        inputs,
        outputs,
        free_dimensions,
        external_data,
        method_version: METHOD_VERSION,
    })
}

fn producer(proto: &ModelProto) -> Option<String> {
    let text = format!("{} {}", proto.producer_name, proto.producer_version);
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn main_precision(weights: impl Iterator<Item = (DataType, u64)>) -> Precision {
    let mut bytes: Vec<(Precision, u64)> = Vec::new();
    for (data_type, size) in weights {
        let precision = data_type.precision();
        match bytes.iter_mut().find(|(known, _)| *known == precision) {
            Some((_, sum)) => *sum = sum.saturating_add(size),
            None => bytes.push((precision, size)),
        }
    }
    bytes.into_iter().max_by_key(|(_, size)| *size).map_or(Precision::Other, |(precision, _)| precision)
}

fn count_operators(list: &[NodeProto], nodes: &mut u64, operators: &mut BTreeMap<String, u64>) {
    for node in list {
        *nodes += 1;
        *operators.entry(operator_name(node)).or_default() += 1;
        for graph in node.attribute.iter().flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs)) {
            count_operators(&graph.node, nodes, operators);
        }
    }
}

/// The declared inputs that no stored tensor fills.
fn graph_inputs(graph: &GraphProto) -> impl Iterator<Item = &crate::proto::ValueInfoProto> {
    let stored: HashSet<&str> = graph
        .initializer
        .iter()
        .map(|t| t.name.as_str())
        .chain(graph.sparse_initializer.iter().filter_map(|s| Some(s.values.as_ref()?.name.as_str())))
        .collect();
    graph.input.iter().filter(move |info| !stored.contains(info.name.as_str()))
}

fn caller_inputs(graph: &GraphProto) -> Result<Vec<TensorSpec>, (String, String)> {
    graph_inputs(graph)
        .map(|info| {
            let fail = |reason: &str| (info.name.clone(), reason.to_owned());
            let tensor =
                tensor_type(info).ok_or_else(|| fail("is no tensor, and nothing else can be given"))?;
            let element = DataType(tensor.elem_type).element();
            let element = element.ok_or_else(|| fail("has an element type that no engine here takes"))?;
            let shape =
                tensor.shape.as_ref().ok_or_else(|| fail("has no shape; declare one in the model"))?;
            Ok(TensorSpec { name: info.name.clone(), element, shape: dimensions(&info.name, shape) })
        })
        .collect()
}

fn dimensions(tensor: &str, shape: &TensorShapeProto) -> Vec<Dimension> {
    let unnamed = |axis: usize| Dimension::Free(format!("{tensor}.{axis}"));
    let dims = shape.dim.iter().enumerate();
    dims.map(|(axis, dim)| match &dim.value {
        Some(DimensionKind::Value(size)) if *size > 0 => Dimension::Fixed(size.unsigned_abs()),
        Some(DimensionKind::Param(name)) if !matches!(name.trim(), "" | "?" | "-1" | "None") => {
            Dimension::Free(name.trim().to_owned())
        }
        _ => unnamed(axis),
    })
    .collect()
}

/// The outputs that are tensors of types that engines give; sequences and maps are left out.
fn output_specs(graph: &GraphProto, inferred: &[Value]) -> Vec<TensorSpec> {
    let outputs = graph.output.iter().enumerate();
    outputs
        .filter_map(|(index, info)| {
            let declared = tensor_type(info);
            let value = inferred.get(index);
            let declared_type = declared.map_or(DataType::default(), |t| DataType(t.elem_type));
            let element = declared_type.element().or_else(|| value?.data_type.element())?;
            let shape = match (declared.and_then(|t| t.shape.as_ref()), value.and_then(|v| v.shape.as_ref()))
            {
                (Some(shape), _) => dimensions(&info.name, shape),
                (None, Some(shape)) => {
                    let sized = |(axis, dim): (usize, &Dim)| {
                        dim.map_or_else(|| Dimension::Free(format!("{}.{axis}", info.name)), Dimension::Fixed)
                    };
                    shape.iter().enumerate().map(sized).collect()
                }
                (None, None) => vec![],
            };
            Some(TensorSpec { name: info.name.clone(), element, shape })
        })
        .collect()
}

/// The shape of one output of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputShape {
    /// The output's name.
    pub name: String,
    /// Its sizes, outermost first; `None` stands for a size, or a whole shape, that depends on data.
    pub sizes: Option<Vec<Option<u64>>>,
}

impl Model {
    /// Facts of one call with every free dimension of the inputs bound.
    ///
    /// The counting convention is stated in the source of the `flops` module. Weights that a node only
    /// gathers from count with the bytes gathered.
    ///
    /// # Errors
    /// When a dimension is missing, unknown or zero, when the bound sizes contradict each other or are
    /// too large, and when too little of the work could be counted to mean anything.
    pub fn case_facts(&self, bindings: &Bindings) -> Result<CaseFacts, BindError> {
        let inputs = self.bound_inputs(bindings)?;
        let (walk, _) = self.walk(&inputs, bindings)?;
        let (constants, tally) = (walk.constants, walk.tally);
        if tally.heavy_unsized * 2 > tally.heavy {
            return Err(BindError::ShapesUnknown { uncounted: tally.heavy_unsized, total: tally.heavy });
        }
        if !(tally.flops().is_finite() && tally.bytes().is_finite()) {
            let detail = "the work of one call is beyond counting".to_owned();
            return Err(BindError::TooLarge { place: "the whole graph".to_owned(), detail });
        }
        let read: f64 = tally.reads.values().sum();
        let stored = constants.iter().map(|c| c.bytes as f64).sum::<f64>();
        let facts = self.facts();
        let by_class: Vec<ClassWork> = tally
            .classes
            .iter()
            .map(|(&class, work)| ClassWork {
                class,
                nodes: work.nodes,
                flops: work.flops,
                bytes: work.bytes,
            })
            .collect();
        let mut assumptions = self.notes.clone();
        if let Some(&opset) = facts.opsets.get("").filter(|&&opset| opset > NEWEST_KNOWN_OPSET) {
            assumptions.push(format!(
                "the model uses operator set {opset}; sets after {NEWEST_KNOWN_OPSET} are read like that one"
            ));
        }
        let index_limits =
            tally.index_limits.iter().map(|(&input, &rows)| (inputs[input].name.clone(), rows)).collect();
        let family = family(&tally);
        let (flops, activation_bytes) = (tally.flops(), tally.written);
        assumptions.extend(tally.into_assumptions());
        Ok(CaseFacts {
            batch: inputs.first().and_then(|input| input.shape.first()).copied().unwrap_or(1),
            parameters: facts.parameters,
            weight_bytes: read.min(stored) as u64,
            nodes: by_class.iter().fold(0, |sum, work| sum.saturating_add(work.nodes)),
            flops,
            activation_bytes,
            family,
            by_class,
            inputs,
            index_limits,
            precision: Some(facts.precision),
            assumptions,
            method_version: METHOD_VERSION,
        })
    }

    /// The shapes of the outputs with every free dimension of the inputs bound, in graph order.
    ///
    /// # Errors
    /// As [`Model::case_facts`], except that work which cannot be counted does not matter.
    pub fn output_shapes(&self, bindings: &Bindings) -> Result<Vec<OutputShape>, BindError> {
        let inputs = self.bound_inputs(bindings)?;
        let (_, outputs) = self.walk(&inputs, bindings)?;
        let names = self.graph().map(|g| g.output.iter().map(|o| o.name.clone()).collect::<Vec<_>>());
        let shaped = names.unwrap_or_default().into_iter().zip(outputs);
        Ok(shaped.map(|(name, value)| OutputShape { name, sizes: value.shape }).collect())
    }

    pub(crate) fn walk<'m>(
        &'m self,
        inputs: &[BoundInput],
        bindings: &'m Bindings,
    ) -> Result<(Walk<'m>, Vec<Value>), BindError> {
        let mut values = HashMap::new();
        for (position, (input, info)) in
            inputs.iter().zip(self.graph().into_iter().flat_map(graph_inputs)).enumerate()
        {
            let data_type = tensor_type(info).map_or(DataType::default(), |t| DataType(t.elem_type));
            let shape = input.shape.iter().map(|&size| Some(size)).collect();
            let of_input = data_type.is_integer().then_some(position);
            values.insert(info.name.as_str(), Value { of_input, ..Value::new(data_type, Some(shape)) });
        }
        Walk::run(&self.proto, values, bindings, Branches::Taken).map_err(|error| match error {
            WalkError::Conflict { node, detail } => BindError::Contradiction { node, detail },
            WalkError::TooLarge { node, detail } => BindError::TooLarge { place: node, detail },
            WalkError::Endless => BindError::Endless,
        })
    }
}

fn family(tally: &Tally) -> Family {
    let of = |class| tally.classes.get(&class).map_or(0.0, |work| work.flops);
    let recurrent = of(OperatorClass::Recurrent);
    let conv = of(OperatorClass::Conv) + of(OperatorClass::DepthwiseConv);
    let matrix = of(OperatorClass::MatMul) + of(OperatorClass::Attention);
    if recurrent > 0.0 && recurrent >= conv.max(matrix) {
        Family::Recurrent
    } else if conv > matrix {
        Family::Conv
    } else if tally.attention {
        Family::Attn
    } else {
        Family::Mlp
    }
}
