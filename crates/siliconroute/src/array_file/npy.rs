//! One array in NumPy's `.npy` format.
//!
//! Invariant: elements are read into the very type that the model wants; both byte orders and both index
//! orders are understood, and memory grows with the bytes that really arrive.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use siliconroute_core::tensor::{ElementType, NamedTensor, Tensor, TensorData, TensorSpec, element_count};

use super::error::{ArrayFault, ArrayFileError};
use super::npy_header::NpyHeader;

/// Memory asked for before the first element has arrived, at most.
const FIRST_RESERVE_BYTES: u64 = 1 << 20;

/// Reads the array for `spec` from a stream of `stored_bytes` bytes.
pub(super) fn read(
    reader: &mut dyn Read,
    stored_bytes: u64,
    spec: &TensorSpec,
    limit_bytes: u64,
) -> Result<Tensor, ArrayFault> {
    let header = NpyHeader::read(reader)?;
    let item = Item::parse(&header.descr, spec.element)?;
    super::check_shape(spec, &header.shape)?;
    let too_large = |bytes| ArrayFault::TooLarge { bytes, left_bytes: limit_bytes };
    let count = element_count(&header.shape).ok_or_else(|| too_large(u64::MAX))?;
    let needed = (count as u64).checked_mul(item.size_bytes as u64).ok_or_else(|| too_large(u64::MAX))?;
    // A text takes room of its own beside its characters.
    let in_memory = match item.kind {
        Kind::Bytes | Kind::Unicode => {
            needed.saturating_add((count as u64).saturating_mul(size_of::<String>() as u64))
        }
        _ => needed,
    };
    if in_memory > limit_bytes {
        return Err(too_large(in_memory));
    }
    let found = stored_bytes.saturating_sub(header.length_bytes);
    match found.cmp(&needed) {
        std::cmp::Ordering::Less => return Err(ArrayFault::Truncated { needed, found }),
        std::cmp::Ordering::Greater => return Err(ArrayFault::TrailingBytes { needed, found }),
        std::cmp::Ordering::Equal => {}
    }
    let mut bytes = Vec::with_capacity(needed.min(FIRST_RESERVE_BYTES) as usize);
    // One byte more: an archive checks its checksum when its entry is found to end.
    reader.take(needed.saturating_add(1)).read_to_end(&mut bytes).map_err(ArrayFault::Read)?;
    if bytes.len() as u64 != needed {
        return Err(ArrayFault::Truncated { needed, found: bytes.len() as u64 });
    }
    if header.fortran_order && header.shape.len() > 1 {
        bytes = row_major(&bytes, item.size_bytes, &header.shape);
    }
    let data = item.decode(&bytes, count, spec.element)?;
    let (needed, found) = (needed, data.len() as u64);
    Tensor::new(header.shape, data).map_err(|_mismatch| ArrayFault::Truncated { needed, found })
}

/// Writes `output` as a `.npy` file.
pub(super) fn write(
    path: &Path,
    writer: &mut BufWriter<&mut File>,
    output: &NamedTensor,
) -> Result<(), ArrayFileError> {
    let encoding =
        Encoding::of(&output.tensor).map_err(|fault| ArrayFileError::array(path, &output.name, fault))?;
    encoding.write(writer).map_err(|source| ArrayFileError::Write { path: path.to_owned(), source })
}

/// The names of the outputs whose element type NumPy does not have.
pub(super) fn widened(outputs: &[NamedTensor]) -> Vec<String> {
    let bfloat16 = |output: &&NamedTensor| output.tensor.element() == ElementType::Bfloat16;
    outputs.iter().filter(bfloat16).map(|output| output.name.clone()).collect()
}

/// What the items of an array file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Numbers or truth values of the type that the model wants.
    Plain,
    /// 32-bit floats whose upper halves are the brain floats that the model wants.
    Widened,
    /// Texts of UTF-8, filled up with NULs.
    Bytes,
    /// Texts of 32-bit characters, filled up with NULs.
    Unicode,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    kind: Kind,
    size_bytes: usize,
    big_endian: bool,
}

