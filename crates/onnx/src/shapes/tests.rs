//! Tables of shapes, worked out by hand from the operators' definitions.

use super::infer_outputs;
use crate::data_type::DataType;
use crate::graph::Operation;
use crate::proto::{AttributeProto, NodeProto};
use crate::testing::text_attribute;
use crate::value::{Dim, Value};
use crate::writer::{int_attribute, ints_attribute};

fn float(shape: &[u64]) -> Value {
    Value::new(DataType::FLOAT, Some(shape.iter().map(|&d| Some(d)).collect()))
}

fn partly(shape: &[Dim]) -> Value {
    Value::new(DataType::FLOAT, Some(shape.to_vec()))
}

fn numbers(values: &[i64]) -> Value {
    let mut value = Value::new(DataType::INT64, Some(vec![Some(values.len() as u64)]));
    value.contents = Some(values.iter().map(|&v| Some(v as f64)).collect());
    value
}

fn reals(values: &[f64]) -> Value {
    let mut value = Value::new(DataType::FLOAT, Some(vec![Some(values.len() as u64)]));
    value.contents = Some(values.iter().map(|&v| Some(v)).collect());
    value
}

fn scalar(number: f64) -> Value {
    Value { contents: Some(vec![Some(number)]), ..Value::new(DataType::INT64, Some(vec![])) }
}

fn none() -> Value {
    Value::default()
}

fn infer(kind: &str, attributes: &[AttributeProto], inputs: &[Value], outputs: usize) -> super::Inferred {
    let (domain, kind) = kind.split_once("::").unwrap_or(("", kind));
    let node = NodeProto {
        op_type: kind.to_owned(),
        domain: domain.to_owned(),
        attribute: attributes.to_vec(),
        output: (0..outputs).map(|i| format!("o{i}")).collect(),
        ..NodeProto::default()
    };
    let absent = |v: &Value| v.shape.is_none() && v.data_type == DataType::default();
    let inputs = inputs.iter().map(|v| if absent(v) { None } else { Some(v) }).collect();
    infer_outputs(&Operation { node: &node, opset: 17, inputs, bound: None })
}

#[track_caller]
fn check(kind: &str, attributes: &[AttributeProto], inputs: &[Value], expected: &[&[u64]]) {
    let outputs = infer(kind, attributes, inputs, expected.len()).expect("no conflict").expect("a rule");
    for (index, shape) in expected.iter().enumerate() {
        let shape: Vec<Dim> = shape.iter().map(|&d| Some(d)).collect();
        assert_eq!(outputs[index].shape, Some(shape), "{kind} output {index}");
    }
}

#[test]
fn windows_slide_as_the_definitions_say() {
    let ints = ints_attribute;
    let image = float(&[1, 3, 224, 224]);
    check(
        "Conv",
        &[ints("strides", &[2, 2]), ints("pads", &[3; 4])],
        &[image.clone(), float(&[64, 3, 7, 7])],
        &[&[1, 64, 112, 112]],
    );
    check(
        "Conv",
        &[text_attribute("auto_pad", "SAME_UPPER"), ints("strides", &[2, 2])],
        &[float(&[1, 3, 15, 15]), float(&[8, 3, 3, 3])],
        &[&[1, 8, 8, 8]],
    );
    check("Conv", &[ints("dilations", &[2])], &[float(&[2, 4, 10]), float(&[6, 4, 3])], &[&[2, 6, 6]]);
    check("Conv", &[int_attribute("group", 4)], &[float(&[2, 4, 10]), float(&[4, 1, 3])], &[&[2, 4, 8]]);
    check(
        "ConvTranspose",
        &[ints("strides", &[2, 2]), ints("pads", &[1; 4]), ints("output_padding", &[1, 1])],
        &[float(&[1, 8, 7, 7]), float(&[8, 4, 3, 3])],
        &[&[1, 4, 14, 14]],
    );
    check(
        "MaxPool",
        &[ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2])],
        &[float(&[1, 8, 112, 112])],
        &[&[1, 8, 55, 55]],
    );
    let rounded = [ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2]), int_attribute("ceil_mode", 1)];
    check("MaxPool", &rounded, &[float(&[1, 8, 112, 112])], &[&[1, 8, 56, 56]]);
    check(
        "AveragePool",
        &[ints("kernel_shape", &[1]), ints("strides", &[2]), int_attribute("ceil_mode", 1)],
        &[float(&[1, 1, 2])],
        &[&[1, 1, 1]],
    );
    check("GlobalAveragePool", &[], &[float(&[2, 8, 7, 7])], &[&[2, 8, 1, 1]]);
    check(
        "com.microsoft::QLinearConv",
        &[int_attribute("channels_last", 1)],
        &[float(&[1, 9, 9, 3]), none(), none(), float(&[8, 3, 3, 3])],
        &[&[1, 7, 7, 8]],
    );
}

