//! The whole library on simulated machines: no worker process, no network, no clock.
//!
//! Invariant: every test has its own home, and its workers' times come from a law.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail anywhere")]

mod concurrency;
mod decisions;
mod discovery;
mod energy;
mod energy_decisions;
mod evaluation;
mod failures;
mod fleet;
mod identity;
mod interruption;
mod learning;
mod model_files;
mod model_tuning;
mod outputs;
mod packages;
mod replication;
mod restarts;
mod routing;
mod serving;
mod simulated;
mod tuning;
mod up;
