//! How long each paced target has worked, as simulated meters of energy see it.
//!
//! Invariant: one target works at a time, as in a campaign.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use siliconroute_core::TargetKey;

/// The time that targets have worked.
#[derive(Debug, Default)]
pub(crate) struct Work {
    done: BTreeMap<TargetKey, Duration>,
    now: Option<(TargetKey, Instant)>,
}

impl Work {
    pub(crate) fn begin(&mut self, target: &TargetKey) {
        self.end();
        self.now = Some((target.clone(), Instant::now()));
    }

    pub(crate) fn end(&mut self) {
        if let Some((target, since)) = self.now.take() {
            *self.done.entry(target).or_default() += since.elapsed();
        }
    }

    /// By target, the work under way included.
    pub(crate) fn so_far(&self) -> BTreeMap<TargetKey, Duration> {
        let mut all = self.done.clone();
        if let Some((target, since)) = &self.now {
            *all.entry(target.clone()).or_default() += since.elapsed();
        }
        all
    }
}
