//! The vocabulary, the statistics, the hardware models and the decision of SiliconRoute.
//!
//! Invariant: this crate is pure. It does no input or output, reads no clock, starts no thread and
//! holds no unsafe code, so every result can be replayed from its arguments.
//!
//! Reading order: `identity`, `reading`, `tensor`, `model`, `chip`, `chip_figure`, `target`, `workload`,
//! `accuracy`, `energy`, `trial`, `statistics`, `fleet`, `nnls`, `form`, `cholesky`, `predict`, `transfer`, `knowledge`,
//! `crossover`, `decide`, `learning`, `regret`, `tuning`.

pub mod accuracy;
pub mod chip;
pub mod chip_figure;
pub mod cholesky;
pub mod crossover;
pub mod decide;
pub mod energy;
pub mod fleet;
pub mod form;
pub mod identity;
pub mod knowledge;
pub mod learning;
pub mod model;
pub mod nnls;
pub mod predict;
pub mod reading;
pub mod regret;
pub mod statistics;
pub mod target;
pub mod tensor;
pub mod transfer;
pub mod trial;
pub mod tuning;
pub mod workload;

pub use accuracy::{AccuracyClass, OutputDifference};
pub use chip::{Chip, ChipKey, ChipKind};
pub use identity::{CaseId, ModelId};
pub use model::{Bindings, Case, CaseFacts, Family, ModelFacts, OperatorClass};
pub use reading::Reading;
pub use target::{ProviderName, Target, TargetKey};
pub use tensor::{Dimension, ElementType, NamedTensor, Tensor, TensorData, TensorSpec};
pub use workload::{Goal, Workload};
