//! Inputs for a case, made from a recorded seed, so that every target computes on the same values.
//!
//! Invariant: the tensors depend on the inputs' names, element types and shapes, on the recipes and on the
//! seed alone. The random numbers use only operations that IEEE 754 rounds exactly, so two machines of any
//! kind make the same bits.
//!
//! Reading order: `recipe`, `default_recipe`, `random`, `fill`.

mod default_recipe;
mod fill;
mod random;
mod recipe;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use siliconroute_core::CaseFacts;
use siliconroute_core::model::BoundInput;
use siliconroute_core::tensor::{ElementType, NamedTensor, Tensor, element_count};

pub use default_recipe::default_recipe;
pub use recipe::{Recipe, Recipes};

/// The most bytes that the inputs of one case may take together, unless a caller says otherwise: 4 GiB.
pub const DEFAULT_LIMIT_BYTES: u64 = 4 << 30;

/// What bounds the generated values besides the recipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputLimits {
    /// The most bytes that all inputs may take together.
    pub limit_bytes: u64,
    /// By input name, how many rows the table has that the input's values look up; default values stay below.
    pub index_limits: BTreeMap<String, u64>,
}

impl Default for InputLimits {
    fn default() -> Self {
        Self { limit_bytes: DEFAULT_LIMIT_BYTES, index_limits: BTreeMap::new() }
    }
}

/// Why inputs cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InputsError {
    /// The inputs would take more memory than allowed.
    #[error(
        "input `{input}` of shape {shape:?} brings the inputs over the limit of {limit_bytes} bytes; \
         bind smaller dimensions"
    )]
    TooLarge {
        /// The input that goes over the limit.
        input: String,
        /// Its shape.
        shape: Vec<u64>,
        /// The limit.
        limit_bytes: u64,
    },
    /// A recipe is for an input that the case does not have.
    #[error("there is a recipe for `{input}`, but the model's inputs are {}", known.join(", "))]
    UnknownInput {
        /// The input that the recipe names.
        input: String,
        /// The inputs that there are.
        known: Vec<String>,
    },
    /// A recipe cannot fill an input.
    #[error("the recipe of input `{input}` ({element}) does not fit: {reason}")]
    UnfitRecipe {
        /// The input.
        input: String,
        /// Its element type.
        element: ElementType,
        /// What is wrong with the recipe.
        reason: String,
    },
}

/// Makes one tensor for each of `inputs`, in their order, within [`InputLimits::default`].
///
/// An input without a recipe gets [`default_recipe`]. Each input has a random stream of its own, derived
/// from `seed` and its name, so that its values do not depend on the other inputs.
///
/// # Errors
/// When a recipe names no input or does not fit its input, or the tensors would take too much memory.
pub fn generate(
    inputs: &[BoundInput],
    recipes: &Recipes,
    seed: u64,
) -> Result<Vec<NamedTensor>, InputsError> {
    generate_within(inputs, recipes, &InputLimits::default(), seed)
}

/// Makes the inputs of a case: [`generate_within`] the default size and the lengths of the tables it looks up.
///
/// # Errors
/// As [`generate`].
pub fn generate_for(
    facts: &CaseFacts,
    recipes: &Recipes,
    seed: u64,
) -> Result<Vec<NamedTensor>, InputsError> {
    let limits = InputLimits { index_limits: facts.index_limits.clone(), ..InputLimits::default() };
    generate_within(&facts.inputs, recipes, &limits, seed)
}

/// [`generate`] within `limits`.
///
/// # Errors
/// As [`generate`].
pub fn generate_within(
    inputs: &[BoundInput],
    recipes: &Recipes,
    limits: &InputLimits,
    seed: u64,
) -> Result<Vec<NamedTensor>, InputsError> {
    if let Some(name) = recipes.0.keys().find(|name| inputs.iter().all(|input| input.name != **name)) {
        let known = inputs.iter().map(|input| input.name.clone()).collect();
        return Err(InputsError::UnknownInput { input: name.clone(), known });
    }
    // All sizes are checked before the first allocation, so that a refusal costs nothing.
    let planned =
        inputs.iter().map(|input| planned_input(input, recipes, limits)).collect::<Result<Vec<_>, _>>()?;
    let mut total_bytes = 0_u64;
    for plan in &planned {
        total_bytes = total_bytes.saturating_add(plan.bytes);
        if total_bytes > limits.limit_bytes {
            return Err(too_large(plan.input, limits));
        }
    }
    planned.into_iter().map(|plan| plan.make(seed)).collect()
}

/// An input with its checked shape and its recipe.
struct PlannedInput<'a> {
    input: &'a BoundInput,
    recipe: Recipe,
    shape: Vec<usize>,
    count: usize,
    bytes: u64,
}

impl PlannedInput<'_> {
    fn make(self, seed: u64) -> Result<NamedTensor, InputsError> {
        let Self { input, recipe, shape, count, .. } = self;
        let unfit =
            |reason| InputsError::UnfitRecipe { input: input.name.clone(), element: input.element, reason };
        recipe.check(input.element, &shape).map_err(unfit)?;
        let random = random::Random::new(seed, &input.name);
        let data = fill::fill(&recipe, input.element, &shape, count, random);
        let tensor = Tensor::new(shape, data).map_err(|mismatch| unfit(mismatch.to_string()))?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    }
}

fn planned_input<'a>(
    input: &'a BoundInput,
    recipes: &Recipes,
    limits: &InputLimits,
) -> Result<PlannedInput<'a>, InputsError> {
    let too_large = || too_large(input, limits);
    let sizes = input.shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>();
    let shape = sizes.ok_or_else(too_large)?;
    let count = element_count(&shape).ok_or_else(too_large)?;
    let recipe = recipes
        .0
        .get(&input.name)
        .cloned()
        .unwrap_or_else(|| default_recipe(input, limits.index_limits.get(&input.name).copied()));
    let element_bytes = input.element.size_bytes().unwrap_or_else(|| recipe.text_bytes());
    let bytes = (count as u64).checked_mul(element_bytes as u64).ok_or_else(too_large)?;
    Ok(PlannedInput { input, recipe, shape, count, bytes })
}

fn too_large(input: &BoundInput, limits: &InputLimits) -> InputsError {
    InputsError::TooLarge {
        input: input.name.clone(),
        shape: input.shape.clone(),
        limit_bytes: limits.limit_bytes,
    }
}
