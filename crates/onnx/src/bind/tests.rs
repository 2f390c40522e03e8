//! Sizes given by users, right and wrong.

use siliconroute_core::Bindings;

use super::BindError;
use crate::data_type::DataType;
use crate::load::Model;
use crate::testing::{from_x_to_y, model};
use crate::writer::Axis;

fn bindings(pairs: &[(&str, u64)]) -> Bindings {
    Bindings(pairs.iter().map(|&(name, value)| (name.to_owned(), value)).collect())
}

/// Two inputs that must have the same length.
fn pair() -> Model {
    model(|w| {
        w.input("a", DataType::FLOAT, &[Axis::Free("batch"), Axis::Free("left")]);
        w.input("b", DataType::FLOAT, &[Axis::Free("batch"), Axis::Free("right")]);
        w.node("Add", &["a", "b"], "y", vec![]);
        w.output("y", DataType::FLOAT, &[]);
    })
}

#[test]
fn refuses_bindings_that_make_no_case() {
    let model = pair();
    let fails = |pairs: &[(&str, u64)]| model.case_facts(&bindings(pairs)).expect_err("refused");
    assert!(
        matches!(fails(&[("batch", 1), ("left", 2)]), BindError::MissingDimension { name, .. } if name == "right")
    );
    assert!(matches!(fails(&[("other", 1)]), BindError::UnknownDimension { .. }));
    assert!(matches!(fails(&[("batch", 0), ("left", 2), ("right", 2)]), BindError::ZeroDimension { .. }));
    assert!(matches!(fails(&[("batch", 1), ("left", 2), ("right", 3)]), BindError::Contradiction { .. }));
    let huge = fails(&[("batch", u64::MAX), ("left", u64::MAX), ("right", u64::MAX)]);
    assert!(matches!(huge, BindError::TooLarge { .. }));
    assert!(model.case_facts(&bindings(&[("batch", 2), ("left", 3), ("right", 3)])).is_ok());
}

#[test]
fn refuses_intermediate_tensors_beyond_any_memory() {
    let model = from_x_to_y(&[Axis::Free("n"), Axis::Fixed(1)], |w| {
        w.node("Transpose", &["x"], "t", vec![]);
        w.node("MatMul", &["x", "t"], "y", vec![]);
    });
    assert!(matches!(model.case_facts(&bindings(&[("n", 1 << 30)])), Err(BindError::TooLarge { .. })));
}

#[test]
fn reads_free_dimensions_off_shapes() {
    let model = pair();
    let bind = |shapes: &[(&str, &[u64])]| {
        let shapes: Vec<_> = shapes.iter().map(|&(name, shape)| (name.to_owned(), shape.to_vec())).collect();
        model.bind_shapes(&shapes)
    };
    assert_eq!(bind(&[("a", &[2, 3])]), Ok(bindings(&[("batch", 2), ("left", 3)])));
    assert!(matches!(bind(&[("c", &[2, 3])]), Err(BindError::UnknownInput { .. })));
    assert!(matches!(bind(&[("a", &[2])]), Err(BindError::WrongRank { expected: 2, found: 1, .. })));
    assert!(matches!(
        bind(&[("a", &[2, 3]), ("b", &[1, 3])]),
        Err(BindError::Ambiguous { first: 2, second: 1, .. })
    ));
    let fixed = from_x_to_y(&[Axis::Free("n"), Axis::Fixed(4)], |w| w.node("Relu", &["x"], "y", vec![]));
    let wrong = fixed.bind_shapes(&[("x".to_owned(), vec![1, 5])]);
    assert!(matches!(wrong, Err(BindError::FixedSize { axis: 1, fixed: 4, given: 5, .. })));
}

#[track_caller]
fn check_defaults(inputs: &[(&str, &[Axis])], expected: &[(&str, u64)]) {
    let model = model(|w| {
        for (name, shape) in inputs {
            w.input(name, DataType::FLOAT, shape);
        }
        w.node("Relu", &[inputs[0].0], "y", vec![]);
        w.output("y", DataType::FLOAT, &[]);
    });
    assert_eq!(model.default_bindings(8, &Bindings::default()), bindings(expected));
}

#[test]
fn defaults_follow_names_and_places() {
    use Axis::{Fixed, Free};
    check_defaults(
        &[("x", &[Free("unk"), Free("c"), Free("h"), Free("w")])],
        &[("unk", 8), ("c", 3), ("h", 224), ("w", 224)],
    );
    check_defaults(
        &[("x", &[Fixed(0), Fixed(0), Fixed(0), Fixed(3)])],
        &[("x.0", 8), ("x.1", 224), ("x.2", 224)],
    );
    check_defaults(
        &[("ids", &[Free("batch_size"), Free("sequence")])],
        &[("batch_size", 8), ("sequence", 128)],
    );
    check_defaults(&[("x", &[Free("sequence_length"), Fixed(4)])], &[("sequence_length", 128)]);
    check_defaults(
        &[
            ("ids", &[Free("batch"), Free("seq")]),
            ("mask", &[Free("batch"), Free("past + seq")]),
            ("cache", &[Free("batch"), Fixed(2), Free("past"), Fixed(4)]),
        ],
        &[("batch", 8), ("past", 0), ("past + seq", 128), ("seq", 128)],
    );
    check_defaults(
        &[("x", &[Free("n"), Fixed(4)]), ("state", &[Fixed(2), Fixed(0), Fixed(128)])],
        &[("n", 8), ("state.1", 8)],
    );
}

#[test]
fn hints_win_over_defaults() {
    let given = pair().default_bindings(4, &bindings(&[("left", 7), ("right", 7), ("stray", 1)]));
    assert_eq!(given, bindings(&[("batch", 4), ("left", 7), ("right", 7)]));
}

#[test]
fn default_sides_that_do_not_fit_give_way_to_others() {
    let model =
        from_x_to_y(&[Axis::Free("batch"), Axis::Fixed(1), Axis::Free("height"), Axis::Fixed(9)], |w| {
            w.integers("shape", &[4], &[0, 1, 48, 9]);
            w.node("Reshape", &["x", "shape"], "y", vec![]);
        });
    assert_eq!(model.default_bindings(1, &Bindings::default()).get("height"), Some(48));
}
