//! Weights that lie in files beside the model.
//!
//! Invariant: a file is opened only when its location names it within the model's folder without leaving it,
//! and never read whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::LoadError;
use crate::constant::element_count;
use crate::data_type::DataType;
use crate::proto::TensorProto;
use crate::value::CONTENTS_LIMIT;

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// The external files of one model.
pub(super) struct Files<'a> {
    folder: Option<&'a Path>,
    /// Size by location, in the order in which they are hashed.
    found: BTreeMap<String, u64>,
}

impl<'a> Files<'a> {
    pub(super) fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, found: BTreeMap::new() }
    }

    pub(super) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.found.values().fold(0, |sum: u64, &bytes| sum.saturating_add(bytes))
    }

    /// Checks where a tensor's data lie, and takes them into the model when they are few.
    pub(super) fn resolve(&mut self, tensor: &mut TensorProto) -> Result<(), LoadError> {
        let name = tensor.name.clone();
        let invalid = |reason: String| LoadError::ExternalInvalid { tensor: name.clone(), reason };
        let entry = |key: &str| tensor.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &str| {
            let parse = |text: &str| text.trim().parse().or(Err(invalid(format!("its {key} is `{text}`"))));
            entry(key).map(parse).transpose()
        };
        let location =
            entry("location").ok_or_else(|| invalid("it names no location".to_owned()))?.to_owned();
        if self.folder.is_none() {
            return Err(invalid("the model came without the folder it lies in".to_owned()));
        }
        let (offset, length): (Option<u64>, Option<u64>) = (number("offset")?, number("length")?);
        if !stays_inside(&location) {
            return Err(LoadError::ExternalEscapes { tensor: name, location });
        }
        let file = self.path_of(&location);
        let file_bytes = if let Some(&bytes) = self.found.get(&location) {
            bytes
        } else {
            let metadata = std::fs::metadata(&file).map_err(|source| open_error(source, &file, &name))?;
            if !metadata.is_file() {
                return Err(invalid(format!("{} is not a file", file.display())));
            }
            self.found.insert(location, metadata.len());
            metadata.len()
        };
        let data_type = DataType(tensor.data_type);
        let count = element_count(tensor).map_err(&invalid)?;
        let needed = data_type.bytes_of(count);
        let offset = offset.unwrap_or(0);
        if let Some(length) = length
            && length < needed
        {
            return Err(invalid(format!("it needs {needed} bytes and has {length}")));
        }
        let length = length.unwrap_or(needed);
        if offset.checked_add(length).is_none_or(|end| end > file_bytes) {
            return Err(LoadError::ExternalRange { tensor: name, file, offset, length, file_bytes });
        }
        if count <= CONTENTS_LIMIT && data_type.bits().is_some() {
            let read = read_part(&file, offset, needed).map_err(|source| open_error(source, &file, &name))?;
            tensor.raw_data = read.into();
            tensor.data_location = 0;
        }
        Ok(())
    }

    /// Adds the contents of all files, whole and sorted by location, to a hash.
    pub(super) fn hash_into(&self, hash: &mut Sha256) -> Result<(), LoadError> {
        let mut buffer = vec![0; if self.any() { CHUNK } else { 0 }];
        for location in self.found.keys() {
            let path = self.path_of(location);
            let failed = |source| LoadError::Unreadable { path: path.clone(), source };
            let mut file = File::open(&path).map_err(failed)?;
            loop {
                let count = file.read(&mut buffer).map_err(failed)?;
                if count == 0 {
                    break;
                }
                hash.update(&buffer[..count]);
            }
        }
        Ok(())
    }

    fn path_of(&self, location: &str) -> PathBuf {
        self.folder.unwrap_or(Path::new("")).join(location)
    }
}

fn open_error(source: io::Error, file: &Path, tensor: &str) -> LoadError {
    match source.kind() {
        io::ErrorKind::NotFound => {
            LoadError::ExternalMissing { file: file.to_owned(), tensor: tensor.to_owned() }
        }
        _ => LoadError::Unreadable { path: file.to_owned(), source },
    }
}

/// Whether a location names something below the folder, on every system alike.
fn stays_inside(location: &str) -> bool {
    let mut named = false;
    for part in location.split(['/', '\\']) {
        match part {
            // An empty first part is the root; a colon starts a drive or a stream.
            "" | ".." => return false,
            "." => {}
            part if part.contains([':', '\0']) => return false,
            _ => named = true,
        }
    }
    named
}

/// Reads `length` bytes, which the caller has checked to be few.
fn read_part(path: &Path, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
