//! The models that a user may name: files, catalogue entries, synthetic families.
//!
//! Invariant: facts come from the file's bytes; they are read once and remembered under the file's size and time
//! of change, and read again when the method that counts them is another.

mod error;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use siliconroute_core::model::{Bindings, Case, ModelFacts};
use siliconroute_core::transfer::SortOfWork;
use siliconroute_core::{CaseId, Dimension};
use siliconroute_engine::packages::{self, Fetcher};
use siliconroute_onnx::{METHOD_VERSION, Model, SyntheticModel};
use siliconroute_store::{ModelRecord, Store, StoreError, StoredModel};

use crate::catalogue::{Catalogue, CatalogueModel, Place, inspect_place};
use crate::inputs::Recipes;
use crate::machine::describe_error;
use crate::output_place::{folder_of, output_place};
use crate::space::{NoSpace, STORE_RESERVE_BYTES, is_disk_full};

pub use error::ModelError;

/// Where a model comes from.
#[derive(Debug, Clone)]
enum Origin {
    File(PathBuf),
    Synthetic(SyntheticModel),
    Catalogue(&'static CatalogueModel),
}

/// A model with all that is needed to bind and run it.
#[derive(Debug, Clone)]
pub struct KnownModel {
    /// The name that the user knows it by.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Facts of the model.
    pub facts: ModelFacts,
    /// How its inputs are made.
    pub recipes: Recipes,
    /// Usual values of free dimensions.
    pub hints: Bindings,
    /// Whether the weights are constant, so that outputs prove little.
    pub constant_weights: bool,
    /// Whether it is one of the synthetic families.
    pub synthetic: bool,
    /// The graph, where the file was read for the facts: its first cases need not read it again.
    graph: Option<Arc<Model>>,
}

/// Finds models, and remembers what is in them.
#[derive(Debug)]
pub struct Models<'s> {
    /// Folder of fetched and generated models.
    pub folder: PathBuf,
    /// Where models are generated instead if the folder may only be read; nothing is fetched then.
    pub scratch: Option<PathBuf>,
    /// Where facts are remembered.
    pub store: &'s Store,
    /// Milliseconds since 1970.
    pub now_unix_ms: i64,
    /// Whether nothing may be fetched.
    pub offline: bool,
}

