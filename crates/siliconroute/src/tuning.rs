//! The tuning of this machine: how many threads, where and under which policy; measured once, kept and read back.
//!
//! Invariant: what is kept is used only on the machine, with the method and under the limits that it was measured with;
//! anything else is told and measured anew, and no thread count of an engine is changed by it.
//!
//! Reading order: this file (load or measure), `record` (what is kept), [`workbench`] (what is measured),
//! `start`.

mod record;
mod start;
#[cfg(test)]
mod tests;
pub mod workbench;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siliconroute_core::chip::ChipKey;
use siliconroute_core::chip_figure::ChipFigure;
use siliconroute_kernels::tuner::{
    Bounds, Configuration, Found, NothingMeasured, Place, Room, TUNING_METHOD, Unmeasurable, search,
};

pub use siliconroute_kernels::Policy;
pub use start::UpTuning;

use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::machine::describe_error;
use crate::router::{Router, write_if_changed};
use record::Obstacle;
use workbench::{Load, Work};

/// The threads of a machine that is not tuned.
const UNTUNED_THREADS: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not 0");

/// A way to divide work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The number of threads, the calling one included.
    pub threads: NonZeroUsize,
    /// How rows are cut.
    pub policy: Policy,
    /// The cores, in a word or two, such as `all` or `performance`.
    pub place: String,
    /// The CPUs that the threads are held on; `None` leaves them to the system.
    pub cpus: Option<Vec<u32>>,
}

impl Choice {
    /// What is used where nothing was measured: 4 threads, Static.
    pub fn untuned() -> Self {
        Self { threads: UNTUNED_THREADS, policy: Policy::Static, place: "all".to_owned(), cpus: None }
    }

    fn of(configuration: &Configuration, places: &[Place]) -> Self {
        let place = places.get(configuration.place);
        Self {
            threads: configuration.threads,
            policy: configuration.policy,
            place: place.map_or_else(|| "all".to_owned(), |place| place.name.clone()),
            cpus: place.and_then(|place| place.cpus.clone()),
        }
    }
}

/// The measurements of one way to divide the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The number of threads.
    pub threads: NonZeroUsize,
    /// How the rows were cut.
    pub policy: Policy,
    /// The cores.
    pub place: String,
    /// What was read each second by the low quantile of the samples, in 10⁹ bytes; `None` without samples.
    pub gb_per_s: Option<f64>,
    /// The times, in milliseconds.
    pub samples_ms: Vec<f64>,
    /// The round of each sample; those of one round were taken shortly after one another.
    pub rounds: Vec<u32>,
    /// The round after which it was left out as clearly slower.
    pub dropped_after: Option<u32>,
    /// Why it was not measured any further, where it failed.
    pub failure: Option<String>,
}

/// The limits that a tuning was measured under; it holds only under the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The CPUs that the process might use, ascending.
    pub cpus: Vec<u32>,
    /// CPUs' worth of time that it might use, where something limited that.
    pub quota_cpus: Option<f64>,
    /// The most threads that were to be tried.
    pub most_threads: usize,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit it was built from, where known.
    pub commit: Option<String>,
}

/// A tuning with all its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The machine.
    pub hardware_id: String,
    /// The program that measured.
    pub program: Program,
    /// The version of the method.
    pub method: u32,
    /// When it was measured, in milliseconds since 1970 UTC.
    pub measured_unix_ms: i64,
    /// The day, for people.
    pub measured_on: String,
    /// How long it took, in milliseconds, with all preparations.
    pub elapsed_ms: f64,
    /// The limits it was measured under.
    pub limits: Limits,
    /// The work that was measured.
    pub work: WorkFacts,
    /// The choice.
    pub choice: Choice,
    /// What had the best score; it differs from the choice only where both tie.
    pub best: Choice,
    /// All that cannot be told from the best, the best included.
    pub tied: Vec<Choice>,
    /// How many rounds were measured.
    pub rounds: u32,
    /// Whether more rounds would not have changed the answer; otherwise the time was up.
    pub settled: bool,
    /// Everything that was measured.
    pub measurements: Vec<Measurement>,
    /// What else the machine did meanwhile; not recorded by the first programs.
    #[serde(default = "Load::not_recorded")]
    pub load: Load,
    /// What else it did while the figures of the CPU were measured, which was right after; likewise.
    #[serde(default = "Load::not_recorded")]
    pub figures_load: Load,
}

