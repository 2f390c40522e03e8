//! How long one fixed load takes on each adapter, so that two adapters that changed places show by their times.
//!
//! Invariant: a fingerprint is of one machine, one version of the provider, one load and one source of power, and is
//! compared with such only; a file that cannot be read is as none, and is told.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::format_duration_ns;
use siliconroute_core::{CaseId, Target, TargetKey};
use siliconroute_engine::regular_file::read_regular;
use siliconroute_hardware::PowerSource;

use crate::error::Error;
use crate::home::Home;
use crate::router::write_if_changed;

const SCHEMA: &str = "siliconroute.load_fingerprints/1";
/// Bytes that no file of fingerprints exceeds.
const LONGEST_FILE: u64 = 1 << 20;
/// A target is not itself when its time is off by more than this factor …
const OWN_FACTOR: f64 = 1.5;
/// … and within this one of another adapter's.
const OTHER_FACTOR: f64 = 1.2;

/// The time of the fixed load on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    pub(super) target: TargetKey,
    pub(super) provider_version: String,
    /// The load.
    pub(super) case: CaseId,
    pub(super) power_source: Option<PowerSource>,
    /// Median time of a call, in nanoseconds.
    pub(super) call_ns: f64,
    pub(super) taken_unix_ms: i64,
}

/// All fingerprints of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Fingerprints {
    schema: String,
    hardware_id: String,
    pub(super) taken: Vec<Fingerprint>,
}

impl Fingerprint {
    /// Whether the two differ in the adapter and the time alone.
    fn is_comparable(&self, other: &Self) -> bool {
        self.case == other.case
            && self.power_source == other.power_source
            && self.call_ns > 0.0
            && other.call_ns > 0.0
    }

    fn is_of_the_same(&self, other: &Self) -> bool {
        self.target == other.target
            && self.provider_version == other.provider_version
            && self.is_comparable(other)
    }
}

/// By what factor two times differ, at least 1.
fn factor(one: f64, two: f64) -> f64 {
    (one / two).max(two / one)
}

/// Whether two targets go the same way onto two adapters of one kind, so that nothing but the adapter differs.
pub(super) fn are_twins(one: &Target, two: &Target) -> bool {
    let way = |target: &Target| target.key.as_str().strip_prefix(target.chip.as_str()).map(str::to_owned);
    one.chip != two.chip
        && one.chip_kind == two.chip_kind
        && one.provider == two.provider
        && way(one).is_some()
        && way(one) == way(two)
}

impl Fingerprints {
    fn none(hardware_id: &str) -> Self {
        Self { schema: SCHEMA.to_owned(), hardware_id: hardware_id.to_owned(), taken: Vec::new() }
    }

    fn path(home: &Home) -> PathBuf {
        home.cache().join("load-fingerprints.json")
    }

    /// Loads the fingerprints of the machine called `hardware_id`; those of another machine are none.
    ///
    /// The second value says why a file that is there cannot be used.
    pub(super) fn load(home: &Home, hardware_id: &str) -> (Self, Option<String>) {
        let path = Self::path(home);
        match Self::read(&path) {
            Ok(Some(stored)) if stored.hardware_id == hardware_id => (stored, None),
            Ok(_) => (Self::none(hardware_id), None),
            Err(reason) => {
                let text = format!("load fingerprints are taken anew: `{}`: {reason}", path.display());
                (Self::none(hardware_id), Some(text))
            }
        }
    }

    fn read(path: &Path) -> Result<Option<Self>, String> {
        let bytes = match read_regular(path, LONGEST_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let stored: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let sound = |it: &Fingerprint| it.call_ns.is_finite() && it.call_ns > 0.0;
        if stored.schema != SCHEMA {
            return Err(format!("its schema is not {SCHEMA}"));
        }
        if !stored.taken.iter().all(sound) {
            return Err("a time in it is no time".to_owned());
        }
        Ok(Some(stored))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn save(&self, home: &Home) -> Result<(), Error> {
        let document = serde_json::to_vec_pretty(self).expect("fingerprints have only text keys");
        write_if_changed(&Self::path(home), &document)
    }

    /// Puts `fresh` in the place of the target's earlier fingerprint.
    pub(super) fn refresh(&mut self, fresh: Fingerprint) {
        self.taken.retain(|old| !(old.target == fresh.target && old.power_source == fresh.power_source));
        self.taken.push(fresh);
        self.taken.sort_by(|one, two| {
            let key = |it: &Fingerprint| (it.target.clone(), it.power_source.map(|source| source as u8));
            key(one).cmp(&key(two))
        });
    }

    /// What speaks for `fresh` being the time of one of `twins` in truth: it is off by more than 1.5 times from
    /// the target's own stored one and within 1.2 times of a twin's.
    pub(super) fn suspicion(&self, fresh: &Fingerprint, twins: &[&Target]) -> Option<String> {
        let own = self.taken.iter().find(|stored| stored.is_of_the_same(fresh))?;
        if factor(own.call_ns, fresh.call_ns) <= OWN_FACTOR {
            return None;
        }
        let is_twin = |stored: &&Fingerprint| {
            let twin = twins
                .iter()
                .any(|it| it.key == stored.target && it.provider_version == stored.provider_version);
            twin && stored.is_comparable(fresh) && factor(stored.call_ns, fresh.call_ns) <= OTHER_FACTOR
        };
        let other = self.taken.iter().find(is_twin)?;
        let show = format_duration_ns;
        Some(format!(
            "a fixed load took {} a call, where {} did before and {} is usual for {}: adapters may have changed \
             places",
            show(fresh.call_ns),
            show(own.call_ns),
            show(other.call_ns),
            other.target
        ))
    }
}

#[cfg(test)]
mod tests;
