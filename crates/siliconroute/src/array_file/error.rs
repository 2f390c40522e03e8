//! What can be wrong with an array file and with an array in it.
//!
//! Invariant: a message says what and where and, where the user can help it, what to do; the cause is the
//! error's source.

use std::io;
use std::path::{Path, PathBuf};

use siliconroute_core::tensor::ElementType;

use crate::output_place::writing_hint;

/// Why a file of arrays cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayFileError {
    /// The end of the name tells no format.
    #[error("{} is of no known format: its name must end in .npz, .npy or .json", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is no zip archive, which `.npz` is, or a damaged one.
    #[error("{} is no complete .npz file, as numpy.savez writes it", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// What is wrong with the archive.
        source: zip::result::ZipError,
    },
    /// A JSON file is damaged, too large, or does not hold what the model wants.
    #[error("{} does not hold the model's inputs as JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A JSON file is larger than the inputs may be.
    #[error("{} has {bytes} bytes, more than the limit of {limit_bytes}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// An array cannot be read or written.
    #[error("array `{array}` of {} cannot be used", path.display())]
    Array {
        /// The file.
        path: PathBuf,
        /// The name of the array or of the input that it is for.
        array: String,
        /// What is wrong with it.
        source: ArrayFault,
    },
    /// The file has an array that the model has no input for.
    #[error("{} holds `{array}`, but the model's inputs are {}", path.display(), known.join(", "))]
    UnknownArray {
        /// The file.
        path: PathBuf,
        /// The array's name.
        array: String,
        /// The model's inputs.
        known: Vec<String>,
    },
    /// The file lacks inputs of the model.
    #[error("{} lacks the inputs {}", path.display(), missing.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The inputs that it lacks.
        missing: Vec<String>,
    },
    /// Two arrays of a file have one name.
    #[error("{} would hold two arrays named `{array}`", path.display())]
    DuplicateName {
        /// The file.
        path: PathBuf,
        /// The name.
        array: String,
    },
    /// `.npy` holds exactly one array.
    #[error("{} can hold exactly one array, and there are {count}: take a name that ends in .npz", path.display())]
    OneArrayOnly {
        /// The file.
        path: PathBuf,
        /// How many inputs or outputs there are.
        count: usize,
    },
    /// Two inputs give a free dimension different sizes.
    #[error(
        "{} gives the dimension `{dimension}` two sizes: {} in `{}` and {} in `{}`",
        path.display(), first.1, first.0, second.1, second.0
    )]
    DimensionConflict {
        /// The file.
        path: PathBuf,
        /// The free dimension.
        dimension: String,
        /// An input and the size in it.
        first: (String, usize),
        /// Another input and the size in it.
        second: (String, usize),
    },
}

impl ArrayFileError {
    /// What the user can do about it, where there is something to say beyond the message.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Write { source, .. } => writing_hint(source),
            _ => None,
        }
    }

    /// Says where the faulty array is.
    pub(super) fn array(path: &Path, array: &str, source: ArrayFault) -> Self {
        Self::Array { path: path.to_owned(), array: array.to_owned(), source }
    }
}

/// What is wrong with one array.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayFault {
    /// The bytes are no array file at all.
    #[error("it is no .npy array: {reason}")]
    NotNpy {
        /// What is not as it should be.
        reason: String,
    },
    /// There are fewer bytes than the header promises.
    #[error("it is cut short: {needed} bytes of elements are announced, {found} are there")]
    Truncated {
        /// Bytes of elements by the header.
        needed: u64,
        /// Bytes of elements in the file.
        found: u64,
    },
    /// There are more bytes than the header promises.
    #[error("{needed} bytes of elements are announced, but {found} are there")]
    TrailingBytes {
        /// Bytes of elements by the header.
        needed: u64,
        /// Bytes of elements in the file.
        found: u64,
    },
    /// The array holds pickled Python objects.
    #[error(
        "it holds Python objects, which are never read; save it as numbers or as a fixed-width text type"
    )]
    Objects,
    /// The array's type has no counterpart in a model.
    #[error("its type `{descr}` is none that a model takes; the model wants {wanted}")]
    UnsupportedType {
        /// The type as the file gives it.
        descr: String,
        /// The type that the model wants.
        wanted: ElementType,
    },
    /// The array has another element type than the model wants.
    #[error("it is {found}, and the model wants {wanted}: convert it before saving, as nothing is cast here")]
    WrongElement {
        /// The array's element type.
        found: ElementType,
        /// The type that the model wants.
        wanted: ElementType,
    },
    /// A float32 array for a bfloat16 input has values that bfloat16 does not have.
    #[error(
        "the model wants bfloat16, and element {index} ({value}) is no bfloat16 value: round it before saving"
    )]
    NotBfloat16 {
        /// The index of the first such element.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// The array's shape is not the model's.
    #[error("its shape is {found:?}, and the model wants {wanted}")]
    WrongShape {
        /// The array's shape.
        found: Vec<usize>,
        /// The model's input, with its type and shape.
        wanted: String,
    },
    /// An element is not what its type allows.
    #[error("element {index} {reason}")]
    BadElement {
        /// The element's index in row-major order.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The inputs take more memory than allowed.
    #[error("it needs {bytes} bytes, which is over what is left of the limit: {left_bytes}")]
    TooLarge {
        /// Bytes of the array.
        bytes: u64,
        /// Bytes left of the limit for all arrays.
        left_bytes: u64,
    },
    /// A compressed array claims a size that its compressed bytes cannot hold.
    #[error("it claims {bytes} bytes, which its {packed_bytes} compressed bytes cannot hold")]
    ImplausibleSize {
        /// The claimed size.
        bytes: u64,
        /// The compressed size.
        packed_bytes: u64,
    },
    /// The archive's entry cannot be opened.
    #[error("its entry in the archive cannot be read")]
    Entry(#[source] zip::result::ZipError),
    /// Its bytes cannot be read.
    #[error("its bytes cannot be read")]
    Read(#[source] io::Error),
}
