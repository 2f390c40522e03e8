//! Facts of small models with values worked out by hand.

use siliconroute_core::model::Precision;
use siliconroute_core::{Bindings, Dimension, Family};

use crate::data_type::DataType;
use crate::testing::{from_x_to_y, graph, graph_attribute, loaded, model, model_proto};
use crate::writer::{Axis, int_attribute};

#[test]
fn facts_describe_the_interface() {
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &[Axis::Free("n"), Axis::Fixed(0), Axis::Fixed(8)]);
        w.input("w", DataType::FLOAT, &[Axis::Fixed(8), Axis::Fixed(2)]);
        w.floats("w", &[8, 2], &[0.5; 16]);
        w.node("MatMul", &["x", "w"], "y", vec![]);
        w.output("y", DataType::FLOAT, &[Axis::Free("n"), Axis::Fixed(0), Axis::Fixed(2)]);
    });
    proto.producer_version = "7".to_owned();
    let model = loaded(&proto);
    let facts = model.facts();
    assert_eq!(facts.inputs.len(), 1, "stored tensors are no inputs");
    assert_eq!(facts.free_dimensions, ["n", "x.1"]);
    assert_eq!(facts.inputs[0].shape[2], Dimension::Fixed(8));
    assert_eq!(facts.outputs[0].to_string(), "y: float32[n,y.1,2]");
    assert_eq!(facts.producer.as_deref(), Some("siliconroute 7"));
    assert_eq!((facts.parameters, facts.weight_bytes, facts.nodes), (16, 64, 1));
    assert_eq!((facts.opsets[""], facts.ir_version, facts.precision), (17, 8, Precision::Fp32));
}

#[test]
fn gathered_tables_count_with_the_rows_read() {
    let model = model(|w| {
        w.input("ids", DataType::INT64, &[Axis::Fixed(3)]);
        w.floats("table", &[100, 8], &[0.5; 800]);
        w.node("Gather", &["table", "ids"], "y", vec![int_attribute("axis", 0)]);
        w.output("y", DataType::FLOAT, &[]);
    });
    let facts = model.case_facts(&Bindings::default()).expect("countable");
    assert_eq!((facts.parameters, facts.weight_bytes), (800, 3 * 8 * 4));
}

#[test]
fn an_input_that_picks_rows_knows_how_many_there_are() {
    #[track_caller]
    fn check(indices: &str, expected: Option<u64>) {
        let model = model(|w| {
            w.input("ids", DataType::INT64, &[Axis::Fixed(3)]);
            w.floats("table", &[100, 8], &[0.5; 800]);
            w.floats("short", &[8, 7], &[0.5; 56]);
            w.integers("one", &[1], &[1]);
            w.node("Unsqueeze", &["ids", "one"], "shaped", vec![]);
            w.node("Cast", &["shaped"], "cast", vec![int_attribute("to", 6)]);
            w.node("Add", &["ids", "one"], "moved", vec![]);
            w.node("Gather", &["table", indices], "first", vec![int_attribute("axis", 0)]);
            w.node("Gather", &["short", indices], "y", vec![int_attribute("axis", -1)]);
            w.output("y", DataType::FLOAT, &[]);
        });
        let facts = model.case_facts(&Bindings::default()).expect("countable");
        assert_eq!(facts.index_limits.get("ids").copied(), expected);
    }
    check("ids", Some(7));
    check("cast", Some(7));
    check("moved", None);
}

#[test]
fn what_a_branch_alone_looks_up_binds_nobody() {
    let branch = || {
        graph(|w| {
            w.node("Gather", &["table", "ids"], "row", vec![int_attribute("axis", 0)]);
            w.output("row", DataType::FLOAT, &[]);
        })
    };
    let model = model(|w| {
        w.input("ids", DataType::INT64, &[Axis::Fixed(3)]);
        w.input("wanted", DataType::BOOL, &[]);
        w.floats("table", &[100, 8], &[0.5; 800]);
        let branches =
            vec![graph_attribute("then_branch", branch()), graph_attribute("else_branch", branch())];
        w.node("If", &["wanted"], "y", branches);
        w.output("y", DataType::FLOAT, &[]);
    });
    let facts = model.case_facts(&Bindings::default()).expect("countable");
    assert!(facts.index_limits.is_empty());
}

