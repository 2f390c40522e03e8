//! What is known of a model and of a case without running it.
//!
//! Invariant: facts depend on the model's bytes, the bound dimensions and the version of the counting method alone,
//! so they can be cached under the identity of the model or the case while that version stays.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::{CaseId, ModelId};
use crate::tensor::{Dimension, ElementType, TensorSpec};

/// Values of a model's free dimensions, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bindings(pub BTreeMap<String, u64>);

impl Bindings {
    /// The value bound to `dimension`.
    pub fn get(&self, dimension: &str) -> Option<u64> {
        self.0.get(dimension).copied()
    }
}

impl fmt::Display for Bindings {
    /// The canonical text: `name=value`, sorted by name, joined by commas; empty when nothing is free.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

/// The numeric format that holds most of a model's weight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Precision {
    Fp32,
    Fp16,
    Bf16,
    Int8,
    Fp64,
    Other,
}

impl Precision {
    /// All, in the order of their places in tables.
    pub const ALL: [Self; 6] = [Self::Fp32, Self::Fp16, Self::Bf16, Self::Int8, Self::Fp64, Self::Other];
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Fp64 => "fp64",
            Self::Other => "other",
        })
    }
}

/// Facts of a model, whatever the size of its free dimensions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// SHA-256 of the bytes, external data included.
    pub id: ModelId,
    /// The version of the ONNX intermediate representation.
    pub ir_version: i64,
    /// Opset version by domain; the empty domain is `ai.onnx`.
    pub opsets: BTreeMap<String, i64>,
    /// The program that wrote the model, where the model says so.
    pub producer: Option<String>,
    /// Number of learned values: elements of the floating-point and quantised weights.
    pub parameters: u64,
    /// Bytes of all constants that the graph reads, external data included.
    pub weight_bytes: u64,
    /// Bytes of the model file and its external data.
    pub file_bytes: u64,
    /// The format of most weight bytes.
    pub precision: Precision,
    /// Nodes of the graph, subgraphs included.
    pub nodes: u64,
    /// Nodes by operator type; operators of other domains as `domain::Type`.
    pub operators: BTreeMap<String, u64>,
    /// Inputs that a caller must give (constants excluded).
    pub inputs: Vec<TensorSpec>,
    /// Outputs in graph order.
    pub outputs: Vec<TensorSpec>,
    /// Names of the free dimensions of the inputs, in order of appearance.
    pub free_dimensions: Vec<String>,
    /// Whether weights lie in files beside the model.
    pub external_data: bool,
    /// The version of the method that the facts were counted by; 0 before versions were kept.
    #[serde(default)]
    pub method_version: u32,
}

impl ModelFacts {
    /// The name of the batch dimension: the first input's outermost axis, where it is free.
    pub fn batch_dimension(&self) -> Option<&str> {
        match self.inputs.first()?.shape.first()? {
            Dimension::Free(name) => Some(name),
            Dimension::Fixed(_) => None,
        }
    }
}

/// Classes of operators that the hardware models tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperatorClass {
    /// `MatMul`, `Gemm`, `Einsum` and their integer and quantised forms.
    MatMul,
    /// Dense and grouped convolutions, transposed ones included.
    Conv,
    /// Convolutions with one input channel per group.
    DepthwiseConv,
    /// `LSTM`, `GRU` and `RNN`.
    Recurrent,
    /// Fused attention operators.
    Attention,
    /// Batch, layer, instance, group and RMS normalisation, LRN, softmax.
    Normalisation,
    /// Pooling and reductions.
    Pooling,
    /// Element-wise arithmetic, activations, comparisons, casts and quantisation.
    ElementWise,
    /// Reshapes, transposes, gathers, concatenations and other moves without arithmetic.
    DataMovement,
    /// Control flow and whatever else has no class of its own.
    Other,
}

