//! Tables of folded contents, worked out by hand.

use super::fold_outputs;
use crate::data_type::DataType;
use crate::graph::Operation;
use crate::proto::{AttributeProto, NodeProto};
use crate::shapes::infer_outputs;
use crate::value::{Dim, Value};
use crate::writer::{int_attribute, ints_attribute};

fn tensor(shape: &[u64], contents: &[f64]) -> Value {
    let shape: Vec<Dim> = shape.iter().map(|&d| Some(d)).collect();
    Value {
        contents: Some(contents.iter().map(|&x| Some(x)).collect()),
        ..Value::new(DataType::INT64, Some(shape))
    }
}

fn list(contents: &[f64]) -> Value {
    tensor(&[contents.len() as u64], contents)
}

fn fold(
    kind: &str,
    attributes: Vec<AttributeProto>,
    inputs: &[Value],
    outputs: usize,
) -> Vec<Option<Vec<Option<f64>>>> {
    let node = NodeProto {
        op_type: kind.to_owned(),
        attribute: attributes,
        output: (0..outputs).map(|i| format!("o{i}")).collect(),
        ..NodeProto::default()
    };
    let op = Operation { node: &node, opset: 17, inputs: inputs.iter().map(Some).collect(), bound: None };
    let mut values = infer_outputs(&op).expect("no conflict").expect("a rule");
    fold_outputs(&op, &mut values);
    values.into_iter().map(|v| v.contents).collect()
}

#[track_caller]
fn check(kind: &str, attributes: Vec<AttributeProto>, inputs: &[Value], expected: &[f64]) {
    let expected: Vec<Option<f64>> = expected.iter().map(|&x| Some(x)).collect();
    assert_eq!(fold(kind, attributes, inputs, 1)[0], Some(expected), "{kind}");
}

#[test]
fn arithmetic_on_shapes_is_folded() {
    let axis = |a| vec![int_attribute("axis", a)];
    let shaped = tensor(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    check("Shape", vec![], &[Value::new(DataType::FLOAT, Some(vec![Some(7), Some(9)]))], &[7.0, 9.0]);
    check("Shape", vec![int_attribute("start", -1)], std::slice::from_ref(&shaped), &[3.0]);
    check("Size", vec![], std::slice::from_ref(&shaped), &[6.0]);
    check("Gather", axis(0), &[list(&[4.0, 5.0, 6.0]), list(&[-1.0, 0.0])], &[6.0, 4.0]);
    check("Gather", axis(1), &[shaped.clone(), list(&[2.0])], &[2.0, 5.0]);
    check("Concat", axis(0), &[list(&[1.0]), list(&[2.0, 3.0])], &[1.0, 2.0, 3.0]);
    check(
        "Concat",
        axis(1),
        &[shaped.clone(), tensor(&[2, 1], &[8.0, 9.0])],
        &[0.0, 1.0, 2.0, 8.0, 3.0, 4.0, 5.0, 9.0],
    );
    check(
        "Slice",
        vec![],
        &[list(&[1.0, 2.0, 3.0]), list(&[2.0]), list(&[-9.0]), list(&[0.0]), list(&[-1.0])],
        &[3.0, 2.0, 1.0],
    );
    check(
        "Transpose",
        vec![ints_attribute("perm", &[1, 0])],
        std::slice::from_ref(&shaped),
        &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0],
    );
    check("Expand", vec![], &[tensor(&[2, 1], &[1.0, 2.0]), list(&[2.0, 2.0])], &[1.0, 1.0, 2.0, 2.0]);
    check("Tile", vec![], &[list(&[1.0, 2.0]), list(&[2.0])], &[1.0, 2.0, 1.0, 2.0]);
    check("Div", vec![], &[list(&[7.0, -7.0]), list(&[2.0])], &[3.0, -3.0]);
    check("Mod", vec![], &[list(&[7.0, -7.0]), list(&[3.0])], &[1.0, 2.0]);
    check("Equal", vec![], &[list(&[1.0, -1.0]), list(&[-1.0])], &[0.0, 1.0]);
    check("Where", vec![], &[list(&[1.0, 0.0]), list(&[5.0, 6.0]), list(&[7.0, 8.0])], &[5.0, 8.0]);
    check("ReduceProd", vec![int_attribute("keepdims", 0)], &[list(&[2.0, 3.0, 4.0])], &[24.0]);
    check("ReduceMax", vec![ints_attribute("axes", &[0])], std::slice::from_ref(&shaped), &[3.0, 4.0, 5.0]);
    check(
        "Range",
        vec![],
        &[tensor(&[], &[1.0]), tensor(&[], &[7.0]), tensor(&[], &[2.0])],
        &[1.0, 3.0, 5.0],
    );
    check("NonZero", vec![], &[shaped], &[0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    check("ConstantOfShape", vec![], &[list(&[3.0])], &[0.0, 0.0, 0.0]);
}

#[test]
fn a_part_that_is_unknown_leaves_the_rest_known() {
    let half = Value::new(DataType::FLOAT, Some(vec![None, Some(9)]));
    assert_eq!(fold("Shape", vec![], &[half], 1)[0], Some(vec![None, Some(9.0)]));
    let mut partly = list(&[0.0, 4.0]);
    partly.contents = Some(vec![None, Some(4.0)]);
    assert_eq!(fold("Mul", vec![], &[partly, list(&[2.0])], 1)[0], Some(vec![None, Some(8.0)]));
    assert_eq!(
        fold("Div", vec![], &[list(&[2.0, 2.0]), list(&[0.0, 1.0])], 1)[0],
        Some(vec![None, Some(2.0)])
    );
    assert_eq!(fold("Div", vec![], &[list(&[2.0]), list(&[0.0])], 1)[0], None);
    let parts = fold("Split", vec![], &[list(&[1.0, 2.0, 3.0]), list(&[1.0, 2.0])], 2);
    assert_eq!(parts, [Some(vec![Some(1.0)]), Some(vec![Some(2.0), Some(3.0)])]);
}

#[test]
fn large_tensors_are_not_folded() {
    let big = Value::new(DataType::FLOAT, Some(vec![Some(1 << 39)]));
    assert_eq!(fold("Relu", vec![], &[big], 1)[0], None);
    assert_eq!(fold("ConstantOfShape", vec![], &[list(&[1_000_000.0])], 1)[0], None);
}
