//! What the unit tests share: attributes, and whole models from a few nodes.
//!
//! Invariant: compiled for tests alone.

use prost::Message;

use crate::data_type::DataType;
use crate::load::{Model, parse_model};
use crate::proto::{AttributeProto, GraphProto, ModelProto, attribute_kind};
use crate::writer::{Axis, GraphWriter};

pub(crate) fn text_attribute(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: attribute_kind::STRING,
        s: text.as_bytes().to_vec().into(),
        ..AttributeProto::default()
    }
}

pub(crate) fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind: attribute_kind::GRAPH,
        g: Some(Box::new(graph)),
        ..AttributeProto::default()
    }
}

/// A graph that `build` fills.
pub(crate) fn graph(build: impl FnOnce(&mut GraphWriter)) -> GraphProto {
    model_proto(build).graph.expect("the writer always adds a graph")
}

pub(crate) fn model_proto(build: impl FnOnce(&mut GraphWriter)) -> ModelProto {
    let mut writer = GraphWriter::new("test");
    build(&mut writer);
    writer.into_model()
}

/// A loaded model whose graph `build` fills.
pub(crate) fn model(build: impl FnOnce(&mut GraphWriter)) -> Model {
    loaded(&model_proto(build))
}

pub(crate) fn loaded(proto: &ModelProto) -> Model {
    parse_model(proto.encode_to_vec()).expect("the test's model is sound")
}

/// A model with the input `x` and the output `y`, both of single precision.
pub(crate) fn from_x_to_y(shape: &[Axis], build: impl FnOnce(&mut GraphWriter)) -> Model {
    model(|w| {
        w.input("x", DataType::FLOAT, shape);
        build(w);
        w.output("y", DataType::FLOAT, &[]);
    })
}
