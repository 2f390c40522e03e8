//! ONNX Runtime: one runtime library per process, plugin providers registered at run time.
//!
//! Invariant: the device is always named, for the CPU too; no selection policy ever decides
//! where a session of a target runs.
//!
//! Reading order: `devices` (what a library offers), `reported` (whose chip a device is), `session` (one loaded
//! model) with `threads`, `compile_cache` and `inline_config`, `placement`, `automatic` (sessions that leave the device
//! to others, as baselines).

mod automatic;
mod compile_cache;
mod devices;
mod inline_config;
mod placement;
mod reported;
mod session;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use siliconroute_core::chip::ListedAdapter;
use siliconroute_core::{Reading, TargetKey};

use crate::session::{Engine, Offer, Session, SessionError, SessionRequest, one_line};
pub use automatic::Automatic;
use devices::Configured;
pub use devices::CpuFeatures;
pub use reported::{ReportedDevice, Tie, dxgi_position};

/// Lists the system's adapters as they are now, or tells why that fails; given from outside, since this crate looks at
/// no hardware.
pub type ListAdapters = fn() -> Reading<Vec<ListedAdapter>>;

/// A plugin provider to register: the name that ONNX Runtime knows it by, and its library.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Plugin {
    /// The registration name.
    pub name: String,
    /// The version of the package that it came from.
    pub version: String,
    /// The library file.
    pub library: PathBuf,
}

/// A runtime library that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The process has loaded another one already.
    #[error("this process has loaded the runtime library `{0}` already; one process holds one")]
    AlreadyLoaded(PathBuf),
    /// The library cannot be loaded or is of an unsuitable version.
    #[error("the runtime library `{path}` cannot be used: {reason}")]
    Library {
        /// The file.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
}

/// The runtime library of this process and its environment, kept until the process ends: ONNX Runtime
/// allows one environment in a process's life.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// ONNX Runtime with its plugins in this process.
#[derive(Debug)]
pub struct OrtEngine {
    environment: Environment,
    version: String,
    configured: Vec<Configured>,
    refused: Vec<Offer>,
    adapters: ListAdapters,
}

impl OrtEngine {
    /// Loads the runtime library of `version` and registers `plugins`.
    ///
    /// `built_in` names providers that are compiled in, by their registered names; those that the library
    /// does not list as devices are added by name. A plugin that does not register or offers no device is listed
    /// in [`Engine::offers`] with its reason. `adapters` tells whose chip a device is.
    ///
    /// # Errors
    /// When the library cannot be used, or this process holds another one.
    pub fn load(
        library: &Path,
        version: &str,
        plugins: &[Plugin],
        built_in: &[String],
        cpu: CpuFeatures,
        adapters: ListAdapters,
    ) -> Result<Self, LoadError> {
        let environment = load_environment(library)?;
        let (configured, refused) =
            devices::register_and_list(&environment, version, plugins, built_in, cpu, adapters);
        Ok(Self { environment, version: version.to_owned(), configured, refused, adapters })
    }
}

/// The environment of `library`, made if this process has none yet.
fn load_environment(library: &Path) -> Result<Environment, LoadError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    match loaded.as_ref() {
        Some((path, environment)) if path == library => return Ok(environment.clone()),
        Some((path, _)) => return Err(LoadError::AlreadyLoaded(path.clone())),
        None => {}
    }
    let refuse = |reason: String| LoadError::Library { path: library.to_owned(), reason };
    let environment = ort::init_from(library)
        .map_err(|error| refuse(one_line(&error)))?
        .with_name("siliconroute")
        .with_telemetry(false)
        .build()
        .map_err(|error| refuse(one_line(&error)))?;
    environment.set_log_level(ort::logging::LogLevel::Fatal);
    *loaded = Some((library.to_owned(), environment.clone()));
    Ok(environment)
}

impl Engine for OrtEngine {
    fn version(&self) -> String {
        format!("onnxruntime {}", self.version)
    }

    fn offers(&self) -> Vec<Offer> {
        self.configured
            .iter()
            .map(|configured| configured.offer.clone())
            .chain(self.refused.iter().cloned())
            .collect()
    }

    fn create_session(
        &self,
        target: &TargetKey,
        request: &SessionRequest<'_>,
    ) -> Result<Box<dyn Session>, SessionError> {
        if let Some(automatic) = Automatic::of(target) {
            return session::create_automatic(&self.environment, automatic, request);
        }
        let configured = self
            .configured
            .iter()
            .find(|configured| configured.offer.target.key == *target)
            .ok_or_else(|| SessionError::UnknownTarget(target.clone()))?;
        session::create(&self.environment, configured, request, self.adapters)
    }
}
