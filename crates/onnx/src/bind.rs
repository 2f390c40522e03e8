//! Values for a model's free dimensions: from shapes, from hints, from defaults.
//!
//! Invariant: a complete set of bindings names each free dimension of the inputs and nothing else.

#[cfg(test)]
mod tests;

use siliconroute_core::model::BoundInput;
use siliconroute_core::{Bindings, Dimension, TensorSpec};

use crate::load::Model;
use crate::value::ELEMENT_LIMIT;

/// Why sizes do not make a case of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum BindError {
    #[error("the model has no free dimension `{name}`; it has {}", listed(known))]
    UnknownDimension { name: String, known: Vec<String> },
    #[error("the free dimension `{name}` of the input `{input}` has no value; bind it")]
    MissingDimension { name: String, input: String },
    #[error("the free dimension `{name}` cannot be 0")]
    ZeroDimension { name: String },
    #[error("the model has no input `{name}`; it has {}", listed(known))]
    UnknownInput { name: String, known: Vec<String> },
    #[error("the input `{input}` has {expected} axes, the shape given has {found}")]
    WrongRank { input: String, expected: usize, found: usize },
    #[error("axis {axis} of the input `{input}` is fixed at {fixed}, the shape given says {given}")]
    FixedSize { input: String, axis: usize, fixed: u64, given: u64 },
    #[error("the free dimension `{name}` is given as {first} and as {second}; its axes must agree")]
    Ambiguous { name: String, first: u64, second: u64 },
    #[error("the bound sizes contradict each other at {node}: {detail}")]
    Contradiction { node: String, detail: String },
    #[error("the bound sizes are too large at {place}: {detail}")]
    TooLarge { place: String, detail: String },
    #[error(
        "the sizes at {uncounted} of {total} nodes that hold the work depend on data, so it cannot be counted"
    )]
    ShapesUnknown { uncounted: u64, total: u64 },
    #[error(
        "the bodies in the model have more nodes than can be walked; functions may call each other without end"
    )]
    Endless,
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A sequence length that nothing else says.
const DEFAULT_LENGTH: u64 = 128;

/// Sides of images to try in turn, where the model does not fix them.
const IMAGE_SIDES: [u64; 6] = [224, 320, 640, 48, 64, 32];

/// Lengths of sequences to try in turn, where the model does not fix them.
const LENGTHS: [u64; 5] = [DEFAULT_LENGTH, 512, 576, 1600, 16_000];

/// Whether a free dimension may be 0: a key-value cache starts empty.
fn may_be_empty(name: &str) -> bool {
    name.to_ascii_lowercase().contains("past")
}

impl Model {
    /// The inputs with all dimensions bound.
    pub(crate) fn bound_inputs(&self, bindings: &Bindings) -> Result<Vec<BoundInput>, BindError> {
        let facts = self.facts();
        if let Some(name) = bindings.0.keys().find(|name| !facts.free_dimensions.contains(name)) {
            let known = facts.free_dimensions.clone();
            return Err(BindError::UnknownDimension { name: name.clone(), known });
        }
        if let Some((name, _)) = bindings.0.iter().find(|(name, size)| **size == 0 && !may_be_empty(name)) {
            return Err(BindError::ZeroDimension { name: name.clone() });
        }
        facts.inputs.iter().map(|input| bound_input(input, bindings)).collect()
    }

    /// Reads free dimensions off whole shapes of inputs, as users give them.
    ///
    /// Inputs that are not named leave their own dimensions unbound.
    ///
    /// # Errors
    /// When an input is unknown, a shape has the wrong number of axes or differs from a fixed size, and
    /// when two axes give one dimension different values.
    pub fn bind_shapes(&self, shapes: &[(String, Vec<u64>)]) -> Result<Bindings, BindError> {
        let mut bindings = Bindings::default();
        for (name, shape) in shapes {
            let Some(input) = self.facts().inputs.iter().find(|input| input.name == *name) else {
                let known = self.facts().inputs.iter().map(|input| input.name.clone()).collect();
                return Err(BindError::UnknownInput { name: name.clone(), known });
            };
            if shape.len() != input.shape.len() {
                let (expected, found) = (input.shape.len(), shape.len());
                return Err(BindError::WrongRank { input: name.clone(), expected, found });
            }
            for (axis, (dimension, &given)) in input.shape.iter().zip(shape).enumerate() {
                match dimension {
                    Dimension::Fixed(fixed) if *fixed != given => {
                        return Err(BindError::FixedSize { input: name.clone(), axis, fixed: *fixed, given });
                    }
                    Dimension::Fixed(_) => {}
                    Dimension::Free(free) => match bindings.0.insert(free.clone(), given) {
                        Some(first) if first != given => {
                            return Err(BindError::Ambiguous { name: free.clone(), first, second: given });
                        }
                        _ => {}
                    },
                }
            }
        }
        Ok(bindings)
    }

