//! A worker: a process of the same program that has loaded one engine, and the conversation with it.
//!
//! Invariant: whatever happens to a worker, crash, hang or memory blow-up, reaches the caller as a
//! [`Failure`](siliconroute_core::trial::Failure) and ends nothing but the worker.
//!
//! Reading order: [`wire`] (messages), [`serve`] (inside the worker), [`process`] (outside of it),
//! [`client`] (typed calls), [`remote`] (a session in a worker that looks like any other).

pub mod client;
mod last_words;
pub mod process;
pub mod remote;
pub mod serve;
pub mod wire;

pub use client::{WorkerClient, WorkerSession};
pub use process::{Launcher, ProcessLauncher, Worker};
pub use remote::RemoteSession;