impl Item {
    /// Understands a type text such as `<f4`, and refuses one that is not what the model wants.
    fn parse(descr: &str, wanted: ElementType) -> Result<Self, ArrayFault> {
        let unsupported = || ArrayFault::UnsupportedType { descr: descr.to_owned(), wanted };
        let mut rest = descr.chars();
        let (order, code) = (rest.next().ok_or_else(unsupported)?, rest.next().ok_or_else(unsupported)?);
        let big_endian = match order {
            '<' | '|' => false,
            '>' => true,
            '=' => cfg!(target_endian = "big"),
            _ => return Err(unsupported()),
        };
        if code == 'O' {
            return Err(ArrayFault::Objects);
        }
        let size: usize = rest.as_str().parse().map_err(|_invalid| unsupported())?;
        let found = match (code, size) {
            ('f', 4) => ElementType::Float32,
            ('f', 8) => ElementType::Float64,
            ('f', 2) => ElementType::Float16,
            ('V', 2) => ElementType::Bfloat16,
            ('i', 1) => ElementType::Int8,
            ('i', 2) => ElementType::Int16,
            ('i', 4) => ElementType::Int32,
            ('i', 8) => ElementType::Int64,
            ('u', 1) => ElementType::Uint8,
            ('u', 2) => ElementType::Uint16,
            ('u', 4) => ElementType::Uint32,
            ('u', 8) => ElementType::Uint64,
            ('b', 1) => ElementType::Bool,
            ('S' | 'U', _) => ElementType::String,
            _ => return Err(unsupported()),
        };
        let (kind, size_bytes) = match (code, found) {
            ('U', _) => (Kind::Unicode, size.checked_mul(4).ok_or_else(unsupported)?),
            (_, ElementType::String) => (Kind::Bytes, size),
            (_, ElementType::Float32) if wanted == ElementType::Bfloat16 => (Kind::Widened, size),
            _ => (Kind::Plain, size),
        };
        if found == wanted || kind == Kind::Widened {
            Ok(Self { kind, size_bytes, big_endian })
        } else {
            Err(ArrayFault::WrongElement { found, wanted })
        }
    }

    fn decode(self, bytes: &[u8], count: usize, wanted: ElementType) -> Result<TensorData, ArrayFault> {
        let big = self.big_endian;
        Ok(match wanted {
            ElementType::Float32 => TensorData::Float32(numbers(bytes, big, f32::from_le_bytes)),
            ElementType::Float64 => TensorData::Float64(numbers(bytes, big, f64::from_le_bytes)),
            ElementType::Float16 => TensorData::Float16(numbers(bytes, big, u16::from_le_bytes)),
            ElementType::Bfloat16 if self.kind == Kind::Widened => {
                TensorData::Bfloat16(narrowed(&numbers(bytes, big, f32::from_le_bytes))?)
            }
            ElementType::Bfloat16 => TensorData::Bfloat16(numbers(bytes, big, u16::from_le_bytes)),
            ElementType::Int8 => TensorData::Int8(numbers(bytes, big, i8::from_le_bytes)),
            ElementType::Int16 => TensorData::Int16(numbers(bytes, big, i16::from_le_bytes)),
            ElementType::Int32 => TensorData::Int32(numbers(bytes, big, i32::from_le_bytes)),
            ElementType::Int64 => TensorData::Int64(numbers(bytes, big, i64::from_le_bytes)),
            ElementType::Uint8 => TensorData::Uint8(bytes.to_vec()),
            ElementType::Uint16 => TensorData::Uint16(numbers(bytes, big, u16::from_le_bytes)),
            ElementType::Uint32 => TensorData::Uint32(numbers(bytes, big, u32::from_le_bytes)),
            ElementType::Uint64 => TensorData::Uint64(numbers(bytes, big, u64::from_le_bytes)),
            ElementType::Bool => TensorData::Bool(truths(bytes)?),
            ElementType::String => TensorData::String(self.texts(bytes, count)?),
        })
    }

    fn texts(self, bytes: &[u8], count: usize) -> Result<Vec<String>, ArrayFault> {
        // Items of no bytes are empty texts, of which the bytes do not tell the number.
        let text = |index: usize| {
            let item = bytes.get(index * self.size_bytes..).and_then(|rest| rest.get(..self.size_bytes));
            let item = item.unwrap_or_default();
            let text = match self.kind {
                Kind::Unicode => numbers(item, self.big_endian, u32::from_le_bytes)
                    .into_iter()
                    .map(char::from_u32)
                    .collect::<Option<String>>(),
                _ => String::from_utf8(item.to_vec()).ok(),
            };
            let bad = || ArrayFault::BadElement { index, reason: "is no valid Unicode text".to_owned() };
            text.map(|text| text.trim_end_matches('\0').to_owned()).ok_or_else(bad)
        };
        (0..count).map(text).collect()
    }
}

fn numbers<const N: usize, T>(bytes: &[u8], big_endian: bool, from_le_bytes: fn([u8; N]) -> T) -> Vec<T> {
    let number = |raw: &[u8; N]| {
        let mut raw = *raw;
        if big_endian {
            raw.reverse();
        }
        from_le_bytes(raw)
    };
    bytes.as_chunks::<N>().0.iter().map(number).collect()
}

fn truths(bytes: &[u8]) -> Result<Vec<bool>, ArrayFault> {
    let truth = |(index, &byte): (usize, &u8)| match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(ArrayFault::BadElement {
            index,
            reason: format!("is the byte {other}, neither false nor true"),
        }),
    };
    bytes.iter().enumerate().map(truth).collect()
}

