//! Sorts of the nodes of small models, as `data/count_board_models.py` sorts the same layers.

use siliconroute_core::Bindings;
use siliconroute_core::transfer::Pack;

use super::*;
use crate::testing::from_x_to_y;
use crate::writer::{Axis, GraphWriter, int_attribute, ints_attribute};

type Found = (OperatorClass, u8, Option<Pack>, u8, u8, f64, f64);

#[track_caller]
fn check(shape: &[u64], build: impl FnOnce(&mut GraphWriter), expected: &[Found]) {
    let axes: Vec<Axis> = shape.iter().map(|&size| Axis::Fixed(size)).collect();
    let model = from_x_to_y(&axes, build);
    let found = model.work_by_sort(&Bindings::default()).unwrap();
    let of = |it: &SortOfWork| (it.class, it.window, it.pack, it.length, it.size, it.multiply_adds, it.bytes);
    assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
}

fn weights(writer: &mut GraphWriter, shape: &[u64]) {
    let count = shape.iter().product::<u64>() as usize;
    writer.floats("w", shape, &vec![0.5; count]);
}

fn convolution(shape: &[u64], groups: i64, writer: &mut GraphWriter) {
    weights(writer, shape);
    let attributes = vec![int_attribute("group", groups), ints_attribute("pads", &[1, 1, 1, 1])];
    writer.node("Conv", &["x", "w"], "y", attributes);
}

#[test]
fn convolutions_are_sorted_by_window_pack_length_and_size() {
    use OperatorClass::{Conv, DepthwiseConv};
    // From 3 channels to 16: 16·8·8 values of 27 multiply-adds each.
    let bytes = 4.0 * f64::from(3 * 64 + 16 * 27 + 16 * 64);
    let found = (Conv, 3, Some(Pack::Open), 4, 10, 27.0 * 1024.0, bytes);
    check(&[1, 3, 8, 8], |w| convolution(&[16, 3, 3, 3], 1, w), &[found]);
    let bytes = 4.0 * f64::from(16 * 64 + 16 * 16 * 9 + 16 * 64);
    let found = (Conv, 3, Some(Pack::Full), 7, 10, 144.0 * 1024.0, bytes);
    check(&[1, 16, 8, 8], |w| convolution(&[16, 16, 3, 3], 1, w), &[found]);
    // Groups of 4 channels fill no pack, single channels beside one another do.
    let bytes = 4.0 * f64::from(16 * 64 + 16 * 4 * 9 + 16 * 64);
    let found = (Conv, 3, Some(Pack::Open), 5, 10, 36.0 * 1024.0, bytes);
    check(&[1, 16, 8, 8], |w| convolution(&[16, 4, 3, 3], 4, w), &[found]);
    let bytes = 4.0 * f64::from(16 * 64 + 16 * 9 + 16 * 64);
    let found = (DepthwiseConv, 3, Some(Pack::Full), 3, 10, 9.0 * 1024.0, bytes);
    check(&[1, 16, 8, 8], |w| convolution(&[16, 1, 3, 3], 16, w), &[found]);
}

#[test]
fn nodes_of_one_sort_are_added_up() {
    use OperatorClass::{ElementWise, MatMul};
    let build = |w: &mut GraphWriter| {
        weights(w, &[24, 24]);
        w.node("MatMul", &["x", "w"], "a", vec![]);
        w.node("Relu", &["a"], "b", vec![]);
        w.node("MatMul", &["b", "w"], "c", vec![]);
        w.node("Relu", &["c"], "y", vec![]);
    };
    let product = 4.0 * f64::from(2 * 24 + 24 * 24 + 2 * 24);
    let expected = [
        (MatMul, 1, Some(Pack::Full), 4, 5, 2.0 * 24.0 * 48.0, 2.0 * product),
        (ElementWise, 1, Some(Pack::Full), 0, 5, 0.0, 2.0 * 4.0 * 96.0),
    ];
    check(&[2, 24], build, &expected);
}

#[test]
fn what_is_written_in_sizes_that_data_decide_has_no_sort() {
    check(&[4], |w| w.node("NonZero", &["x"], "y", vec![]), &[]);
}
