//! `SiliconRoute`: measures ONNX models on every chip of this machine, learns, decides, runs and checks itself.
//!
//! Invariant: the command line and the server are thin over this library; whatever they do, an
//! application that embeds it can do too.
//!
//! Reading order: [`router`] (what is opened), [`settings`], [`home`], `opening`, [`space`], [`wording`], [`machine`],
//! [`tuning`], [`discovery`] (targets) with `named_cores`, [`engine_packages`], `verified` (what may be loaded), [`models`]
//! with [`catalogue`], [`inputs`] and [`array_file`], [`plan`], [`campaign`] and [`measure`] (trials) with `surroundings`,
//! [`sampler`], [`lookout`] and [`telemetry`], [`identify`] (which chip answers), [`learn`] (knowledge), [`knowledge_file`] and
//! [`fleet`] (of other machines), [`crossovers`], [`context`] and [`quarantine`], [`run`], [`evaluation`], [`left_out`], [`model_tuning`] and
//! [`up`], [`serving`] with learning from runs, and [`simulation`] of all that.

pub mod array_file;
pub mod campaign;
pub mod catalogue;
pub mod compare;
pub mod context;
pub mod corpus;
pub mod crossovers;
pub mod decisions;
pub mod discovery;
pub mod doctor;
pub mod engine_packages;
pub mod error;
pub mod evaluation;
pub mod event;
pub mod fleet;
pub mod home;
pub mod identify;
pub mod inputs;
pub mod knowledge_file;
pub mod learn;
pub mod left_out;
pub mod lookout;
mod lost_packages;
pub mod machine;
pub mod measure;
mod metering;
pub mod model_tuning;
pub mod models;
mod named_cores;
mod opening;
mod output_place;
pub mod plan;
pub mod quarantine;
pub mod replay;
pub mod router;
pub mod run;
pub mod sampler;
mod served;
pub mod serving;
mod serving_lock;
pub mod settings;
pub mod simulation;
pub mod space;
mod surroundings;
pub mod table_file;
pub mod telemetry;
pub mod tuning;
pub mod up;
mod verified;
pub mod wording;
pub mod worker;

pub use error::{Error, ErrorKind};
pub use router::{Options, Router, Targets};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that this program was built from; `None` when it was built outside a checkout.
pub const COMMIT: Option<&str> = option_env!("SILICONROUTE_BUILD_COMMIT");