    /// Binds every free dimension: `hints` first, then `batch` and defaults that fit the model.
    ///
    /// The outermost axis of the first input (unless its name speaks of a length) and every dimension named
    /// like a batch get `batch`; lengths get 128, sides of images 224, channels 3, caches of past positions 0,
    /// sums of dimensions (`past + seq`) their sum. Where the model contradicts the default lengths or
    /// sides, common others are tried; when none fits, the first defaults stand and
    /// [`Model::case_facts`] tells what is wrong. Hints for other names are ignored.
    pub fn default_bindings(&self, batch: u64, hints: &Bindings) -> Bindings {
        let first = self.assemble(batch, hints, DEFAULT_LENGTH, IMAGE_SIDES[0]);
        let sides = IMAGE_SIDES.iter().map(|&side| (DEFAULT_LENGTH, side));
        let lengths = LENGTHS.iter().map(|&length| (length, IMAGE_SIDES[0]));
        let mut tried: Vec<Bindings> = Vec::new();
        for (length, side) in sides.chain(lengths) {
            let candidate = self.assemble(batch, hints, length, side);
            if tried.contains(&candidate) {
                continue;
            }
            if self.case_facts(&candidate).is_ok() {
                return candidate;
            }
            tried.push(candidate);
        }
        first
    }

    fn assemble(&self, batch: u64, hints: &Bindings, length: u64, side: u64) -> Bindings {
        let mut bindings = Bindings::default();
        let mut sums = Vec::new();
        for (index, input) in self.facts().inputs.iter().enumerate() {
            for (axis, dimension) in input.shape.iter().enumerate() {
                let Dimension::Free(name) = dimension else { continue };
                if bindings.0.contains_key(name) {
                    continue;
                }
                let value = match (hints.get(name), role(input, index, axis, name)) {
                    (Some(hint), _) => hint,
                    (None, Role::Batch) => batch,
                    (None, Role::Length) => length,
                    (None, Role::Side) => side,
                    (None, Role::Channels) => 3,
                    (None, Role::Past) => 0,
                    (None, Role::Total) => {
                        sums.push(name.clone());
                        length
                    }
                };
                bindings.0.insert(name.clone(), value);
            }
        }
        for name in sums {
            let total = sum_of_parts(&name, &bindings).unwrap_or_else(|| {
                let part = |wanted: Role| {
                    let mut found = bindings.0.iter().filter(|(n, _)| named_role(n) == Some(wanted));
                    found.next().map_or(0, |(_, &size)| size)
                };
                part(Role::Past).saturating_add(part(Role::Length))
            });
            if total > 0 {
                bindings.0.insert(name, total);
            }
        }
        bindings
    }
}

fn bound_input(input: &TensorSpec, bindings: &Bindings) -> Result<BoundInput, BindError> {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => Ok(*size),
        Dimension::Free(name) => bindings
            .get(name)
            .ok_or_else(|| BindError::MissingDimension { name: name.clone(), input: input.name.clone() }),
    };
    let shape: Vec<u64> = input.shape.iter().map(size).collect::<Result<_, _>>()?;
    let count = shape.iter().fold(1_u64, |product, &size| product.saturating_mul(size));
    if count > ELEMENT_LIMIT {
        let detail = format!("{shape:?} has over {ELEMENT_LIMIT} elements");
        return Err(BindError::TooLarge { place: format!("the input `{}`", input.name), detail });
    }
    Ok(BoundInput { name: input.name.clone(), element: input.element, shape })
}

/// What a free dimension most likely stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Batch,
    Length,
    Side,
    Channels,
    Past,
    /// The sum of past and present positions.
    Total,
}

fn named_role(name: &str) -> Option<Role> {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if lower.contains('+') || has(&["total"]) {
        Some(Role::Total)
    } else if has(&["past"]) {
        Some(Role::Past)
    } else if has(&["batch"]) || matches!(lower.as_str(), "n" | "b" | "bs") {
        Some(Role::Batch)
    } else if has(&["seq", "len", "time", "token", "frame", "sample", "step"]) {
        Some(Role::Length)
    } else if has(&["height", "width"]) || matches!(lower.as_str(), "h" | "w") {
        Some(Role::Side)
    } else if has(&["channel"]) || lower == "c" {
        Some(Role::Channels)
    } else {
        None
    }
}

fn role(input: &TensorSpec, index: usize, axis: usize, name: &str) -> Role {
    if let Some(role) = named_role(name) {
        // An unnamed axis is called after its tensor, whose name says nothing of the axis.
        if name != format!("{}.{axis}", input.name) {
            return role;
        }
    }
    let rank = input.shape.len();
    // The state of a recurrent layer is [layers, batch, hidden].
    let is_state =
        matches!(input.shape.as_slice(), [Dimension::Fixed(_), Dimension::Free(_), Dimension::Fixed(_)]);
    let channels_last = input.shape.last() == Some(&Dimension::Fixed(3));
    match (rank, axis) {
        (3, 1) if is_state => Role::Batch,
        (_, 0) if rank > 1 || index == 0 => Role::Batch,
        (4 | 5, 1) if !channels_last => Role::Channels,
        (4 | 5, last) if channels_last && last == rank - 1 => Role::Channels,
        (4 | 5, _) => Role::Side,
        _ => Role::Length,
    }
}

/// The value of a name like `past + seq` or `seq + 1` whose parts are bound.
fn sum_of_parts(name: &str, bindings: &Bindings) -> Option<u64> {
    if !name.contains('+') {
        return None;
    }
    name.split('+').try_fold(0_u64, |sum, part| {
        let part = part.trim();
        sum.checked_add(part.parse().ok().or_else(|| bindings.get(part))?)
    })
}
