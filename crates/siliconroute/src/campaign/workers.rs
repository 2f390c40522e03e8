//! The workers of a campaign, by target.
//!
//! Invariant: a worker that is in no known state is ended, never asked again.

use std::collections::HashMap;
use std::time::Duration;

use siliconroute_core::TargetKey;
use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_engine::worker::client::WorkerClient;
use siliconroute_engine::worker::process::Launcher;

use crate::discovery::Found;

/// Workers by target, kept alive from case to case.
pub struct Workers<'l> {
    launcher: &'l dyn Launcher,
    open: HashMap<TargetKey, WorkerClient>,
}

impl std::fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("open", &self.open.keys()).finish_non_exhaustive()
    }
}

impl<'l> Workers<'l> {
    /// No worker yet; `launcher` starts them when they are needed.
    pub fn new(launcher: &'l dyn Launcher) -> Self {
        Self { launcher, open: HashMap::new() }
    }

    /// The worker of `found`, started if it is not running.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn get(&mut self, found: &Found, deadline: Duration) -> Result<&mut WorkerClient, Failure> {
        let key = &found.target.key;
        if !self.open.contains_key(key) {
            let worker = WorkerClient::open(self.launcher, &found.engine, deadline)?;
            self.open.insert(key.clone(), worker);
        }
        self.open.get_mut(key).ok_or_else(|| Failure::new(FailureKind::Crashed, "the worker is gone"))
    }

    /// Forgets the worker of `key`, which ends it.
    pub fn drop_worker(&mut self, key: &TargetKey) {
        self.open.remove(key);
    }

    /// What starts the workers.
    pub(super) fn launcher(&self) -> &'l dyn Launcher {
        self.launcher
    }

    /// Ends all workers.
    pub fn drop_all(&mut self) {
        self.open.clear();
    }
}