impl Models<'_> {
    /// Finds `reference`: a file, a synthetic model such as `mlp-256w-4l`, or a name of the catalogue.
    ///
    /// A model of the catalogue is compared with its pin before anything of it is read; a changed one is refused, and
    /// [`Self::replace`] makes it anew.
    ///
    /// # Errors
    /// When there is no such model, or it cannot be fetched, generated or read.
    pub fn resolve(
        &self,
        reference: &str,
        fetcher: &dyn Fetcher,
        progress: &mut dyn packages::Progress,
    ) -> Result<KnownModel, ModelError> {
        let origin = parse_reference(reference)?;
        let (path, name) = match &origin {
            Origin::File(path) => (path.clone(), file_name(path)),
            Origin::Synthetic(model) => (self.generate(model, progress)?, model.name()),
            Origin::Catalogue(model) => (self.fetch(model, fetcher, progress)?, model.name.clone()),
        };
        let (facts, graph) = self.facts(&path, &name, &origin).map_err(|error| match (&origin, error) {
            (Origin::Synthetic(_), ModelError::Load { path, source }) => {
                let finding = describe_error(&source);
                ModelError::Changed { name: name.clone(), path, finding, repair: "generate" }
            }
            (_, error) => error,
        })?;
        let (recipes, hints, constant_weights) = match &origin {
            Origin::Catalogue(model) => {
                (model.recipes.clone(), model.bindings.clone(), model.constant_weights)
            }
            Origin::File(_) | Origin::Synthetic(_) => (Recipes::default(), Bindings::default(), false),
        };
        let synthetic = matches!(origin, Origin::Synthetic(_));
        Ok(KnownModel { name, path, facts, recipes, hints, constant_weights, synthetic, graph })
    }

    /// Whether `reference` can be used without fetching anything.
    pub fn is_here(&self, reference: &str) -> bool {
        match parse_reference(reference) {
            Ok(Origin::Catalogue(model)) => std::fs::metadata(self.catalogue_path(model))
                .is_ok_and(|found| found.is_file() && found.len() == model.member.size_bytes),
            Ok(Origin::File(_) | Origin::Synthetic(_)) => true,
            Err(_) => false,
        }
    }

    /// What speaks against the file of a model of the catalogue; `None` where it is intact, is not here, or
    /// `reference` is no name of the catalogue.
    ///
    /// # Errors
    /// When the store fails or the user stops.
    pub fn damage(
        &self,
        reference: &str,
        progress: &dyn packages::Progress,
    ) -> Result<Option<ModelError>, ModelError> {
        let Ok(Origin::Catalogue(model)) = parse_reference(reference) else { return Ok(None) };
        let path = self.catalogue_path(model);
        Ok(match self.place(model, &path, progress)? {
            Place::Empty | Place::Intact => None,
            Place::Damaged(finding) => Some(changed(model, path, finding)),
        })
    }

    /// Fetches a model of the catalogue in the place of what was changed.
    ///
    /// # Errors
    /// When it cannot be fetched; what was there stays then.
    pub fn replace(
        &self,
        reference: &str,
        fetcher: &dyn Fetcher,
        progress: &mut dyn packages::Progress,
    ) -> Result<(), ModelError> {
        match parse_reference(reference)? {
            Origin::Catalogue(model) => self.fetch_to(model, &self.catalogue_path(model), fetcher, progress),
            Origin::File(_) | Origin::Synthetic(_) => Ok(()),
        }
    }

    /// What lies in a model's place; a file that was compared before is not read again.
    fn place(
        &self,
        model: &CatalogueModel,
        path: &Path,
        progress: &dyn packages::Progress,
    ) -> Result<Place, ModelError> {
        if let Some((size, modified)) = file_stamp(path)
            && let Some(known) = self.store.model_by_file(path, size, modified)?
            && known.facts.id.0 == model.member.sha256.0
        {
            return Ok(Place::Intact);
        }
        inspect_place(model, path, progress)
    }

    /// Binds the free dimensions of `model`: `given` first, then the model's usual values.
    ///
    /// # Errors
    /// When a dimension is unknown, zero or too large, or the graph cannot be followed.
    pub fn case(&self, model: &KnownModel, given: &Given) -> Result<Case, ModelError> {
        let bind = |source| ModelError::Bind { model: model.name.clone(), source };
        let hints = hints(model, given)?;
        let mut graph = model.graph.clone();
        let bindings = if let Some(bindings) = complete_bindings(model, given, &hints) {
            refuse_lost_batch(model, given, false)?;
            bindings
        } else {
            let loaded = graph.take().map_or_else(|| load(&model.path), Ok)?;
            let shapes: Vec<_> = given.shapes.clone().into_iter().collect();
            let mut hints = hints;
            hints.0.extend(loaded.bind_shapes(&shapes).map_err(bind)?.0);
            let bindings = loaded.default_bindings(given.batch.unwrap_or(1), &hints);
            refuse_lost_batch(model, given, bindings != loaded.default_bindings(1, &hints))?;
            graph = Some(loaded);
            bindings
        };
        let bound = model.facts.batch_dimension().and_then(|dimension| bindings.get(dimension));
        if let (Some(batch), Some(bound)) = (given.batch, bound)
            && batch != bound
        {
            return Err(ModelError::BatchConflict { batch, bound });
        }
        let id = CaseId::derive(model.facts.id, &bindings.to_string());
        if let Some(mut case) = self.store.case(id)?
            && case.facts.method_version == METHOD_VERSION
        {
            case.model_name.clone_from(&model.name);
            return Ok(case);
        }
        let graph = graph.map_or_else(|| load(&model.path), Ok)?;
        let facts = graph.case_facts(&bindings).map_err(bind)?;
        let case = Case::new(model.facts.id, model.name.clone(), bindings, facts);
        self.store.record_case(&case, self.now_unix_ms)?;
        Ok(case)
    }

    /// Counts the work of those `cases` anew that another method counted, where the model's file is still there.
    ///
    /// Cases of models that are gone, changed or refused by now stay as they are.
    ///
    /// # Errors
    /// When the store fails.
    pub fn recount(&self, cases: &mut [Case]) -> Result<(), StoreError> {
        let is_stale = |case: &Case| case.facts.method_version != METHOD_VERSION;
        if !cases.iter().any(is_stale) {
            return Ok(());
        }
        for known in self.store.models()? {
            let mut stale: Vec<&mut Case> =
                cases.iter_mut().filter(|case| case.model == known.facts.id && is_stale(case)).collect();
            if stale.is_empty() {
                continue;
            }
            let Some(model) = self.load_unchanged(&known)? else { continue };
            let record = ModelRecord {
                facts: model.facts(),
                name: &known.name,
                path: known.path.as_deref(),
                licence: None,
                source: None,
            };
            self.store.record_model(&record, self.now_unix_ms)?;
            for case in &mut stale {
                match model.case_facts(&case.bindings) {
                    Ok(facts) => {
                        case.facts = facts;
                        self.store.record_case(case, self.now_unix_ms)?;
                    }
                    Err(error) => tracing::info!("{} cannot be counted anew: {error}", case.label()),
                }
            }
        }
        Ok(())
    }

    /// The work of `cases` by sort of node, of those whose model's file is still there as it was recorded.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn work_by_sort(
        &self,
        cases: &HashMap<CaseId, Case>,
    ) -> Result<BTreeMap<CaseId, Vec<SortOfWork>>, StoreError> {
        let mut found = BTreeMap::new();
        for known in self.store.models()? {
            let mut of_model = cases.values().filter(|case| case.model == known.facts.id).peekable();
            if of_model.peek().is_none() {
                continue;
            }
            let Some(model) = self.load_unchanged(&known)? else { continue };
            for case in of_model {
                match model.work_by_sort(&case.bindings) {
                    Ok(work) => drop(found.insert(case.id, work)),
                    Err(error) => tracing::info!("{} cannot be sorted: {error}", case.label()),
                }
            }
        }
        Ok(found)
    }

    /// The model as it was recorded, unless its file is gone, changed or unusable.
    fn load_unchanged(&self, known: &StoredModel) -> Result<Option<Model>, StoreError> {
        let Some(path) = &known.path else { return Ok(None) };
        let Some((size, modified)) = file_stamp(path) else { return Ok(None) };
        // The stamp spares reading a large file that holds another model by now.
        let same = self.store.model_by_file(path, size, modified)?;
        if same.is_none_or(|same| same.facts.id != known.facts.id) {
            return Ok(None);
        }
        match siliconroute_onnx::load_model(path) {
            Ok(model) => Ok(Some(model).filter(|model| model.facts().id == known.facts.id)),
            Err(error) => {
                tracing::info!("{} cannot be counted anew: {error}", path.display());
                Ok(None)
            }
        }
    }

    fn generate(
        &self,
        model: &SyntheticModel,
        progress: &mut dyn packages::Progress,
    ) -> Result<PathBuf, ModelError> {
        let name = format!("{}.onnx", model.name());
        let path = self.folder.join(&name);
        if path.is_file() {
            return Ok(path);
        }
        if let Some(scratch) = &self.scratch {
            let path = scratch.join(&name);
            if !path.is_file() {
                write_synthetic(model, &path, STORE_RESERVE_BYTES, true)?;
            }
            return Ok(path);
        }
        let _lock = packages::FolderLock::acquire(&self.folder, progress)?;
        if !path.is_file() {
            write_synthetic(model, &path, STORE_RESERVE_BYTES, true)?;
        }
        Ok(path)
    }

    fn catalogue_path(&self, model: &CatalogueModel) -> PathBuf {
        self.folder.join(format!("{}-{}.onnx", model.name, model.version))
    }

    fn fetch(
        &self,
        model: &CatalogueModel,
        fetcher: &dyn Fetcher,
        progress: &mut dyn packages::Progress,
    ) -> Result<PathBuf, ModelError> {
        let path = self.catalogue_path(model);
        match self.place(model, &path, progress)? {
            Place::Intact => return Ok(path),
            Place::Damaged(finding) => return Err(changed(model, path, finding)),
            Place::Empty => {}
        }
        self.fetch_to(model, &path, fetcher, progress)?;
        Ok(path)
    }

    fn fetch_to(
        &self,
        model: &CatalogueModel,
        path: &Path,
        fetcher: &dyn Fetcher,
        progress: &mut dyn packages::Progress,
    ) -> Result<(), ModelError> {
        if self.scratch.is_some() {
            return Err(ModelError::ReadOnlyHome(model.name.clone()));
        }
        if self.offline {
            return Err(ModelError::Offline(model.name.clone()));
        }
        crate::catalogue::fetch_member(model, path, fetcher, progress)
    }

    /// Whether the file of `model` still holds it; one whose size and time are known is not read again.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn holds(&self, model: &KnownModel) -> Result<bool, StoreError> {
        if let Some((size, modified)) = file_stamp(&model.path)
            && let Some(known) = self.store.model_by_file(&model.path, size, modified)?
            && !known.facts.external_data
        {
            return Ok(known.facts.id == model.facts.id);
        }
        Ok(load(&model.path).is_ok_and(|found| found.facts().id == model.facts.id))
    }

    /// The facts of a model, and its graph where the file had to be read.
    fn facts(
        &self,
        path: &Path,
        name: &str,
        origin: &Origin,
    ) -> Result<(ModelFacts, Option<Arc<Model>>), ModelError> {
        let stamp = file_stamp(path);
        if let Some((size, modified)) = stamp
            && let Some(known) = self.store.model_by_file(path, size, modified)?
            && !known.facts.external_data
            && known.facts.method_version == METHOD_VERSION
        {
            return Ok((known.facts, None));
        }
        let graph = load(path)?;
        let facts = graph.facts().clone();
        let (licence, source) = match origin {
            Origin::Catalogue(model) => {
                (Some(model.licence.clone()), Some(format!("{} {}", model.distribution, model.version)))
            }
            Origin::Synthetic(_) => (None, Some("synthetic".to_owned())),
            Origin::File(_) => (None, None),
        };
        let record = ModelRecord {
            facts: &facts,
            name,
            path: Some(path),
            licence: licence.as_deref(),
            source: source.as_deref(),
        };
        self.store.record_model(&record, self.now_unix_ms)?;
        if let Some((size, modified)) = stamp {
            self.store.record_model_file(path, size, modified, facts.id)?;
        }
        Ok((facts, Some(graph)))
    }
}

