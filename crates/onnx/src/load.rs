//! Reads a model file and checks that everything it refers to is there, without running it.
//!
//! Invariant: a [`Model`] is complete and valid: its graph decodes, every name in it is defined, its inputs have
//! shapes, its stored tensors hold the data they promise and its external data lie within files of its own folder.

mod external;

#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};
use siliconroute_core::{ModelFacts, ModelId};

use crate::constant::{check_tensor, detach, keep_small_contents};
use crate::facts::collect_facts;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use crate::validate::validate;

/// Protobuf messages cannot be longer; larger models keep their weights in external data.
const FILE_LIMIT: u64 = 1 << 31;

/// Why a model cannot be loaded; the caller, who knows the model's path, names it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LoadError {
    #[error("the file does not exist")]
    Missing,
    #[error("it is a folder, not a model file; give the path of the .onnx file in it")]
    Folder,
    #[error("it is {what}, not a model file")]
    NotAFile { what: &'static str },
    #[error("the file is empty")]
    Empty,
    #[error("the file cannot be read")]
    Unreadable { source: io::Error },
    #[error("it has {bytes} bytes; an ONNX file ends below 2 GiB and keeps larger weights in external data")]
    TooLarge { bytes: u64 },
    #[error("it is not an ONNX model: {reason}")]
    NotOnnx { reason: String },
    #[error("the file is cut short: at least {missing} bytes are missing; fetch it again")]
    Truncated { missing: u64 },
    #[error("the file is damaged")]
    Damaged { source: prost::DecodeError },
    #[error("it is no valid ONNX model: {reason}")]
    Invalid { reason: String },
    #[error("its input `{input}` {reason}")]
    UnsupportedInput { input: String, reason: String },
    #[error("its tensor `{tensor}` is damaged: {reason}")]
    InvalidTensor { tensor: String, reason: String },
    #[error("the external data {file} of the tensor `{tensor}` does not exist; put it beside the model")]
    ExternalMissing { file: PathBuf, tensor: String },
    #[error("the external data {file} cannot be read")]
    ExternalUnreadable { file: PathBuf, source: io::Error },
    #[error(
        "the tensor `{tensor}` refers to `{location}`, outside the model's folder; such models are refused"
    )]
    ExternalEscapes { tensor: String, location: String },
    #[error("the tensor `{tensor}` needs bytes {offset}+{length} of {file}, which has {file_bytes}")]
    ExternalRange { tensor: String, file: PathBuf, offset: u64, length: u64, file_bytes: u64 },
    #[error("the tensor `{tensor}` describes its external data wrongly: {reason}")]
    ExternalInvalid { tensor: String, reason: String },
}

/// A loaded model: its graph without the weights, and its facts. It shares no memory with what it was read from.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) proto: ModelProto,
    facts: ModelFacts,
    /// What is odd about the graph, though all engines read it alike.
    pub(crate) notes: Vec<String>,
}

impl Model {
    /// Facts of the model, whatever the size of its free dimensions.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    pub(crate) fn graph(&self) -> Option<&GraphProto> {
        self.proto.graph.as_ref()
    }
}

/// Loads the model at `path` and the facts of it.
///
/// External data are hashed in passes of bounded size; only small tensors are read from them.
///
/// # Errors
/// Says what is missing, cut short, damaged, refused or not ONNX at all.
pub fn load_model(path: &Path) -> Result<Model, LoadError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing,
        _ => LoadError::Unreadable { source },
    };
    // Opening a pipe waits for its other end, so what it is comes first.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(LoadError::Folder);
    }
    if !metadata.is_file() {
        return Err(LoadError::NotAFile { what: kind_of_file(metadata.file_type()) });
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    if size == 0 {
        return Err(LoadError::Empty);
    }
    if size > FILE_LIMIT {
        return Err(LoadError::TooLarge { bytes: size });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // The file may grow meanwhile.
    file.take(FILE_LIMIT).read_to_end(&mut bytes).map_err(unreadable)?;
    parse_bytes(&Bytes::from(bytes), Some(path))
}

/// Parses the bytes of a model that keeps all its weights in itself.
///
/// # Errors
/// As [`load_model`]; a reference to external data is an error of its own.
pub fn parse_model(bytes: impl Into<Bytes>) -> Result<Model, LoadError> {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    parse_bytes(&bytes, None)
}

/// What something that is neither a file nor a folder is, with its article.
#[cfg(unix)]
fn kind_of_file(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "a special file",
    }
}

/// What something that is neither a file nor a folder is, with its article.
#[cfg(not(unix))]
fn kind_of_file(_: std::fs::FileType) -> &'static str {
    "a special file"
}

