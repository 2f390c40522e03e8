//! Tensors from and to files: `.npz`, `.npy` and `.json`.
//!
//! Invariant: what is read is what the file says, in the element type that the model wants; nothing is cast,
//! rounded or cut. The one way a value changes its type is documented at [`write_outputs`]. A file is
//! untrusted: every size is checked before memory is asked for.
//!
//! Reading order: `error`, `npy_header`, `npy`, `npz`, `json`, `shape_argument`.
//! Format of `.npy`: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

mod error;
mod json;
mod npy;
mod npy_header;
mod npz;
mod shape_argument;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use siliconroute_core::tensor::{Dimension, NamedTensor, Tensor, TensorSpec};

use siliconroute_engine::regular_file::open_regular;

use crate::inputs::DEFAULT_LIMIT_BYTES;
use crate::output_place::{self, folder_of, output_place};

pub use error::{ArrayFault, ArrayFileError};
pub use shape_argument::{ShapeArgumentError, parse_shape_argument};

/// How a file holds its arrays, told by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npz,
    Npy,
    Json,
}

impl Format {
    fn of(path: &Path) -> Result<Self, ArrayFileError> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("npz") => Ok(Self::Npz),
            Some("npy") => Ok(Self::Npy),
            Some("json") => Ok(Self::Json),
            _ => Err(ArrayFileError::UnknownFormat { path: path.to_owned() }),
        }
    }
}

/// Reads the inputs that a model wants, in the order of `specs`, at most 4 GiB of them.
///
/// - `.npz`: one array for each input, under its name.
/// - `.npy`: for a model with exactly one input.
/// - `.json`: `{"NAME": …}` with, for each input, a nested list, a flat list (where at most one dimension is
///   free), a bare value for a scalar, or `{"shape": […], "data": […]}`. Numbers take the model's element type:
///   decimal fractions round to the nearest float, integers must fit. `"NaN"`, `"Infinity"` and `"-Infinity"`
///   stand for those floats.
///
/// NumPy has no bfloat16: a bfloat16 input comes from 2-byte `V2` items or from float32 values of which
/// each is a bfloat16 value.
///
/// # Errors
/// When the file cannot be read, is damaged, lacks an input or has one too many, or an array's element type,
/// shape or values are not what the model wants, or two inputs give one free dimension two sizes.
pub fn read_inputs(path: &Path, specs: &[TensorSpec]) -> Result<Vec<NamedTensor>, ArrayFileError> {
    read_inputs_within(path, specs, DEFAULT_LIMIT_BYTES)
}

/// [`read_inputs`] with a limit on the bytes of all inputs together, and on those of a JSON file.
///
/// # Errors
/// As [`read_inputs`].
pub fn read_inputs_within(
    path: &Path,
    specs: &[TensorSpec],
    limit_bytes: u64,
) -> Result<Vec<NamedTensor>, ArrayFileError> {
    let format = Format::of(path)?;
    let unreadable = |source| ArrayFileError::Read { path: path.to_owned(), source };
    let (file, metadata) = open_regular(path).map_err(unreadable)?;
    let file_bytes = metadata.len();
    let found = match format {
        Format::Npz => npz::read(path, BufReader::new(file), specs, limit_bytes)?,
        Format::Npy => {
            let [spec] = specs else {
                return Err(ArrayFileError::OneArrayOnly { path: path.to_owned(), count: specs.len() });
            };
            let array = npy::read(&mut BufReader::new(file), file_bytes, spec, limit_bytes);
            vec![Some(array.map_err(|fault| ArrayFileError::array(path, &spec.name, fault))?)]
        }
        Format::Json => json::read(path, file, file_bytes, specs, limit_bytes)?,
    };
    let missing: Vec<String> = specs
        .iter()
        .zip(&found)
        .filter(|(_, tensor)| tensor.is_none())
        .map(|(spec, _)| spec.name.clone())
        .collect();
    if !missing.is_empty() {
        return Err(ArrayFileError::Missing { path: path.to_owned(), missing });
    }
    let named = |(spec, tensor): (&TensorSpec, Tensor)| NamedTensor { name: spec.name.clone(), tensor };
    let inputs: Vec<NamedTensor> = specs.iter().zip(found.into_iter().flatten()).map(named).collect();
    check_free_dimensions(path, specs, &inputs)?;
    Ok(inputs)
}