/// What the user says about free dimensions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The batch size.
    pub batch: Option<u64>,
    /// Whole shapes by input name.
    pub shapes: BTreeMap<String, Vec<u64>>,
}

/// The model's usual values, with the batch size that was asked for.
fn hints(model: &KnownModel, given: &Given) -> Result<Bindings, ModelError> {
    let mut hints = model.hints.clone();
    if let Some(batch) = given.batch {
        match model.facts.inputs.first().and_then(|input| input.shape.first()) {
            Some(Dimension::Free(dimension)) => {
                hints.0.insert(dimension.clone(), batch);
            }
            Some(&Dimension::Fixed(fixed)) if fixed != batch => {
                return Err(ModelError::FixedBatch { model: model.name.clone(), fixed });
            }
            Some(Dimension::Fixed(_)) | None => {}
        }
    }
    Ok(hints)
}

/// Refuses a batch size that has no place: the first input is a scalar, and no dimension of others is `bound` by it.
fn refuse_lost_batch(model: &KnownModel, given: &Given, bound: bool) -> Result<(), ModelError> {
    let first = model.facts.inputs.first();
    // Whatever has no batch works on one.
    let Some(batch) = given.batch.filter(|&batch| batch != 1 && !bound) else { return Ok(()) };
    let reason = match first {
        None => "it has no input".to_owned(),
        Some(input) if input.shape.is_empty() => format!("its first input `{}` is a scalar", input.name),
        Some(_) => return Ok(()),
    };
    Err(ModelError::NoBatch { model: model.name.clone(), batch, reason })
}

