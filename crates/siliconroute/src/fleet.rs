//! Knowledge for other machines and from them: export, import, what may be expected here.
//!
//! Invariant: what leaves is hardware, library versions, hashes and numbers of this machine's own measurements. What comes
//! in stays apart from them, with its origin.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use siliconroute_core::fleet::{ChipModel, FleetCase, FleetTarget, FleetTime, unix_day};
use siliconroute_core::knowledge::ImportedFacts;
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{Chip, ChipKind, TargetKey};
use siliconroute_engine::onnxruntime::Automatic;
use siliconroute_hardware::clean_cpu_name;
pub use siliconroute_store::StoredOrigin;
use siliconroute_store::{NewOrigin, OriginId, StoredImport, StoredTrial, TrialFilter};

use crate::error::Error;
use crate::knowledge_file::{KnowledgeFile, KnowledgeFileError};
use crate::learn::is_fit_to_learn_from;
use crate::output_place::write_whole;
use crate::router::{Router, Targets};

/// What was exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: usize,
    /// The hardware id in it.
    pub hardware_id: String,
    /// Cases in it.
    pub cases: usize,
    /// Sessions in it.
    pub sessions: usize,
    /// Sessions that could not be told to others, with the reason for the first.
    pub left_out: usize,
    /// Why the first of them was left out.
    pub first_fault: Option<String>,
    /// Sessions of what another program chose for itself, such as `ort-max-performance`, by name. Those are measured to
    /// evaluate decisions and are no targets, so none is in the file.
    pub baselines: BTreeMap<String, usize>,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedOrigin {
    /// The file with its number.
    pub origin: StoredOrigin,
    /// Whether it was imported now; not before.
    pub new: bool,
    /// How many of its cases this machine knows.
    pub known_cases: usize,
    /// Whether it holds this machine's own measurements, which change nothing here.
    pub own: bool,
}

/// What comes from this machine, ready to leave it.
#[derive(Default)]
struct Own {
    cases: Vec<FleetCase>,
    times: Vec<FleetTime>,
    /// Sessions of others that choose for themselves, by name.
    baselines: BTreeMap<String, usize>,
}

impl Router {
    /// Writes this machine's measurements to the file at `path`, for other machines: whole or not at all.
    ///
    /// # Errors
    /// When nothing was measured, the file cannot be written, or the store fails.
    pub fn export_knowledge(&self, path: &Path) -> Result<Exported, Error> {
        let own = self.own_measurements()?;
        let file = KnowledgeFile {
            program_version: crate::VERSION.to_owned(),
            exported_unix_day: unix_day((self.clock)()),
            hardware_id: self.machine.hardware_id.clone(),
            os: self.machine.host.os.clone(),
            cases: own.cases,
            times: own.times,
        };
        let written = file.to_bytes();
        if written.times == 0 {
            let reason = written.first_fault.unwrap_or_else(|| "it has measured nothing yet".to_owned());
            return Err(KnowledgeFileError::Nothing { reason }.into());
        }
        let unwritable = |source| KnowledgeFileError::Write { path: path.to_owned(), source };
        write_whole(path, unwritable, |writer| writer.write_all(&written.bytes).map_err(unwritable))?;
        Ok(Exported {
            file: path.to_owned(),
            bytes: written.bytes.len(),
            hardware_id: file.hardware_id,
            cases: written.cases,
            sessions: written.times,
            left_out: written.left_out,
            first_fault: written.first_fault,
            baselines: own.baselines,
        })
    }

    /// Reads another machine's measurements from the file at `path` and keeps them with their origin: all or nothing, and
    /// nothing a second time.
    ///
    /// # Errors
    /// When the home is only read, the file is not usable, or the store fails.
    pub fn import_knowledge(&self, path: &Path) -> Result<ImportedOrigin, Error> {
        self.require_writable("import knowledge")?;
        let (file, digest) = KnowledgeFile::load(path)?;
        let name = path.to_string_lossy();
        let (id, new) = self.store.record_origin(&NewOrigin {
            digest,
            file: &name,
            hardware_id: &file.hardware_id,
            os: &file.os,
            program_version: &file.program_version,
            exported_unix_day: file.exported_unix_day,
            imported_unix_ms: (self.clock)(),
            cases: &file.cases,
            times: &file.times,
        })?;
        let known: BTreeSet<_> = self.store.cases()?.into_iter().map(|case| case.id).collect();
        let own: BTreeSet<_> = self.own_measurements()?.times.iter().map(FleetTime::digest).collect();
        let origin = self.store.origins()?.into_iter().find(|origin| origin.id == id);
        Ok(ImportedOrigin {
            origin: origin.ok_or_else(|| unknown_origin(&id.to_string(), &[]))?,
            new,
            known_cases: file.cases.iter().filter(|case| known.contains(&case.id)).count(),
            own: file.times.iter().any(|time| own.contains(&time.digest())),
        })
    }

