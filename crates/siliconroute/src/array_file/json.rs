//! Arrays as JSON: `{"NAME": …}` with nested lists, flat lists, bare values or `{"shape": …, "data": …}`.
//!
//! Invariant: the text is read once, straight into the model's element type, so that memory stays in
//! proportion to the text and an error knows its line and column.
//!
//! Reading order: `elements`, `nesting`, `writing`.

mod elements;
mod nesting;
mod writing;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use siliconroute_core::tensor::{Dimension, Tensor, TensorSpec, element_count};

use super::error::{ArrayFault, ArrayFileError};
use nesting::{ArraySeed, ParsedArray};

pub(super) use writing::write;

/// Reads the arrays for `specs` from `file` of `file_bytes` bytes; `None` where it has none.
pub(super) fn read(
    path: &Path,
    file: File,
    file_bytes: u64,
    specs: &[TensorSpec],
    limit_bytes: u64,
) -> Result<Vec<Option<Tensor>>, ArrayFileError> {
    let too_large = |bytes| ArrayFileError::TooLarge { path: path.to_owned(), bytes, limit_bytes };
    if file_bytes > limit_bytes {
        return Err(too_large(file_bytes));
    }
    let mut text = Vec::new();
    file.take(limit_bytes.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|source| ArrayFileError::Read { path: path.to_owned(), source })?;
    if text.len() as u64 > limit_bytes {
        return Err(too_large(text.len() as u64));
    }
    let broken = |source| ArrayFileError::Json { path: path.to_owned(), source };
    let mut deserializer = serde_json::Deserializer::from_slice(&text);
    let found = Document { specs, limit_bytes }.deserialize(&mut deserializer).map_err(broken)?;
    deserializer.end().map_err(broken)?;
    found.map_err(|unknown| ArrayFileError::UnknownArray {
        path: path.to_owned(),
        array: unknown,
        known: specs.iter().map(|spec| spec.name.clone()).collect(),
    })
}

/// The object at the top: input names and arrays.
struct Document<'a> {
    specs: &'a [TensorSpec],
    limit_bytes: u64,
}

/// The arrays, or the name of one that the model has no input for.
type Found = Result<Vec<Option<Tensor>>, String>;

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = Found;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the model's input names as keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found: Vec<Option<Tensor>> = self.specs.iter().map(|_| None).collect();
        let mut left_bytes = self.limit_bytes;
        let mut unknown = None;
        while let Some(name) = map.next_key::<String>()? {
            let index = self.specs.iter().position(|spec| spec.name == name);
            let Some((spec, slot)) = index.and_then(|i| Some((self.specs.get(i)?, found.get_mut(i)?))) else {
                map.next_value::<serde::de::IgnoredAny>()?;
                unknown.get_or_insert(name);
                continue;
            };
            if slot.is_some() {
                return Err(A::Error::custom(format!("input `{name}` is there twice")));
            }
            let parsed = map.next_value_seed(ArraySeed::new(spec, left_bytes))?;
            left_bytes = left_bytes.saturating_sub(parsed.bytes);
            let tensor = finish(spec, parsed);
            *slot = Some(tensor.map_err(|fault| A::Error::custom(format!("input `{name}`: {fault}")))?);
        }
        Ok(unknown.map_or(Ok(found), Err))
    }
}

/// Settles the shape of an array: the one stated, that of its nesting, or that of the model for a flat list.
fn finish(spec: &TensorSpec, parsed: ParsedArray) -> Result<Tensor, ArrayFault> {
    let ParsedArray { data, nesting, stated, .. } = parsed;
    let flat = nesting.len() == 1;
    let shape = match stated {
        Some(stated) if flat || nesting == stated => stated,
        Some(stated) => {
            return Err(ArrayFault::WrongShape { found: nesting, wanted: format!("the stated {stated:?}") });
        }
        None if flat && spec.shape.len() != 1 => {
            shape_of_flat(spec, data.len()).ok_or_else(|| ArrayFault::WrongShape {
                found: nesting,
                wanted: format!("{spec}; nest the lists or write {{\"shape\": […], \"data\": […]}}"),
            })?
        }
        None => nesting,
    };
    super::check_shape(spec, &shape)?;
    Tensor::new(shape, data).map_err(|mismatch| ArrayFault::WrongShape {
        found: vec![mismatch.found],
        wanted: format!("{spec}: {mismatch}"),
    })
}

/// The model's shape with its one free dimension chosen so that `count` elements fill it.
fn shape_of_flat(spec: &TensorSpec, count: usize) -> Option<Vec<usize>> {
    let mut free = None;
    let mut shape = Vec::with_capacity(spec.shape.len());
    for (axis, dimension) in spec.shape.iter().enumerate() {
        match dimension {
            Dimension::Fixed(size) => shape.push(usize::try_from(*size).ok()?),
            Dimension::Free(_) if free.is_some() => return None,
            Dimension::Free(_) => {
                free = Some(axis);
                shape.push(1);
            }
        }
    }
    let row = element_count(&shape)?;
    if let Some(axis) = free {
        *shape.get_mut(axis)? = count.checked_div(row)?;
    }
    (element_count(&shape)? == count).then_some(shape)
}