/// The bindings where hints give every dimension but perhaps the batch, which spares reading the file.
fn complete_bindings(model: &KnownModel, given: &Given, hints: &Bindings) -> Option<Bindings> {
    let batch = model.facts.batch_dimension();
    let value = |dimension: &String| match hints.get(dimension) {
        Some(value) => Some((dimension.clone(), value)),
        None if batch == Some(dimension) => Some((dimension.clone(), 1)),
        None => None,
    };
    if !given.shapes.is_empty() {
        return None;
    }
    model.facts.free_dimensions.iter().map(value).collect::<Option<_>>().map(Bindings)
}

/// Writes a synthetic model whole or not at all, unless it would leave less than `reserve_bytes` on the disk; `in_home`
/// says that it lies in the home, and not where the user wants it.
pub(crate) fn write_synthetic(
    model: &SyntheticModel,
    path: &Path,
    reserve_bytes: u64,
    in_home: bool,
) -> Result<(), ModelError> {
    let place = output_place(path).map_err(|source| ModelError::Folder { path: path.to_owned(), source })?;
    let needed_bytes = model.weight_bytes();
    let no_space = || NoSpace {
        path: path.to_owned(),
        needed_bytes,
        reserve_bytes,
        free_bytes: siliconroute_hardware::free_space_bytes(folder_of(&place)),
        in_home,
    };
    no_space().check()?;
    model.write(&place).map_err(|error| {
        if is_disk_full(&error.source) {
            ModelError::NoSpace(no_space())
        } else {
            ModelError::unwritten(error, in_home)
        }
    })
}

