//! How far a target's outputs may lie from the reference.
//!
//! Invariant: a target that fails a class is never chosen in that class.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tensor::{ElementType, Tensor};

/// Accuracy classes, strictest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccuracyClass {
    /// Relative error up to 1e-5.
    Exact,
    /// Relative error up to 1e-2.
    #[default]
    Standard,
    /// Relative error up to 5e-2 and the same largest element.
    Relaxed,
}

impl AccuracyClass {
    /// All classes, strictest first.
    pub const ALL: [Self; 3] = [Self::Exact, Self::Standard, Self::Relaxed];

    /// The largest relative error that the class allows.
    pub fn limit(self) -> f64 {
        match self {
            Self::Exact => 1e-5,
            Self::Standard => 1e-2,
            Self::Relaxed => 5e-2,
        }
    }
}

impl fmt::Display for AccuracyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Standard => "standard",
            Self::Relaxed => "relaxed",
        })
    }
}

/// How a target's outputs differ from the reference on the same input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OutputDifference {
    /// `max|out − ref| ÷ (max|ref| + 1e-9)`, the largest over all outputs.
    pub max_relative_error: f64,
    /// Whether the largest element stands at the same place in every row (last axis) of every output.
    pub same_top1: bool,
    /// The reference's largest magnitude over all outputs; 0 means that the check proves little.
    pub reference_magnitude: f64,
}

/// Outputs that cannot be compared, or that are wrong in kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum OutputFault {
    /// Another number of outputs.
    #[error("{found} outputs where the reference has {expected}")]
    Count {
        /// Outputs found.
        found: usize,
        /// Outputs of the reference.
        expected: usize,
    },
    /// An output of another shape.
    #[error("output {index} has shape {found:?} where the reference has {expected:?}")]
    Shape {
        /// Which output.
        index: usize,
        /// Its shape.
        found: Vec<usize>,
        /// The reference's shape.
        expected: Vec<usize>,
    },
    /// An output of another element type.
    #[error("output {index} is {found} where the reference is {expected}")]
    Element {
        /// Which output.
        index: usize,
        /// Its element type.
        found: ElementType,
        /// The reference's element type.
        expected: ElementType,
    },
    /// A number on one side and NaN or infinity on the other, or another infinity.
    #[error(
        "output {index} is not finite at element {element} where the reference is, or the other way round"
    )]
    NotFinite {
        /// Which output.
        index: usize,
        /// Which element, row-major.
        element: usize,
    },
    /// Text that differs.
    #[error("text output {index} differs from the reference")]
    Text {
        /// Which output.
        index: usize,
    },
}

impl OutputDifference {
    /// Compares outputs with the reference's, in order.
    ///
    /// Elements that are not finite in the reference must be the same kind of value and are left out of the error.
    ///
    /// # Errors
    /// When number, shape or element type differ, or an element is not finite where the reference is.
    pub fn between(outputs: &[Tensor], reference: &[Tensor]) -> Result<Self, OutputFault> {
        if outputs.len() != reference.len() {
            return Err(OutputFault::Count { found: outputs.len(), expected: reference.len() });
        }
        let mut difference = Self { max_relative_error: 0.0, same_top1: true, reference_magnitude: 0.0 };
        for (index, (output, expected)) in outputs.iter().zip(reference).enumerate() {
            difference.add(index, output, expected)?;
        }
        Ok(difference)
    }

    /// The strictest class that the difference satisfies; `None` when it fails all.
    pub fn class(&self) -> Option<AccuracyClass> {
        AccuracyClass::ALL.into_iter().find(|&class| self.satisfies(class))
    }

    /// Whether outputs this different are allowed in `class`.
    pub fn satisfies(&self, class: AccuracyClass) -> bool {
        self.max_relative_error <= class.limit() && (class != AccuracyClass::Relaxed || self.same_top1)
            || (class == AccuracyClass::Relaxed && self.max_relative_error <= AccuracyClass::Standard.limit())
    }

