//! Weights that lie in files beside the model.
//!
//! Invariant: a file is opened only when it lies in the model's folder by its location and also by where links
//! lead, and is never read whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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
    /// Where the model's folder is, and where the model itself is when its path is a link: caches of models keep
    /// links to files that lie together elsewhere.
    roots: Vec<PathBuf>,
    /// Files by location, in the order in which they are hashed.
    found: BTreeMap<String, Found>,
}

/// An external file, its path free of links.
struct Found {
    path: PathBuf,
    bytes: u64,
}

impl<'a> Files<'a> {
    /// No file yet; without a `model`, there can be none.
    pub(super) fn new(model: Option<&'a Path>) -> Self {
        let folder = model.and_then(Path::parent);
        let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        let real_folder = folder.and_then(|folder| folder.canonicalize().ok());
        let real_model = model.and_then(|model| model.canonicalize().ok());
        let beside_model = real_model.as_deref().and_then(Path::parent).map(Path::to_owned);
        Self { folder, roots: real_folder.into_iter().chain(beside_model).collect(), found: BTreeMap::new() }
    }

    pub(super) fn any(&self) -> bool {
        !self.found.is_empty()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.found.values().fold(0, |sum: u64, file| sum.saturating_add(file.bytes))
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
        let Some(folder) = self.folder else {
            return Err(invalid("the model came without the folder it lies in".to_owned()));
        };
        let (offset, length): (Option<u64>, Option<u64>) = (number("offset")?, number("length")?);
        if !stays_inside(&location) {
            return Err(LoadError::ExternalEscapes { tensor: name, location });
        }
        let file = folder.join(&location);
        let found = match self.found.entry(location) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let failed = |source| open_error(source, &file, &name);
                let path = file.canonicalize().map_err(failed)?;
                if !self.roots.iter().any(|root| path.starts_with(root)) {
                    let location = format!("{}, which leads to {}", new.key(), path.display());
                    return Err(LoadError::ExternalEscapes { tensor: name, location });
                }
                let metadata = path.metadata().map_err(failed)?;
                if !metadata.is_file() {
                    return Err(invalid(format!("{} is not a file", file.display())));
                }
                new.insert(Found { path, bytes: metadata.len() })
            }
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
        if offset.checked_add(length).is_none_or(|end| end > found.bytes) {
            let file_bytes = found.bytes;
            return Err(LoadError::ExternalRange { tensor: name, file, offset, length, file_bytes });
        }
        if count <= CONTENTS_LIMIT && data_type.bits().is_some() {
            let read =
                read_part(&found.path, offset, needed).map_err(|source| open_error(source, &file, &name))?;
            tensor.raw_data = read.into();
            tensor.data_location = 0;
        }
        Ok(())
    }

    /// Adds the contents of all files, whole and sorted by location, to a hash.
    pub(super) fn hash_into(&self, hash: &mut Sha256) -> Result<(), LoadError> {
        let mut buffer = vec![0; if self.any() { CHUNK } else { 0 }];
        for Found { path, .. } in self.found.values() {
            let failed = |source| LoadError::ExternalUnreadable { file: path.clone(), source };
            let mut file = File::open(path).map_err(failed)?;
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
}

fn open_error(source: io::Error, file: &Path, tensor: &str) -> LoadError {
    match source.kind() {
        io::ErrorKind::NotFound => {
            LoadError::ExternalMissing { file: file.to_owned(), tensor: tensor.to_owned() }
        }
        _ => LoadError::ExternalUnreadable { file: file.to_owned(), source },
    }
}

/// Whether a location names something below the folder, on every system alike.
fn stays_inside(location: &str) -> bool {
    let mut named = false;
    // An empty first part is the root; a colon starts a drive or a stream.
    if location.starts_with(['/', '\\']) {
        return false;
    }
    for part in location.split(['/', '\\']) {
        match part {
            ".." => return false,
            "" | "." => {}
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
