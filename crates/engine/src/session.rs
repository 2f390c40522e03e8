//! The traits that every engine implements, and what may go wrong.
//!
//! Invariant: a session accepts only inputs that [`check_inputs`] passed, since some providers crash
//! on what the model does not declare.

use std::collections::BTreeMap;
use std::path::Path;

use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::{Dimension, ElementType, NamedTensor, TensorSpec};
use siliconroute_core::trial::{Failure, Placement};
use siliconroute_core::{Reading, Target, TargetKey};

/// A target that an engine knows of: usable, or with the reason why not.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Offer {
    /// The target.
    pub target: Target,
    /// The chip's identifiers as the engine reports them, by the engine's names.
    pub device: BTreeMap<String, String>,
    /// Why the target cannot be used; `None` when it can.
    pub unavailable: Option<String>,
}

/// How the threads of a session on a CPU work; the engine's own way where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ThreadOptions {
    /// Threads within an operator, the calling one among them.
    pub count: Option<u32>,
    /// Whether threads that wait for work keep their CPU busy for a while.
    pub spin: Option<bool>,
    /// Into how many blocks for each thread an operator's work is cut, the later ones ever smaller.
    pub block_base: Option<u32>,
    /// The system's numbers of the logical CPUs that threads beside the calling one may run on; all when empty.
    pub cores: Vec<u32>,
}

impl ThreadOptions {
    /// So many threads, and nothing else said.
    pub fn of_count(count: u32) -> Self {
        Self { count: Some(count), ..Self::default() }
    }

    /// The name of an option beyond the number of threads that is set; `None` where there is none.
    pub(crate) fn beyond_count(&self) -> Option<&'static str> {
        [
            ("spin", self.spin.is_some()),
            ("block_base", self.block_base.is_some()),
            ("cores", !self.cores.is_empty()),
        ]
        .into_iter()
        .find_map(|(name, set)| set.then_some(name))
    }
}

/// What a session is made from.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest<'a> {
    /// The model file.
    pub model: &'a Path,
    /// The model's inputs, as read from the file.
    pub inputs: &'a [TensorSpec],
    /// The model's outputs, as read from the file.
    pub outputs: &'a [TensorSpec],
    /// Values of the free dimensions, for providers that want static shapes.
    pub bindings: &'a Bindings,
    /// How its threads work.
    pub threads: &'a ThreadOptions,
    /// Folder in which the provider keeps what it compiled, if it is to.
    pub compile_cache: Option<&'a Path>,
}

/// A session that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The engine has no such target.
    #[error("this engine has no target `{0}`")]
    UnknownTarget(TargetKey),
    /// The engine refused the model.
    #[error("{0}")]
    Refused(String),
}

/// An inference that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The inputs do not fit the model.
    #[error(transparent)]
    Input(#[from] InputError),
    /// [`Session::run`] was called before [`Session::set_inputs`].
    #[error("no inputs are set")]
    NoInputs,
    /// The engine failed.
    #[error("{0}")]
    Refused(String),
    /// The worker that the session lives in failed.
    #[error(transparent)]
    Worker(#[from] Failure),
}

/// An input that does not fit the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// An input is missing.
    #[error("input `{name}` is missing; the model takes {expected}")]
    Missing {
        /// The missing input.
        name: String,
        /// All inputs of the model.
        expected: String,
    },
    /// The model has no input of that name.
    #[error("the model has no input `{name}`; it takes {expected}")]
    Unknown {
        /// The name given.
        name: String,
        /// All inputs of the model.
        expected: String,
    },
    /// An input was given twice.
    #[error("input `{0}` is given twice")]
    Twice(String),
    /// Another element type.
    #[error("input `{name}` must be {expected}, not {found}")]
    Element {
        /// The input.
        name: String,
        /// The model's element type.
        expected: ElementType,
        /// The type given.
        found: ElementType,
    },
    /// Another number of axes, or a size that the model fixes otherwise.
    #[error("input `{name}` must have shape {expected}, not {found:?}")]
    Shape {
        /// The input.
        name: String,
        /// The model's shape, free dimensions by name.
        expected: String,
        /// The shape given.
        found: Vec<usize>,
    },
    /// A number that picks no row of the table that the model looks it up in.
    #[error(
        "input `{name}` holds {found} at element {element}, but its values pick from a table of {rows} rows: \
         they must be at least -{rows} and below {rows}"
    )]
    Index {
        /// The input.
        name: String,
        /// The number.
        found: i128,
        /// Its position, row-major.
        element: usize,
        /// The rows that there are.
        rows: u64,
    },
}

