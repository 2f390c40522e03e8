//! What is written is read back, for every element type and format.

use half::{bf16, f16};
use npyz::WriterBuilder as _;

use super::*;

/// One output of every element type, with the values at the edges of its range.
pub(super) fn every_type() -> Vec<NamedTensor> {
    let halves = [0.0, -0.0, 1.5, 65504.0, 6e-8, f32::INFINITY].map(|value| f16::from_f32(value).to_bits());
    let brains =
        [0.0, -0.0, 1.5, 3e38, 1e-40, f32::NEG_INFINITY].map(|value| bf16::from_f32(value).to_bits());
    vec![
        tensor(
            "float32",
            &[2, 3],
            TensorData::Float32(vec![0.1, -0.0, f32::MAX, f32::MIN_POSITIVE / 8.0, f32::INFINITY, 1.0 / 3.0]),
        ),
        tensor(
            "float64",
            &[6],
            TensorData::Float64(vec![0.1, -0.0, f64::MAX, 5e-324, f64::NEG_INFINITY, 1.0 / 3.0]),
        ),
        tensor("float16", &[6, 1], TensorData::Float16(halves.to_vec())),
        tensor("bfloat16", &[1, 6], TensorData::Bfloat16(brains.to_vec())),
        tensor("int8", &[2], TensorData::Int8(vec![i8::MIN, i8::MAX])),
        tensor("int16", &[2], TensorData::Int16(vec![i16::MIN, i16::MAX])),
        tensor("int32", &[2], TensorData::Int32(vec![i32::MIN, i32::MAX])),
        tensor("int64", &[2], TensorData::Int64(vec![i64::MIN, i64::MAX])),
        tensor("uint8", &[2], TensorData::Uint8(vec![0, u8::MAX])),
        tensor("uint16", &[2], TensorData::Uint16(vec![0, u16::MAX])),
        tensor("uint32", &[2], TensorData::Uint32(vec![0, u32::MAX])),
        tensor("uint64", &[2], TensorData::Uint64(vec![0, u64::MAX])),
        tensor("bool", &[1, 2], TensorData::Bool(vec![true, false])),
        tensor(
            "string",
            &[2, 2],
            TensorData::String(["", "a b", "größer \u{1f600}", "\"\\\n"].map(str::to_owned).to_vec()),
        ),
        tensor("/scalar/out:0", &[], TensorData::Float32(vec![-2.5])),
        tensor("empty", &[0, 3], TensorData::Int64(vec![])),
        tensor("no texts", &[0], TensorData::String(vec![])),
    ]
}

/// What a model would say about `tensors`.
pub(super) fn specs_of(tensors: &[NamedTensor]) -> Vec<TensorSpec> {
    let spec_of = |named: &NamedTensor| {
        let shape: Vec<Dimension> = named.tensor.shape().iter().map(|&size| fixed(size as u64)).collect();
        spec(&named.name, named.tensor.element(), &shape)
    };
    tensors.iter().map(spec_of).collect()
}

#[test]
fn archives_hold_every_type() {
    let path = Folder::new();
    let outputs = every_type();
    let written = write_outputs(&path.file("x.npz"), &outputs).unwrap();
    assert_eq!(written.widened, ["bfloat16"]);
    assert_eq!(read_inputs(&path.file("x.npz"), &specs_of(&outputs)).unwrap(), outputs);
}

#[test]
fn single_arrays_hold_every_type() {
    let folder = Folder::new();
    for output in every_type() {
        let path = folder.file("x.NPY");
        let outputs = [output];
        write_outputs(&path, &outputs).unwrap();
        assert_eq!(read_inputs(&path, &specs_of(&outputs)).unwrap(), outputs);
    }
}

#[test]
fn json_holds_every_type() {
    let path = Folder::new();
    let outputs = every_type();
    assert_eq!(write_outputs(&path.file("x.json"), &outputs).unwrap(), Written::default());
    assert_eq!(read_inputs(&path.file("x.json"), &specs_of(&outputs)).unwrap(), outputs);
}

#[test]
fn nan_stays_nan() {
    let folder = Folder::new();
    let outputs = [
        tensor("a", &[1], TensorData::Float32(vec![f32::NAN])),
        tensor("b", &[1], TensorData::Bfloat16(vec![0x7fc0])),
    ];
    for name in ["x.npz", "x.json"] {
        write_outputs(&folder.file(name), &outputs).unwrap();
        let read = read_inputs(&folder.file(name), &specs_of(&outputs)).unwrap();
        assert!(read.iter().all(|named| named.tensor.data().to_f64().unwrap()[0].is_nan()), "{name}");
    }
}

#[test]
fn floats_survive_json_bit_by_bit() {
    let folder = Folder::new();
    let path = folder.file("x.json");
    // Every 65,521st bit pattern, a prime stride.
    let bits = (0..=u32::MAX).step_by(65_521).filter(|&bits| f32::from_bits(bits).is_finite());
    let singles: Vec<f32> = bits.map(f32::from_bits).collect();
    let halves: Vec<u16> = (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()).collect();
    let brains: Vec<u16> = (0..=u16::MAX).filter(|&bits| bf16::from_bits(bits).is_finite()).collect();
    let outputs = [
        tensor("f", &[singles.len()], TensorData::Float32(singles)),
        tensor("h", &[halves.len()], TensorData::Float16(halves)),
        tensor("b", &[brains.len()], TensorData::Bfloat16(brains)),
    ];
    write_outputs(&path, &outputs).unwrap();
    let read = read_inputs(&path, &specs_of(&outputs)).unwrap();
    assert_eq!(read[1..], outputs[1..]);
    let (TensorData::Float32(read), TensorData::Float32(written)) =
        (read[0].tensor.data(), outputs[0].tensor.data())
    else {
        panic!("wrong type")
    };
    assert!(read.iter().zip(written).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn another_reader_understands_what_is_written() {
    let folder = Folder::new();
    let path = folder.file("x.npy");
    let values: Vec<f32> = vec![1.0, -2.5, 3.0, 4.0, 5.0, 6.0];
    write_outputs(&path, &[tensor("x", &[2, 3], TensorData::Float32(values.clone()))]).unwrap();
    let npy = npyz::NpyFile::new(File::open(&path).unwrap()).unwrap();
    assert_eq!((npy.shape(), npy.order()), ([2, 3].as_slice(), npyz::Order::C));
    assert_eq!(npy.into_vec::<f32>().unwrap(), values);
}

#[test]
fn what_another_writer_writes_is_understood() {
    let folder = Folder::new();
    for (order, expected) in
        [(npyz::Order::C, [1, 2, 3, 4, 5, 6]), (npyz::Order::Fortran, [1, 3, 5, 2, 4, 6])]
    {
        let mut bytes = Vec::new();
        let builder = npyz::WriteOptions::new().default_dtype().shape(&[2, 3]).order(order);
        let mut writer = builder.writer(&mut bytes).begin_nd().unwrap();
        writer.extend([1_i64, 2, 3, 4, 5, 6]).unwrap();
        writer.finish().unwrap();
        let read = read_inputs(
            &folder.with("x.npy", bytes),
            &[spec("x", ElementType::Int64, &[fixed(2), fixed(3)])],
        );
        assert_eq!(read.unwrap(), [tensor("x", &[2, 3], TensorData::Int64(expected.to_vec()))]);
    }
}
