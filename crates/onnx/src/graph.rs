//! A node with the values it reads: the view that shape inference, folding and counting share.
//!
//! Invariant: looking at a node never fails; what is absent or of the wrong kind reads as `None`.

use std::collections::HashMap;

use crate::proto::{AttributeProto, NodeProto, TensorProto, ValueInfoProto};
use crate::proto::{TensorTypeProto, TypeKind};
use crate::value::{Dim, Value};

/// Attributes that the call of a model-local function gives to its body.
pub(crate) type AttributeBindings<'m> = HashMap<&'m str, &'m AttributeProto>;

/// Integers that an operator may be given.
pub(crate) enum Setting {
    Given(Vec<i64>),
    /// Left to the operator's default.
    Absent,
    /// Given, but only known in the call.
    Unknown,
}

/// A node, its operator set and its inputs.
pub(crate) struct Operation<'a> {
    pub(crate) node: &'a NodeProto,
    /// Version of the operator set of the node's domain.
    pub(crate) opset: i64,
    pub(crate) inputs: Vec<Option<&'a Value>>,
    pub(crate) bound: Option<&'a AttributeBindings<'a>>,
}

/// The domain with both spellings of the default one unified.
pub(crate) fn canonical_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The operator as facts name it: `Type`, or `domain::Type` outside the default domain.
pub(crate) fn operator_name(node: &NodeProto) -> String {
    match canonical_domain(&node.domain) {
        "" => node.op_type.clone(),
        domain => format!("{domain}::{}", node.op_type),
    }
}

/// The node as messages name it.
pub(crate) fn node_label(node: &NodeProto) -> String {
    let name = if node.name.is_empty() { node.output.first().map_or("", String::as_str) } else { &node.name };
    format!("{} `{name}`", operator_name(node))
}

/// The tensor type of a declared value, sparse ones included.
pub(crate) fn tensor_type(info: &ValueInfoProto) -> Option<&TensorTypeProto> {
    match info.kind.as_ref()?.value.as_ref()? {
        TypeKind::Tensor(tensor) | TypeKind::SparseTensor(tensor) => Some(tensor),
        TypeKind::Sequence(_) | TypeKind::Map(_) | TypeKind::Optional(_) => None,
    }
}

impl<'a> Operation<'a> {
    /// The operator type in domains whose operators are known; empty in all others.
    pub(crate) fn kind(&self) -> &'a str {
        match canonical_domain(&self.node.domain) {
            "" | "com.microsoft" | "com.microsoft.nchwc" | "com.ms.internal.nhwc" => &self.node.op_type,
            _ => "",
        }
    }

    /// Whether the operator is one of ONNX Runtime's own.
    pub(crate) fn is_microsoft(&self) -> bool {
        self.node.domain.starts_with("com.microsoft")
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        let found = self.node.attribute.iter().find(|a| a.name == name)?;
        if found.ref_attr_name.is_empty() {
            Some(found)
        } else {
            self.bound?.get(found.ref_attr_name.as_str()).copied()
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|a| a.i)
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int(name).unwrap_or(default)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|a| a.ints.as_slice())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.attribute(name).and_then(|a| std::str::from_utf8(&a.s).ok())
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&'a TensorProto> {
        self.attribute(name)?.t.as_deref()
    }

    pub(crate) fn input(&self, index: usize) -> Option<&'a Value> {
        self.inputs.get(index).copied().flatten()
    }

    pub(crate) fn shape(&self, index: usize) -> Option<&'a [Dim]> {
        self.input(index)?.shape.as_deref()
    }

    pub(crate) fn rank(&self, index: usize) -> Option<usize> {
        self.shape(index).map(<[Dim]>::len)
    }

    /// The size of one axis of an input, where the input has it.
    pub(crate) fn dim(&self, index: usize, axis: usize) -> Dim {
        *self.shape(index)?.get(axis)?
    }

    pub(crate) fn contents(&self, index: usize) -> Option<&'a [Option<f64>]> {
        self.input(index)?.contents.as_deref()
    }

    /// Integers that older operator sets take from an attribute and newer ones from an input.
    pub(crate) fn ints_or_input(&self, name: &str, index: usize) -> Setting {
        match (self.ints(name), self.input(index)) {
            (Some(ints), _) => Setting::Given(ints.to_vec()),
            (None, Some(value)) => value.integers().map_or(Setting::Unknown, Setting::Given),
            (None, None) => Setting::Absent,
        }
    }

    /// How many outputs the node names.
    pub(crate) fn output_count(&self) -> usize {
        self.node.output.len()
    }
}
