//! Graphs that show what a provider does: the precision that it computes in, and whether it checks indices.
//!
//! Invariant: the models, their inputs and the reference are the same on every machine.

#[cfg(test)]
mod tests;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::data_type::DataType;
use crate::writer::{Axis, GraphWriter, int_attribute};

const WIDTH: usize = 256;
const SEED: u64 = 0x9e37_79b9;

/// The input of the probe model and its exact output.
#[derive(Debug, Clone, PartialEq)]
pub struct PrecisionProbe {
    /// The value of the input `input`, shape `[1, 256]`.
    pub input: Vec<f32>,
    /// The output `output`, shape `[1, 256]`, without any rounding.
    pub output: Vec<f64>,
}

/// A `MatMul` of `[1, 256]` by `[256, 256]` whose values need 16 significant bits.
///
/// The values are multiples of 2⁻¹⁵ in ±[1, 2) with an odd numerator, so none is exact in bfloat16 (8 bits),
/// half precision (11) or TF32 (11). Relative to the largest output, a provider that rounds its operands to
/// bfloat16 errs by about 2e-3, one that rounds them to half precision by about 2e-4, and one that computes
/// in single precision by about 1e-6 or less.
pub fn precision_probe_model() -> Vec<u8> {
    let (_, weights) = draw();
    let mut writer = GraphWriter::new("precision_probe");
    let size = WIDTH as u64;
    let shape = [Axis::Fixed(1), Axis::Fixed(size)];
    writer.input("input", DataType::FLOAT, &shape);
    writer.floats("weight", &[size, size], &weights);
    writer.node("MatMul", &["input", "weight"], "output", vec![]);
    writer.output("output", DataType::FLOAT, &shape);
    writer.finish()
}

/// The input for the model of [`precision_probe_model`] and the exact output.
///
/// Products have 32 significant bits and 256 of them are summed, which `f64` holds without rounding.
pub fn precision_probe_reference() -> PrecisionProbe {
    let (input, weights) = draw();
    let mut output = vec![0.0; WIDTH];
    for (x, row) in input.iter().zip(weights.chunks_exact(WIDTH)) {
        for (sum, w) in output.iter_mut().zip(row) {
            *sum += f64::from(*x) * f64::from(*w);
        }
    }
    PrecisionProbe { input, output }
}

/// A lookup in a table of 4 rows by the input `ids`, of shape `[1]`, plus 1, so that no check of the inputs themselves
/// sees an index beyond the table.
pub fn index_probe_model() -> Vec<u8> {
    let mut writer = GraphWriter::new("index_probe");
    writer.input("ids", DataType::INT64, &[Axis::Fixed(1)]);
    writer.floats("table", &[4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    writer.integers("one", &[1], &[1]);
    writer.node("Add", &["ids", "one"], "index", vec![]);
    writer.node("Gather", &["table", "index"], "rows", vec![int_attribute("axis", 0)]);
    writer.output("rows", DataType::FLOAT, &[Axis::Fixed(1), Axis::Fixed(2)]);
    writer.finish()
}

fn draw() -> (Vec<f32>, Vec<f32>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut value = || {
        let bits = random.next_u64();
        // 1 + an odd multiple of 2⁻¹⁵, below 2.
        let numerator = (1 << 15) | ((bits >> 40) & 0x7fff) | 1;
        let magnitude = numerator as f32 / 32_768.0;
        if bits & 1 == 0 { magnitude } else { -magnitude }
    };
    let input = (0..WIDTH).map(|_| value()).collect();
    let weights = (0..WIDTH * WIDTH).map(|_| value()).collect();
    (input, weights)
}
