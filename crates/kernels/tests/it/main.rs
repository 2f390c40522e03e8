//! Tests of the crate from outside, and the model check of its hand-over.
//!
//! Invariant: the model check compiles the very source of the hand-over, so there is no copy that could drift.

#[cfg(unix)]
mod handover_model;
