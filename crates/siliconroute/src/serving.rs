//! A long-lived handle for programs that serve: every run is timed, teaches, and is kept.
//!
//! Invariant: a run waits neither for the disk, unless its target fails, nor for another run's learning; decisions read a snapshot that is replaced
//! as a whole.
//!
//! Reading order: this file (what is shared), `session` (runs of one case), `recorder` (what goes into the store).

mod recorder;
mod session;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use siliconroute_core::decide::{Context, Decision, Query, decide_live};
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::learning::{Account, Explorer, Live, Noticed, Run};
use siliconroute_core::{Case, TargetKey, Workload};

use crate::error::Error;
use crate::learn::Learned;
use crate::router::{Router, Targets};

use self::recorder::Recorder;

pub use self::session::ServedSession;

/// How long the state of the machine counts as known.
const CONTEXT_LASTS: Duration = Duration::from_secs(1);

/// Changes that are remembered for whoever asks.
const MOST_CHANGES: usize = 256;

/// Serves and learns until it is dropped.
pub struct Serving<'r> {
    router: &'r Router,
    targets: &'r Targets,
    learned: &'r Learned,
    begin: Instant,
    live: ArcSwap<Live>,
    pupil: Mutex<Pupil>,
    context: Mutex<Option<(Instant, Context)>>,
    /// Absent where the home is only read.
    recorder: Option<Recorder>,
}

/// What only one run at a time changes.
struct Pupil {
    live: Live,
    explorer: Explorer,
    changes: Vec<Noticing>,
    power: Option<Power>,
}

/// What the times of the whole machine rest on.
#[derive(Debug, Clone)]
struct Power {
    on_battery: bool,
    plan: Option<String>,
}

impl Power {
    /// A plan that is not told is no other one.
    fn differs_from(&self, now: &Self) -> bool {
        let plans = self.plan.as_ref().zip(now.plan.as_ref());
        self.on_battery != now.on_battery || plans.is_some_and(|(before, now)| before != now)
    }
}

/// A change that runs have shown.
#[derive(Debug, Clone)]
pub struct Noticing {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: Case,
    /// The workload.
    pub workload: Workload,
    /// What has changed.
    pub noticed: Noticed,
}

impl std::fmt::Debug for Serving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("router", &self.router).finish_non_exhaustive()
    }
}

impl Router {
    /// Begins to serve on what is `learned`; runs teach what changes from then on, and are stored as trials that are
    /// `served`.
    ///
    /// # Errors
    /// When the store fails.
    pub fn serve<'r>(&'r self, targets: &'r Targets, learned: &'r Learned) -> Result<Serving<'r>, Error> {
        let recorder = match self.read_only() {
            Some(_) => None,
            None => Some(Recorder::start(self)?),
        };
        let live = Live::new(learned.knowledge.targets().len());
        let explorer = Explorer::new(self.settings.exploration_share.unwrap_or(0.0));
        let pupil = Pupil { live: live.clone(), explorer, changes: Vec::new(), power: None };
        Ok(Serving {
            router: self,
            targets,
            learned,
            begin: Instant::now(),
            live: ArcSwap::from_pointee(live),
            pupil: Mutex::new(pupil),
            context: Mutex::default(),
            recorder,
        })
    }
}

impl<'r> Serving<'r> {
    /// What runs have told so far.
    pub fn snapshot(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// What was spent on runs and on exploring.
    pub fn account(&self) -> Account {
        self.pupil().explorer.account
    }

    /// The latest changes that runs have shown, oldest first.
    pub fn changes(&self) -> Vec<Noticing> {
        self.pupil().changes.clone()
    }

    /// Decides with what runs have told; the same arguments and snapshot give the same answer.
    pub fn decide(&self, query: &Query<'_>, context: &Context) -> Decision<'r> {
        decide_live(&self.learned.knowledge, Some(&self.live.load()), query, context)
    }

    /// Waits until everything that was served so far is in the store.
    pub fn flush(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.flush();
        }
    }

    /// What the machine is like, as of at most a second ago.
    fn context(&self) -> Context {
        let mut kept = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, context)) = kept.as_ref().filter(|(at, _)| at.elapsed() < CONTEXT_LASTS) {
            return context.clone();
        }
        let context = self.router.context(self.learned);
        *kept = Some((Instant::now(), context.clone()));
        context
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pupil(&self) -> MutexGuard<'_, Pupil> {
        self.pupil.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless another run is teaching just now.
    fn free_pupil(&self) -> Option<MutexGuard<'_, Pupil>> {
        match self.pupil.try_lock() {
            Ok(pupil) => Some(pupil),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The target called `key`; a tuned one counts as the target that it stands in for.
    fn index_of(&self, key: &TargetKey) -> Option<TargetIndex> {
        let targets = self.learned.knowledge.targets();
        let called = |name: &str| targets.iter().position(|entry| entry.target.key.as_str() == name);
        let position = called(key.as_str()).or_else(|| called(key.base()))?;
        Some(TargetIndex(position as u16))
    }
}

impl Pupil {
    /// Lets everything count for less when what all times rest on was changed: the power source or the power plan.
    fn note_power(&mut self, context: &Context, now_ns: u64) {
        let power = Power {
            on_battery: context.charge_on_battery_percent.is_some(),
            plan: context.power_plan.clone(),
        };
        if let Some(before) = self.power.replace(power.clone())
            && before.differs_from(&power)
        {
            tracing::info!("the power source or plan has changed: {before:?}, now {power:?}");
            self.live.doubt_all(now_ns);
        }
    }

    fn observe(&mut self, learned: &Learned, run: &Run<'_>) -> Option<Noticed> {
        let noticed = self.live.observe(&learned.knowledge, run)?;
        let target = learned.knowledge.target(run.target).key.clone();
        let ratio = noticed.change.ratio;
        tracing::info!("{target}: {} takes {ratio:.2} times as long as before", run.case.label());
        if self.changes.len() == MOST_CHANGES {
            self.changes.remove(0);
        }
        let (case, workload) = (run.case.clone(), run.workload);
        self.changes.push(Noticing { target, case, workload, noticed });
        Some(noticed)
    }
}

#[cfg(test)]
mod tests;
