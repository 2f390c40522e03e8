//! What all formats share; each has a file of its own below.

mod json;
mod npy;
mod npz;
#[cfg(feature = "python-tests")]
mod python;
mod round_trip;

use std::error::Error as _;
use std::fs;
use std::path::PathBuf;

use siliconroute_core::tensor::{ElementType, TensorData};

use super::*;

/// A folder for the files of one test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn fixed(size: u64) -> Dimension {
    Dimension::Fixed(size)
}

fn free(name: &str) -> Dimension {
    Dimension::Free(name.to_owned())
}

fn spec(name: &str, element: ElementType, shape: &[Dimension]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), element, shape: shape.to_vec() }
}

fn tensor(name: &str, shape: &[usize], data: TensorData) -> NamedTensor {
    NamedTensor { name: name.to_owned(), tensor: Tensor::new(shape.to_vec(), data).unwrap() }
}

/// The message of an error with all its causes.
fn chain(error: &ArrayFileError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[track_caller]
fn refused(path: &Path, specs: &[TensorSpec], expected: &str) {
    let text = chain(&read_inputs(path, specs).unwrap_err());
    assert!(text.contains(expected), "{text}");
}

#[test]
fn refuses_a_file_that_cannot_be_read() {
    let folder = Folder::new();
    let x = [spec("x", ElementType::Int8, &[fixed(1)])];
    refused(&folder.file("missing.npy"), &x, "cannot read");
    refused(&folder.file("x.txt"), &x, "must end in .npz, .npy or .json");
    refused(&folder.file("x"), &x, "must end in");
    fs::create_dir(folder.file("folder.npz")).unwrap();
    refused(&folder.file("folder.npz"), &x, "cannot read");
}

#[test]
fn refuses_two_sizes_of_one_dimension() {
    let folder = Folder::new();
    let specs = [
        spec("a", ElementType::Int8, &[free("batch"), fixed(1)]),
        spec("b", ElementType::Int8, &[free("batch")]),
        spec("c", ElementType::Int8, &[free("c.0")]),
    ];
    let path = folder.with("x.json", r#"{"a":[[1],[2]],"b":[1,2],"c":[5]}"#);
    assert_eq!(read_inputs(&path, &specs).unwrap().len(), 3);
    let path = folder.with("x.json", r#"{"a":[[1],[2]],"b":[1,2,3],"c":[5]}"#);
    refused(&path, &specs, "gives the dimension `batch` two sizes: 2 in `a` and 3 in `b`");
}

#[test]
fn inputs_come_in_the_order_of_the_model() {
    let folder = Folder::new();
    let specs = [spec("b", ElementType::Int8, &[fixed(1)]), spec("a", ElementType::Bool, &[fixed(1)])];
    let path = folder.with("x.json", r#"{"a":[true],"b":[7]}"#);
    let names: Vec<String> =
        read_inputs(&path, &specs).unwrap().into_iter().map(|input| input.name).collect();
    assert_eq!(names, ["b", "a"]);
    refused(&folder.with("x.json", r#"{"a":[true]}"#), &specs, "lacks the inputs b");
    refused(&folder.with("x.json", "{}"), &specs, "lacks the inputs b, a");
}

#[test]
fn writing_replaces_the_file_whole_and_leaves_nothing_else() {
    let folder = Folder::new();
    let path = folder.with("out.npy", "old");
    let outputs = [tensor("y", &[2], TensorData::Int8(vec![1, 2]))];
    write_outputs(&path, &outputs).unwrap();
    assert_eq!(read_inputs(&path, &[spec("y", ElementType::Int8, &[fixed(2)])]).unwrap(), outputs);
    // A failure keeps the old file.
    let bad = [tensor("y", &[1], TensorData::String(vec!["a\0".to_owned()]))];
    assert!(chain(&write_outputs(&path, &bad).unwrap_err()).contains("ends in a NUL"));
    assert!(read_inputs(&path, &[spec("y", ElementType::Int8, &[fixed(2)])]).is_ok());
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
    assert!(
        chain(&write_outputs(&folder.file("none/out.npy"), &outputs).unwrap_err()).contains("cannot write")
    );
}

#[cfg(unix)]
#[test]
fn a_written_file_has_the_mode_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let plain = folder.with("plain", "");
    let path = folder.file("out.npy");
    write_outputs(&path, &[tensor("y", &[1], TensorData::Int8(vec![1]))]).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}

#[test]
fn refuses_outputs_that_the_format_cannot_hold() {
    let folder = Folder::new();
    let y = tensor("y", &[1], TensorData::Int8(vec![1]));
    let refused = |name: &str, outputs: &[NamedTensor], expected: &str| {
        let text = chain(&write_outputs(&folder.file(name), outputs).unwrap_err());
        assert!(text.contains(expected), "{text}");
    };
    refused("x.npy", &[], "exactly one array, and there are 0");
    refused("x.npy", &[y.clone(), tensor("z", &[], TensorData::Int8(vec![1]))], "and there are 2");
    refused("x.npz", &[y.clone(), y.clone()], "two arrays named `y`");
    refused("x.json", &[y.clone(), y.clone()], "two arrays named `y`");
    refused("x.csv", std::slice::from_ref(&y), "must end in");
    // All texts are stored at the width of the longest, which here comes to 8 GB.
    let mut texts = vec![String::new(); 20_000];
    texts[0] = "a".repeat(100_000);
    refused("x.npz", &[tensor("t", &[20_000], TensorData::String(texts))], "needs 8000000000 bytes");
}