impl OperatorClass {
    /// The number of classes.
    pub const COUNT: usize = 10;
    /// All classes, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::MatMul,
        Self::Conv,
        Self::DepthwiseConv,
        Self::Recurrent,
        Self::Attention,
        Self::Normalisation,
        Self::Pooling,
        Self::ElementWise,
        Self::DataMovement,
        Self::Other,
    ];

    /// What operators of the class are called in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::MatMul => "matrix products",
            Self::Conv => "convolutions",
            Self::DepthwiseConv => "depthwise convolutions",
            Self::Recurrent => "recurrent operators",
            Self::Attention => "fused attention",
            Self::Normalisation => "normalisations",
            Self::Pooling => "pooling or reductions",
            Self::ElementWise => "element-wise operators",
            Self::DataMovement => "moves of data",
            Self::Other => "control flow or operators of no class",
        }
    }
}

/// The work of one operator class in one call of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassWork {
    /// The class.
    pub class: OperatorClass,
    /// Nodes of the class that run.
    pub nodes: u64,
    /// Floating-point (or integer) operations; a multiply-add counts as two.
    pub flops: f64,
    /// Bytes read and written: inputs, weights and outputs, each once.
    pub bytes: f64,
}

/// A model's family, by which some hardware models are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Family {
    Mlp,
    Conv,
    Attn,
    Recurrent,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mlp => "mlp",
            Self::Conv => "conv",
            Self::Attn => "attn",
            Self::Recurrent => "recurrent",
        })
    }
}

/// Facts of one call of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseFacts {
    /// The batch size: the bound value of the first input's outermost axis, 1 for a scalar.
    pub batch: u64,
    /// Learned values of the model.
    pub parameters: u64,
    /// Bytes of weights read in one call.
    pub weight_bytes: u64,
    /// Nodes that run, subgraphs included under the stated assumptions.
    pub nodes: u64,
    /// Operations of one call; a multiply-add counts as two.
    pub flops: f64,
    /// Bytes of all activations written in one call.
    pub activation_bytes: f64,
    /// Work by operator class, in class order, classes without nodes left out.
    pub by_class: Vec<ClassWork>,
    /// The family that most of the work belongs to.
    pub family: Family,
    /// The inputs with all dimensions bound.
    pub inputs: Vec<BoundInput>,
    /// For inputs whose values pick rows of a table: how many rows the smallest such table has. A value `v` is
    /// valid when `−rows ≤ v < rows`.
    #[serde(default)]
    pub index_limits: BTreeMap<String, u64>,
    /// The format of most weight bytes of the model; `None` where facts were counted before it was kept.
    #[serde(default)]
    pub precision: Option<Precision>,
    /// What had to be assumed for the count, in sentences; empty when nothing was.
    pub assumptions: Vec<String>,
    /// The version of the method that the facts were counted by; 0 before versions were kept.
    #[serde(default)]
    pub method_version: u32,
}

/// An input of a case: all its dimensions are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundInput {
    /// The input's name.
    pub name: String,
    /// Its element type.
    pub element: ElementType,
    /// Its sizes, outermost first.
    pub shape: Vec<u64>,
}

/// A model with every free dimension of its inputs bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Identity of the case.
    pub id: CaseId,
    /// Identity of the model.
    pub model: ModelId,
    /// The name that users know the model by; not part of the identity.
    pub model_name: String,
    /// The bound free dimensions.
    pub bindings: Bindings,
    /// Facts of one call.
    pub facts: CaseFacts,
}

impl Case {
    /// Joins a model, its bindings and the facts counted for them.
    pub fn new(model: ModelId, model_name: String, bindings: Bindings, facts: CaseFacts) -> Self {
        Self { id: CaseId::derive(model, &bindings.to_string()), model, model_name, bindings, facts }
    }

    /// The name with what sets the case apart, as shown to users: `bert [batch=1,seq=128]`.
    ///
    /// Where the names of the dimensions are long, the shape of the first input stands for them.
    pub fn label(&self) -> String {
        let bindings = self.bindings.to_string();
        if bindings.is_empty() {
            return self.model_name.clone();
        }
        match self.facts.inputs.first() {
            Some(input) if bindings.len() > MOST_LABEL_CHARACTERS => {
                let sizes: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
                format!("{} [{}]", self.model_name, sizes.join("×"))
            }
            _ => format!("{} [{bindings}]", self.model_name),
        }
    }
}

/// Bindings longer than this are shown as a shape.
const MOST_LABEL_CHARACTERS: usize = 24;
