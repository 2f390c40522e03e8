//! The command line as a user meets it: the built program, a home of its own for each test, no network.
//!
//! Invariant: no test depends on how long anything takes, on installed packages or on the user's own settings.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in what its tests share too"
)]

mod arrays;
mod catalogue;
mod corpora;
mod decisions;
mod disk;
mod documents;
mod help;
mod hostile_text;
#[cfg(unix)]
mod interrupts;
mod knowledge;
mod measuring;
mod model_files;
mod model_tuning;
mod onnx_file;
mod packages;
mod program;
mod read_only;
mod running;
mod settings;
mod side_by_side;
mod stores;
mod targets;
mod terminals;
mod top;
mod tuning;
mod up;
mod worker;
