//! What an input's values are to look like.
//!
//! Invariant: a recipe that passed [`Recipe::check`] fills its input without a value that the element type
//! cannot hold.

use std::collections::BTreeMap;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use siliconroute_core::tensor::ElementType;

use super::random::FARTHEST_NORMAL;

/// Recipes by input name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recipes(pub BTreeMap<String, Recipe>);

/// How the values of one input are chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Recipe {
    /// Floats of the normal distribution.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation, at least 0.
        std: f64,
    },
    /// Floats spread evenly over `low..high`; types narrower than 64 bits round and may so reach `high`.
    Uniform {
        /// The lowest value.
        low: f64,
        /// The bound above all values.
        high: f64,
    },
    /// Whole numbers spread evenly over `low..high`.
    #[serde(alias = "integer")]
    Integers {
        /// The lowest value.
        low: i64,
        /// The bound above all values, itself excluded.
        high: i64,
    },
    /// One number everywhere.
    Constant {
        /// The number.
        value: f64,
    },
    /// Zero or false everywhere.
    Zeros,
    /// One or true everywhere, as in a mask that hides nothing.
    Ones,
    /// 0, 1, 2, … along the last axis, the same in every row, starting again at `wrap`; 0 for a scalar.
    Range {
        /// The bound that no value reaches; `None` for no bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wrap: Option<u64>,
    },
    /// In every row along the last axis a single one at a random place, zeros elsewhere.
    OneHot,
    /// One text everywhere.
    Text {
        /// The text.
        value: String,
    },
}

impl Recipe {
    /// Tells why the recipe cannot fill an input of this element type and shape.
    pub(crate) fn check(&self, element: ElementType, shape: &[usize]) -> Result<(), String> {
        if (element == ElementType::String) != matches!(self, Self::Text { .. }) {
            return Err("`text` is for string inputs, and nothing else is".to_owned());
        }
        match *self {
            Self::Normal { .. } | Self::Uniform { .. } if !is_float(element) => {
                Err("`normal` and `uniform` give floats; take `integers`".to_owned())
            }
            Self::Normal { mean, std } if !(mean.is_finite() && std.is_finite() && std >= 0.0) => {
                Err(format!("mean {mean} and standard deviation {std} must be finite, the latter at least 0"))
            }
            Self::Uniform { low, high } if !(low < high && (high - low).is_finite()) => {
                Err(format!("low {low} must be below high {high}, and both finite"))
            }
            Self::Normal { mean, std } => {
                let reach = std * FARTHEST_NORMAL;
                check_float(element, mean - reach).and(check_float(element, mean + reach))
            }
            Self::Uniform { low, high } => check_float(element, low).and(check_float(element, high)),
            Self::Integers { low, high } if low >= high => {
                Err(format!("low {low} must be below high {high}"))
            }
            Self::Integers { low, high } => {
                check_whole(element, i128::from(low)).and(check_whole(element, i128::from(high) - 1))
            }
            Self::Constant { value } if is_float(element) => {
                // Infinities are real mask values; a number is a mistake everywhere.
                if value.is_infinite() { Ok(()) } else { check_float(element, value) }
            }
            Self::Constant { value } if value.fract() == 0.0 && value.abs() <= 2_f64.powi(64) => {
                check_whole(element, value as i128)
            }
            Self::Constant { value } => Err(format!("{value} is no whole number of 64 bits")),
            Self::Range { wrap: Some(0) } => Err("`wrap` must be at least 1".to_owned()),
            Self::Range { wrap } => {
                let longest = shape.last().map_or(1, |&size| size as u64).min(wrap.unwrap_or(u64::MAX));
                check_whole(element, i128::from(longest.saturating_sub(1)))
            }
            Self::Zeros | Self::Ones | Self::OneHot | Self::Text { .. } => Ok(()),
        }
    }

    /// Bytes that one element of a string tensor takes in memory.
    pub(super) fn text_bytes(&self) -> usize {
        let text = if let Self::Text { value } = self { value.len() } else { 0 };
        size_of::<String>().saturating_add(text)
    }
}

/// Whether the type is one of the floating-point types.
pub(super) fn is_float(element: ElementType) -> bool {
    exact_integer_limit(element).is_some()
}

/// Up to which magnitude a float type holds every whole number; `None` for the other types.
fn exact_integer_limit(element: ElementType) -> Option<i128> {
    match element {
        ElementType::Float64 => Some(1 << 53),
        ElementType::Float32 => Some(1 << 24),
        ElementType::Float16 => Some(1 << 11),
        ElementType::Bfloat16 => Some(1 << 8),
        _ => None,
    }
}

/// The lowest and highest whole number that an element holds exactly, with all between; `None` for strings.
pub(super) fn whole_bounds(element: ElementType) -> Option<(i128, i128)> {
    Some(match element {
        ElementType::Int8 => (i128::from(i8::MIN), i128::from(i8::MAX)),
        ElementType::Int16 => (i128::from(i16::MIN), i128::from(i16::MAX)),
        ElementType::Int32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        ElementType::Int64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
        ElementType::Uint8 => (0, i128::from(u8::MAX)),
        ElementType::Uint16 => (0, i128::from(u16::MAX)),
        ElementType::Uint32 => (0, i128::from(u32::MAX)),
        ElementType::Uint64 => (0, i128::from(u64::MAX)),
        ElementType::Bool => (0, 1),
        ElementType::String => return None,
        float => {
            let limit = exact_integer_limit(float)?;
            (-limit, limit)
        }
    })
}

fn check_whole(element: ElementType, value: i128) -> Result<(), String> {
    match whole_bounds(element) {
        Some((low, high)) if (low..=high).contains(&value) => Ok(()),
        Some((low, high)) => {
            Err(format!("{value} is outside {low} to {high}, which {element} holds exactly"))
        }
        None => Err("a text is no number".to_owned()),
    }
}

fn check_float(element: ElementType, value: f64) -> Result<(), String> {
    let held = match element {
        ElementType::Float32 => f64::from(value as f32),
        ElementType::Float16 => f16::from_f64(value).to_f64(),
        ElementType::Bfloat16 => bf16::from_f64(value).to_f64(),
        _ => value,
    };
    if held.is_finite() { Ok(()) } else { Err(format!("{value} lies outside the range of {element}")) }
}