    /// Forgets all that came with the origin of this number.
    ///
    /// # Errors
    /// When there is no such origin, the home is only read, or the store fails.
    pub fn forget_knowledge(&self, number: &str) -> Result<StoredOrigin, Error> {
        self.require_writable("forget imported knowledge")?;
        let forgotten = match number.parse() {
            Ok(id) => self.store.forget_origin(OriginId(id))?,
            Err(_no_number) => None,
        };
        match forgotten {
            Some(origin) => Ok(origin),
            None => Err(unknown_origin(number, &self.store.origins()?)),
        }
    }

    /// What other machines measured on targets of the same kind as those of this one.
    pub(crate) fn imported_facts(&self, targets: &Targets) -> Result<Vec<ImportedFacts>, Error> {
        let times = self.store.imported_times()?;
        if times.is_empty() {
            return Ok(Vec::new());
        }
        let own: BTreeSet<_> = self.own_measurements()?.times.iter().map(FleetTime::digest).collect();
        let machines = tell_machines_apart(&self.store.imported_digests()?, &own);
        let facts = |kind: &FleetTarget, key: &TargetKey| -> Vec<ImportedFacts> {
            let of_kind = times.iter().filter(|import| import.time.target.is_same_kind(kind));
            of_kind.filter_map(|import| Some(fact(import, key, *machines.get(&import.origin)?))).collect()
        };
        let mut all = Vec::new();
        for found in targets.discovery.available() {
            let Some(kind) = self.fleet_target(&self.chip_of(found), &found.target) else { continue };
            all.extend(facts(&kind, &found.target.key));
        }
        for replaced in &targets.replaced {
            let Some(kind) = self.fleet_target(&self.chip_of(&replaced.plain), &replaced.plain.target) else {
                continue;
            };
            let told: BTreeSet<_> = all
                .iter()
                .filter(|fact| fact.target == replaced.by)
                .map(|fact| (fact.case, fact.workload.index()))
                .collect();
            // As among this machine's own trials: what is said of the tuned target itself has the last word.
            let lent = facts(&kind, &replaced.by);
            all.extend(lent.into_iter().filter(|fact| !told.contains(&(fact.case, fact.workload.index()))));
        }
        Ok(all)
    }

    /// This machine's own measurements that others may learn from.
    fn own_measurements(&self) -> Result<Own, Error> {
        let filter =
            TrialFilter { hardware_id: Some(self.machine.hardware_id.clone()), ..TrialFilter::default() };
        let chips: HashMap<_, _> =
            self.store.chips()?.into_iter().map(|chip| (chip.key.clone(), chip)).collect();
        let (others, stored): (Vec<_>, Vec<_>) =
            self.store.targets()?.into_iter().partition(|stored| Automatic::of(&stored.target.key).is_some());
        let others: HashMap<_, _> =
            others.into_iter().map(|it| (it.id, it.target.provider.to_string())).collect();
        let targets: HashMap<_, _> = stored
            .into_iter()
            .filter_map(|stored| {
                let chip = chips.get(&stored.target.chip)?;
                Some((stored.id, self.fleet_target(chip, &stored.target)?))
            })
            .collect();
        let trials = self.store.trial_summaries(&filter)?;
        let honest = || trials.iter().filter(|trial| is_fit_to_learn_from(trial));
        let mut baselines = BTreeMap::new();
        for name in
            honest().filter(|trial| trial.outcome.is_ok()).filter_map(|trial| others.get(&trial.target_id))
        {
            *baselines.entry(name.clone()).or_default() += 1;
        }
        let times: Vec<_> =
            honest().filter_map(|trial| fleet_time(trial, targets.get(&trial.target_id)?)).collect();
        let measured: BTreeSet<_> = times.iter().map(|time| time.case).collect();
        let cases = self.store.cases()?.into_iter().filter(|case| measured.contains(&case.id));
        let cases = cases.map(|case| FleetCase::new(case.id, case.model, case.facts)).collect();
        Ok(Own { cases, times, baselines })
    }

