//! Operations of single nodes against formulas worked out by hand.

use siliconroute_core::{Bindings, OperatorClass};

use crate::data_type::DataType;
use crate::proto::{AttributeProto, NodeProto};
use crate::testing::{loaded, model_proto, text_attribute};
use crate::writer::{Axis, GraphWriter, int_attribute, ints_attribute};

/// The work of the only node, whose inputs are named `x`, `w`, `r`, … with the shapes given.
#[track_caller]
fn check(kind: &str, attributes: Vec<AttributeProto>, shapes: &[&[u64]], class: OperatorClass, flops: f64) {
    let names: Vec<String> = (0..shapes.len()).map(|i| format!("in{i}")).collect();
    let (domain, kind) = kind.split_once("::").unwrap_or(("", kind));
    let mut proto = model_proto(|w: &mut GraphWriter| {
        for (name, shape) in names.iter().zip(shapes) {
            let axes: Vec<Axis> = shape.iter().map(|&d| Axis::Fixed(d)).collect();
            w.input(name, DataType::FLOAT, &axes);
        }
        w.output("y", DataType::FLOAT, &[]);
    });
    let graph = proto.graph.as_mut().expect("the writer always adds a graph");
    graph.node.push(NodeProto {
        op_type: kind.to_owned(),
        domain: domain.to_owned(),
        input: names,
        output: vec!["y".to_owned()],
        attribute: attributes,
        ..NodeProto::default()
    });
    let facts = loaded(&proto).case_facts(&Bindings::default()).expect("countable");
    assert_eq!(facts.assumptions, Vec::<String>::new(), "{kind}");
    let work = &facts.by_class[0];
    assert_eq!((work.class, work.nodes), (class, 1), "{kind}");
    assert!((work.flops - flops).abs() < 1e-6, "{kind}: {} instead of {flops}", work.flops);
}

#[test]
fn counts_follow_the_formulas() {
    use OperatorClass::{
        Attention, Conv, DepthwiseConv, ElementWise, MatMul, Normalisation, Pooling, Recurrent,
    };
    let int = int_attribute;
    let text = text_attribute;
    check("MatMul", vec![], &[&[5, 2, 3], &[3, 4]], MatMul, 2.0 * 5.0 * 2.0 * 3.0 * 4.0);
    check("MatMul", vec![], &[&[3], &[3]], MatMul, 6.0);
    check("Gemm", vec![int("transA", 1)], &[&[3, 2], &[3, 4], &[4]], MatMul, 2.0 * 2.0 * 3.0 * 4.0);
    check("Einsum", vec![text("equation", "ab,bc->ac")], &[&[2, 3], &[3, 4]], MatMul, 48.0);
    check("Einsum", vec![text("equation", "ab->ba")], &[&[2, 3]], ElementWise, 6.0);
    check("com.microsoft::FusedMatMul", vec![int("transA", 1)], &[&[3, 2], &[3, 4]], MatMul, 48.0);
    check("Conv", vec![], &[&[2, 3, 8, 8], &[16, 3, 3, 3], &[16]], Conv, 2.0 * 2.0 * 16.0 * 36.0 * 27.0);
    check("Conv", vec![int("group", 2)], &[&[1, 4, 8], &[6, 2, 3]], Conv, 2.0 * 6.0 * 6.0 * 6.0);
    check("Conv", vec![int("group", 4)], &[&[1, 4, 8], &[4, 1, 3]], DepthwiseConv, 2.0 * 4.0 * 6.0 * 3.0);
    check("ConvTranspose", vec![], &[&[1, 3, 5, 5], &[3, 7, 2, 2]], Conv, 2.0 * 75.0 * 28.0);
    let hidden = || int("hidden_size", 6);
    check(
        "LSTM",
        vec![hidden()],
        &[&[7, 2, 4], &[1, 24, 4], &[1, 24, 6]],
        Recurrent,
        2.0 * 14.0 * 24.0 * 10.0,
    );
    check(
        "GRU",
        vec![hidden(), text("direction", "bidirectional")],
        &[&[7, 2, 4], &[2, 18, 4], &[2, 18, 6]],
        Recurrent,
        2.0 * 14.0 * 2.0 * 18.0 * 10.0,
    );
    check("RNN", vec![hidden()], &[&[7, 2, 4], &[1, 6, 4], &[1, 6, 6]], Recurrent, 2.0 * 14.0 * 6.0 * 10.0);
    let scores = 2.0 * 3.0 * 4.0 * 6.0;
    check(
        "Attention",
        vec![],
        &[&[2, 3, 4, 8], &[2, 3, 6, 8], &[2, 3, 6, 8]],
        Attention,
        scores * (2.0 * 16.0 + 5.0),
    );
    let projection = 2.0 * 2.0 * 7.0 * 16.0 * 48.0;
    check(
        "com.microsoft::Attention",
        vec![int("num_heads", 4)],
        &[&[2, 7, 16], &[16, 48], &[48]],
        Attention,
        2.0 * 4.0 * 49.0 * (2.0 * 8.0 + 5.0) + projection,
    );
    check("Softmax", vec![], &[&[4, 5]], Normalisation, 100.0);
    check("LayerNormalization", vec![], &[&[4, 5], &[5], &[5]], Normalisation, 160.0);
    check("BatchNormalization", vec![], &[&[1, 2, 3], &[2], &[2], &[2], &[2]], Normalisation, 12.0);
    check("LRN", vec![int("size", 5)], &[&[1, 8, 2, 2]], Normalisation, 32.0 * 13.0);
    check("MaxPool", vec![ints_attribute("kernel_shape", &[2, 2])], &[&[1, 1, 4, 4]], Pooling, 36.0);
    check("GlobalAveragePool", vec![], &[&[1, 2, 3, 3]], Pooling, 18.0);
    check("ReduceMean", vec![], &[&[4, 5]], Pooling, 20.0);
    check("Relu", vec![], &[&[4, 5]], ElementWise, 20.0);
    check("Sum", vec![], &[&[4], &[4], &[4]], ElementWise, 8.0);
    check("Transpose", vec![], &[&[4, 5]], OperatorClass::DataMovement, 0.0);
}
