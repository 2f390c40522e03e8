//! The file that keeps a tuning.
//!
//! Invariant: whatever the file holds, reading it ends in a tuning that could have been measured here, or in a reason.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siliconroute_engine::regular_file::read_regular;
use siliconroute_kernels::tuner::TUNING_METHOD;

use super::{Limits, Tuning};
use crate::error::Error;

/// What the file calls its form; the number goes up with each change that older programs could not read.
const SCHEMA_NAME: &str = "siliconroute.tuning-record/";
const SCHEMA_NUMBER: u32 = 1;

/// A hundred times what the largest machine's tuning takes.
const LARGEST_FILE_BYTES: u64 = 8 << 20;

/// More threads than any machine is tuned for.
const MOST_THREADS: usize = 1 << 14;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Record<T> {
    schema: String,
    #[serde(flatten)]
    tuning: T,
}

#[derive(Debug, Deserialize)]
struct Nothing {}

/// Why a kept tuning is not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The file cannot be read.
    Unreadable { reason: String },
    /// It holds something else than a tuning.
    Corrupt { reason: String },
    /// A newer version of this program has written it.
    Newer { schema: String },
    /// It is of another machine.
    Foreign { hardware_id: String },
    /// It was measured by another method.
    OtherMethod { method: u32 },
    /// It was measured under other limits.
    OtherLimits { reason: String },
}

impl Obstacle {
    /// Whether the file may be of use to somebody, and is put aside instead of being replaced.
    pub(super) fn is_kept_aside(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Foreign { .. })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => write!(f, "the file cannot be read: {reason}"),
            Self::Corrupt { reason } => write!(f, "the file is damaged and put aside: {reason}"),
            Self::Newer { schema } => write!(f, "a newer version of this program wrote it (`{schema}`)"),
            Self::Foreign { hardware_id } => {
                write!(f, "it is of another machine and put aside (`{hardware_id}`)")
            }
            Self::OtherMethod { method } => {
                write!(f, "it was measured by method {method}, and this program has method {TUNING_METHOD}")
            }
            Self::OtherLimits { reason } => write!(f, "{reason}"),
        }
    }
}

/// The tuning kept in `path`, if it is of this machine and these limits; `None` where nothing is kept.
pub(super) fn load(path: &Path, hardware_id: &str, limits: &Limits) -> Result<Option<Tuning>, Obstacle> {
    let bytes = match read_regular(path, LARGEST_FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Err(Obstacle::Corrupt { reason: error.to_string() });
        }
        Err(error) => return Err(Obstacle::Unreadable { reason: error.to_string() }),
    };
    let tuning = parse(&bytes)?;
    if tuning.hardware_id != hardware_id {
        return Err(Obstacle::Foreign { hardware_id: tuning.hardware_id });
    }
    if tuning.method != TUNING_METHOD {
        return Err(Obstacle::OtherMethod { method: tuning.method });
    }
    match limits.difference(&tuning.limits) {
        Some(reason) => Err(Obstacle::OtherLimits { reason }),
        None => Ok(Some(tuning)),
    }
}

fn parse(bytes: &[u8]) -> Result<Tuning, Obstacle> {
    let corrupt = |reason: String| Obstacle::Corrupt { reason };
    let head: Record<Nothing> = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
    let number = head.schema.strip_prefix(SCHEMA_NAME).and_then(|number| number.parse::<u32>().ok());
    match number {
        Some(SCHEMA_NUMBER) => {}
        Some(newer) if newer > SCHEMA_NUMBER => return Err(Obstacle::Newer { schema: head.schema }),
        _ => return Err(corrupt(format!("the schema is `{}`", head.schema))),
    }
    let record: Record<Tuning> = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
    check(&record.tuning).map_err(corrupt)?;
    Ok(record.tuning)
}

/// Refuses what no measurement gives.
fn check(tuning: &Tuning) -> Result<(), String> {
    let choices = [&tuning.choice, &tuning.best].into_iter().chain(&tuning.tied);
    let known = |cpus: &Vec<u32>| !cpus.is_empty() && cpus.iter().all(|cpu| tuning.limits.cpus.contains(cpu));
    for choice in choices {
        if choice.threads.get() > MOST_THREADS.min(tuning.limits.most_threads) {
            return Err(format!("it names {} threads", choice.threads));
        }
        if !choice.cpus.as_ref().is_none_or(known) {
            return Err("it names CPUs that the process could not use".to_owned());
        }
        let measured = |m: &super::Measurement| {
            (m.threads, m.policy, &m.place) == (choice.threads, choice.policy, &choice.place)
                && !m.samples_ms.is_empty()
        };
        if !tuning.measurements.iter().any(measured) {
            return Err("it has no measurement of what it chose".to_owned());
        }
    }
    for measurement in &tuning.measurements {
        if measurement.samples_ms.len() != measurement.rounds.len() {
            return Err("a measurement has more or fewer rounds than samples".to_owned());
        }
        if measurement.samples_ms.iter().any(|sample| !(sample.is_finite() && *sample > 0.0)) {
            return Err("a sample is no positive time".to_owned());
        }
    }
    Ok(())
}

impl Limits {
    /// What is different from the limits of a tuning, in a sentence; `None` where nothing is.
    fn difference(&self, measured: &Self) -> Option<String> {
        let quota = |quota: Option<f64>| {
            quota.map_or_else(|| "no quota".to_owned(), |cpus| format!("a quota of {cpus} CPUs"))
        };
        if self.cpus != measured.cpus {
            return Some(format!(
                "it was measured with {} CPUs, and this process may use {}{}",
                measured.cpus.len(),
                if self.cpus.len() == measured.cpus.len() { "others of them: " } else { "" },
                self.cpus.len()
            ));
        }
        if quota(self.quota_cpus) != quota(measured.quota_cpus) {
            let (now, then) = (quota(self.quota_cpus), quota(measured.quota_cpus));
            return Some(format!("it was measured under {then}, and this process has {now}"));
        }
        (self.most_threads != measured.most_threads).then(|| {
            format!(
                "it was measured with up to {} threads, and `tuning_threads` is {}",
                measured.most_threads, self.most_threads
            )
        })
    }
}

/// The bytes of the file.
pub(super) fn write(tuning: &Tuning) -> Vec<u8> {
    let record = Record { schema: format!("{SCHEMA_NAME}{SCHEMA_NUMBER}"), tuning };
    serde_json::to_vec_pretty(&record).expect("a tuning has only text keys and finite numbers")
}

/// Moves the file aside; one that was put aside before is replaced.
pub(super) fn put_aside(path: &Path) -> Result<(), Error> {
    let aside: PathBuf = path.with_extension("json.unusable");
    std::fs::rename(path, &aside).map_err(|source| Error::Write { path: aside, source })
}
