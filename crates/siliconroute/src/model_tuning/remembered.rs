//! How sessions of a model use what tuning found: the tuned target takes the place of its base for that case.
//!
//! Invariant: a tuning of another machine, provider version or model is not used, and that is told.

use std::borrow::Cow;

use siliconroute_core::Case;
use siliconroute_core::target::{CpuSettings, SessionSettings};
use siliconroute_store::StoredTuning;

use crate::discovery::Found;
use crate::error::Error;
use crate::router::{Replaced, Router, Targets};

/// The targets for a case, with what tuning found for it.
#[derive(Debug)]
pub struct Tuned<'t> {
    /// The targets; those that were tuned stand in place of the ones without settings.
    pub targets: Cow<'t, Targets>,
    /// Tunings that are there and not used, with the reason.
    pub notices: Vec<String>,
}

impl Router {
    /// The targets for `case`, each with the settings that tuning found for it; `targets` themselves where there are
    /// none.
    ///
    /// # Errors
    /// When the store fails.
    pub fn tuned_targets<'t>(&self, targets: &'t Targets, case: &Case) -> Result<Tuned<'t>, Error> {
        let mut tuned = Tuned { targets: Cow::Borrowed(targets), notices: Vec::new() };
        if targets.tuned_for == Some(case.id) {
            return Ok(tuned);
        }
        let stored = self.store.tunings(&case.model_name)?;
        for found in targets.discovery.available() {
            let of_target = || stored.iter().filter(|tuning| tuning.target == found.target.key);
            match of_target().find(|tuning| self.is_current(tuning, case, found)) {
                Some(tuning) if tuning.settings.is_default() => {}
                Some(tuning) => match replacement(targets, found, &tuning.settings) {
                    Ok(replacement) => self.put_in_place(tuned.targets.to_mut(), found, replacement)?,
                    Err(error) => tuned.notices.push(format!("a tuning is not used: {error}")),
                },
                None => tuned.notices.extend(of_target().find_map(|it| self.obstacle(it, case, found))),
            }
        }
        if let Cow::Owned(targets) = &mut tuned.targets {
            targets.tuned_for = Some(case.id);
        }
        Ok(tuned)
    }

    fn is_current(&self, tuning: &StoredTuning, case: &Case, found: &Found) -> bool {
        tuning.case == case.id
            && tuning.hardware_id == self.machine.hardware_id
            && tuning.provider_version == found.target.provider_version
    }

    /// Why a tuning of the same model name and target is not used for `case`; `None` where it is about another case or
    /// asks for nothing.
    fn obstacle(&self, tuning: &StoredTuning, case: &Case, found: &Found) -> Option<String> {
        if tuning.settings.is_default() || tuning.bindings != case.bindings {
            return None;
        }
        let reason = if tuning.hardware_id != self.machine.hardware_id {
            format!("it was made on another machine, {}", tuning.hardware_id)
        } else if tuning.model != case.model {
            "the model has changed since".to_owned()
        } else {
            let (then, now) = (&tuning.provider_version, &found.target.provider_version);
            format!("it was made with version {then}, and {now} is installed")
        };
        let (target, model) = (&found.target.key, &tuning.model_name);
        Some(format!(
            "the tuning of {model} for {target} is not used: {reason}; `siliconroute tune --model` makes a new one"
        ))
    }

    /// Puts a tuned target in the place of `found`, which stays known by its name.
    fn put_in_place(&self, targets: &mut Targets, found: &Found, tuned: Found) -> Result<(), Error> {
        let recorded = self.store.targets()?;
        let row = match recorded.iter().find(|stored| stored.target == tuned.target) {
            Some(stored) => stored.id,
            None => self.record_target(&tuned)?,
        };
        targets.rows.insert(tuned.target.key.clone(), row);
        let place = targets.discovery.found.iter_mut().find(|it| it.target.key == found.target.key);
        if let Some(place) = place {
            let by = tuned.target.key.clone();
            targets.replaced.push(Replaced { plain: std::mem::replace(place, tuned), by });
        }
        Ok(())
    }
}

/// `found` with `settings`.
fn replacement(targets: &Targets, found: &Found, settings: &CpuSettings) -> Result<Found, Error> {
    let key = SessionSettings::of_cpu(settings.clone()).apply(found.target.clone()).key;
    targets.resolve(key.as_str())
}
