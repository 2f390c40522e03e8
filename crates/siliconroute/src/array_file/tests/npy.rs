//! Single arrays: headers, byte orders, index orders and damage.

use super::*;

/// A version 1 file with this header text and these elements.
fn file_with(header: &str, elements: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(elements);
    bytes
}

fn header(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

#[track_caller]
fn check(bytes: &[u8], spec: &TensorSpec, expected: &TensorData) {
    let folder = Folder::new();
    let read = read_inputs(&folder.with("x.npy", bytes), std::slice::from_ref(spec));
    let read = read.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(read[0].tensor.data(), expected);
}

#[track_caller]
fn check_refused(bytes: &[u8], spec: &TensorSpec, expected: &str) {
    let folder = Folder::new();
    refused(&folder.with("x.npy", bytes), std::slice::from_ref(spec), expected);
}

#[test]
fn understands_the_ways_a_header_is_written() {
    let x = spec("x", ElementType::Int16, &[free("N")]);
    let data = || TensorData::Int16(vec![1, 2]);
    let elements = [1, 0, 2, 0];
    check(&file_with(&header("<i2", "False", "(2,)"), &elements), &x, &data());
    check(&file_with("{'shape':(2),\"descr\":\"<i2\",'fortran_order':True}", &elements), &x, &data());
    check(
        &file_with("  { 'descr' : '<i2' , 'fortran_order' : False , 'shape' : ( 2L , ) }  \n", &elements),
        &x,
        &data(),
    );
    check(&file_with(&header(">i2", "False", "(2,)"), &[0, 1, 0, 2]), &x, &data());
    for version in [2, 3] {
        let text = header("<i2", "False", "(2,)");
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.bytes());
        bytes.extend(elements);
        check(&bytes, &x, &data());
    }
}

#[test]
fn understands_both_byte_orders_of_every_width() {
    let x = |element| spec("x", element, &[fixed(1)]);
    let big = |descr: &str, elements: &[u8]| file_with(&header(descr, "False", "(1,)"), elements);
    check(&big(">f4", &1.5_f32.to_be_bytes()), &x(ElementType::Float32), &TensorData::Float32(vec![1.5]));
    check(&big(">f8", &1.5_f64.to_be_bytes()), &x(ElementType::Float64), &TensorData::Float64(vec![1.5]));
    check(&big(">f2", &[0x3e, 0]), &x(ElementType::Float16), &TensorData::Float16(vec![0x3e00]));
    check(&big(">u8", &7_u64.to_be_bytes()), &x(ElementType::Uint64), &TensorData::Uint64(vec![7]));
    check(&big("|b1", &[1]), &x(ElementType::Bool), &TensorData::Bool(vec![true]));
    check(&big("|V2", &[0xc0, 0x3f]), &x(ElementType::Bfloat16), &TensorData::Bfloat16(vec![0x3fc0]));
    check(
        &big(">f4", &1.5_f32.to_be_bytes()),
        &x(ElementType::Bfloat16),
        &TensorData::Bfloat16(vec![0x3fc0]),
    );
    let text = |texts: &[&str]| TensorData::String(texts.iter().map(|&text| text.to_owned()).collect());
    check(&big("|S3", b"ab\0"), &x(ElementType::String), &text(&["ab"]));
    check(&big(">U2", &[0, 0, 0, 0x61, 0, 0, 0, 0]), &x(ElementType::String), &text(&["a"]));
    let three = spec("x", ElementType::String, &[fixed(3)]);
    check(&file_with(&header("<U0", "False", "(3,)"), &[]), &three, &text(&["", "", ""]));
}

