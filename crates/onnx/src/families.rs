//! The synthetic model families that machines are measured with.
//!
//! Invariant: a family, its sizes and a seed fix every byte of the model; parameters and operations follow
//! the formulas of [`SyntheticModel::parameters`] and [`SyntheticModel::flops`] exactly.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::data_type::DataType;
use crate::writer::{Axis, GraphWriter, int_attribute, ints_attribute};

/// Positions of the `attn` family's input.
const POSITIONS: u64 = 128;
/// Sides of the `conv` family's input.
const SIDE: u64 = 64;
/// The largest width, so that no model outgrows the 2 GiB of one file.
const WIDTH_LIMIT: u64 = 8192;
/// The most layers, for the same reason.
const LAYER_LIMIT: u64 = 64;

/// A family of synthetic models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SyntheticFamily {
    /// `layers` × (square `MatMul`, `Relu`) on `[batch, width]`.
    Mlp,
    /// `layers` × (3 × 3 `Conv` with padding 1, `Relu`) on `[batch, width, 64, 64]`.
    Conv,
    /// `layers` × (single-head self-attention and its output projection) on `[batch, 128, width]`.
    Attn,
}

impl SyntheticFamily {
    fn parts(self) -> (&'static str, char) {
        match self {
            Self::Mlp => ("mlp", 'w'),
            Self::Conv => ("conv", 'c'),
            Self::Attn => ("attn", 'd'),
        }
    }
}

/// A model of a synthetic family; its free dimension is `batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SyntheticModel {
    /// The family.
    pub family: SyntheticFamily,
    /// Features, channels or embedding width.
    pub width: u64,
    /// Number of layers.
    pub layers: u64,
    /// Seed of the weights; not part of the name.
    pub seed: u64,
}

/// A text that names no synthetic model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no synthetic model; write mlp-256w-4l, conv-96c-4l or attn-256d-2l, with widths up to 8192, at most 64 layers and a file below 2 GiB"
)]
pub struct InvalidName(pub String);

/// A synthetic model could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the model {path}")]
pub struct WriteError {
    /// Where the model should have gone.
    pub path: PathBuf,
    /// What went wrong.
    pub source: io::Error,
}

impl SyntheticModel {
    /// A model with the default seed.
    pub fn new(family: SyntheticFamily, width: u64, layers: u64) -> Self {
        Self { family, width, layers, seed: 0 }
    }

    /// The model's name: `mlp-256w-4l`, `conv-96c-4l`, `attn-256d-2l`.
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// Reads a name as [`SyntheticModel::name`] writes it; the seed is the default one.
    ///
    /// # Errors
    /// When the text is no such name, or names a model beyond the limits of one file.
    pub fn parse(name: &str) -> Result<Self, InvalidName> {
        let parsed = || {
            let mut parts = name.split('-');
            let (family, width, layers) = (parts.next()?, parts.next()?, parts.next()?);
            let family = [SyntheticFamily::Mlp, SyntheticFamily::Conv, SyntheticFamily::Attn]
                .into_iter()
                .find(|candidate| candidate.parts().0 == family)?;
            let width = width.strip_suffix(family.parts().1)?.parse().ok()?;
            let model = Self::new(family, width, layers.strip_suffix('l')?.parse().ok()?);
            // Comparing the text refuses further parts, signs and leading zeros as well.
            (model.is_writable() && model.name() == name).then_some(model)
        };
        parsed().ok_or_else(|| InvalidName(name.to_owned()))
    }

    fn is_writable(&self) -> bool {
        (1..=WIDTH_LIMIT).contains(&self.width)
            && (1..=LAYER_LIMIT).contains(&self.layers)
            && self.parameters() < (1 << 29) - (1 << 16)
    }

    /// Learned values: `mlp` L·n², `conv` L·9·C², `attn` L·4·d².
    pub fn parameters(&self) -> u64 {
        let factor = match self.family {
            SyntheticFamily::Mlp => 1,
            SyntheticFamily::Conv => 9,
            SyntheticFamily::Attn => 4,
        };
        self.layers.saturating_mul(factor).saturating_mul(self.width).saturating_mul(self.width)
    }

    /// Bytes of the learned values, which are nearly all of the file.
    pub fn weight_bytes(&self) -> u64 {
        self.parameters().saturating_mul(4)
    }

    /// Operations of the matrix products and convolutions of one call, a multiply-add as two:
    /// `mlp` B·2·L·n², `conv` B·2·L·64·64·C²·9, `attn` B·L·(8·T·d² + 4·T²·d) with T = 128.
    ///
    /// Activations and softmaxes are left out.
    pub fn flops(&self, batch: u64) -> f64 {
        let (b, l, n) = (batch as f64, self.layers as f64, self.width as f64);
        let positions = POSITIONS as f64;
        match self.family {
            SyntheticFamily::Mlp => b * 2.0 * l * n * n,
            SyntheticFamily::Conv => b * 2.0 * l * (SIDE * SIDE) as f64 * n * n * 9.0,
            SyntheticFamily::Attn => b * l * (8.0 * positions * n * n + 4.0 * positions * positions * n),
        }
    }

