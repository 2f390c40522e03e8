//! What is refused, what is noted and what is accepted; the verdicts are those of ONNX Runtime 1.31, which was
//! given the same models, except that versions released after it are accepted.

use crate::data_type::DataType;
use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use crate::testing::{graph, graph_attribute, model_proto};
use crate::validate::validate;
use crate::writer::{Axis, GraphWriter, int_attribute};

const X: [Axis; 1] = [Axis::Fixed(4)];

/// A model from `x` to `y`, with a truth value `c` to branch on.
fn from_x_to_y(build: impl FnOnce(&mut GraphWriter)) -> ModelProto {
    model_proto(|w| {
        w.input("x", DataType::FLOAT, &X);
        w.tensor("c", DataType(9), &[], vec![1].into());
        build(w);
        w.output("y", DataType::FLOAT, &X);
    })
}

/// A body without inputs that gives `output`.
fn body(output: &str, build: impl FnOnce(&mut GraphWriter)) -> GraphProto {
    graph(|w| {
        build(w);
        w.output(output, DataType::FLOAT, &X);
    })
}

/// `output = If(c)` with `then` as one of its branches.
fn branch(w: &mut GraphWriter, output: &str, then: GraphProto) {
    let other = body("e", |w| w.node("Relu", &["x"], "e", vec![]));
    w.node(
        "If",
        &["c"],
        output,
        vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)],
    );
}

#[track_caller]
fn refuse(part: &str, model: &ModelProto) {
    let reason = validate(model).expect_err("invalid");
    assert!(reason.contains(part), "`{part}` is not in: {reason}");
}

#[track_caller]
fn accept(notes: usize, model: &ModelProto) {
    assert_eq!(validate(model).as_ref().map(Vec::len), Ok(notes));
}

#[test]
fn a_value_has_one_definition() {
    refuse(
        "Sigmoid `y` gives `y`, which is defined already",
        &from_x_to_y(|w| {
            w.node("Relu", &["x"], "y", vec![]);
            w.node("Sigmoid", &["x"], "y", vec![]);
        }),
    );
    refuse("gives `x`", &from_x_to_y(|w| w.node("Relu", &["x"], "x", vec![])));
    refuse(
        "gives `w`",
        &from_x_to_y(|w| {
            w.floats("w", &[4], &[1.0; 4]);
            w.node("Relu", &["x"], "w", vec![]);
        }),
    );
    let mut twice = from_x_to_y(|w| w.node("Split", &["x"], "y", vec![]));
    twice.graph.as_mut().expect("a graph").node[0].output.push("y".to_owned());
    refuse("gives `y`", &twice);
    refuse(
        "declares the input `x` twice",
        &from_x_to_y(|w| {
            w.input("x", DataType::FLOAT, &X);
            w.node("Relu", &["x"], "y", vec![]);
        }),
    );
}

#[test]
fn what_is_stored_twice_is_noted() {
    accept(
        1,
        &from_x_to_y(|w| {
            w.floats("w", &[4], &[1.0; 4]);
            w.floats("w", &[4], &[2.0; 4]);
            w.node("Add", &["x", "w"], "y", vec![]);
        }),
    );
    accept(
        1,
        &from_x_to_y(|w| {
            w.node("Constant", &[], "k", vec![int_attribute("value_int", 1)]);
            w.node("Constant", &[], "k", vec![int_attribute("value_int", 2)]);
            w.node("Relu", &["x"], "y", vec![]);
        }),
    );
    let repeated = body("t", |w| {
        w.floats("w", &[4], &[1.0; 4]);
        w.floats("w", &[4], &[1.0; 4]);
        w.node("Add", &["x", "w"], "t", vec![]);
    });
    refuse("stores `w` twice", &from_x_to_y(|w| branch(w, "y", repeated)));
}

