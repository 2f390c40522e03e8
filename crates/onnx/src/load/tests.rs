//! Every way in which a model file can be wrong, and external data.

use std::fs;
use std::path::Path;

use prost::Message;
use siliconroute_core::Bindings;

use super::{LoadError, load_model, parse_model};
use crate::data_type::DataType;
use crate::families::{SyntheticFamily, SyntheticModel};
use crate::proto::{ModelProto, StringStringEntryProto, TensorProto};
use crate::testing::model_proto;
use crate::writer::Axis;

fn small() -> Vec<u8> {
    SyntheticModel::new(SyntheticFamily::Mlp, 8, 2).to_bytes()
}

fn saved(folder: &Path, bytes: &[u8]) -> Result<super::Model, LoadError> {
    let path = folder.join("model.onnx");
    fs::write(&path, bytes).expect("the temporary folder is writable");
    load_model(&path)
}

#[test]
fn says_what_is_wrong_with_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    assert!(matches!(load_model(&at.join("none.onnx")), Err(LoadError::Missing)));
    assert!(matches!(load_model(at), Err(LoadError::Folder)));
    assert!(matches!(saved(at, b""), Err(LoadError::Empty)));
    for text in [&b"hello world, this is a text"[..], b"PK\x03\x04zip", b"{}", &[0xff; 64], &[0; 64]] {
        let result = saved(at, text);
        assert!(matches!(result, Err(LoadError::NotOnnx { .. })), "{result:?}");
    }
    #[cfg(unix)]
    {
        let endless = load_model(Path::new("/dev/zero")).expect_err("a device is no model");
        assert!(matches!(endless, LoadError::NotAFile { .. }), "{endless:?}");
    }
    let pointer =
        saved(at, b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n").expect_err("no model");
    assert!(pointer.to_string().contains("Git LFS"));
    let no_graph = ModelProto { ir_version: 8, ..ModelProto::default() }.encode_to_vec();
    assert!(matches!(saved(at, &no_graph), Err(LoadError::NotOnnx { .. })));
    let no_version = ModelProto { ir_version: 0, ..ModelProto::decode(small().as_slice()).expect("sound") };
    assert!(matches!(saved(at, &no_version.encode_to_vec()), Err(LoadError::NotOnnx { .. })));
}

#[test]
fn a_cut_file_is_told_from_another_format() {
    let bytes = small();
    let cut = parse_model(bytes[..bytes.len() - 200].to_vec()).expect_err("cut");
    assert!(matches!(cut, LoadError::Truncated { missing, .. } if missing > 0), "{cut:?}");
}

#[test]
fn refuses_tensors_that_store_less_or_more_than_they_promise() {
    for dims in [vec![9, 8], vec![8, 7], vec![-8, -8], vec![i64::MAX, i64::MAX], vec![1; 100]] {
        let mut proto = ModelProto::decode(small().as_slice()).expect("sound");
        proto.graph.as_mut().expect("a graph").initializer[0].dims = dims.clone();
        let result = parse_model(proto.encode_to_vec());
        assert!(matches!(result, Err(LoadError::InvalidTensor { .. })), "{dims:?}: {result:?}");
    }
}

#[test]
fn refuses_inputs_without_a_shape() {
    let mut proto = ModelProto::decode(small().as_slice()).expect("sound");
    proto.graph.as_mut().expect("a graph").input[0].kind = None;
    assert!(matches!(parse_model(proto.encode_to_vec()), Err(LoadError::UnsupportedInput { .. })));
}