    /// What a target of this machine is to others; `None` where its chip is imitated or its key tells another chip.
    fn fleet_target(&self, chip: &Chip, target: &siliconroute_core::Target) -> Option<FleetTarget> {
        if chip.software {
            return None;
        }
        FleetTarget::of(target, self.chip_model(chip))
    }

    fn chip_model(&self, chip: &Chip) -> ChipModel {
        let host = &self.machine.host;
        if chip.kind == ChipKind::Cpu {
            let usable =
                host.usable_cores.available().map_or(host.logical_cores, |cores| cores.ceil() as u32);
            return ChipModel {
                kind: ChipKind::Cpu,
                vendor: host.cpu_vendor.available().cloned().unwrap_or_default(),
                name: host.cpu_name.available().map(|name| clean_cpu_name(name)).unwrap_or_default(),
                ids: None,
                architecture: Some(host.architecture.to_lowercase()),
                logical_cores: Some(usable.clamp(1, host.logical_cores.max(1))),
                memory_bytes: None,
            };
        }
        // A chip that only its engine knows of may be called by its key, which tells its place.
        let called_by_key = chip.name.contains('@') || chip.name == chip.key.as_str();
        ChipModel {
            kind: chip.kind,
            vendor: chip.vendor.clone(),
            name: if called_by_key { String::new() } else { chip.name.clone() },
            ids: ChipModel::ids_of(&chip.key),
            architecture: None,
            logical_cores: None,
            memory_bytes: chip.memory_bytes,
        }
    }
}

/// What a trial tells others; nothing where it failed or its outputs were wrong in kind.
fn fleet_time(trial: &StoredTrial, target: &FleetTarget) -> Option<FleetTime> {
    let measured = trial.outcome.as_ref().ok()?;
    let summary = measured.summary.as_ref()?;
    let outputs = match &measured.outputs {
        OutputCheck::Compared { difference, .. } => Some(*difference),
        OutputCheck::Reference | OutputCheck::NotCompared { .. } => None,
        OutputCheck::Faulty { .. } => return None,
    };
    Some(FleetTime {
        target: target.clone(),
        case: trial.case,
        workload: trial.workload,
        unix_day: unix_day(trial.started_unix_ms),
        samples: summary.samples as u64,
        median_ns: summary.median_ns,
        interval: summary.interval,
        min_ns: summary.min_ns,
        max_ns: summary.max_ns,
        session_create_ns: measured.session_create_ns,
        first_run_ns: measured.first_run_ns,
        peak_resident_bytes: measured.peak_resident_bytes.available().copied(),
        outputs,
    })
}

fn fact(import: &StoredImport, key: &TargetKey, machine: u32) -> ImportedFacts {
    ImportedFacts {
        target: key.clone(),
        case: import.time.case,
        workload: import.time.workload,
        machine,
        time_ns: import.time.median_ns,
        outputs: import.time.outputs,
    }
}

/// A number for the machine of each origin: origins that share a session are of one machine, and one that shares a
/// session with this machine is left out, since it tells nothing that is not known better.
fn tell_machines_apart(
    digests: &[(OriginId, [u8; 32])],
    own: &BTreeSet<[u8; 32]>,
) -> BTreeMap<OriginId, u32> {
    let origins: BTreeSet<OriginId> = digests.iter().map(|(origin, _)| *origin).collect();
    let mut machines: BTreeMap<OriginId, u32> = origins.into_iter().zip(1..).collect();
    let mut holders: HashMap<[u8; 32], OriginId> = HashMap::new();
    let mut this: BTreeSet<u32> = BTreeSet::new();
    for (origin, digest) in digests {
        let machine = machines[origin];
        if own.contains(digest) {
            this.insert(machine);
        }
        let holder = machines[holders.entry(*digest).or_insert(*origin)];
        if holder != machine {
            machines.values_mut().filter(|it| **it == machine).for_each(|it| *it = holder);
            if this.remove(&machine) {
                this.insert(holder);
            }
        }
    }
    machines.retain(|_, machine| !this.contains(machine));
    machines
}

fn unknown_origin(number: &str, origins: &[StoredOrigin]) -> Error {
    let known: Vec<String> = origins.iter().map(|origin| origin.id.to_string()).collect();
    let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
    Error::Usage(format!("unknown origin `{number}`; the origins of imported knowledge are: {known}"))
}

#[cfg(test)]
mod tests;