#[test]
fn products_contract_the_inner_axis() {
    check("MatMul", &[], &[float(&[5, 1, 2, 3]), float(&[7, 3, 4])], &[&[5, 7, 2, 4]]);
    check("MatMul", &[], &[float(&[3]), float(&[3])], &[&[]]);
    check("MatMul", &[], &[float(&[2, 3]), float(&[3])], &[&[2]]);
    check("MatMul", &[], &[float(&[3]), float(&[5, 3, 4])], &[&[5, 4]]);
    check(
        "Gemm",
        &[int_attribute("transA", 1), int_attribute("transB", 1)],
        &[float(&[3, 2]), float(&[4, 3])],
        &[&[2, 4]],
    );
    check(
        "Einsum",
        &[text_attribute("equation", "bhid, bhjd -> bhij")],
        &[float(&[2, 3, 5, 8]), float(&[2, 3, 7, 8])],
        &[&[2, 3, 5, 7]],
    );
    check(
        "Einsum",
        &[text_attribute("equation", "...ij,...jk")],
        &[float(&[2, 3, 4]), float(&[2, 4, 5])],
        &[&[2, 3, 5]],
    );
    check(
        "com.microsoft::FusedMatMul",
        &[int_attribute("transB", 1)],
        &[float(&[2, 3, 4]), float(&[2, 5, 4])],
        &[&[2, 3, 5]],
    );
    check("com.microsoft::MatMulNBits", &[int_attribute("N", 11)], &[float(&[2, 3, 4])], &[&[2, 3, 11]]);
}

#[test]
fn layouts_follow_their_spelled_shapes() {
    let ints = ints_attribute;
    check("Reshape", &[], &[float(&[2, 3, 4]), numbers(&[0, -1])], &[&[2, 12]]);
    check("Reshape", &[], &[float(&[2, 3, 4]), numbers(&[4, 6])], &[&[4, 6]]);
    check("Flatten", &[int_attribute("axis", 2)], &[float(&[2, 3, 4])], &[&[6, 4]]);
    check("Squeeze", &[], &[float(&[1, 3, 1]), numbers(&[-1])], &[&[1, 3]]);
    check("Unsqueeze", &[], &[float(&[3]), numbers(&[0, 2])], &[&[1, 3, 1]]);
    check("Transpose", &[ints("perm", &[0, 2, 1])], &[float(&[2, 3, 4])], &[&[2, 4, 3]]);
    check("Concat", &[int_attribute("axis", -1)], &[float(&[2, 3]), float(&[2, 5])], &[&[2, 8]]);
    check("Split", &[int_attribute("axis", 1)], &[float(&[2, 7])], &[&[2, 4], &[2, 3]]);
    check("Split", &[int_attribute("axis", 1)], &[float(&[2, 7]), numbers(&[6, 1])], &[&[2, 6], &[2, 1]]);
    check("Expand", &[], &[float(&[3, 1]), numbers(&[2, 1, 4])], &[&[2, 3, 4]]);
    check("Tile", &[], &[float(&[3, 1]), numbers(&[2, 5])], &[&[6, 5]]);
    check("Pad", &[], &[float(&[3, 4]), numbers(&[0, 1, 2, 3])], &[&[5, 8]]);
    check("Pad", &[], &[float(&[3, 4]), numbers(&[1, 1]), none(), numbers(&[1])], &[&[3, 6]]);
    check("Resize", &[], &[float(&[1, 3, 10, 10]), none(), reals(&[1.0, 1.0, 2.0, 1.5])], &[&[1, 3, 20, 15]]);
    check("Resize", &[], &[float(&[1, 3, 10, 10]), none(), none(), numbers(&[1, 3, 7, 9])], &[&[1, 3, 7, 9]]);
    check("DepthToSpace", &[int_attribute("blocksize", 2)], &[float(&[1, 8, 2, 3])], &[&[1, 2, 4, 6]]);
    check("Slice", &[], &[float(&[10, 5]), numbers(&[-3]), numbers(&[i64::MAX]), numbers(&[0])], &[&[3, 5]]);
    check(
        "Slice",
        &[],
        &[float(&[10]), numbers(&[9]), numbers(&[i64::MIN]), numbers(&[0]), numbers(&[-3])],
        &[&[4]],
    );
    check("Gather", &[int_attribute("axis", 1)], &[float(&[2, 9, 4]), numbers(&[1, 3])], &[&[2, 2, 4]]);
    check("Gather", &[], &[float(&[2, 9]), scalar(1.0)], &[&[9]]);
    check("GatherND", &[], &[float(&[2, 3, 4]), float(&[5, 2])], &[&[5, 4]]);
    check("Range", &[], &[scalar(2.0), scalar(11.0), scalar(3.0)], &[&[3]]);
    check("TopK", &[], &[float(&[2, 9]), numbers(&[3])], &[&[2, 3], &[2, 3]]);
    check("OneHot", &[], &[float(&[2, 9]), scalar(5.0), float(&[2])], &[&[2, 9, 5]]);
}