#[test]
fn turns_column_order_into_row_order() {
    let x = spec("x", ElementType::Uint8, &[fixed(2), fixed(3), fixed(2)]);
    let column_order: Vec<u8> = (0..12).collect();
    // Element (i, j, k) lies at i + 2·j + 6·k.
    let expected: Vec<u8> =
        (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..2).map(move |k| i + 2 * j + 6 * k))).collect();
    check(&file_with(&header("|u1", "True", "(2, 3, 2)"), &column_order), &x, &TensorData::Uint8(expected));
    let wide = spec("x", ElementType::Int16, &[fixed(2), fixed(2)]);
    let elements = [1, 0, 2, 0, 3, 0, 4, 0];
    check(
        &file_with(&header("<i2", "True", "(2, 2)"), &elements),
        &wide,
        &TensorData::Int16(vec![1, 3, 2, 4]),
    );
    let empty = spec("x", ElementType::Uint8, &[free("A"), free("B")]);
    check(
        &file_with(&header("|u1", "True", "(9223372036854775807, 0)"), &[]),
        &empty,
        &TensorData::Uint8(vec![]),
    );
}

#[test]
fn refuses_what_is_no_array_file() {
    let x = spec("x", ElementType::Int8, &[fixed(1)]);
    check_refused(b"", &x, "ends within its header");
    check_refused(b"\x93NUMPY\x01\x00\xff", &x, "ends within its header");
    check_refused(b"\x93NUMPY\x01\x00\xff\x00{", &x, "ends within its header");
    check_refused(b"not an array", &x, "does not start with NumPy's mark");
    check_refused(b"PK\x03\x04 and more", &x, "zip archive");
    check_refused(b"\x93NUMPY\x09\x00\x00\x00", &x, "version [9, 0] is unknown");
    check_refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", &x, "claims 4294967295 bytes");
    let text = |text: &str| file_with(text, &[1]);
    check_refused(&text("\u{0}"), &x, "where `{` is expected");
    check_refused(&file_with("", &[1]), &x, "where `{` is expected");
    check_refused(&text("{}"), &x, "lacks `descr`");
    check_refused(&text("{'descr': '|i1'}"), &x, "lacks `descr`");
    check_refused(&text("{'descr': '|i1', 'descr': '|i1'}"), &x, "key `descr`");
    check_refused(&text("{'other': 1}"), &x, "key `other`");
    check_refused(&text(&header("|i1", "Maybe", "(1,)")), &x, "True or False");
    check_refused(&text(&header("|i1", "False", "(-1,)")), &x, "a size");
    check_refused(&text(&header("|i1", "False", "(1.5,)")), &x, "`)` is expected");
    check_refused(&text(&header("|i1", "False", "(99999999999999999999,)")), &x, "a size");
    check_refused(&text(&header("|i1", "False", "1")), &x, "`(` is expected");
    check_refused(&text("{'descr': '|i1', 'fortran_order': False, 'shape': (1,)} x"), &x, "goes on");
    check_refused(&text(&"(".repeat(60_000)), &x, "where `{` is expected");
    check_refused(&text("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}"), &x, "records");
    let mut bytes = text(&header("|i1", "False", "(1,)"));
    bytes[20] = 0xff;
    check_refused(&bytes, &x, "is no text");
}

#[test]
fn refuses_another_element_type_and_says_which_is_wanted() {
    let x = |element| spec("x", element, &[fixed(1)]);
    let one = |descr: &str| file_with(&header(descr, "False", "(1,)"), &[0; 8]);
    check_refused(&one("<f8"), &x(ElementType::Float32), "it is float64, and the model wants float32");
    check_refused(&one("<i4"), &x(ElementType::Int64), "it is int32, and the model wants int64");
    check_refused(&one("<f4"), &x(ElementType::Float16), "it is float32, and the model wants float16");
    check_refused(&one("|O"), &x(ElementType::String), "Python objects");
    check_refused(&one("<c8"), &x(ElementType::Float32), "`<c8` is none that a model takes");
    check_refused(&one("<M8[ns]"), &x(ElementType::Int64), "`<M8[ns]` is none");
    check_refused(&one("<f99999999999999999999"), &x(ElementType::Int64), "is none");
    check_refused(&one("f"), &x(ElementType::Int64), "is none");
    check_refused(&one(""), &x(ElementType::Int64), "is none");
    check_refused(&one("<U9999999999999999999"), &x(ElementType::String), "is none");
    let bytes = file_with(&header("<f4", "False", "(1,)"), &0.1_f32.to_le_bytes());
    check_refused(&bytes, &x(ElementType::Bfloat16), "element 0 (0.1) is no bfloat16 value");
}