/// The brain floats that `values` are.
fn narrowed(values: &[f32]) -> Result<Vec<u16>, ArrayFault> {
    let narrow = |(index, &value): (usize, &f32)| match value.to_bits() {
        bits if bits.trailing_zeros() >= 16 => Ok((bits >> 16) as u16),
        _ => Err(ArrayFault::NotBfloat16 { index, value }),
    };
    values.iter().enumerate().map(narrow).collect()
}

/// Puts items whose first index runs fastest into the order in which the last one does.
fn row_major(bytes: &[u8], size_bytes: usize, shape: &[usize]) -> Vec<u8> {
    // Beside an empty axis the others may be so long that their strides overflow.
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size_bytes;
    for &size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut ordered = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    let mut offset = 0;
    while ordered.len() < bytes.len() {
        ordered.extend_from_slice(&bytes[offset..offset + size_bytes]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            offset += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    ordered
}

/// An array ready to be written: its header is settled.
pub(super) struct Encoding<'a> {
    tensor: &'a Tensor,
    header: Vec<u8>,
    /// Characters of the longest text.
    width: usize,
    elements_bytes: u64,
}

impl<'a> Encoding<'a> {
    /// Settles how `tensor` is written.
    pub(super) fn of(tensor: &'a Tensor) -> Result<Self, ArrayFault> {
        let width = match tensor.data() {
            TensorData::String(texts) => text_width(texts)?,
            _ => 0,
        };
        let (descr, size_bytes) = match tensor.element() {
            ElementType::Float32 | ElementType::Bfloat16 => ("<f4".to_owned(), 4),
            ElementType::Float64 => ("<f8".to_owned(), 8),
            ElementType::Float16 => ("<f2".to_owned(), 2),
            ElementType::Int8 => ("|i1".to_owned(), 1),
            ElementType::Int16 => ("<i2".to_owned(), 2),
            ElementType::Int32 => ("<i4".to_owned(), 4),
            ElementType::Int64 => ("<i8".to_owned(), 8),
            ElementType::Uint8 => ("|u1".to_owned(), 1),
            ElementType::Uint16 => ("<u2".to_owned(), 2),
            ElementType::Uint32 => ("<u4".to_owned(), 4),
            ElementType::Uint64 => ("<u8".to_owned(), 8),
            ElementType::Bool => ("|b1".to_owned(), 1),
            ElementType::String => (format!("<U{width}"), width as u64 * 4),
        };
        let elements_bytes = size_bytes.saturating_mul(tensor.data().len() as u64);
        // One long text among many short ones would blow up the file, as all are stored at one width.
        if tensor.element() == ElementType::String && elements_bytes > crate::inputs::DEFAULT_LIMIT_BYTES {
            let left_bytes = crate::inputs::DEFAULT_LIMIT_BYTES;
            return Err(ArrayFault::TooLarge { bytes: elements_bytes, left_bytes });
        }
        Ok(Self { tensor, header: NpyHeader::encode(&descr, tensor.shape()), width, elements_bytes })
    }

    /// Bytes of header and elements.
    pub(super) fn size_bytes(&self) -> u64 {
        self.elements_bytes.saturating_add(self.header.len() as u64)
    }

    /// Writes header and elements, little-endian and row-major.
    pub(super) fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        writer.write_all(&self.header)?;
        match self.tensor.data() {
            TensorData::Float32(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Float64(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Bfloat16(values) => {
                write_all(writer, values, |&value| (u32::from(value) << 16).to_le_bytes())
            }
            TensorData::Int8(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Int16(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Int32(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Int64(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Uint8(values) => writer.write_all(values),
            TensorData::Float16(values) | TensorData::Uint16(values) => {
                write_all(writer, values, |value| value.to_le_bytes())
            }
            TensorData::Uint32(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Uint64(values) => write_all(writer, values, |value| value.to_le_bytes()),
            TensorData::Bool(values) => write_all(writer, values, |&value| [u8::from(value)]),
            TensorData::String(texts) => texts.iter().try_for_each(|text| {
                let padding = std::iter::repeat('\0');
                let mut characters = text.chars().chain(padding).take(self.width);
                characters.try_for_each(|character| writer.write_all(&u32::from(character).to_le_bytes()))
            }),
        }
    }
}

fn write_all<T, const N: usize>(
    writer: &mut impl Write,
    values: &[T],
    bytes: impl Fn(&T) -> [u8; N],
) -> io::Result<()> {
    values.iter().try_for_each(|value| writer.write_all(&bytes(value)))
}

/// Characters of the longest text, at least 1, as NumPy has no narrower type.
fn text_width(texts: &[String]) -> Result<usize, ArrayFault> {
    if let Some(index) = texts.iter().position(|text| text.ends_with('\0')) {
        let reason = "ends in a NUL character, which NumPy cuts off; write a .json file instead".to_owned();
        return Err(ArrayFault::BadElement { index, reason });
    }
    Ok(texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1))
}