/// A model whose weights `w` (8 × 600, beyond what is read early) and `shape` lie in other files.
fn external(location: &str, offset: Option<&str>, length: Option<&str>) -> Vec<u8> {
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &[Axis::Fixed(4), Axis::Fixed(8)]);
        w.tensor("w", DataType::FLOAT, &[8, 600], bytes::Bytes::new());
        w.tensor("shape", DataType::INT64, &[2], bytes::Bytes::new());
        w.node("MatMul", &["x", "w"], "m", vec![]);
        w.node("Reshape", &["m", "shape"], "y", vec![]);
        w.output("y", DataType::FLOAT, &[]);
    });
    let entry =
        |key: &str, value: &str| StringStringEntryProto { key: key.to_owned(), value: value.to_owned() };
    for tensor in &mut proto.graph.as_mut().expect("a graph").initializer {
        tensor.data_location = 1;
        tensor.external_data = if tensor.name == "w" {
            let mut entries = vec![entry("location", location)];
            entries.extend(offset.map(|o| entry("offset", o)));
            entries.extend(length.map(|l| entry("length", l)));
            entries
        } else {
            vec![entry("location", "shape.bin"), entry("offset", "8"), entry("length", "16")]
        };
    }
    proto.encode_to_vec()
}

#[test]
fn external_data_are_checked_hashed_and_read_where_small() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    let write = |name: &str, bytes: &[u8]| fs::write(at.join(name), bytes).expect("writable");
    write("weights.bin", &vec![1; 8 * 600 * 4 + 16]);
    let shape: Vec<u8> = [0_i64, 60, 40].iter().flat_map(|v| v.to_le_bytes()).collect();
    write("shape.bin", &shape);
    let bytes = external("weights.bin", Some("16"), None);
    let model = saved(at, &bytes).expect("complete");
    assert!(model.facts().external_data);
    assert_eq!(model.facts().file_bytes, (bytes.len() + 8 * 600 * 4 + 16 + 24) as u64);
    assert_eq!(model.facts().parameters, 4800);
    let shapes = model.output_shapes(&Bindings::default()).expect("inferable");
    assert_eq!(shapes[0].sizes, Some(vec![Some(60), Some(40)]), "the small tensor was read");
    write("weights.bin", &vec![2; 8 * 600 * 4 + 16]);
    assert_ne!(load_model(&at.join("model.onnx")).expect("complete").facts().id, model.facts().id);

    for (offset, length) in
        [(Some("17"), None), (Some("18446744073709551615"), None), (None, Some("999999999999"))]
    {
        let result = saved(at, &external("weights.bin", offset, length));
        assert!(matches!(result, Err(LoadError::ExternalRange { .. })), "{offset:?} {length:?}: {result:?}");
    }
    for (offset, length) in [(Some("-1"), None), (Some("x"), None), (None, Some("4"))] {
        let result = saved(at, &external("weights.bin", offset, length));
        assert!(
            matches!(result, Err(LoadError::ExternalInvalid { .. })),
            "{offset:?} {length:?}: {result:?}"
        );
    }
    let missing = saved(at, &external("gone.bin", None, None)).expect_err("missing");
    assert!(matches!(missing, LoadError::ExternalMissing { .. }));
    assert!(missing.to_string().contains("gone.bin"), "{missing}");
}

#[test]
fn refuses_external_data_outside_the_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for location in [
        "/etc/passwd",
        "../w.bin",
        "/",
        "\\\\host\\w.bin",
        "a/../../w.bin",
        "a\\..\\..\\w.bin",
        "C:\\w.bin",
        "C:w.bin",
        "",
        ".",
    ] {
        let result = saved(folder.path(), &external(location, None, None));
        assert!(matches!(result, Err(LoadError::ExternalEscapes { .. })), "{location}: {result:?}");
    }
    let bytes = external("weights.bin", None, None);
    assert!(matches!(parse_model(bytes), Err(LoadError::ExternalInvalid { .. })));
}

#[test]
fn refuses_an_invalid_graph() {
    let mut proto = ModelProto::decode(small().as_slice()).expect("sound");
    proto.opset_import.clear();
    let error = parse_model(proto.encode_to_vec()).expect_err("invalid");
    assert!(matches!(error, LoadError::Invalid { .. }), "{error:?}");
    assert!(error.to_string().contains("imports no operator set"), "{error}");
}