#[test]
fn reductions_and_broadcasts_keep_the_other_axes() {
    check("ReduceMean", &[ints_attribute("axes", &[2, 3])], &[float(&[2, 3, 4, 5])], &[&[2, 3, 1, 1]]);
    check("ReduceSum", &[int_attribute("keepdims", 0)], &[float(&[2, 3, 4]), numbers(&[-1])], &[&[2, 3]]);
    check("ReduceMax", &[int_attribute("keepdims", 0)], &[float(&[2, 3, 4])], &[&[]]);
    check(
        "ArgMax",
        &[int_attribute("axis", 1), int_attribute("keepdims", 0)],
        &[float(&[2, 3, 4])],
        &[&[2, 4]],
    );
    check("Where", &[], &[float(&[4, 1]), float(&[5]), float(&[1])], &[&[4, 5]]);
    check("Add", &[], &[float(&[0]), float(&[1])], &[&[0]]);
}

#[test]
fn sequences_and_attention_have_their_documented_outputs() {
    let lstm = [int_attribute("hidden_size", 6), text_attribute("direction", "bidirectional")];
    let weights = [float(&[7, 2, 4]), float(&[2, 24, 4]), float(&[2, 24, 6])];
    check("LSTM", &lstm, &weights, &[&[7, 2, 2, 6], &[2, 2, 6], &[2, 2, 6]]);
    let heads = [int_attribute("num_heads", 4)];
    let packed = [float(&[2, 7, 16]), float(&[16, 48]), float(&[48])];
    check("com.microsoft::Attention", &heads, &packed, &[&[2, 7, 16], &[2, 2, 4, 7, 4]]);
    let apart = [float(&[2, 7, 16]), float(&[2, 9, 16]), float(&[2, 9, 8])];
    check("com.microsoft::MultiHeadAttention", &heads, &apart, &[&[2, 7, 8]]);
    let grouped = [int_attribute("num_heads", 4), int_attribute("kv_num_heads", 2)];
    let cached = [
        float(&[1, 1, 16]),
        float(&[1, 1, 8]),
        float(&[1, 1, 8]),
        float(&[1, 2, 9, 4]),
        float(&[1, 2, 9, 4]),
    ];
    check(
        "com.microsoft::GroupQueryAttention",
        &grouped,
        &cached,
        &[&[1, 1, 16], &[1, 2, 10, 4], &[1, 2, 10, 4]],
    );
    let standard = [float(&[2, 3, 4, 8]), float(&[2, 3, 6, 8]), float(&[2, 3, 6, 10])];
    check("Attention", &[], &standard, &[&[2, 3, 4, 10]]);
}

