//! Runs models: the engines, the proof of what runs where, and the worker processes they are measured in.
//!
//! Invariant: this is the only crate that touches ONNX Runtime, and one process holds at most one
//! runtime library.
//!
//! Reading order: [`session`] (the traits), [`rten`], [`onnxruntime`], [`timing`], [`worker`], [`packages`],
//! [`regular_file`], `process_group`.

pub mod onnxruntime;
pub mod packages;
mod process_group;
pub mod regular_file;
pub mod rten;
pub mod session;
pub mod timing;
pub mod worker;

pub use session::{Engine, Offer, RunError, Session, SessionError, SessionRequest, ThreadOptions};