fn parse_bytes(bytes: &Bytes, path: Option<&Path>) -> Result<Model, LoadError> {
    check_envelope(bytes)?;
    let mut proto = ModelProto::decode(bytes.clone()).map_err(|source| LoadError::Damaged { source })?;
    let not_onnx = |reason: &str| LoadError::NotOnnx { reason: reason.to_owned() };
    if proto.ir_version <= 0 {
        return Err(not_onnx("it states no version of the intermediate representation"));
    }
    let Some(graph) = proto.graph.as_ref() else {
        return Err(not_onnx("it holds no graph; the file may have been cut short"));
    };
    if graph.node.is_empty() && graph.output.is_empty() {
        return Err(not_onnx("its graph is empty"));
    }
    let notes = validate(&proto).map_err(|reason| LoadError::Invalid { reason })?;
    let mut hash = Sha256::new();
    hash.update(bytes);
    let mut files = external::Files::new(path);
    let mut check = |tensor: &mut TensorProto| {
        check_tensor(tensor)
            .map_err(|reason| LoadError::InvalidTensor { tensor: tensor.name.clone(), reason })?;
        if tensor.data_location == 1 {
            files.resolve(tensor)?;
        } else {
            keep_small_contents(tensor);
        }
        Ok(())
    };
    if let Some(graph) = &mut proto.graph {
        visit_tensors(graph, &mut check)?;
    }
    for function in &mut proto.functions {
        function.node.iter_mut().try_for_each(|node| visit_node(node, &mut check))?;
        // Only what calls use of them is ever looked at, so nothing is wrong with a default that is.
        let mut keep = |tensor: &mut TensorProto| {
            keep_small_contents(tensor);
            Ok(())
        };
        function.attribute_proto.iter_mut().try_for_each(|default| visit_attribute(default, &mut keep))?;
    }
    files.hash_into(&mut hash)?;
    let file_bytes = (bytes.len() as u64).saturating_add(files.total_bytes());
    let id = ModelId(hash.finalize().into());
    let facts = collect_facts(&proto, id, file_bytes, files.any())
        .map_err(|(input, reason)| LoadError::UnsupportedInput { input, reason })?;
    Ok(Model { proto, facts, notes })
}

type Visit<'a> = &'a mut dyn FnMut(&mut TensorProto) -> Result<(), LoadError>;

/// Calls `visit` on every stored tensor, those of bodies included.
///
/// The recursion ends: decoding has refused messages nested over a hundred deep.
fn visit_tensors(graph: &mut GraphProto, visit: Visit<'_>) -> Result<(), LoadError> {
    for tensor in &mut graph.initializer {
        visit(tensor)?;
    }
    for sparse in &mut graph.sparse_initializer {
        sparse.values.iter_mut().chain(&mut sparse.indices).try_for_each(&mut *visit)?;
    }
    graph.node.iter_mut().try_for_each(|node| visit_node(node, visit))
}

fn visit_node(node: &mut NodeProto, visit: Visit<'_>) -> Result<(), LoadError> {
    node.attribute.iter_mut().try_for_each(|attribute| visit_attribute(attribute, visit))
}

fn visit_attribute(attribute: &mut AttributeProto, visit: Visit<'_>) -> Result<(), LoadError> {
    // Text that shared the file's bytes would keep all of them.
    std::iter::once(&mut attribute.s).chain(&mut attribute.strings).for_each(detach);
    attribute.t.as_deref_mut().into_iter().chain(&mut attribute.tensors).try_for_each(&mut *visit)?;
    if let Some(sparse) = &mut attribute.sparse_tensor {
        sparse.values.iter_mut().chain(&mut sparse.indices).try_for_each(&mut *visit)?;
    }
    for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
        visit_tensors(graph, visit)?;
    }
    Ok(())
}

/// Walks the outermost fields alone, to tell a file that was cut short from one that never was a model.
fn check_envelope(bytes: &Bytes) -> Result<(), LoadError> {
    let not_onnx = |reason: &str| LoadError::NotOnnx { reason: reason.to_owned() };
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(not_onnx("it is a Git LFS pointer; fetch the file it stands for"));
    }
    let truncated = |missing: u64| LoadError::Truncated { missing };
    let mut rest: &[u8] = bytes;
    let mut fields = 0;
    while !rest.is_empty() {
        let Some(tag) = read_varint(&mut rest) else {
            return Err(if fields == 0 {
                not_onnx("its first bytes are no protobuf field")
            } else {
                truncated(1)
            });
        };
        // Field numbers and wire types of `ModelProto`; anything else is another format.
        let length = match (tag >> 3, tag & 7) {
            (1 | 5, 0) => {
                if read_varint(&mut rest).is_none() {
                    return Err(truncated(1));
                }
                0
            }
            (2..=4 | 6..=8 | 14 | 20 | 25..=40, 2) => match read_varint(&mut rest) {
                Some(length) => length,
                None => return Err(truncated(1)),
            },
            _ => return Err(not_onnx("its outermost fields are not those of a model")),
        };
        match usize::try_from(length).ok().and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return Err(truncated(length - rest.len() as u64)),
        }
        fields += 1;
    }
    Ok(())
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
