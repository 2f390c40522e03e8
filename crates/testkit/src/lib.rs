//! Simulated engines and machines for the tests of the other crates; no program ever links it.
//!
//! Invariant: whatever is simulated says so in its version, and its times come from a law and a seed,
//! never from a clock, so that a campaign over many cases takes milliseconds and always gives the same.
//!
//! Reading order: [`target`] (what a simulated target does), [`outputs`] (what it computes), [`worker`]
//! (how it answers), [`launcher`] (what a test holds), [`sensors`] and [`meters`] with `work` (what
//! shows of it), [`workbench`] (what is tuned), [`home`] (a home folder around
//! all that).

pub mod home;
pub mod launcher;
pub mod meters;
pub mod outputs;
pub mod sensors;
pub mod target;
mod work;
pub mod workbench;
pub mod worker;

pub use home::{TestHome, Unreachable, step_clock};
pub use launcher::{Call, FakeEngine, FakeLauncher};
pub use meters::{FakeMeter, FakeMeters};
pub use outputs::Outputs;
pub use sensors::FakeSensors;
pub use siliconroute_engine as engine;
pub use siliconroute_onnx as onnx;
pub use target::{Behaviour, FakeTarget, Fault, Moment, NodePlacement, Strike, TimeLaw, Working};
pub use workbench::FakeWorkbench;
