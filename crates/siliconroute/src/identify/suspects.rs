//! The start of a campaign: targets that answer from another chip than they name become suspects.
//!
//! Invariant: a suspect is measured like any other target; its trials are marked, and it leaves no fingerprint.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::PoisonError;

use siliconroute_core::target::SessionSettings;
use siliconroute_core::{ChipKey, ChipKind, Target, TargetKey};

use super::fingerprint::{Fingerprint, Fingerprints, are_twins};
use super::observe::{Loads, Pace};
use super::{Agreement, Sensors, Verdict};
use crate::discovery::Found;
use crate::engine_packages::error_with_hint;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::measure::Job;
use crate::router::{Router, Targets};

/// How long what was found out about a target holds within one process.
const HOLDS_MS: i64 = 60 * 60 * 1000;

/// What was found out about a target's chip.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    provider_version: String,
    at_unix_ms: i64,
    suspicion: Option<String>,
}

/// What all checks at the start of one campaign share.
struct Inspection<'t> {
    targets: &'t Targets,
    sensors: Box<dyn Sensors>,
    /// Chips that the sensors know.
    known: Vec<ChipKey>,
    stored: Fingerprints,
    loads: Option<Loads>,
}

impl Router {
    /// `targets`, with those of `jobs` marked as suspects that do not answer from the chip that they name.
    ///
    /// GPUs and NPUs are loaded for about two seconds each, once an hour in one process, where sensors or an
    /// adapter of the same kind can show a difference. What cannot be checked is told in a notice.
    ///
    /// # Errors
    /// When a job's target has a setting that there is not; a check that fails leaves its target without suspicion.
    pub(crate) fn mark_suspects<'t>(
        &self,
        jobs: &[Job],
        targets: &'t Targets,
        listener: &mut dyn Listener,
    ) -> Result<Cow<'t, Targets>, Error> {
        let mut bases: BTreeMap<TargetKey, Vec<TargetKey>> = BTreeMap::new();
        for key in jobs.iter().flat_map(|job| &job.targets) {
            let (base, _) =
                SessionSettings::split(key.as_str()).map_err(|error| Error::Usage(error.to_string()))?;
            bases.entry(base).or_default().push(key.clone());
        }
        let found: Vec<&Found> = targets
            .discovery
            .available()
            .filter(|found| bases.contains_key(&found.target.key))
            .filter(|found| found.target.chip_kind != ChipKind::Cpu && !self.is_imitated(&found.target.chip))
            .collect();
        if found.is_empty() {
            return Ok(Cow::Borrowed(targets));
        }
        self.check_chips(&found, targets, listener);
        let checked = self.identified.lock().unwrap_or_else(PoisonError::into_inner);
        let mut marked = Cow::Borrowed(targets);
        for (base, keys) in bases {
            let Some(reason) = checked.get(&base).and_then(|checked| checked.suspicion.as_ref()) else {
                continue;
            };
            for key in keys {
                marked.to_mut().suspects.insert(key, reason.clone());
            }
        }
        Ok(marked)
    }

    /// Checks those of `found` of which nothing is known yet or any more.
    fn check_chips(&self, found: &[&Found], targets: &Targets, listener: &mut dyn Listener) {
        let now = (self.clock)();
        let still_holds = |found: &Found| {
            let checked = self.identified.lock().unwrap_or_else(PoisonError::into_inner);
            checked.get(&found.target.key).is_some_and(|checked| {
                checked.provider_version == found.target.provider_version
                    && (0..HOLDS_MS).contains(&now.saturating_sub(checked.at_unix_ms))
            })
        };
        let fresh: Vec<&Found> = found.iter().copied().filter(|found| !still_holds(found)).collect();
        if fresh.is_empty() {
            return;
        }
        let mut sensors = (self.sensors)(&self.present_chips());
        let known = sensors.sample().into_iter().map(|sample| sample.chip).collect();
        let (stored, unreadable) = Fingerprints::load(&self.home, &self.machine.hardware_id);
        if let Some(notice) = unreadable {
            listener.event(Event::Notice(notice));
        }
        let mut refreshed = stored.clone();
        let mut inspection = Inspection { targets, sensors, known, stored, loads: None };
        for found in fresh {
            let key = &found.target.key;
            let (suspicion, fingerprint) = match self.check_chip(found, &mut inspection, listener) {
                Ok(result) => result,
                // The campaign sees for itself that it is to stop, and the next one looks again.
                Err(Error::Interrupted) => return,
                Err(error) => {
                    let reason = error_with_hint(&error);
                    let text = format!("which chip answers to {key} is not checked: {reason}");
                    listener.event(Event::Notice(text));
                    (None, None)
                }
            };
            if let Some(reason) = &suspicion {
                let advice = format!("`siliconroute devices identify {key}` shows more");
                let text = format!("trials of {key} are kept and not learned from: {reason}; {advice}");
                listener.event(Event::Notice(text));
            } else if let Some(fingerprint) = fingerprint {
                refreshed.refresh(fingerprint);
            }
            let provider_version = found.target.provider_version.clone();
            let checked = Checked { provider_version, at_unix_ms: now, suspicion };
            self.identified.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), checked);
        }
        if refreshed != inspection.stored
            && let Err(error) = refreshed.save(&self.home)
        {
            listener
                .event(Event::Notice(format!("load fingerprints are not kept: {}", error_with_hint(&error))));
        }
    }

    /// What speaks against `found`, and how long its load took; neither where nothing could be told apart.
    fn check_chip(
        &self,
        found: &Found,
        inspection: &mut Inspection<'_>,
        listener: &mut dyn Listener,
    ) -> Result<(Option<String>, Option<Fingerprint>), Error> {
        let twins: Vec<&Target> = inspection
            .targets
            .discovery
            .available()
            .map(|other| &other.target)
            .filter(|other| are_twins(&found.target, other))
            .collect();
        if twins.is_empty() && !inspection.known.contains(&found.target.chip) {
            return Ok((None, None));
        }
        let loads = match &mut inspection.loads {
            Some(loads) => loads,
            none => none.insert(self.loads(listener)?),
        };
        let watched = self.watch(found, loads, inspection.sensors.as_mut(), &Pace::brief(), listener)?;
        let fingerprint = Fingerprint {
            target: found.target.key.clone(),
            provider_version: found.target.provider_version.clone(),
            case: loads.fixed.case.id,
            power_source: siliconroute_hardware::detect_conditions().power_source.available().copied(),
            call_ns: watched.call_ns,
            taken_unix_ms: (self.clock)(),
        };
        let seen = self.identification(found, watched);
        let suspicion = match (&seen.agrees, &seen.verdict) {
            (Agreement::Agrees, _) => None,
            (Agreement::Contradicts, Verdict::Answered { chip, .. }) => {
                Some(format!("{chip} answered to it, not {}", seen.expected))
            }
            (Agreement::Contradicts | Agreement::CannotTell(_), _) => {
                inspection.stored.suspicion(&fingerprint, &twins)
            }
        };
        Ok((suspicion, Some(fingerprint)))
    }
}