fn changed(model: &CatalogueModel, path: PathBuf, finding: String) -> ModelError {
    ModelError::Changed { name: model.name.clone(), path, finding, repair: "fetch" }
}

fn load(path: &Path) -> Result<Arc<Model>, ModelError> {
    let loaded = siliconroute_onnx::load_model(path).map(Arc::new);
    loaded.map_err(|source| ModelError::Load { path: path.to_owned(), source })
}

fn parse_reference(reference: &str) -> Result<Origin, ModelError> {
    let path = Path::new(reference);
    let looks_like_path = reference.contains(['/', '\\']) || path.extension().is_some_and(|e| e == "onnx");
    if looks_like_path || path.exists() {
        return Ok(Origin::File(std::path::absolute(path).unwrap_or_else(|_no_folder| path.to_owned())));
    }
    let invalid = match SyntheticModel::parse(reference) {
        Ok(model) => return Ok(Origin::Synthetic(model)),
        Err(invalid) => invalid,
    };
    Catalogue::embedded().find(reference).map(Origin::Catalogue).map_err(|unknown| ModelError::Unknown {
        name: reference.to_owned(),
        suggestion: match unknown.suggestion() {
            none if none.is_empty() && meant_synthetic(reference) => format!("; {invalid}"),
            suggestion => suggestion,
        },
    })
}

/// Whether a name is built like those of the synthetic families: three parts, of which the others hold numbers.
fn meant_synthetic(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    matches!(parts.as_slice(), [_, width, layers]
        if [width, layers].iter().all(|part| part.starts_with(|c: char| c.is_ascii_digit())))
}

fn file_name(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// Size and time of change; `None` when the system does not tell, so that the file is read again.
fn file_stamp(path: &Path) -> Option<(u64, i64)> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((metadata.len(), i64::try_from(modified.as_nanos()).ok()?))
}

#[cfg(test)]
mod tests;
