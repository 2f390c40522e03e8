//! Facts of public networks that the program brings along, for tables that tell little of them.
//!
//! Invariant: a network is recognised by its name and its parameters together, what was taken over is told, and a table
//! that holds the facts itself is left as it is.

use std::path::Path;

use siliconroute_core::transfer::CaseTraits;

use super::reading::{PublicModel, public_models};
use crate::table_file::{Table, TableError};
use crate::wording::counted;

/// The facts, counted from the public descriptions by `data/count_board_models.py`.
const TABLE: &str = include_str!("../../../../data/board_models.csv");

/// How far the parameters of two descriptions of one network may lie apart: heads and roundings differ.
const MOST_APART: f64 = 0.2;

/// Gives models that come without further facts those of the network of their name; says which were recognised.
pub(super) fn complete(models: &mut [PublicModel]) -> Result<Option<String>, TableError> {
    let table =
        Table::parse(Path::new("board_models.csv"), TABLE.as_bytes(), &["model", "gmacs", "params_m"])?;
    let known = public_models(&table, &mut Vec::new())?;
    let mut recognised = Vec::new();
    for model in models.iter_mut().filter(|model| is_bare(&model.traits)) {
        let of_name = known.iter().find(|it| it.name == model.name);
        if let Some(known) = of_name.filter(|it| is_same(&it.traits, &model.traits)) {
            model.traits = known.traits.clone();
            recognised.push(model.name.as_str());
        }
    }
    Ok((!recognised.is_empty()).then(|| {
        format!(
            "{} recognised by name and parameters, with the facts that this program brings along: {}",
            counted(recognised.len(), "public network"),
            recognised.join(", ")
        )
    }))
}

/// Whether nothing is told beyond multiply-adds and parameters.
fn is_bare(traits: &CaseTraits) -> bool {
    let CaseTraits { multiply_adds, parameters, .. } = *traits;
    *traits == CaseTraits { multiply_adds, parameters, ..CaseTraits::default() }
}

fn is_same(known: &CaseTraits, told: &CaseTraits) -> bool {
    (told.parameters / known.parameters - 1.0).abs() <= MOST_APART
}
