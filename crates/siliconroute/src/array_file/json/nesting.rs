//! Lists of lists of elements, and the objects that state a shape beside them.
//!
//! Invariant: all lists of one depth are of one length, and all elements lie at one depth.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use siliconroute_core::tensor::{TensorData, TensorSpec};

use super::elements::{Scalar, empty, push};

/// What the text says about one array.
#[derive(Debug)]
pub(super) struct ParsedArray {
    /// The elements in the order of the text.
    pub(super) data: TensorData,
    /// The lengths of the lists, outermost first; empty for a bare value.
    pub(super) nesting: Vec<usize>,
    /// The shape that stands beside the elements.
    pub(super) stated: Option<Vec<usize>>,
    /// Bytes that the elements take.
    pub(super) bytes: u64,
}

/// Reads one array for `spec`.
pub(super) struct ArraySeed<'a> {
    spec: &'a TensorSpec,
    elements: Elements,
}

impl<'a> ArraySeed<'a> {
    /// An array of at most `left_bytes` bytes.
    pub(super) fn new(spec: &'a TensorSpec, left_bytes: u64) -> Self {
        let elements = Elements {
            name: spec.name.clone(),
            data: empty(spec.element),
            lengths: Vec::new(),
            common_depth: None,
            bytes: 0,
            left_bytes,
        };
        Self { spec, elements }
    }
}

impl<'de> DeserializeSeed<'de> for ArraySeed<'_> {
    type Value = ParsedArray;

    fn deserialize<D: serde::Deserializer<'de>>(mut self, deserializer: D) -> Result<ParsedArray, D::Error> {
        let level = Level { elements: &mut self.elements, depth: 0, spec: Some(self.spec) };
        let stated = deserializer.deserialize_any(level)?;
        let Elements { data, lengths, bytes, .. } = self.elements;
        Ok(ParsedArray { data, nesting: lengths.into_iter().flatten().collect(), stated, bytes })
    }
}

/// The elements read so far.
struct Elements {
    name: String,
    data: TensorData,
    /// By depth, the length of the lists, once one has been read to its end.
    lengths: Vec<Option<usize>>,
    /// How many lists lie around each element.
    common_depth: Option<usize>,
    bytes: u64,
    left_bytes: u64,
}

impl Elements {
    fn push<E: Error>(&mut self, depth: usize, scalar: Scalar<'_>) -> Result<(), E> {
        if *self.common_depth.get_or_insert(depth) != depth || self.lengths.len() > depth {
            return Err(self.ragged());
        }
        let index = self.data.len();
        push(&mut self.data, scalar)
            .map_err(|reason| E::custom(format!("input `{}`: element {index} {reason}", self.name)))?;
        let text_bytes = if let Scalar::Text(text) = scalar { text.len() } else { 0 };
        let size_bytes = self.data.element().size_bytes().unwrap_or(size_of::<String>() + text_bytes);
        self.bytes = self.bytes.saturating_add(size_bytes as u64);
        if self.bytes > self.left_bytes {
            let message =
                format!("input `{}` is over the limit: {} bytes are left", self.name, self.left_bytes);
            return Err(E::custom(message));
        }
        Ok(())
    }

    /// Notes that a list at `depth` has ended.
    fn close<E: Error>(&mut self, depth: usize, length: usize) -> Result<(), E> {
        if self.common_depth.is_some_and(|elements| elements <= depth) {
            return Err(self.ragged());
        }
        if self.lengths.len() <= depth {
            self.lengths.resize(depth + 1, None);
        }
        let known = self.lengths.get_mut(depth).map(|known| *known.get_or_insert(length));
        if known == Some(length) { Ok(()) } else { Err(self.ragged()) }
    }

    fn ragged<E: Error>(&self) -> E {
        E::custom(format!("input `{}` is ragged: lists of one depth differ in length or in depth", self.name))
    }
}

/// One list, or an element, with `depth` lists around it.
struct Level<'a> {
    elements: &'a mut Elements,
    depth: usize,
    /// Where an object may stand instead of a list: the input it is for.
    spec: Option<&'a TensorSpec>,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Option<Vec<usize>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Option<Vec<usize>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list or element for input `{}`", self.elements.name)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        self.elements.push(self.depth, Scalar::Truth(value)).map(|()| None)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.elements.push(self.depth, Scalar::Whole(i128::from(value))).map(|()| None)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        self.elements.push(self.depth, Scalar::Whole(i128::from(value))).map(|()| None)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.elements.push(self.depth, Scalar::Real(value)).map(|()| None)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.elements.push(self.depth, Scalar::Text(value)).map(|()| None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut length = 0;
        let depth = self.depth + 1;
        while list.next_element_seed(Level { elements: &mut *self.elements, depth, spec: None })?.is_some() {
            length += 1;
        }
        self.elements.close(self.depth, length).map(|()| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some(spec) = self.spec else {
            return Err(A::Error::custom(format!(
                "input `{}` has an object within a list",
                self.elements.name
            )));
        };
        let bad = |message: &str| A::Error::custom(format!("input `{}`: {message}", spec.name));
        let mut shape: Option<Vec<usize>> = None;
        let (mut has_data, mut has_element) = (false, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "shape" if shape.is_none() => shape = Some(map.next_value()?),
                "data" if !has_data => {
                    map.next_value_seed(Level { elements: &mut *self.elements, depth: 0, spec: None })?;
                    has_data = true;
                }
                "element" if !has_element => {
                    let element: String = map.next_value()?;
                    if element != spec.element.name() {
                        return Err(bad(&format!("it is {element}, and the model wants {}", spec.element)));
                    }
                    has_element = true;
                }
                "shape" | "data" | "element" => return Err(bad(&format!("`{key}` is there twice"))),
                _ => return Err(bad(&format!("`{key}` is none of the keys shape, data and element"))),
            }
        }
        match (shape, has_data) {
            (Some(shape), true) => Ok(Some(shape)),
            _ => Err(bad("an object needs `shape` and `data`")),
        }
    }
}