/// What writing changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The bfloat16 outputs that are float32 in the file, with the same values.
    pub widened: Vec<String>,
}

/// Writes a model's outputs to a `.npz`, `.npy` (one output) or `.json` file.
///
/// The file appears complete or not at all: it is written beside its place, flushed to the disk and renamed,
/// and replaces a file of that name. A link stays one: the file that it leads to is written. `.npy` and `.npz`
/// have no bfloat16, so such outputs become float32, which holds each of their values; [`Written`] names them.
/// JSON keeps the type as `{"element": …, "shape": […], "data": […]}`.
///
/// # Errors
/// When the file cannot be written or something else than a regular file has its name, two outputs share a name,
/// several outputs are to go into a `.npy` file, or a text ends in a NUL character, which NumPy would cut off.
pub fn write_outputs(path: &Path, outputs: &[NamedTensor]) -> Result<Written, ArrayFileError> {
    let format = Format::of(path)?;
    for (index, output) in outputs.iter().enumerate() {
        if outputs.iter().take(index).any(|earlier| earlier.name == output.name) {
            return Err(ArrayFileError::DuplicateName { path: path.to_owned(), array: output.name.clone() });
        }
    }
    match (format, outputs) {
        (Format::Npz, _) => write_whole(path, |writer| npz::write(path, writer, outputs)),
        (Format::Npy, [output]) => write_whole(path, |writer| npy::write(path, writer, output)),
        (Format::Npy, _) => Err(ArrayFileError::OneArrayOnly { path: path.to_owned(), count: outputs.len() }),
        (Format::Json, _) => write_whole(path, |writer| json::write(path, writer, outputs)),
    }?;
    let widened = match format {
        Format::Json => Vec::new(),
        Format::Npz | Format::Npy => npy::widened(outputs),
    };
    Ok(Written { widened })
}

/// Refuses a `path` that [`write_outputs`] could not write to, before the work for the outputs is done.
///
/// # Errors
/// When its name tells no format, something else than a regular file has it, or its folder is not there.
pub fn check_output_path(path: &Path) -> Result<(), ArrayFileError> {
    Format::of(path)?;
    let unwritable = |source| ArrayFileError::Write { path: path.to_owned(), source };
    let destination = output_place(path).map_err(unwritable)?;
    std::fs::metadata(folder_of(&destination)).map(drop).map_err(unwritable)
}

/// Writes the file at `path` whole or not at all.
fn write_whole<F>(path: &Path, write: F) -> Result<(), ArrayFileError>
where
    F: FnOnce(&mut BufWriter<&mut File>) -> Result<(), ArrayFileError>,
{
    let unwritable = |source| ArrayFileError::Write { path: path.to_owned(), source };
    output_place::write_whole(path, unwritable, write)
}

/// Refuses a `shape` that the model's description rules out.
fn check_shape(spec: &TensorSpec, shape: &[usize]) -> Result<(), ArrayFault> {
    let fits = |(dimension, &size): (&Dimension, &usize)| match dimension {
        Dimension::Fixed(fixed) => *fixed == size as u64,
        Dimension::Free(_) => true,
    };
    if spec.shape.len() == shape.len() && spec.shape.iter().zip(shape).all(fits) {
        Ok(())
    } else {
        Err(ArrayFault::WrongShape { found: shape.to_vec(), wanted: spec.to_string() })
    }
}

/// Refuses inputs that give one free dimension two sizes.
fn check_free_dimensions(
    path: &Path,
    specs: &[TensorSpec],
    inputs: &[NamedTensor],
) -> Result<(), ArrayFileError> {
    let mut bound: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (spec, input) in specs.iter().zip(inputs) {
        for (dimension, &size) in spec.shape.iter().zip(input.tensor.shape()) {
            let Dimension::Free(name) = dimension else { continue };
            let &mut (first, first_size) = bound.entry(name).or_insert((&spec.name, size));
            if first_size != size {
                return Err(ArrayFileError::DimensionConflict {
                    path: path.to_owned(),
                    dimension: name.clone(),
                    first: (first.to_owned(), first_size),
                    second: (spec.name.clone(), size),
                });
            }
        }
    }
    Ok(())
}