#[test]
fn what_engines_tolerate_is_accepted() {
    let plain = |w: &mut GraphWriter| w.node("Relu", &["x"], "y", vec![]);
    accept(0, &from_x_to_y(plain));
    // A default value of an input, an unused tensor, an unused input, an output declared twice.
    accept(
        0,
        &from_x_to_y(|w| {
            w.input("w", DataType::FLOAT, &X);
            w.floats("w", &[4], &[1.0; 4]);
            w.input("unused", DataType::FLOAT, &X);
            w.floats("unread", &[4], &[1.0; 4]);
            w.node("Add", &["x", "w"], "y", vec![]);
            w.output("y", DataType::FLOAT, &X);
        }),
    );
    // Nodes without names, out of order, and one whose optional input and second output are left out.
    let mut unnamed = from_x_to_y(|w| {
        w.node("Clip", &["a", ""], "y", vec![]);
        w.node("Dropout", &["x"], "a", vec![]);
    });
    for node in &mut unnamed.graph.as_mut().expect("a graph").node {
        node.name.clear();
        node.output.push(String::new());
    }
    accept(0, &unnamed);
    // A model that does nothing, or only tells what is stored in it.
    for output in ["x", "w"] {
        accept(
            0,
            &model_proto(|w| {
                w.input("x", DataType::FLOAT, &X);
                w.floats("w", &[4], &[1.0; 4]);
                w.output(output, DataType::FLOAT, &X);
            }),
        );
    }
}

#[test]
fn every_name_that_is_read_is_defined() {
    refuse(
        "nothing defines `q`, which Add `y` reads",
        &from_x_to_y(|w| w.node("Add", &["x", "q"], "y", vec![])),
    );
    refuse(
        "nothing defines `q`, which Relu `dead` reads",
        &from_x_to_y(|w| {
            w.node("Relu", &["q"], "dead", vec![]);
            w.node("Relu", &["x"], "y", vec![]);
        }),
    );
    refuse("nothing gives its output `y`", &from_x_to_y(|w| w.node("Relu", &["x"], "z", vec![])));
}

#[test]
fn nodes_form_no_cycle() {
    refuse(
        "form a cycle",
        &from_x_to_y(|w| {
            w.node("Add", &["x", "b"], "a", vec![]);
            w.node("Relu", &["a"], "b", vec![]);
            w.node("Relu", &["a"], "y", vec![]);
        }),
    );
    refuse("its own output", &from_x_to_y(|w| w.node("Add", &["x", "y"], "y", vec![])));
    refuse(
        "form a cycle",
        &from_x_to_y(|w| {
            w.node("Relu", &["x"], "y", vec![]);
            w.node("Relu", &["a"], "b", vec![]);
            w.node("Relu", &["b"], "a", vec![]);
        }),
    );
    // Through a body.
    let reads_later = || body("t", |w| w.node("Relu", &["later"], "t", vec![]));
    refuse(
        "form a cycle",
        &from_x_to_y(|w| {
            branch(w, "y", reads_later());
            w.node("Relu", &["y"], "later", vec![]);
        }),
    );
    accept(
        0,
        &from_x_to_y(|w| {
            branch(w, "y", reads_later());
            w.node("Relu", &["x"], "later", vec![]);
        }),
    );
}

