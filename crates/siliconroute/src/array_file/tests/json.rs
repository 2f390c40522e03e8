//! JSON: forms, lossless numbers, raggedness and damage.

use super::*;

#[track_caller]
fn check(text: &str, spec: &TensorSpec, shape: &[usize], data: TensorData) {
    let folder = Folder::new();
    let read = read_inputs(&folder.with("x.json", text), std::slice::from_ref(spec));
    let read = read.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(read, [tensor("x", shape, data)]);
}

#[track_caller]
fn check_refused(text: &str, spec: &TensorSpec, expected: &str) {
    let folder = Folder::new();
    refused(&folder.with("x.json", text), std::slice::from_ref(spec), expected);
}

#[test]
fn reads_every_form() {
    let matrix = spec("x", ElementType::Int32, &[free("N"), fixed(2)]);
    let data = || TensorData::Int32(vec![1, 2, 3, 4]);
    check(r#"{"x": [[1, 2], [3, 4]]}"#, &matrix, &[2, 2], data());
    check(r#"{"x": [1, 2, 3, 4]}"#, &matrix, &[2, 2], data());
    check(r#"{"x": {"shape": [2, 2], "data": [1, 2, 3, 4]}}"#, &matrix, &[2, 2], data());
    check(r#"{"x": {"data": [[1, 2], [3, 4]], "shape": [2, 2]}}"#, &matrix, &[2, 2], data());
    check(r#"{"x": {"element": "int32", "data": [1, 2, 3, 4], "shape": [2, 2]}}"#, &matrix, &[2, 2], data());
    check(r#"{"x": []}"#, &matrix, &[0, 2], TensorData::Int32(vec![]));
    let vector = spec("x", ElementType::Int32, &[free("N")]);
    check(r#"{"x": []}"#, &vector, &[0], TensorData::Int32(vec![]));
    check(r#"{"x": [1, 2, 3, 4]}"#, &vector, &[4], data());
    let scalar = spec("x", ElementType::Int64, &[]);
    for text in [r#"{"x": 16000}"#, r#"{"x": [16000]}"#, r#"{"x": {"shape": [], "data": 16000}}"#] {
        check(text, &scalar, &[], TensorData::Int64(vec![16000]));
    }
    let cube = spec("x", ElementType::Bool, &[fixed(1), fixed(2), fixed(1)]);
    check(r#"{"x": [[[true], [false]]]}"#, &cube, &[1, 2, 1], TensorData::Bool(vec![true, false]));
}

#[test]
fn numbers_are_taken_exactly() {
    let x = |element| spec("x", element, &[fixed(2)]);
    check(r#"{"x": [1.0, -2e2]}"#, &x(ElementType::Int16), &[2], TensorData::Int16(vec![1, -200]));
    check(r#"{"x": [1, 0.1]}"#, &x(ElementType::Float32), &[2], TensorData::Float32(vec![1.0, 0.1]));
    check(
        r#"{"x": [18446744073709551615, 0]}"#,
        &x(ElementType::Uint64),
        &[2],
        TensorData::Uint64(vec![u64::MAX, 0]),
    );
    check(
        r#"{"x": ["Infinity", "-Infinity"]}"#,
        &x(ElementType::Float16),
        &[2],
        TensorData::Float16(vec![0x7c00, 0xfc00]),
    );
    check_refused(
        r#"{"x": [1, 128]}"#,
        &x(ElementType::Int8),
        "input `x`: element 1 is 128, outside the range of int8",
    );
    check_refused(r#"{"x": [-1, 0]}"#, &x(ElementType::Uint8), "is -1, outside the range of uint8");
    check_refused(
        r#"{"x": [0.5, 0]}"#,
        &x(ElementType::Int64),
        "is 0.5, and the model wants int64, which has no",
    );
    check_refused(
        r#"{"x": [18446744073709551616, 0]}"#,
        &x(ElementType::Uint64),
        "outside the range of uint64",
    );
    check_refused(r#"{"x": [1e39, 0]}"#, &x(ElementType::Float32), "outside the range of float32");
    check_refused(r#"{"x": [70000, 0]}"#, &x(ElementType::Float16), "outside the range of float16");
    check_refused(r#"{"x": [true, 0]}"#, &x(ElementType::Float32), "is true, and the model wants float32");
    check_refused(r#"{"x": [true, 0]}"#, &x(ElementType::Bool), "is 0, and the model wants true or false");
    check_refused(r#"{"x": ["NaN", 0]}"#, &x(ElementType::Int8), "is a text, and the model wants int8");
    check_refused(r#"{"x": [1, 0]}"#, &x(ElementType::String), "is 1, and the model wants a text");
    check_refused(r#"{"x": [null, 0]}"#, &x(ElementType::Float32), "null");
}

#[test]
fn refuses_ragged_lists() {
    let x = spec("x", ElementType::Int8, &[free("A"), free("B"), free("C")]);
    for text in [
        "[[1,2],[3]]",
        "[[1],2]",
        "[1,[2]]",
        "[1,[]]",
        "[[],1]",
        "[[1],[]]",
        "[[],[1]]",
        "[[],[[]]]",
        "[[[]],[]]",
        "[[[1],[2]],[[3]]]",
        "[[[1]],[[2],3]]",
    ] {
        check_refused(&format!("{{\"x\": {text}}}"), &x, "input `x` is ragged");
    }
}

#[test]
fn refuses_shapes_that_do_not_fit() {
    let x = spec("x", ElementType::Int8, &[free("N"), fixed(2)]);
    check_refused(r#"{"x": [[1, 2, 3]]}"#, &x, "its shape is [1, 3], and the model wants x: int8[N,2]");
    check_refused(r#"{"x": [1, 2, 3]}"#, &x, "its shape is [3], and the model wants x: int8[N,2]; nest");
    check_refused(r#"{"x": 1}"#, &x, "its shape is []");
    check_refused(r#"{"x": [[[1, 2]]]}"#, &x, "its shape is [1, 1, 2]");
    check_refused(r#"{"x": {"shape": [2, 2], "data": [1, 2]}}"#, &x, "needs 4 elements, the data has 2");
    check_refused(
        r#"{"x": {"shape": [1, 2], "data": [[1], [2]]}}"#,
        &x,
        "its shape is [2, 1], and the model wants the stated [1, 2]",
    );
    check_refused(r#"{"x": {"shape": [18446744073709551615, 2], "data": [1]}}"#, &x, "the data has 1");
    check_refused(r#"{"x": {"shape": [-1, 2], "data": [1, 2]}}"#, &x, "integer `-1`");
    let two_free = spec("x", ElementType::Int8, &[free("A"), free("B")]);
    check_refused(r#"{"x": [1, 2, 3]}"#, &two_free, "nest the lists or write");
    let vector = spec("x", ElementType::Int8, &[fixed(2)]);
    check_refused(r#"{"x": [1, 2, 3]}"#, &vector, "its shape is [3]");
}

#[test]
fn refuses_documents_of_another_form() {
    let x = spec("x", ElementType::Int8, &[fixed(1)]);
    check_refused("", &x, "EOF");
    check_refused("[1]", &x, "an object with the model's input names");
    check_refused(r#"{"x": [1]"#, &x, "EOF");
    check_refused(r#"{"x": [1]} {}"#, &x, "trailing");
    check_refused(r#"{"x": [1], "x": [1]}"#, &x, "input `x` is there twice");
    check_refused(r#"{"x": [1], "y": {"deep": [1]}}"#, &x, "holds `y`, but the model's inputs are x");
    check_refused(r#"{"x": [{"shape": [], "data": 1}]}"#, &x, "has an object within a list");
    check_refused(
        r#"{"x": {"data": {"shape": [1], "data": [1]}, "shape": [1]}}"#,
        &x,
        "object within a list",
    );
    check_refused(r#"{"x": {"shape": [1]}}"#, &x, "needs `shape` and `data`");
    check_refused(r#"{"x": {"data": [1]}}"#, &x, "needs `shape` and `data`");
    check_refused(r#"{"x": {"shape": [1], "shape": [1], "data": [1]}}"#, &x, "`shape` is there twice");
    check_refused(r#"{"x": {"size": [1]}}"#, &x, "`size` is none of the keys");
    check_refused(
        r#"{"x": {"element": "int16", "shape": [1], "data": [1]}}"#,
        &x,
        "it is int16, and the model wants int8",
    );
    check_refused(r#"{"x": [[[1]"#, &x, "line 1 column");
    check_refused(&format!("{{\"x\": {}", "[".repeat(100_000)), &x, "recursion limit");
    check_refused("{\"x\": \"\u{fffd}\"}", &x, "is a text");
}

#[test]
fn refuses_more_than_the_limit() {
    let folder = Folder::new();
    let x = [spec("x", ElementType::Float64, &[free("N")])];
    let path = folder.with("x.json", r#"{"x":[1,2,3,4]}"#);
    assert!(read_inputs_within(&path, &x, 32).is_ok());
    let over = chain(&read_inputs_within(&path, &x, 31).unwrap_err());
    assert!(over.contains("input `x` is over the limit"), "{over}");
    let over = chain(&read_inputs_within(&path, &x, 14).unwrap_err());
    assert!(over.contains("has 15 bytes, more than the limit of 14"), "{over}");
}