#[test]
fn bytes_count_each_tensor_once() {
    let model = from_x_to_y(&[Axis::Fixed(4), Axis::Fixed(8)], |w| {
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("MatMul", &["x", "w"], "m", vec![]);
        w.node("Mul", &["m", "m"], "y", vec![]);
    });
    let facts = model.case_facts(&Bindings::default()).expect("countable");
    let bytes: Vec<f64> = facts.by_class.iter().map(|w| w.bytes).collect();
    assert_eq!(bytes, [128.0 + 256.0 + 128.0, 128.0 + 128.0]);
    assert!((facts.activation_bytes - 256.0).abs() < 1e-9);
}

#[test]
fn settings_of_operators_are_no_parameters() {
    let model = from_x_to_y(&[Axis::Fixed(4), Axis::Fixed(8)], |w| {
        w.floats("low", &[1], &[0.0]);
        w.floats("half", &[], &[0.5]);
        w.floats("bias", &[8], &[0.5; 8]);
        w.node("Clip", &["x", "low"], "c", vec![]);
        w.node("Mul", &["c", "half"], "h", vec![]);
        w.node("Add", &["h", "bias"], "y", vec![]);
    });
    assert_eq!(model.facts().parameters, 8);
    assert_eq!(model.facts().weight_bytes, 4 * 10);
}

#[test]
fn quantised_weights_are_parameters_of_their_own_precision() {
    let model = from_x_to_y(&[Axis::Fixed(4), Axis::Fixed(8)], |w| {
        w.tensor("q", DataType(3), &[8, 8], vec![1; 64].into());
        w.floats("scale", &[], &[0.1]);
        w.tensor("zero", DataType(3), &[], vec![0].into());
        w.node("DequantizeLinear", &["q", "scale", "zero"], "w", vec![]);
        w.node("MatMul", &["x", "w"], "y", vec![]);
    });
    let facts = model.case_facts(&Bindings::default()).expect("countable");
    assert_eq!((model.facts().parameters, model.facts().precision), (64, Precision::Int8));
    assert_eq!((facts.nodes, facts.weight_bytes), (2, 64 + 4 + 1));
}

#[test]
fn the_family_is_that_of_most_work() {
    let x = [Axis::Fixed(4), Axis::Fixed(8)];
    let family = |build: &dyn Fn(&mut crate::writer::GraphWriter)| {
        from_x_to_y(&x, build).case_facts(&Bindings::default()).expect("countable").family
    };
    assert_eq!(family(&|w| w.node("Relu", &["x"], "y", vec![])), Family::Mlp);
    let attention = |w: &mut crate::writer::GraphWriter| {
        w.node("Transpose", &["x"], "t", vec![]);
        w.node("MatMul", &["x", "t"], "s", vec![]);
        w.node("Softmax", &["s"], "p", vec![]);
        w.node("MatMul", &["p", "x"], "y", vec![]);
    };
    assert_eq!(family(&attention), Family::Attn);
    let classifier = |w: &mut crate::writer::GraphWriter| {
        w.floats("w", &[8, 8], &[0.5; 64]);
        w.node("Softmax", &["x"], "p", vec![]);
        w.node("MatMul", &["p", "w"], "y", vec![]);
    };
    assert_eq!(family(&classifier), Family::Mlp);
    let recurrent = from_x_to_y(&[Axis::Fixed(4), Axis::Fixed(1), Axis::Fixed(8)], |w| {
        w.floats("w", &[1, 8, 8], &[0.5; 64]);
        w.floats("r", &[1, 8, 8], &[0.5; 64]);
        w.node("RNN", &["x", "w", "r"], "y", vec![int_attribute("hidden_size", 8)]);
    });
    assert_eq!(recurrent.case_facts(&Bindings::default()).expect("countable").family, Family::Recurrent);
}
