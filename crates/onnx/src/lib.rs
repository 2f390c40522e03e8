//! Reads what an ONNX model is and does without running it, and writes the synthetic families.
//!
//! Invariant: model files are untrusted; whatever their bytes, reading ends with facts or an error, and
//! never with a panic, an endless loop or an allocation out of proportion to the file.
//!
//! Reading order: `proto`, `data_type`, `value`, `graph`, `constant`, `load`, `shapes`, `fold`, `flops`,
//! `sorts`, `evaluate`, `validate`, `facts`, `bind`, `writer`, `families`, `probe`.

mod bind;
mod constant;
mod data_type;
mod evaluate;
mod facts;
mod families;
mod flops;
mod fold;
mod graph;
mod load;
mod probe;
mod proto;
mod shapes;
mod sorts;
mod validate;
mod value;
mod writer;

#[cfg(test)]
mod testing;

pub use bind::BindError;
pub use facts::{METHOD_VERSION, NEWEST_KNOWN_OPSET, OutputShape};
pub use families::{InvalidName, SyntheticFamily, SyntheticModel, WriteError, published_ladder};
pub use load::{LoadError, Model, load_model, parse_model};
pub use probe::{PrecisionProbe, index_probe_model, precision_probe_model, precision_probe_reference};