#[test]
fn what_is_odd_about_a_model_is_an_assumption_of_its_cases() {
    let mut proto = ModelProto::decode(small().as_slice()).expect("sound");
    let graph = proto.graph.as_mut().expect("a graph");
    graph.initializer.push(graph.initializer[0].clone());
    let model = parse_model(proto.encode_to_vec()).expect("all engines read it");
    let bindings = model.default_bindings(1, &Bindings::default());
    let assumptions = model.case_facts(&bindings).expect("countable").assumptions;
    assert!(assumptions[0].contains("stored more than once"), "{assumptions:?}");
}

/// A model in `folder/m`, and a file of weights at each of `files`, all beneath `folder`.
#[cfg(unix)]
fn layout(folder: &Path, location: &str, files: &[&str]) {
    let write = |file: &str, bytes: &[u8]| {
        fs::create_dir_all(folder.join(file).parent().expect("not a root")).expect("writable");
        fs::write(folder.join(file), bytes).expect("writable");
    };
    write("m/model.onnx", &external(location, None, None));
    for file in files {
        write(file, &[0; 16].repeat(1_200));
    }
    let shape: Vec<u8> = [0_i64, 60, 40].iter().flat_map(|v| v.to_le_bytes()).collect();
    write("m/shape.bin", &shape);
}

#[cfg(unix)]
#[test]
fn refuses_links_that_leave_the_folder_and_follows_those_that_do_not() {
    use std::os::unix::fs::symlink;
    /// Target, link, location, files; targets are relative to the link.
    type Row<'r> = (&'r str, &'r str, &'r str, &'r [&'r str]);
    let refused: [Row<'_>; 5] = [
        ("../out.bin", "m/w.bin", "w.bin", &["out.bin"]),
        ("../other", "m/s", "s/w.bin", &["other/w.bin"]),
        ("step.bin", "m/w.bin", "w.bin", &["out.bin"]),
        ("/dev/zero", "m/w.bin", "w.bin", &[]),
        ("../m-beside/w.bin", "m/w.bin", "w.bin", &["m-beside/w.bin"]),
    ];
    for (target, link, location, files) in refused {
        let folder = tempfile::tempdir().expect("a temporary folder");
        layout(folder.path(), location, files);
        symlink("../out.bin", folder.path().join("m/step.bin")).expect("writable");
        symlink(target, folder.path().join(link)).expect("writable");
        let result = load_model(&folder.path().join("m/model.onnx"));
        assert!(matches!(result, Err(LoadError::ExternalEscapes { .. })), "{target}: {result:?}");
    }
    let followed: [Row<'_>; 3] = [
        ("s/w.bin", "m/w.bin", "w.bin", &["m/s/w.bin"]),
        ("s", "m/t", "./t//w.bin", &["m/s/w.bin"]),
        ("../m/s/w.bin", "m/w.bin", "w.bin", &["m/s/w.bin"]),
    ];
    for (target, link, location, files) in followed {
        let folder = tempfile::tempdir().expect("a temporary folder");
        layout(folder.path(), location, files);
        symlink(target, folder.path().join(link)).expect("writable");
        load_model(&folder.path().join("m/model.onnx")).expect(target);
        symlink("m", folder.path().join("also-m")).expect("writable");
        load_model(&folder.path().join("also-m/model.onnx")).expect("a link to the folder");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    layout(folder.path(), "w.bin", &[]);
    symlink("gone.bin", folder.path().join("m/w.bin")).expect("writable");
    let result = load_model(&folder.path().join("m/model.onnx"));
    assert!(matches!(result, Err(LoadError::ExternalMissing { .. })), "{result:?}");
}