#[test]
fn bodies_see_what_is_around_them_and_keep_what_is_their_own() {
    let of_body = |then: GraphProto| from_x_to_y(|w| branch(w, "y", then));
    let relu = |input: &'static str, output: &'static str| {
        body(output, |w| w.node("Relu", &[input], output, vec![]))
    };
    accept(0, &of_body(relu("x", "t")));
    accept(0, &of_body(relu("x", "e")));
    accept(0, &of_body(relu("x", "y")));
    refuse("nothing defines `q`", &of_body(relu("q", "t")));
    refuse("its own output", &of_body(relu("y", "t")));
    refuse("the name of a value of the graph around it", &of_body(relu("c", "x")));
    refuse("nothing in the body `test` gives its output `x`", &of_body(body("x", |_| {})));
    refuse(
        "nothing defines `t`, which Relu `z` reads",
        &from_x_to_y(|w| {
            branch(w, "y", relu("x", "t"));
            w.node("Relu", &["t"], "z", vec![]);
        }),
    );
    refuse(
        "a later node of the same body",
        &of_body(body("t", |w| {
            w.node("Relu", &["a"], "t", vec![]);
            w.node("Relu", &["x"], "a", vec![]);
        })),
    );
    // What a body stores or takes as an input may hide a name, also one that depends on the body.
    accept(
        0,
        &of_body(body("t", |w| {
            w.floats("x", &[4], &[1.0; 4]);
            w.node("Relu", &["x"], "t", vec![]);
        })),
    );
    let formal = body("t", |w| {
        w.input("later", DataType::FLOAT, &X);
        w.node("Relu", &["later"], "t", vec![]);
    });
    accept(
        0,
        &from_x_to_y(|w| {
            w.node("Scan", &["x"], "y", vec![graph_attribute("body", formal)]);
            w.node("Relu", &["y"], "later", vec![]);
        }),
    );
    let within = body("t", |w| branch(w, "t", relu("x", "u")));
    accept(0, &of_body(within));
    let astray = body("t", |w| branch(w, "t", relu("q", "u")));
    refuse("nothing defines `q`, which Relu `u` reads", &of_body(astray));
}

#[test]
fn nodes_say_what_they_are_without_repeating_themselves() {
    let two = |rename: &dyn Fn(&mut NodeProto)| {
        let mut model = from_x_to_y(|w| {
            w.node("Relu", &["x"], "a", vec![]);
            w.node("Relu", &["a"], "y", vec![]);
        });
        model.graph.as_mut().expect("a graph").node.iter_mut().for_each(rename);
        model
    };
    refuse("two nodes have the name `same`", &two(&|node| node.name = "same".to_owned()));
    accept(
        0,
        &two(&|node| {
            if node.output[0] == "a" {
                (node.op_type, node.input) = ("Constant".to_owned(), vec![]);
            }
            node.name = "same".to_owned();
        }),
    );
    refuse("`a` names no operator", &two(&|node| node.op_type.clear()));
    let attribute = || int_attribute("axis", 1);
    refuse(
        "has the attribute `axis` twice",
        &from_x_to_y(|w| w.node("Softmax", &["x"], "y", vec![attribute(), attribute()])),
    );
}

#[test]
fn versions_are_ones_that_exist() {
    let versions = |ir_version: i64, imports: &[(&str, i64)]| {
        let import =
            |&(domain, version): &(&str, i64)| OperatorSetIdProto { domain: domain.to_owned(), version };
        let model = from_x_to_y(|w| w.node("Relu", &["x"], "y", vec![]));
        ModelProto { ir_version, opset_import: imports.iter().map(import).collect(), ..model }
    };
    for opset in [1, 7, 26, 28] {
        accept(0, &versions(8, &[("", opset)]));
    }
    for opset in [0, -5, 29, 9_999, i64::MAX, i64::MIN] {
        refuse(&format!("operator set {opset},"), &versions(8, &[("", opset)]));
        refuse(&format!("operator set {opset},"), &versions(8, &[("", 17), ("ai.onnx", opset)]));
        accept(0, &versions(8, &[("", 17), ("own", opset)]));
    }
    refuse("imports no operator set", &versions(8, &[]));
    accept(0, &versions(8, &[("com.microsoft", 1)]));
    for ir in [1, 3, 14] {
        accept(0, &versions(ir, &[("", 17)]));
    }
    for ir in [15, 99, i64::MAX] {
        refuse(&format!("version {ir} of the intermediate"), &versions(ir, &[("", 17)]));
    }
}

#[test]
fn a_long_graph_in_reverse_order_is_accepted() {
    let length = 60_000;
    let name = |index: usize| if index == 0 { "x".to_owned() } else { format!("v{index}") };
    let mut model = from_x_to_y(|_| {});
    let graph = model.graph.as_mut().expect("a graph");
    graph.node = (0..length)
        .rev()
        .map(|index| NodeProto {
            op_type: "Relu".to_owned(),
            input: vec![name(index)],
            output: vec![name(index + 1)],
            ..NodeProto::default()
        })
        .collect();
    graph.output[0].name = name(length);
    accept(0, &model);
}
