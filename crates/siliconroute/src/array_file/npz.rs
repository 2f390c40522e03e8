//! Several named arrays in NumPy's `.npz` format: a zip archive of `.npy` entries.
//!
//! Invariant: an entry's claimed size is checked against its compressed bytes, its header and the limit before
//! any of it is unpacked, and its checksum after.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use siliconroute_core::tensor::{NamedTensor, Tensor, TensorSpec};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::error::{ArrayFault, ArrayFileError};
use super::npy::{self, Encoding};

const SUFFIX: &str = ".npy";
/// Deflate packs at most 258 bytes into 2 bits, so 1032 to one, and a stored entry not at all.
const MOST_DEFLATED_RATIO: u64 = 1032;

/// Reads the arrays for `specs`; `None` where the archive has none.
pub(super) fn read(
    path: &Path,
    file: impl Read + Seek,
    specs: &[TensorSpec],
    limit_bytes: u64,
) -> Result<Vec<Option<Tensor>>, ArrayFileError> {
    let broken = |source| ArrayFileError::NotAnArchive { path: path.to_owned(), source };
    let mut archive = ZipArchive::new(file).map_err(broken)?;
    let mut found: Vec<Option<Tensor>> = specs.iter().map(|_| None).collect();
    let mut left_bytes = limit_bytes;
    for index in 0..archive.len() {
        let name = match archive.name_for_index(index) {
            Some(name) => name.map_err(broken)?.into_owned(),
            None => break,
        };
        let name = name.strip_suffix(SUFFIX).unwrap_or(&name);
        let slot = specs.iter().position(|spec| spec.name == name);
        let Some((spec, slot)) = slot.and_then(|slot| Some((specs.get(slot)?, found.get_mut(slot)?))) else {
            let known = specs.iter().map(|spec| spec.name.clone()).collect();
            return Err(ArrayFileError::UnknownArray {
                path: path.to_owned(),
                array: name.to_owned(),
                known,
            });
        };
        if slot.is_some() {
            return Err(ArrayFileError::DuplicateName { path: path.to_owned(), array: name.to_owned() });
        }
        let tensor = read_entry(&mut archive, index, spec, left_bytes)
            .map_err(|fault| ArrayFileError::array(path, name, fault))?;
        let element_bytes = tensor.element().size_bytes().unwrap_or(size_of::<String>());
        left_bytes =
            left_bytes.saturating_sub((tensor.data().len() as u64).saturating_mul(element_bytes as u64));
        *slot = Some(tensor);
    }
    Ok(found)
}

fn read_entry<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    spec: &TensorSpec,
    left_bytes: u64,
) -> Result<Tensor, ArrayFault> {
    let mut entry = archive.by_index(index).map_err(ArrayFault::Entry)?;
    let (bytes, packed_bytes) = (entry.size(), entry.compressed_size());
    if bytes > packed_bytes.saturating_mul(MOST_DEFLATED_RATIO) {
        return Err(ArrayFault::ImplausibleSize { bytes, packed_bytes });
    }
    npy::read(&mut entry, bytes, spec, left_bytes)
}

/// Writes until a write fails, and takes the rest without writing it.
///
/// An archive that is dropped unfinished tries to finish itself and complains on standard error when it cannot.
struct UntilFailure<'w, W> {
    writer: &'w mut W,
    position: u64,
    failed: bool,
}

impl<W: Write> Write for UntilFailure<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.failed {
            bytes.len()
        } else {
            self.writer.write(bytes).inspect_err(|_| self.failed = true)?
        };
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed { Ok(()) } else { self.writer.flush().inspect_err(|_| self.failed = true) }
    }
}

impl<W: Seek> Seek for UntilFailure<'_, W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            _ if !self.failed => self.writer.seek(to).inspect_err(|_| self.failed = true)?,
            SeekFrom::Start(position) => position,
            SeekFrom::Current(offset) | SeekFrom::End(offset) => self.position.saturating_add_signed(offset),
        };
        Ok(self.position)
    }
}

/// Writes `outputs` as an archive without compression, as `numpy.savez` does.
pub(super) fn write(
    path: &Path,
    writer: &mut BufWriter<&mut File>,
    outputs: &[NamedTensor],
) -> Result<(), ArrayFileError> {
    let unwritable = |source| ArrayFileError::Write { path: path.to_owned(), source };
    let mut archive = ZipWriter::new(UntilFailure { writer, position: 0, failed: false });
    for output in outputs {
        let encoding =
            Encoding::of(&output.tensor).map_err(|fault| ArrayFileError::array(path, &output.name, fault))?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(encoding.size_bytes() >= u64::from(u32::MAX));
        archive
            .start_file(format!("{}{SUFFIX}", output.name), options)
            .map_err(|error| unwritable(error.into()))?;
        encoding.write(&mut archive).map_err(unwritable)?;
    }
    archive.finish().map_err(|error| unwritable(error.into()))?;
    Ok(())
}
