//! Nothing is loaded but packages that are what was verified.
//!
//! Invariant: every load of a package's library, in a worker or in this process, comes after [`check_engine`]
//! has found its package unchanged; a program that runs for days notices an exchanged library that way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_engine::packages::{self, Progress, Step, Table};
use siliconroute_engine::worker::process::{Launcher, Worker};
use siliconroute_engine::worker::wire::EngineSpec;

use crate::engine_packages::{VerifiedPackage, changed};

/// Starts workers through another launcher once the packages that they are about to load are checked.
pub(crate) struct VerifiedLauncher {
    pub(crate) launcher: Arc<dyn Launcher>,
    /// The packages folder.
    pub(crate) root: PathBuf,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Launcher for VerifiedLauncher {
    fn launch(&self, engine: &EngineSpec) -> Result<Box<dyn Worker>, Failure> {
        check_engine(&self.root, engine, &self.cancelled)?;
        self.launcher.launch(engine)
    }
}

/// Checks the packages below `root` that `engine` loads. What lies elsewhere is no package and was named by
/// the caller.
///
/// # Errors
/// [`FailureKind::Crashed`] where one was changed: unlike a refusal it passes when the package is repaired.
pub(crate) fn check_engine(root: &Path, engine: &EngineSpec, cancelled: &AtomicBool) -> Result<(), Failure> {
    for package in
        libraries(engine).filter_map(|library| library.strip_prefix(root).ok()?.components().next())
    {
        let not_started =
            |detail: String| Failure::new(FailureKind::Crashed, format!("not started: {detail}"));
        let dir = root.join(package);
        let report = packages::verify_changes(&dir, Table::embedded(), &mut Stop(cancelled))
            .map_err(|error| not_started(error.to_string()))?;
        if !report.is_intact() {
            return Err(not_started(changed(&VerifiedPackage::from(report))));
        }
    }
    Ok(())
}

/// The libraries that `engine` loads.
pub(crate) fn libraries(engine: &EngineSpec) -> impl Iterator<Item = &Path> {
    let (library, plugins) = match engine {
        EngineSpec::OnnxRuntime { library, plugins, .. } => (Some(library.as_path()), plugins.as_slice()),
        EngineSpec::Rten => (None, &[][..]),
    };
    library.into_iter().chain(plugins.iter().map(|plugin| plugin.library.as_path()))
}

struct Stop<'a>(&'a AtomicBool);

impl Progress for Stop<'_> {
    fn step(&mut self, _: Step<'_>) {}

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
