//! The header of a `.npy` array: element type, order and shape as the text of a Python dictionary.
//!
//! Invariant: parsing takes time and memory in proportion to the header, which is at most 64 KiB long, and
//! never recurses. General parsers of Python literals do, and overflow the stack on nested brackets.

use std::io::{self, Read};

use super::error::ArrayFault;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const LONGEST_HEADER_BYTES: usize = 1 << 16;
/// Elements start at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NpyHeader {
    /// The element type, such as `<f4`.
    pub(super) descr: String,
    /// Whether the first index runs fastest.
    pub(super) fortran_order: bool,
    /// The sizes of the axes.
    pub(super) shape: Vec<usize>,
    /// Bytes before the first element.
    pub(super) length_bytes: u64,
}

impl NpyHeader {
    /// Reads a header and leaves `reader` at the first element.
    pub(super) fn read(reader: &mut dyn Read) -> Result<Self, ArrayFault> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).map_err(short)?;
        let (magic, version) = start.split_at(MAGIC.len());
        if magic != MAGIC {
            let zip = if start.starts_with(b"PK") { "; it is a zip archive, as .npz files are" } else { "" };
            return Err(not_npy(format!("it does not start with NumPy's mark{zip}")));
        }
        let (size_bytes, text_bytes) = match version {
            [1, _] => {
                let mut size = [0; 2];
                reader.read_exact(&mut size).map_err(short)?;
                (size.len(), usize::from(u16::from_le_bytes(size)))
            }
            [2 | 3, _] => {
                let mut size = [0; 4];
                reader.read_exact(&mut size).map_err(short)?;
                (size.len(), usize::try_from(u32::from_le_bytes(size)).unwrap_or(usize::MAX))
            }
            other => return Err(not_npy(format!("its format version {other:?} is unknown"))),
        };
        if text_bytes > LONGEST_HEADER_BYTES {
            return Err(not_npy(format!("its header claims {text_bytes} bytes")));
        }
        let mut text = vec![0; text_bytes];
        reader.read_exact(&mut text).map_err(short)?;
        let text = String::from_utf8(text).map_err(|_invalid| not_npy("its header is no text".to_owned()))?;
        let (descr, fortran_order, shape) = Scanner { rest: &text }.dictionary()?;
        let length_bytes = (start.len() + size_bytes + text_bytes) as u64;
        Ok(Self { descr, fortran_order, shape, length_bytes })
    }

    /// The bytes of a header for row-major elements.
    pub(super) fn encode(descr: &str, shape: &[usize]) -> Vec<u8> {
        let sizes: Vec<String> = shape.iter().map(|size| format!("{size},")).collect();
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", sizes.join(" "));
        // Version 2 differs from 1 by the width of the length alone.
        let wide = text.len() + ALIGNMENT > usize::from(u16::MAX);
        let before_text = MAGIC.len() + 2 + if wide { 4 } else { 2 };
        let padding =
            (before_text + text.len() + 1).next_multiple_of(ALIGNMENT) - (before_text + text.len() + 1);
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        if wide {
            bytes.extend([2, 0]);
            bytes.extend((text.len() as u32).to_le_bytes());
        } else {
            bytes.extend([1, 0]);
            bytes.extend((text.len() as u16).to_le_bytes());
        }
        bytes.extend(text.bytes());
        bytes
    }
}

/// A cursor over the header's text.
struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// The values of the keys `descr`, `fortran_order` and `shape`, in any order and no others.
    fn dictionary(mut self) -> Result<(String, bool, Vec<usize>), ArrayFault> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.take('}') {
            let key = self.text()?;
            self.expect(':')?;
            match key {
                "descr" if descr.is_none() => descr = Some(self.descr()?),
                "fortran_order" if fortran_order.is_none() => fortran_order = Some(self.truth()?),
                "shape" if shape.is_none() => shape = Some(self.sizes()?),
                _ => return Err(not_npy(format!("its header has the key `{key}` where none is expected"))),
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return Err(not_npy("its header goes on after the dictionary".to_owned()));
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok((descr, fortran_order, shape)),
            _ => Err(not_npy("its header lacks `descr`, `fortran_order` or `shape`".to_owned())),
        }
    }

    /// A type text; a list of fields is refused.
    fn descr(&mut self) -> Result<String, ArrayFault> {
        let rest = self.rest.trim_start();
        if rest.starts_with('[') {
            return Err(not_npy(
                "its elements are records of several fields; save each field on its own".to_owned(),
            ));
        }
        self.text().map(str::to_owned)
    }

    fn truth(&mut self) -> Result<bool, ArrayFault> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn sizes(&mut self) -> Result<Vec<usize>, ArrayFault> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.take(')') {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            let size = digits.parse().map_err(|_invalid| self.unexpected("a size"))?;
            sizes.push(size);
            // Python 2 marked long integers.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }

    /// A quoted text without escapes, which no valid header needs.
    fn text(&mut self) -> Result<&'a str, ArrayFault> {
        self.rest = self.rest.trim_start();
        for quote in ['\'', '"'] {
            let body = self.rest.strip_prefix(quote);
            if let Some((text, rest)) = body.and_then(|body| body.split_once(quote)) {
                self.rest = rest;
                return Ok(text);
            }
        }
        Err(self.unexpected("a quoted text"))
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), ArrayFault> {
        if self.take(wanted) { Ok(()) } else { Err(self.unexpected(&format!("`{wanted}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> ArrayFault {
        let near: String = self.rest.chars().take(20).collect();
        not_npy(format!("its header has `{near}` where {wanted} is expected"))
    }
}

fn not_npy(reason: String) -> ArrayFault {
    ArrayFault::NotNpy { reason }
}

fn short(error: io::Error) -> ArrayFault {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        not_npy("it ends within its header".to_owned())
    } else {
        ArrayFault::Read(error)
    }
}