impl Tuning {
    /// Whether something else cannot be told from the best.
    pub fn is_tie(&self) -> bool {
        self.tied.len() > 1
    }
}

/// The work that a tuning measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFacts {
    /// What it was, in words.
    pub name: String,
    /// Bytes that one run reads.
    pub bytes: u64,
    /// What is known of the memory's pages, in words.
    pub pages: String,
}

/// Where a choice comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// It was measured just now.
    Measured,
    /// It was measured by an earlier start.
    Kept,
    /// Tuning is switched off.
    SwitchedOff,
}

/// The choice for this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    /// The choice.
    pub choice: Choice,
    /// Where it comes from.
    pub source: Source,
    /// The tuning behind it; none where tuning is switched off.
    pub tuning: Option<Tuning>,
    /// What the CPU was measured to be capable of, if that was measured just now.
    pub figures: Vec<ChipFigure>,
    /// The file it is kept in; none where it could not be kept.
    pub kept_in: Option<PathBuf>,
    /// How long it took to have it, in milliseconds.
    pub elapsed_ms: f64,
}

impl Tuned {
    /// The choice in a sentence.
    pub fn summary(&self) -> String {
        let Choice { threads, policy, place, .. } = &self.choice;
        let threads = crate::wording::counted(threads.get(), "thread");
        let place = if place == "all" { String::new() } else { format!(" on {place} cores") };
        let choice = format!("{threads}{place}, {}", policy.name());
        let Some(tuning) = &self.tuning else { return format!("{choice}: tuning is switched off") };
        let tie = match tuning.tied.len() {
            0 | 1 => String::new(),
            many => format!(", one of {many} that cannot be told apart"),
        };
        match self.source {
            Source::Kept => format!("{choice}{tie}, as measured on {}", tuning.measured_on),
            _ => format!("{choice}{tie}, measured in {:.0} ms", tuning.elapsed_ms),
        }
    }
}

/// Whether a kept tuning may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anew {
    /// Measure only where nothing usable is kept.
    #[default]
    IfNeeded,
    /// Measure in any case.
    Always,
}

