//! What a start of the program has of the tuning.
//!
//! Invariant: a machine that cannot be tuned still starts, and why it cannot is told.

use std::num::NonZeroUsize;

use serde::Serialize;

use super::{Anew, Choice, Policy, Source};
use crate::engine_packages::error_with_hint;
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::router::Router;

/// The choice that a start has of the tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpTuning {
    /// The number of threads.
    pub threads: NonZeroUsize,
    /// How rows are cut.
    pub policy: Policy,
    /// Where the choice comes from.
    pub source: Source,
}

impl Router {
    /// Tunes the machine, or tells why it cannot be; either way it is told in one line.
    pub(crate) fn tune_at_start(
        &self,
        anew: Anew,
        listener: &mut dyn Listener,
    ) -> Result<Option<UpTuning>, Error> {
        match self.tune(anew, listener) {
            Ok(tuned) => {
                if tuned.source != Source::Measured {
                    listener.event(Event::Begin { stage: Stage::Tuning, steps: None });
                    listener.event(Event::End(tuned.summary()));
                }
                let Choice { threads, policy, .. } = tuned.choice;
                Ok(Some(UpTuning { threads, policy, source: tuned.source }))
            }
            Err(error @ Error::Tune(_)) => {
                listener.event(Event::Notice(error_with_hint(&error)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