#[test]
fn refuses_another_shape_or_bad_elements() {
    let x = spec("x", ElementType::Bool, &[free("N"), fixed(3)]);
    let of_shape = |shape: &str| file_with(&header("|b1", "False", shape), &[1; 6]);
    check(&of_shape("(2, 3)"), &x, &TensorData::Bool(vec![true; 6]));
    check_refused(&of_shape("(3, 2)"), &x, "its shape is [3, 2], and the model wants x: bool[N,3]");
    check_refused(&of_shape("(6,)"), &x, "its shape is [6]");
    check_refused(&of_shape("()"), &x, "its shape is []");
    check_refused(&file_with(&header("|b1", "False", "(1, 3)"), &[0, 1, 2]), &x, "element 2 is the byte 2");
    let text = spec("x", ElementType::String, &[fixed(2)]);
    check_refused(
        &file_with(&header("|S1", "False", "(2,)"), &[b'a', 0xff]),
        &text,
        "element 1 is no valid Unicode",
    );
    let surrogate = [0x61, 0, 0, 0, 0, 0xd8, 0, 0];
    check_refused(
        &file_with(&header("<U1", "False", "(2,)"), &surrogate),
        &text,
        "element 1 is no valid Unicode",
    );
}

#[test]
fn refuses_a_wrong_number_of_bytes_before_allocating() {
    let x = spec("x", ElementType::Int32, &[free("N")]);
    let of = |shape: &str| file_with(&header("<i4", "False", shape), &[0; 8]);
    check_refused(&of("(3,)"), &x, "12 bytes of elements are announced, 8 are there");
    check_refused(&of("(1,)"), &x, "4 bytes of elements are announced, but 8 are there");
    check_refused(&of("(1000000000,)"), &x, "4000000000 bytes of elements are announced, 8 are there");
    check_refused(&of("(2000000000,)"), &x, "over what is left of the limit");
    check_refused(&of("(18446744073709551615,)"), &x, "over what is left of the limit");
    let many = spec("x", ElementType::Int32, &[free("A"), free("B")]);
    check_refused(&of("(18446744073709551615, 4)"), &many, "over what is left of the limit");
    // Empty texts take no bytes in the file, but room in memory.
    let texts = spec("x", ElementType::String, &[free("N")]);
    let empty = |shape: &str| file_with(&header("<U0", "False", shape), &[]);
    check_refused(&empty("(18446744073709551615,)"), &texts, "over what is left of the limit");
    check_refused(&empty("(400000000,)"), &texts, "over what is left of the limit");
}

#[test]
fn a_single_array_needs_a_model_with_one_input() {
    let folder = Folder::new();
    let path = folder.with("x.npy", file_with(&header("|i1", "False", "(1,)"), &[1]));
    let x = spec("x", ElementType::Int8, &[fixed(1)]);
    refused(&path, &[x.clone(), x], "exactly one array, and there are 2");
    refused(&path, &[], "exactly one array, and there are 0");
}

#[test]
fn no_damage_makes_it_panic() {
    let folder = Folder::new();
    let x = [spec("x", ElementType::Int16, &[free("N")])];
    let sound = file_with(&header("<i2", "False", "(2,)"), &[1, 0, 2, 0]);
    for position in 0..sound.len() {
        for byte in [0, b'9', b'(', b'\'', b'}', 0xff] {
            let mut bytes = sound.clone();
            bytes[position] = byte;
            drop(read_inputs(&folder.with("x.npy", &bytes), &x));
        }
        refused(&folder.with("x.npy", &sound[..position]), &x, "cannot be used");
    }
}
