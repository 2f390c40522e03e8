//! Floats of inputs and outputs that are no finite numbers, and the range of the others.
//!
//! Invariant: every element is counted once, as finite or as one kind of what is not.

use serde_json::{Value, json};
use siliconroute::wording::counted;
use siliconroute_core::tensor::{ElementType, NamedTensor, TensorData};

/// What a tensor of floats holds.
#[derive(Debug, Default)]
pub(super) struct Floats {
    count: usize,
    nan: usize,
    infinite: usize,
    minus_infinite: usize,
    /// The least and the largest finite value.
    pub(super) range: Option<(f64, f64)>,
}

impl Floats {
    /// Counts the elements; `None` when they are no floats.
    pub(super) fn of(data: &TensorData) -> Option<Self> {
        let mut floats = Self { count: data.len(), ..Self::default() };
        let are_floats = data.visit_floats(|value| {
            if value.is_nan() {
                floats.nan += 1;
            } else if value.is_infinite() && value > 0.0 {
                floats.infinite += 1;
            } else if value.is_infinite() {
                floats.minus_infinite += 1;
            } else {
                let (low, high) = floats.range.unwrap_or((value, value));
                floats.range = Some((low.min(value), high.max(value)));
            }
        });
        are_floats.then_some(floats)
    }

    pub(super) fn sentence(&self, element: ElementType) -> String {
        let show = |value: f64| match element {
            ElementType::Float64 => format!("{value:?}"),
            _ => format!("{:?}", value as f32),
        };
        let range = self.range.map(|(low, high)| format!("from {} to {}", show(low), show(high)));
        range.into_iter().chain(self.not_finite()).collect::<Vec<_>>().join(", ")
    }

    /// The elements that are no finite number, counted by kind; nothing where all are.
    fn not_finite(&self) -> Vec<String> {
        let odd = [(self.nan, "NaN"), (self.infinite, "inf"), (self.minus_infinite, "-inf")];
        let odd = odd.into_iter().filter(|(count, _)| *count > 0).map(|(count, name)| match count {
            all if all == self.count => format!("all {name}"),
            _ => format!("{count} {name}"),
        });
        odd.collect()
    }

    /// The same for a program.
    pub(super) fn not_finite_json(&self) -> Value {
        json!({"nan": self.nan, "inf": self.infinite, "-inf": self.minus_infinite})
    }
}

/// What to say once of all `tensors` that hold a float which is no finite number; `None` where none does.
pub(super) fn remark(kind: &str, tensors: &[NamedTensor]) -> Option<String> {
    let told = tensors.iter().filter_map(|named| {
        let data = named.tensor.data();
        let not_finite = Floats::of(data)?.not_finite();
        let elements = counted(data.len(), "element");
        (!not_finite.is_empty())
            .then(|| format!("`{}` ({} of {elements})", named.name, not_finite.join(", ")))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{kind} with values that are no finite numbers: {}", told.join(", ")))
}

#[cfg(test)]
mod tests {
    use siliconroute_core::tensor::Tensor;

    use super::*;

    fn named(name: &str, data: TensorData) -> NamedTensor {
        NamedTensor { name: name.to_owned(), tensor: Tensor::new(vec![data.len()], data).unwrap() }
    }

    #[test]
    fn all_that_is_not_finite_is_one_remark() {
        let sound = [
            named("a", TensorData::Float32(vec![0.0, f32::MAX])),
            named("b", TensorData::Int64(vec![1])),
            named("c", TensorData::Float32(Vec::new())),
        ];
        assert_eq!(remark("inputs", &sound), None);
        let odd = [
            named("x", TensorData::Float32(vec![f32::NAN, 1.0, f32::INFINITY])),
            named("y", TensorData::Float16(vec![0x7e00])),
            named("mask", TensorData::Bfloat16(vec![0xff80, 0x3f80])),
        ];
        let all: Vec<NamedTensor> = sound.into_iter().chain(odd).collect();
        assert_eq!(
            remark("inputs", &all).unwrap(),
            "inputs with values that are no finite numbers: `x` (1 NaN, 1 inf of 3 elements), \
             `y` (all NaN of 1 element), `mask` (1 -inf of 2 elements)"
        );
    }
}
