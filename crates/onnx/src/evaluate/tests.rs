//! Control flow, functions and malformed graphs.

use siliconroute_core::{Bindings, CaseFacts, OperatorClass};

use crate::data_type::DataType;
use crate::load::Model;
use crate::proto::{FunctionProto, GraphProto, NodeProto, OperatorSetIdProto};
use crate::testing::{from_x_to_y, graph, graph_attribute, loaded, model_proto};
use crate::writer::{Axis, int_attribute};

const X: [Axis; 2] = [Axis::Fixed(4), Axis::Fixed(8)];

fn facts(model: &Model) -> CaseFacts {
    model.case_facts(&Bindings::default()).expect("countable")
}

fn matmuls(facts: &CaseFacts) -> f64 {
    facts.by_class.iter().filter(|w| w.class == OperatorClass::MatMul).map(|w| w.flops).sum()
}

/// A body that multiplies the outer `x` by its own weights `times` times.
fn products(times: usize) -> GraphProto {
    graph(|w| {
        w.floats("w", &[8, 8], &[0.5; 64]);
        let mut from = "x".to_owned();
        for index in 0..times {
            let to = format!("p{index}");
            w.node("MatMul", &[&from, "w"], &to, vec![]);
            from = to;
        }
        w.output(&from, DataType::FLOAT, &[]);
    })
}

fn branching(condition: impl FnOnce(&mut crate::writer::GraphWriter)) -> Model {
    from_x_to_y(&X, |w| {
        condition(w);
        let branches =
            vec![graph_attribute("then_branch", products(1)), graph_attribute("else_branch", products(3))];
        w.node("If", &["c"], "y", branches);
    })
}

const PRODUCT: f64 = 2.0 * 4.0 * 8.0 * 8.0;

#[test]
fn a_condition_that_folds_takes_its_branch() {
    let model = branching(|w| {
        w.node("Shape", &["x"], "s", vec![]);
        w.integers("first", &[], &[0]);
        w.integers("four", &[], &[4]);
        w.node("Gather", &["s", "first"], "d", vec![int_attribute("axis", 0)]);
        w.node("Equal", &["d", "four"], "c", vec![]);
    });
    let facts = facts(&model);
    assert!((matmuls(&facts) - PRODUCT).abs() < 1e-9);
    assert!(facts.assumptions.is_empty(), "{:?}", facts.assumptions);
    assert_eq!(model.facts().nodes, 3 + 1 + 4);
}

#[test]
fn an_unknown_condition_counts_the_larger_branch_and_says_so() {
    let model = branching(|w| w.input("c", DataType::BOOL, &[]));
    let facts = facts(&model);
    assert!((matmuls(&facts) - 3.0 * PRODUCT).abs() < 1e-9);
    assert!(facts.assumptions[0].contains("If `y`"), "{:?}", facts.assumptions);
    assert_eq!(model.facts().parameters, 128, "the weights of both branches");
    assert_eq!(facts.weight_bytes, 256, "the weights of one branch");
}

fn looping(limit: impl FnOnce(&mut crate::writer::GraphWriter)) -> Model {
    let body = graph(|w| {
        w.input("i", DataType::INT64, &[]);
        w.input("go", DataType::BOOL, &[]);
        w.input("state", DataType::FLOAT, &X);
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("Identity", &["go"], "go_on", vec![]);
        w.node("MatMul", &["state", "w"], "next", vec![]);
        w.output("go_on", DataType::BOOL, &[]);
        w.output("next", DataType::FLOAT, &[]);
        w.output("next", DataType::FLOAT, &[]);
    });
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &X);
        limit(w);
        w.node("Loop", &["n", "", "x"], "y", vec![graph_attribute("body", body)]);
        w.output("y", DataType::FLOAT, &[]);
        w.output("all", DataType::FLOAT, &[]);
    });
    let graph = proto.graph.as_mut().expect("the writer always adds a graph");
    graph.node.last_mut().expect("the loop").output.push("all".to_owned());
    loaded(&proto)
}

#[test]
fn a_loop_with_a_constant_trip_count_is_counted_that_often() {
    let model = looping(|w| w.integers("n", &[], &[5]));
    let facts = facts(&model);
    assert!((matmuls(&facts) - 5.0 * PRODUCT).abs() < 1e-9);
    assert!(facts.assumptions.is_empty(), "{:?}", facts.assumptions);
    assert_eq!(facts.weight_bytes, 256, "weights are counted once");
    let shapes = model.output_shapes(&Bindings::default()).expect("inferable");
    assert_eq!(shapes[1].sizes, Some(vec![Some(5), Some(4), Some(8)]));
}

#[test]
fn a_loop_of_unknown_length_counts_once_and_says_so() {
    let facts = facts(&looping(|w| w.input("n", DataType::INT64, &[])));
    assert!((matmuls(&facts) - PRODUCT).abs() < 1e-9);
    assert!(facts.assumptions.iter().any(|a| a.contains("Loop `y` is counted with 1 round")));
}