#[test]
fn an_unknown_axis_stays_unknown_and_others_are_told() {
    let shape = |kind, attributes: &[AttributeProto], inputs: &[Value]| {
        infer(kind, attributes, inputs, 1).expect("no conflict").expect("a rule")[0].shape.clone()
    };
    let x = partly(&[None, Some(8), Some(16)]);
    assert_eq!(shape("MatMul", &[], &[x.clone(), float(&[16, 4])]), Some(vec![None, Some(8), Some(4)]));
    assert_eq!(shape("Reshape", &[], &[x.clone(), numbers(&[0, -1])]), Some(vec![None, Some(128)]));
    assert_eq!(shape("Reshape", &[], &[x.clone(), numbers(&[-1, 128])]), Some(vec![None, Some(128)]));
    assert_eq!(shape("Add", &[], &[x, float(&[5, 1, 1])]), Some(vec![Some(5), Some(8), Some(16)]));
    assert_eq!(shape("NonZero", &[], &[float(&[3, 4])]), Some(vec![Some(2), None]));
}

#[test]
fn sizes_that_no_engine_could_run_are_conflicts() {
    let refused: [(&str, Vec<AttributeProto>, Vec<Value>); 12] = [
        ("MatMul", vec![], vec![float(&[2, 3]), float(&[4, 5])]),
        ("Add", vec![], vec![float(&[2, 3]), float(&[4])]),
        ("Reshape", vec![], vec![float(&[2, 3]), numbers(&[5])]),
        ("Reshape", vec![], vec![float(&[2, 3]), numbers(&[-1, 4])]),
        ("Conv", vec![], vec![float(&[1, 3, 2, 2]), float(&[8, 3, 5, 5])]),
        ("Conv", vec![], vec![float(&[1, 4, 9, 9]), float(&[8, 3, 5, 5])]),
        ("Conv", vec![ints_attribute("strides", &[0, 0])], vec![float(&[1, 3, 9, 9]), float(&[8, 3, 5, 5])]),
        ("Concat", vec![int_attribute("axis", 0)], vec![float(&[2, 3]), float(&[2, 4])]),
        ("Transpose", vec![ints_attribute("perm", &[0, 5])], vec![float(&[2, 3])]),
        ("Squeeze", vec![ints_attribute("axes", &[0])], vec![float(&[2, 3])]),
        ("Einsum", vec![text_attribute("equation", "ij->i")], vec![float(&[2, 3, 4])]),
        ("DepthToSpace", vec![int_attribute("blocksize", 0)], vec![float(&[1, 8, 2, 2])]),
    ];
    for (kind, attributes, inputs) in refused {
        assert!(infer(kind, &attributes, &inputs, 1).is_err(), "{kind}");
    }
}

#[test]
fn extreme_attributes_neither_overflow_nor_panic() {
    let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    let kinds = [
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "Slice",
        "Gather",
        "Concat",
        "Split",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Pad",
        "Flatten",
        "Softmax",
        "ReduceSum",
        "ArgMax",
        "TopK",
        "OneHot",
        "DepthToSpace",
        "LSTM",
        "Resize",
        "Tile",
        "Expand",
        "Shape",
        "RandomNormal",
        "com.microsoft::Attention",
        "Attention",
        "DFT",
        "STFT",
        "MaxUnpool",
        "Col2Im",
        "com.microsoft::GroupQueryAttention",
        "GatherND",
        "CenterCropPad",
        "QLinearConcat",
    ];
    let names = [
        "axis",
        "axes",
        "group",
        "strides",
        "pads",
        "dilations",
        "kernel_shape",
        "output_shape",
        "output_padding",
        "perm",
        "split",
        "starts",
        "ends",
        "k",
        "blocksize",
        "hidden_size",
        "num_heads",
        "kv_num_heads",
        "shape",
        "start",
        "end",
        "batch_dims",
        "num_outputs",
    ];
    for kind in kinds {
        for extreme in extremes {
            let attributes: Vec<AttributeProto> = names
                .iter()
                .map(|name| AttributeProto {
                    i: extreme,
                    ..ints_attribute(name, &[extreme, extreme, extreme, extreme])
                })
                .collect();
            let tensor = float(&[1, 3, u64::MAX / 2, 4]);
            let contents = numbers(&[extreme, extreme, extreme, extreme]);
            for inputs in [
                vec![tensor.clone(), tensor.clone(), tensor.clone()],
                vec![tensor.clone(), contents.clone(), contents.clone(), contents.clone(), contents.clone()],
                vec![float(&[]), contents.clone(), contents],
                vec![],
            ] {
                let _ignored = infer(kind, &attributes, &inputs, 3);
            }
        }
    }
}