    /// The model as an ONNX file, operator set 17.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = GraphWriter::new(&self.name());
        let mut weights = Weights(Xoshiro256PlusPlus::seed_from_u64(self.seed));
        let shape = match self.family {
            SyntheticFamily::Mlp => vec![Axis::Free("batch"), Axis::Fixed(self.width)],
            SyntheticFamily::Conv => {
                vec![Axis::Free("batch"), Axis::Fixed(self.width), Axis::Fixed(SIDE), Axis::Fixed(SIDE)]
            }
            SyntheticFamily::Attn => {
                vec![Axis::Free("batch"), Axis::Fixed(POSITIONS), Axis::Fixed(self.width)]
            }
        };
        writer.input("input", DataType::FLOAT, &shape);
        let mut current = "input".to_owned();
        if self.family == SyntheticFamily::Attn {
            writer.floats("scale", &[], &[(self.width as f32).sqrt().recip()]);
        }
        for layer in 0..self.layers {
            let output =
                if layer + 1 == self.layers { "output".to_owned() } else { format!("layer_{layer}") };
            match self.family {
                SyntheticFamily::Mlp => self.mlp_layer(&mut writer, &mut weights, layer, &current, &output),
                SyntheticFamily::Conv => self.conv_layer(&mut writer, &mut weights, layer, &current, &output),
                SyntheticFamily::Attn => self.attn_layer(&mut writer, &mut weights, layer, &current, &output),
            }
            current = output;
        }
        writer.output("output", DataType::FLOAT, &shape);
        writer.finish()
    }

    /// Writes the model to `path`, whole or not at all; until it is whole, its name beside `path` begins `.tmp-`.
    ///
    /// # Errors
    /// When the folder of `path` cannot be written to.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let failed = |source| WriteError { path: path.to_owned(), source };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder).map_err(failed)?;
        file.write_all(&self.to_bytes()).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// He scaling: the variance of activations stays the same through `Relu`.
    fn mlp_layer(
        &self,
        writer: &mut GraphWriter,
        weights: &mut Weights,
        layer: u64,
        input: &str,
        output: &str,
    ) {
        let n = self.width;
        let (weight, product) = (format!("weight_{layer}"), format!("product_{layer}"));
        writer.floats(&weight, &[n, n], &weights.draw(n * n, (2.0 / n as f64).sqrt()));
        writer.node("MatMul", &[input, &weight], &product, vec![]);
        writer.node("Relu", &[&product], output, vec![]);
    }

    fn conv_layer(
        &self,
        writer: &mut GraphWriter,
        weights: &mut Weights,
        layer: u64,
        input: &str,
        output: &str,
    ) {
        let c = self.width;
        let (weight, product) = (format!("weight_{layer}"), format!("product_{layer}"));
        writer.floats(&weight, &[c, c, 3, 3], &weights.draw(9 * c * c, (2.0 / (9 * c) as f64).sqrt()));
        let attributes = vec![ints_attribute("kernel_shape", &[3, 3]), ints_attribute("pads", &[1, 1, 1, 1])];
        writer.node("Conv", &[input, &weight], &product, attributes);
        writer.node("Relu", &[&product], output, vec![]);
    }

    fn attn_layer(
        &self,
        writer: &mut GraphWriter,
        weights: &mut Weights,
        layer: u64,
        input: &str,
        output: &str,
    ) {
        let d = self.width;
        let name = |part: &str| format!("{part}_{layer}");
        // Averaging over many positions shrinks the values, so they are drawn √2 larger than Xavier's.
        let deviations = [1.0, 1.0, 2_f64.sqrt(), 2_f64.sqrt()].map(|gain| gain / (d as f64).sqrt());
        for (part, deviation) in ["q", "k", "v", "o"].into_iter().zip(deviations) {
            writer.floats(&name(&format!("weight_{part}")), &[d, d], &weights.draw(d * d, deviation));
        }
        for part in ["q", "k", "v"] {
            writer.node("MatMul", &[input, &name(&format!("weight_{part}"))], &name(part), vec![]);
        }
        writer.node("Transpose", &[&name("k")], &name("k_turned"), vec![ints_attribute("perm", &[0, 2, 1])]);
        writer.node("MatMul", &[&name("q"), &name("k_turned")], &name("scores"), vec![]);
        writer.node("Mul", &[&name("scores"), "scale"], &name("scaled"), vec![]);
        writer.node("Softmax", &[&name("scaled")], &name("shares"), vec![int_attribute("axis", -1)]);
        writer.node("MatMul", &[&name("shares"), &name("v")], &name("mixed"), vec![]);
        writer.node("MatMul", &[&name("mixed"), &name("weight_o")], output, vec![]);
    }
}

impl fmt::Display for SyntheticModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, unit) = self.family.parts();
        write!(f, "{family}-{}{unit}-{}l", self.width, self.layers)
    }
}

struct Weights(Xoshiro256PlusPlus);

impl Weights {
    /// Uniform values with a mean of 0 and the given standard deviation.
    fn draw(&mut self, count: u64, deviation: f64) -> Vec<f32> {
        let half_width = 3_f64.sqrt() * deviation;
        let unit = 2_f64.powi(-53);
        (0..count)
            .map(|_| (((self.0.next_u64() >> 11) as f64 * unit * 2.0 - 1.0) * half_width) as f32)
            .collect()
    }
}

/// The models of the published measurements: widths 128 to 4096 with 4 layers, channels 8 to 128 with 4
/// layers, embedding widths 64 to 1024 with 2 layers.
pub fn published_ladder() -> Vec<SyntheticModel> {
    let of = |family, widths: &'static [u64], layers| {
        widths.iter().map(move |&width| SyntheticModel::new(family, width, layers))
    };
    of(SyntheticFamily::Mlp, &[128, 256, 512, 1024, 2048, 3072, 4096], 4)
        .chain(of(SyntheticFamily::Conv, &[8, 16, 32, 64, 96, 128], 4))
        .chain(of(SyntheticFamily::Attn, &[64, 128, 256, 512, 1024], 2))
        .collect()
}