/// A way to run models: one or more providers in one runtime library.
pub trait Engine {
    /// The engine's name and version, such as `rten 0.27.0`.
    fn version(&self) -> String;

    /// The targets that the engine offers, those that cannot be used included.
    fn offers(&self) -> Vec<Offer>;

    /// Loads a model onto `target`.
    ///
    /// # Errors
    /// When the target is unknown or the engine refuses the model.
    fn create_session(
        &self,
        target: &TargetKey,
        request: &SessionRequest<'_>,
    ) -> Result<Box<dyn Session>, SessionError>;
}

/// A model loaded onto a target.
///
/// Inputs are set once and may be run many times, so that a timed run holds nothing but the inference.
pub trait Session: Send {
    /// Which nodes run where, as far as the engine tells.
    fn placement(&self) -> Reading<Placement>;

    /// Checks the inputs and hands them to the engine.
    ///
    /// # Errors
    /// When they do not fit the model.
    fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), RunError>;

    /// Runs one inference on the inputs set last, and keeps its outputs until the next run.
    ///
    /// # Errors
    /// When no inputs are set or the engine fails.
    fn run(&mut self) -> Result<(), RunError>;

    /// Copies the outputs of the last run, in graph order, in the element types that the model declares.
    ///
    /// # Errors
    /// When there was no run or an output cannot be read.
    fn outputs(&self) -> Result<Vec<NamedTensor>, RunError>;
}

/// Puts `inputs` into the order of `specs` and checks names, element types, ranks and fixed sizes.
///
/// # Errors
/// The first thing that does not fit.
pub fn check_inputs<'t>(
    specs: &[TensorSpec],
    inputs: &'t [NamedTensor],
) -> Result<Vec<&'t NamedTensor>, InputError> {
    let expected = || specs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for (index, input) in inputs.iter().enumerate() {
        if !specs.iter().any(|spec| spec.name == input.name) {
            return Err(InputError::Unknown { name: input.name.clone(), expected: expected() });
        }
        if inputs[..index].iter().any(|other| other.name == input.name) {
            return Err(InputError::Twice(input.name.clone()));
        }
    }
    specs
        .iter()
        .map(|spec| {
            let input = inputs
                .iter()
                .find(|input| input.name == spec.name)
                .ok_or_else(|| InputError::Missing { name: spec.name.clone(), expected: expected() })?;
            check_input(spec, input)?;
            Ok(input)
        })
        .collect()
}

/// Checks that numbers which pick rows of a table stay within it, since not every provider does.
///
/// `rows` is the length of the smallest table by input name, as [`CaseFacts::index_limits`] has it.
///
/// # Errors
/// The first number outside.
///
/// [`CaseFacts::index_limits`]: siliconroute_core::CaseFacts
pub fn check_indices(rows: &BTreeMap<String, u64>, inputs: &[NamedTensor]) -> Result<(), InputError> {
    for input in inputs {
        let Some(&rows) = rows.get(&input.name) else { continue };
        let outside = |index: i128| index < -i128::from(rows) || index >= i128::from(rows);
        if let Some((element, found)) = input.tensor.data().find_integer(outside) {
            return Err(InputError::Index { name: input.name.clone(), found, element, rows });
        }
    }
    Ok(())
}

fn check_input(spec: &TensorSpec, input: &NamedTensor) -> Result<(), InputError> {
    let (found, name) = (input.tensor.element(), || spec.name.clone());
    if found != spec.element {
        return Err(InputError::Element { name: name(), expected: spec.element, found });
    }
    let shape = input.tensor.shape();
    let fits = shape.len() == spec.shape.len()
        && shape.iter().zip(&spec.shape).all(|(&size, dimension)| match dimension {
            Dimension::Fixed(fixed) => size as u64 == *fixed,
            Dimension::Free(_) => true,
        });
    if fits {
        Ok(())
    } else {
        let sizes: Vec<String> = spec.shape.iter().map(ToString::to_string).collect();
        let expected = format!("[{}]", sizes.join(", "));
        Err(InputError::Shape { name: name(), expected, found: shape.to_vec() })
    }
}

/// Joins an error's lines to one, so that it fits a table and a log.
pub(crate) fn one_line(text: &impl ToString) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
