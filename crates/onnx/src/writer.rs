//! Builds small ONNX models node by node.
//!
//! Invariant: the same calls give the same bytes; weights are stored as little-endian `raw_data`.

use bytes::Bytes;
use prost::Message;

use crate::data_type::DataType;
use crate::proto::{
    AttributeProto, DimensionKind, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeKind, TypeProto, ValueInfoProto, attribute_kind,
};

/// The version of the representation that models are written in; every engine of the last years reads it.
const IR_VERSION: i64 = 8;
/// The operator set that models are written in.
const OPSET: i64 = 17;

/// A graph under construction.
#[derive(Debug, Default)]
pub(crate) struct GraphWriter {
    graph: GraphProto,
}

/// An axis of an input or output: a fixed size, or a free dimension by name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Axis {
    Fixed(u64),
    Free(&'static str),
}

impl GraphWriter {
    pub(crate) fn new(name: &str) -> Self {
        Self { graph: GraphProto { name: name.to_owned(), ..GraphProto::default() } }
    }

    pub(crate) fn input(&mut self, name: &str, data_type: DataType, shape: &[Axis]) {
        self.graph.input.push(value_info(name, data_type, shape));
    }

    pub(crate) fn output(&mut self, name: &str, data_type: DataType, shape: &[Axis]) {
        self.graph.output.push(value_info(name, data_type, shape));
    }

    pub(crate) fn floats(&mut self, name: &str, dims: &[u64], values: &[f32]) {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, DataType::FLOAT, dims, raw.into());
    }

    pub(crate) fn integers(&mut self, name: &str, dims: &[u64], values: &[i64]) {
        let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, DataType::INT64, dims, raw.into());
    }

    pub(crate) fn tensor(&mut self, name: &str, data_type: DataType, dims: &[u64], raw_data: Bytes) {
        self.graph.initializer.push(TensorProto {
            name: name.to_owned(),
            data_type: data_type.0,
            dims: dims.iter().map(|&d| d.cast_signed()).collect(),
            raw_data,
            ..TensorProto::default()
        });
    }

    /// Adds a node of the default domain, named after its output.
    pub(crate) fn node(
        &mut self,
        kind: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<AttributeProto>,
    ) {
        self.graph.node.push(NodeProto {
            op_type: kind.to_owned(),
            name: output.to_owned(),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            attribute: attributes,
            ..NodeProto::default()
        });
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.into_model().encode_to_vec()
    }

    pub(crate) fn into_model(self) -> ModelProto {
        ModelProto {
            ir_version: IR_VERSION,
            producer_name: "siliconroute".to_owned(),
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: OPSET }],
            ..ModelProto::default()
        }
    }
}

pub(crate) fn int_attribute(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), kind: attribute_kind::INT, i, ..AttributeProto::default() }
}

pub(crate) fn ints_attribute(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: attribute_kind::INTS,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    }
}

fn value_info(name: &str, data_type: DataType, shape: &[Axis]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|axis| DimensionProto {
            value: Some(match axis {
                Axis::Fixed(size) => DimensionKind::Value(size.cast_signed()),
                Axis::Free(name) => DimensionKind::Param((*name).to_owned()),
            }),
        })
        .collect();
    let tensor = TensorTypeProto { elem_type: data_type.0, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.to_owned(), kind: Some(TypeProto { value: Some(TypeKind::Tensor(tensor)) }) }
}
