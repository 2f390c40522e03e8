//! The recipe of an input that has none, guessed from its name, element type and shape.
//!
//! Invariant: the first row of the table at [`default_recipe`] that fits decides, and its recipe always passes
//! the check against its input.

use siliconroute_core::model::BoundInput;
use siliconroute_core::tensor::ElementType;

use super::recipe::{Recipe, is_float, whole_bounds};

/// Token ids stay below this number: every vocabulary is larger.
const TOKEN_BOUND: u64 = 100;
const SAMPLE_RATE_HERTZ: i32 = 16_000;
const WORD: &str = "measure";

/// The recipe for an input that has none of its own; the first row that fits decides.
///
/// Names are compared without regard to case, and "word" means a part of the name between other characters
/// than letters and digits. `index_limit` is how many rows the table has that the values look up.
///
/// | input | values |
/// | --- | --- |
/// | string | the word `measure` |
/// | bool | true |
/// | name contains `mask` | ones |
/// | name contains `token_type`, or a word starts with `segment` | zeros |
/// | integer, name contains `position` | 0, 1, 2, … along the last axis, below `index_limit` |
/// | a word `sr`, or name contains `sample_rate` or `sampling_rate`; one element | 16000, where the type holds it |
/// | a word `state(s)`, `hidden`, `cell(s)`, `past`, `cache(s)`, `h0`, `c0`, `hn`, `cn`, or one that ends in `state(s)`; without a word `encoder` | zeros |
/// | integer, a word `len`, `lens`, `length(s)` | ones: valid whatever is as long |
/// | uint8 of rank 3 or more (an image of bytes) | uniform in 0..256, below `index_limit` |
/// | other integer | uniform in 0..100, below `index_limit` |
/// | float of rank 4 with 3 channels, second or last | uniform in 0..1 |
/// | float of one element and rank 0 or 1 | 1 |
/// | other float | standard normal |
pub fn default_recipe(input: &BoundInput, index_limit: Option<u64>) -> Recipe {
    let name = input.name.to_lowercase();
    let words: Vec<&str> =
        name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has_word = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let single = input.shape.iter().all(|&size| size == 1) && input.shape.len() <= 1;
    let holds_rate = holds(input.element, i128::from(SAMPLE_RATE_HERTZ));

    match input.element {
        ElementType::String => return Recipe::Text { value: WORD.to_owned() },
        ElementType::Bool => return Recipe::Ones,
        _ => {}
    }
    let integer = !is_float(input.element);
    let rate = has_word(&["sr"]) || name.contains("sample_rate") || name.contains("sampling_rate");
    if name.contains("mask") {
        Recipe::Ones
    } else if name.contains("token_type") || words.iter().any(|word| word.starts_with("segment")) {
        Recipe::Zeros
    } else if integer && name.contains("position") {
        Recipe::Range { wrap: Some(index_bound(input.element, u64::MAX, index_limit)) }
    } else if rate && single && holds_rate {
        Recipe::Constant { value: f64::from(SAMPLE_RATE_HERTZ) }
    } else if words.iter().any(|word| is_state(word)) && !has_word(&["encoder"]) {
        Recipe::Zeros
    } else if integer && has_word(&["len", "lens", "length", "lengths"]) {
        Recipe::Ones
    } else if integer {
        let image = input.element == ElementType::Uint8 && input.shape.len() >= 3;
        let bound = index_bound(input.element, if image { 256 } else { TOKEN_BOUND }, index_limit);
        Recipe::Integers { low: 0, high: bound.cast_signed() }
    } else if matches!(input.shape[..], [_, 3, _, _] | [_, _, _, 3]) {
        Recipe::Uniform { low: 0.0, high: 1.0 }
    } else if single {
        Recipe::Ones
    } else {
        Recipe::Normal { mean: 0.0, std: 1.0 }
    }
}

fn is_state(word: &str) -> bool {
    const WORDS: [&str; 9] = ["hidden", "cell", "cells", "past", "cache", "caches", "h0", "c0", "hn"];
    WORDS.contains(&word) || word == "cn" || word.ends_with("state") || word.ends_with("states")
}

/// A bound above the values: `wanted`, the limit of the table and what the type holds, whichever is lowest.
///
/// At least 1: an empty table has no valid index, and the engine's own refusal says so best.
fn index_bound(element: ElementType, wanted: u64, index_limit: Option<u64>) -> u64 {
    let held = whole_bounds(element).map_or(1, |(_, high)| u64::try_from(high).unwrap_or(u64::MAX));
    wanted.min(index_limit.unwrap_or(u64::MAX)).min(held.saturating_add(1)).max(1)
}

fn holds(element: ElementType, value: i128) -> bool {
    whole_bounds(element).is_some_and(|(low, high)| (low..=high).contains(&value))
}