    /// The worse of two differences from the same reference, in each respect.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        Self {
            max_relative_error: self.max_relative_error.max(other.max_relative_error),
            same_top1: self.same_top1 && other.same_top1,
            reference_magnitude: self.reference_magnitude.min(other.reference_magnitude),
        }
    }

    fn add(&mut self, index: usize, output: &Tensor, expected: &Tensor) -> Result<(), OutputFault> {
        if output.element() != expected.element() {
            let (found, expected) = (output.element(), expected.element());
            return Err(OutputFault::Element { index, found, expected });
        }
        if output.shape() != expected.shape() {
            let (found, expected) = (output.shape().to_vec(), expected.shape().to_vec());
            return Err(OutputFault::Shape { index, found, expected });
        }
        let (Some(found), Some(wanted)) = (output.data().to_f64(), expected.data().to_f64()) else {
            return if output.data() == expected.data() { Ok(()) } else { Err(OutputFault::Text { index }) };
        };
        let (mut error, mut magnitude) = (0.0_f64, 0.0_f64);
        for (element, (&a, &b)) in found.iter().zip(&wanted).enumerate() {
            if !b.is_finite() || !a.is_finite() {
                let alike = a.is_nan() && b.is_nan()
                    || a.is_infinite() && a.signum() == b.signum() && b.is_infinite();
                if alike {
                    continue;
                }
                return Err(OutputFault::NotFinite { index, element });
            }
            error = error.max((a - b).abs());
            magnitude = magnitude.max(b.abs());
        }
        self.max_relative_error = self.max_relative_error.max(error / (magnitude + 1e-9));
        self.reference_magnitude = self.reference_magnitude.max(magnitude);
        let row = output.shape().last().copied().unwrap_or(1).max(1);
        self.same_top1 &= found.chunks(row).map(largest).eq(wanted.chunks(row).map(largest));
        Ok(())
    }
}

/// Position of the largest element; NaN is passed over.
fn largest(values: &[f64]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, &value) in values.iter().enumerate() {
        if !value.is_nan() && best.is_none_or(|(_, top)| value > top) {
            best = Some((index, value));
        }
    }
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::TensorData;

    fn tensor(values: &[f32]) -> Tensor {
        Tensor::new(vec![values.len()], TensorData::Float32(values.to_vec())).unwrap()
    }

    #[track_caller]
    fn check(output: &[f32], reference: &[f32], class: Option<AccuracyClass>) {
        let difference = OutputDifference::between(&[tensor(output)], &[tensor(reference)]).unwrap();
        assert_eq!(difference.class(), class, "{difference:?}");
    }

    #[test]
    fn classes_follow_the_relative_error() {
        check(&[1.0, 2.0], &[1.0, 2.0], Some(AccuracyClass::Exact));
        check(&[1.0, 2.01], &[1.0, 2.0], Some(AccuracyClass::Standard));
        check(&[1.0, 2.06], &[1.0, 2.0], Some(AccuracyClass::Relaxed));
        check(&[2.03, 2.0], &[1.97, 2.0], None);
        check(&[1.0, 3.0], &[1.0, 2.0], None);
    }

    #[test]
    fn a_stricter_class_implies_the_looser_ones() {
        let close = OutputDifference { max_relative_error: 1e-3, same_top1: false, reference_magnitude: 1.0 };
        assert!(close.satisfies(AccuracyClass::Standard) && close.satisfies(AccuracyClass::Relaxed));
        assert!(!close.satisfies(AccuracyClass::Exact));
    }

    #[test]
    fn the_largest_element_is_compared_row_by_row() {
        let rows = |values: &[f32]| Tensor::new(vec![2, 2], TensorData::Float32(values.to_vec())).unwrap();
        let reference = [rows(&[5.0, 0.0, 1.0, 1.01])];
        let same = OutputDifference::between(&[rows(&[5.1, 0.0, 1.0, 1.1])], &reference).unwrap();
        let other = OutputDifference::between(&[rows(&[5.1, 0.0, 1.1, 1.0])], &reference).unwrap();
        assert_eq!((same.same_top1, other.same_top1), (true, false));
    }

    #[test]
    fn faults_in_kind_are_errors() {
        let nan = OutputDifference::between(&[tensor(&[f32::NAN])], &[tensor(&[1.0])]);
        assert_eq!(nan, Err(OutputFault::NotFinite { index: 0, element: 0 }));
        let (infinity, nan) = (f32::INFINITY, f32::NAN);
        for (output, reference, alike) in [
            (nan, nan, true),
            (infinity, infinity, true),
            (-infinity, infinity, false),
            (0.0, -infinity, false),
            (nan, infinity, false),
            (1.0, nan, false),
        ] {
            let found = OutputDifference::between(&[tensor(&[output])], &[tensor(&[reference])]);
            assert_eq!(found.is_ok(), alike, "{output} against {reference}");
        }
        let shape = OutputDifference::between(&[tensor(&[1.0, 2.0])], &[tensor(&[1.0])]);
        assert!(matches!(shape, Err(OutputFault::Shape { .. })));
        assert!(matches!(OutputDifference::between(&[], &[tensor(&[1.0])]), Err(OutputFault::Count { .. })));
    }
}