/// This machine cannot be tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The work could not be prepared.
    #[error("cannot prepare the work that the tuning measures")]
    Prepare(#[source] Unmeasurable),
    /// Nothing could be measured.
    #[error("cannot tune this machine")]
    Search(#[source] NothingMeasured),
}

impl Router {
    /// The choice for this machine: what an earlier start has kept, or else measured now.
    ///
    /// Waits while another program measures in this home. What is measured is kept, unless the home can only be read or
    /// has no room, which is told. The CPU's figures are measured as well, and recorded in the store.
    ///
    /// # Errors
    /// When nothing could be measured, the lock cannot be used, the store fails, or the user stops.
    pub fn tune(&self, anew: Anew, listener: &mut dyn Listener) -> Result<Tuned, Error> {
        let begin = Instant::now();
        let mut tuned = self.load_or_measure(anew, listener)?;
        if tuned.source != Source::Measured {
            tuned.elapsed_ms = milliseconds(begin.elapsed());
        }
        *self.tuned.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(tuned.clone());
        Ok(tuned)
    }

    /// What [`Self::tune`] gave last in this process; `None` before that.
    ///
    /// It is known and shown, and changes no engine's own number of threads: what is best for one matrix is not thereby
    /// best for a whole model.
    pub fn tuned(&self) -> Option<Tuned> {
        self.tuned.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// What the CPU of this machine was measured to be capable of, the latest of each figure.
    ///
    /// # Errors
    /// When the store fails.
    pub fn cpu_figures(&self) -> Result<Vec<ChipFigure>, Error> {
        let stored = self.store.chip_figures(&ChipKey::cpu(), &self.machine.hardware_id)?;
        Ok(stored.into_iter().map(|stored| stored.figure).collect())
    }

    /// The file in which the tuning of this machine is kept.
    pub fn tuning_file(&self) -> PathBuf {
        self.home.runtime().join(format!("{}.json", self.machine.hardware_id))
    }

    fn load_or_measure(&self, anew: Anew, listener: &mut dyn Listener) -> Result<Tuned, Error> {
        if !self.settings.autotune {
            if anew == Anew::Always {
                let place = self.settings.place("autotune").unwrap_or_default();
                listener.event(Event::Notice(format!(
                    "nothing is tuned anew, since the setting `autotune` ({place}) is false"
                )));
            }
            return Ok(Tuned {
                choice: Choice::untuned(),
                source: Source::SwitchedOff,
                tuning: None,
                figures: Vec::new(),
                kept_in: None,
                elapsed_ms: 0.0,
            });
        }
        let room = self.workbench.room(&self.machine.host);
        let limits = Limits::of(&room, self.settings.tuning_threads as usize);
        let load = || record::load(&self.tuning_file(), &self.machine.hardware_id, &limits);
        let mut kept = load();
        if anew == Anew::IfNeeded
            && let Ok(Some(tuning)) = kept
        {
            return Ok(self.kept(tuning));
        }
        // Where nothing can be written, nobody measures, so nobody is disturbed.
        let _turn = match self.read_only {
            None => Some(self.lock_measuring(listener)?),
            Some(_) => None,
        };
        self.stop_if_cancelled()?;
        if anew == Anew::IfNeeded {
            // Another program may have tuned while this one waited.
            kept = load();
            if let Ok(Some(tuning)) = kept {
                return Ok(self.kept(tuning));
            }
        }
        let obstacle = kept.err();
        if let Some(obstacle) = obstacle.as_ref().filter(|_| anew == Anew::IfNeeded) {
            listener.event(Event::Notice(format!(
                "the tuning in `{}` is measured anew: {obstacle}",
                self.tuning_file().display()
            )));
        }
        listener.event(Event::Begin { stage: Stage::Tuning, steps: None });
        // In a thread of its own, since it may be held on a CPU and the caller's may not.
        let measured = std::thread::scope(|scope| scope.spawn(|| self.measure_tuning(&room, limits)).join());
        let (tuning, figures) = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let kept_in = self.keep(&tuning, obstacle.as_ref(), listener);
        self.record_figures(&figures)?;
        let elapsed_ms = tuning.elapsed_ms;
        let tuned = Tuned {
            choice: tuning.choice.clone(),
            source: Source::Measured,
            tuning: Some(tuning),
            figures,
            kept_in,
            elapsed_ms,
        };
        listener.event(Event::End(tuned.summary()));
        Ok(tuned)
    }

    fn kept(&self, tuning: Tuning) -> Tuned {
        Tuned {
            choice: tuning.choice.clone(),
            source: Source::Kept,
            tuning: Some(tuning),
            figures: Vec::new(),
            kept_in: Some(self.tuning_file()),
            elapsed_ms: 0.0,
        }
    }

    fn measure_tuning(&self, room: &Room, limits: Limits) -> Result<(Tuning, Vec<ChipFigure>), Error> {
        let watch = self.workbench.watch();
        let begin = Instant::now();
        let places = room.places(limits.most_threads);
        let mut work = self.workbench.prepare(&places).map_err(TuneError::Prepare)?;
        let budget = Duration::from_millis(self.settings.tuning_budget_ms);
        let bounds = Bounds { budget, ..Bounds::default() };
        let found = search(&mut *work, &places, &bounds).map_err(TuneError::Search)?;
        let mut tuning = self.tuning_of(&found, &places, limits, &*work, begin.elapsed());
        tuning.load = watch();
        self.stop_if_cancelled()?;
        let watch = self.workbench.watch();
        let figures = work.measure_figures(&self.machine.host, &found.chosen);
        tuning.figures_load = watch();
        Ok((tuning, figures))
    }

    fn tuning_of(
        &self,
        found: &Found,
        places: &[Place],
        limits: Limits,
        work: &dyn Work,
        elapsed: Duration,
    ) -> Tuning {
        let facts = work.facts();
        let measurement = |measured: &siliconroute_kernels::tuner::Measured| {
            let Choice { threads, policy, place, .. } = Choice::of(&measured.configuration, places);
            Measurement {
                threads,
                policy,
                place,
                gb_per_s: measured.score_s.map(|seconds| facts.bytes as f64 / seconds / 1e9),
                samples_ms: measured.samples_s.iter().map(|seconds| seconds * 1e3).collect(),
                rounds: measured.rounds.clone(),
                dropped_after: measured.dropped_after,
                failure: measured.failure.clone(),
            }
        };
        let measurements = found.measured.iter().map(measurement).collect();
        let now = (self.clock)();
        Tuning {
            hardware_id: self.machine.hardware_id.clone(),
            program: Program { version: crate::VERSION.to_owned(), commit: crate::COMMIT.map(str::to_owned) },
            method: TUNING_METHOD,
            measured_unix_ms: now,
            measured_on: crate::wording::utc_date(now),
            elapsed_ms: milliseconds(elapsed),
            limits,
            work: facts,
            choice: Choice::of(&found.chosen, places),
            best: Choice::of(&found.best, places),
            tied: found.tied.iter().map(|tied| Choice::of(tied, places)).collect(),
            rounds: found.rounds,
            settled: found.settled,
            measurements,
            load: Load::not_recorded(),
            figures_load: Load::not_recorded(),
        }
    }

    /// Keeps a tuning; gives the file, or tells why there is none.
    fn keep(
        &self,
        tuning: &Tuning,
        obstacle: Option<&Obstacle>,
        listener: &mut dyn Listener,
    ) -> Option<PathBuf> {
        let path = self.tuning_file();
        let refused = match (self.read_only(), obstacle) {
            (Some(reason), _) => Some(format!("nothing can be kept in the home ({reason})")),
            (None, Some(Obstacle::Newer { .. })) => {
                Some("a newer version's file is left untouched".to_owned())
            }
            _ => None,
        };
        let reason = match refused {
            Some(reason) => reason,
            None => {
                let folder = self.home.runtime();
                let made =
                    std::fs::create_dir_all(&folder).map_err(|source| Error::Write { path: folder, source });
                let aside = obstacle.filter(|obstacle| obstacle.is_kept_aside());
                let moved = aside.map_or(Ok(()), |_| record::put_aside(&path));
                match made.and(moved).and_then(|()| write_if_changed(&path, &record::write(tuning))) {
                    Ok(()) => return Some(path),
                    Err(error) => describe_error(&error),
                }
            }
        };
        listener
            .event(Event::Notice(format!("the tuning could not be kept, so it is measured again: {reason}")));
        None
    }

    /// Records what the CPU was measured to be capable of.
    fn record_figures(&self, figures: &[ChipFigure]) -> Result<(), Error> {
        if figures.is_empty() {
            return Ok(());
        }
        self.record_machine()?;
        let known = self.store.chips()?.iter().any(|chip| chip.key == ChipKey::cpu());
        if known {
            let hardware_id = &self.machine.hardware_id;
            self.store.record_chip_figures(&ChipKey::cpu(), hardware_id, figures, (self.clock)())?;
        }
        Ok(())
    }
}

impl Limits {
    fn of(room: &Room, most_threads: usize) -> Self {
        Self { cpus: room.cpus(), quota_cpus: room.quota_cpus, most_threads }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