/// Caches of models keep a folder of links to files that lie together elsewhere.
#[cfg(unix)]
#[test]
fn follows_links_to_files_beside_the_file_that_the_model_links_to() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = folder.path();
    layout(at, "w.bin", &["m/w.bin"]);
    fs::create_dir(at.join("snapshot")).expect("writable");
    for file in ["model.onnx", "w.bin", "shape.bin"] {
        symlink(Path::new("../m").join(file), at.join("snapshot").join(file)).expect("writable");
    }
    load_model(&at.join("snapshot/model.onnx")).expect("as caches lay models out");
    fs::write(at.join("out.bin"), [0; 16].repeat(1_200)).expect("writable");
    fs::remove_file(at.join("snapshot/w.bin")).expect("there");
    symlink("../out.bin", at.join("snapshot/w.bin")).expect("writable");
    let result = load_model(&at.join("snapshot/model.onnx"));
    assert!(matches!(result, Err(LoadError::ExternalEscapes { .. })), "{result:?}");
}

#[cfg(unix)]
#[test]
fn says_what_is_no_file_without_reading_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe.onnx");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let socket = folder.path().join("socket.onnx");
    let _open = std::os::unix::net::UnixListener::bind(&socket).expect("writable");
    for (path, what) in [
        (Path::new("/dev/zero"), "a device"),
        (Path::new("/dev/null"), "a device"),
        (&pipe, "a pipe"),
        (&socket, "a socket"),
    ] {
        let error = load_model(path).expect_err("no file");
        assert_eq!(error.to_string(), format!("it is {what}, not a model file"));
    }
    // Nor as the external data of a model.
    fs::rename(&pipe, folder.path().join("weights.bin")).expect("writable");
    let result = saved(folder.path(), &external("weights.bin", None, None));
    assert!(matches!(result, Err(LoadError::ExternalInvalid { .. })), "{result:?}");
}

#[test]
fn the_identity_of_a_single_file_is_its_sha256() {
    use sha2::{Digest, Sha256};
    let bytes = small();
    let expected: [u8; 32] = Sha256::digest(&bytes).into();
    assert_eq!(parse_model(bytes).expect("sound").facts().id.0, expected);
}

#[test]
fn a_loaded_model_holds_no_weights_and_none_of_the_files_memory() {
    let mut proto = model_proto(|w| {
        w.input("x", DataType::FLOAT, &[Axis::Fixed(1), Axis::Fixed(80)]);
        w.tensor("weights", DataType::FLOAT, &[80, 60], vec![1; 80 * 60 * 4].into());
        w.tensor("shape", DataType::INT64, &[2], [3_i64, 20].iter().flat_map(|v| v.to_le_bytes()).collect());
        w.node("MatMul", &["x", "weights"], "product", vec![]);
        let note = crate::testing::text_attribute("note", "text");
        w.node("Reshape", &["product", "shape"], "y", vec![note]);
        w.output("y", DataType::FLOAT, &[]);
    });
    for (name, count) in [("long", 5000_u16), ("short", 50)] {
        let tensor = TensorProto {
            name: name.to_owned(),
            dims: vec![count.into()],
            data_type: 1,
            float_data: vec![1.0; count.into()],
            ..TensorProto::default()
        };
        proto.graph.as_mut().expect("written above").initializer.push(tensor);
    }
    let bytes = bytes::Bytes::from(proto.encode_to_vec());
    let model = parse_model(bytes.clone()).expect("sound");
    assert!(bytes.is_unique(), "nothing else holds the file");
    let tensors = &model.graph().expect("decoded").initializer;
    let kept: Vec<usize> = tensors.iter().map(|t| t.raw_data.len() + t.float_data.len()).collect();
    assert_eq!(kept, [0, 16, 0, 50]);
    assert_eq!(model.facts().parameters, 80 * 60);
    let shapes = model.output_shapes(&Bindings::default()).expect("inferable");
    assert_eq!(shapes[0].sizes, Some(vec![Some(3), Some(20)]));
}