#[test]
fn a_scan_runs_once_per_element() {
    let body = graph(|w| {
        w.input("row", DataType::FLOAT, &[Axis::Fixed(8)]);
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("MatMul", &["row", "w"], "out", vec![]);
        w.output("out", DataType::FLOAT, &[]);
    });
    let model = from_x_to_y(&X, |w| {
        w.node("Scan", &["x"], "y", vec![graph_attribute("body", body), int_attribute("num_scan_inputs", 1)]);
    });
    assert!((matmuls(&facts(&model)) - PRODUCT).abs() < 1e-9);
    let shapes = model.output_shapes(&Bindings::default()).expect("inferable");
    assert_eq!(shapes[0].sizes, Some(vec![Some(4), Some(8)]));
}

fn call(domain: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: name.to_owned(),
        domain: domain.to_owned(),
        input: inputs.iter().map(|&i| i.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.to_owned(),
        domain: "local".to_owned(),
        input: vec!["a".to_owned(), "b".to_owned()],
        output: vec!["c".to_owned()],
        node: nodes,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..FunctionProto::default()
    }
}

fn calling(functions: Vec<FunctionProto>) -> Model {
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &X);
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.output("y", DataType::FLOAT, &[]);
    });
    let graph = proto.graph.as_mut().expect("the writer always adds a graph");
    graph.node.push(call("local", "f", &["x", "w"], "y"));
    proto.functions = functions;
    loaded(&proto)
}

#[test]
fn model_local_functions_are_counted_where_they_are_called() {
    let body = vec![call("", "MatMul", &["a", "b"], "m"), call("", "Relu", &["m"], "c")];
    let model = calling(vec![function("f", body)]);
    let facts = facts(&model);
    assert!((matmuls(&facts) - PRODUCT).abs() < 1e-9);
    assert_eq!((facts.parameters, facts.weight_bytes, facts.nodes), (64, 256, 2));
}

#[test]
fn functions_that_call_each_other_for_ever_are_refused_or_cut_off() {
    let twice = vec![call("local", "f", &["a", "b"], "m"), call("local", "f", &["m", "b"], "c")];
    let model = calling(vec![function("f", twice)]);
    assert_eq!(model.case_facts(&Bindings::default()), Err(crate::BindError::Endless));
    let once = calling(vec![function("f", vec![call("local", "f", &["a", "b"], "c")])]);
    assert!(!facts(&once).assumptions.is_empty());
}

#[test]
fn nodes_out_of_order_are_sorted() {
    let model = from_x_to_y(&X, |w| {
        w.node("MatMul", &["r", "w"], "y", vec![]);
        w.node("Relu", &["x"], "r", vec![]);
        w.floats("w", &[8, 8], &[0.5; 64]);
    });
    let facts = facts(&model);
    assert!((matmuls(&facts) - PRODUCT).abs() < 1e-9);
    assert!(facts.assumptions.is_empty(), "{:?}", facts.assumptions);
}

#[test]
fn names_that_a_function_does_not_define_are_assumptions() {
    let cycle = vec![call("", "Add", &["a", "d"], "c"), call("", "Add", &["c", "nowhere"], "d")];
    let assumptions = facts(&calling(vec![function("f", cycle)])).assumptions;
    assert!(assumptions.iter().any(|a| a.contains("`nowhere`")), "{assumptions:?}");
}

#[test]
fn sizes_that_depend_on_data_are_assumptions() {
    let model = from_x_to_y(&X, |w| {
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("MatMul", &["x", "w"], "m", vec![]);
        w.node("NonZero", &["m"], "n", vec![]);
        w.node("Cast", &["n"], "y", vec![int_attribute("to", 1)]);
    });
    let assumptions = facts(&model).assumptions;
    assert!(assumptions[0].contains("NonZero `n`"), "{assumptions:?}");
    assert!(assumptions[1].starts_with("2 nodes"), "{assumptions:?}");
}

#[test]
fn operators_nobody_knows_count_as_nothing_and_are_named() {
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &X);
        w.output("y", DataType::FLOAT, &X);
    });
    let graph = proto.graph.as_mut().expect("the writer always adds a graph");
    graph.node.push(call("vendor", "Magic", &["x"], "y"));
    let facts = facts(&loaded(&proto));
    assert_eq!(facts.by_class[0].class, OperatorClass::Other);
    assert!(facts.assumptions[0].contains("vendor::Magic (1 nodes)"), "{:?}", facts.assumptions);
}

#[test]
fn what_engines_fold_does_not_run() {
    let model = from_x_to_y(&X, |w| {
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("Transpose", &["w"], "t", vec![]);
        w.node("MatMul", &["x", "t"], "y", vec![]);
    });
    let facts = facts(&model);
    assert_eq!((facts.nodes, facts.weight_bytes, facts.parameters), (1, 256, 64));
}
