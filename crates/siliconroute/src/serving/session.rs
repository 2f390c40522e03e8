//! Runs of one case, each on the target that is best for it by then.
//!
//! Invariant: only what a target answered itself teaches; a run that fell back tells nothing of the one that failed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siliconroute_core::decide::{Context, Running};
use siliconroute_core::knowledge::TargetIndex;
use siliconroute_core::learning::Run;
use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Before, Sample};
use siliconroute_core::{Case, TargetKey, Workload};

use super::Serving;
use super::recorder::{Changed, Served};
use crate::error::Error;
use crate::models::KnownModel;
use crate::run::{RoutedSession, Routing};

/// Shorter runs than this are taught in batches, since teaching one takes some microseconds.
const TAUGHT_AT_ONCE: Duration = Duration::from_micros(200);
/// Runs of a batch: fewer than a change is to be noticed within.
const BATCH: usize = 8;
/// Samples that go into the store together at most.
const MOST_SAMPLES: usize = 256;

/// A case that is served: the session on the target that was chosen, and those on others that were looked at.
pub struct ServedSession<'s> {
    serving: &'s Serving<'s>,
    model: &'s KnownModel,
    case: &'s Case,
    routing: Routing,
    open: Vec<Open<'s>>,
    /// Position of the session that runs.
    current: usize,
    inputs: Vec<NamedTensor>,
    /// What the target that an exploration took the place of was believed to take.
    exploring: Option<f64>,
    pending: Vec<Pending>,
    runs: u64,
}

struct Open<'s> {
    session: RoutedSession<'s>,
    created: Duration,
    first_run: Option<Duration>,
    /// When it ran last.
    ended: Option<Instant>,
    /// Its runs since it rested.
    in_a_row: u32,
    unsaved: [Vec<Sample>; 3],
}

struct Pending {
    workload: Workload,
    took: Duration,
    instead_of_ns: Option<f64>,
}

impl std::fmt::Debug for ServedSession<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedSession").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl<'r> Serving<'r> {
    /// Opens a session for `case` on the target that is best by now, and goes on to others as runs show them to be better.
    ///
    /// A routing that names a target or a kind of chip is kept to, and its runs teach all the same.
    ///
    /// # Errors
    /// As [`Router::open_session`](crate::Router::open_session).
    pub fn open_session<'s>(
        &'s self,
        model: &'s KnownModel,
        case: &'s Case,
        routing: Routing,
    ) -> Result<ServedSession<'s>, Error>
    where
        'r: 's,
    {
        let first = open(self, model, case, &routing)?;
        Ok(ServedSession {
            serving: self,
            model,
            case,
            routing,
            open: vec![first],
            current: 0,
            inputs: Vec::new(),
            exploring: None,
            pending: Vec::new(),
            runs: 0,
        })
    }
}

fn open<'s>(
    serving: &'s Serving<'_>,
    model: &'s KnownModel,
    case: &'s Case,
    routing: &Routing,
) -> Result<Open<'s>, Error> {
    let start = Instant::now();
    let session = serving.router.open_session(model, case, serving.targets, serving.learned, routing)?;
    Ok(Open {
        session,
        created: start.elapsed(),
        first_run: None,
        ended: None,
        in_a_row: 0,
        unsaved: [const { Vec::new() }; 3],
    })
}

impl ServedSession<'_> {
    /// The target that the session is on now.
    pub fn target(&self) -> &TargetKey {
        self.open[self.current].session.target()
    }

    /// Inferences that were answered.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Checks and sets the inputs of the runs to come.
    ///
    /// # Errors
    /// When they do not fit the model, or no target takes them.
    pub fn set_inputs(&mut self, inputs: Vec<NamedTensor>) -> Result<(), Error> {
        self.open[self.current].session.set_inputs(inputs.clone())?;
        self.inputs = inputs;
        Ok(())
    }

    /// Runs one inference.
    ///
    /// # Errors
    /// When every suitable target failed.
    pub fn run(&mut self) -> Result<(), Error> {
        let rested = self.open[self.current].ended.map(|ended| ended.elapsed());
        let workload = Workload::inferred(true, rested);
        if self.pending.is_empty() && self.runs > 0 {
            self.decide_again(workload);
        }
        let instead_of_ns = self.exploring;
        let current = &mut self.open[self.current];
        let rested = current.ended.map(|ended| ended.elapsed());
        let workload = Workload::inferred(true, rested);
        let before = current.session.fell_back().len();
        let start = Instant::now();
        let ran = current.session.run();
        let took = start.elapsed();
        if let Err(error) = ran {
            return self.without_current(error);
        }
        current.ended = Some(Instant::now());
        self.runs += 1;
        if current.session.fell_back().len() > before {
            // What was open is gone, and the session that answered has just begun.
            (current.first_run, current.in_a_row) = (Some(took), 0);
            return Ok(());
        }
        current.in_a_row =
            if workload == Workload::Sustained { current.in_a_row.saturating_add(1) } else { 1 };
        if workload == Workload::ColdStart {
            current.first_run = Some(took);
        } else {
            let gap_ns = u64::try_from(rested.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
            let before = match workload {
                Workload::IdleLoaded => Before::Resting { gap_ns, machine_gap_ns: None, others: 0 },
                _ => Before::Running,
            };
            let total_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            current.unsaved[workload.index()].push(Sample { round: 0, calls: 1, total_ns, before });
            self.pending.push(Pending { workload, took, instead_of_ns });
        }
        // A visit ends with the run that its account says.
        if took >= TAUGHT_AT_ONCE || self.exploring.is_some() || self.pending.len() >= BATCH {
            self.teach();
        }
        if self.open[self.current].unsaved[workload.index()].len() >= MOST_SAMPLES {
            self.save(self.current);
        }
        Ok(())
    }

    /// The outputs of the last run.
    ///
    /// # Errors
    /// When there was no run or an output cannot be read.
    pub fn outputs(&self) -> Result<Vec<NamedTensor>, Error> {
        self.open[self.current].session.outputs()
    }

    /// Goes on with the session of the first decision where one that was looked at has failed.
    fn without_current(&mut self, error: Error) -> Result<(), Error> {
        if self.current == 0 {
            return Err(error);
        }
        tracing::info!("{}: {error}", self.target());
        self.open.remove(self.current);
        self.pending.clear();
        (self.current, self.exploring) = (0, None);
        self.open[0].session.set_inputs(self.inputs.clone())?;
        self.run()
    }

    /// Lets the runs that were not taught yet teach, unless another session is teaching just now.
    fn teach(&mut self) {
        let Some(mut pupil) = self.serving.free_pupil() else { return };
        let target = self.serving.index_of(self.open[self.current].session.target());
        let (learned, at_ns) = (self.serving.learned, self.serving.now_ns());
        let context = self.serving.context();
        let rules = &self.serving.router.settings().rules;
        let mut changes = Vec::new();
        for Pending { workload, took, instead_of_ns } in self.pending.drain(..) {
            let time_ns = took.as_nanos() as f64;
            let mut spent_ns = time_ns;
            if let Some(target) = target {
                let strained = context.strains(learned.knowledge.target(target), rules);
                let run = Run { target, case: self.case, workload, time_ns, at_ns, strained };
                let noticed = pupil.observe(learned, &run);
                changes.extend(noticed.map(|noticed| (workload, noticed.change.ratio)));
                spent_ns = pupil.live.usual_at_most(&run);
            }
            pupil.explorer.spend(self.case.id, workload, target, spent_ns, instead_of_ns);
        }
        // Published before another session may teach, so that no older snapshot follows a newer one.
        self.serving.live.store(Arc::new(pupil.live.clone()));
        drop(pupil);
        if !changes.is_empty() {
            self.doubt(&changes);
        }
    }

    /// Keeps in the store that times of the session that runs have changed; what was run so far is of the time before.
    fn doubt(&mut self, changes: &[(Workload, f64)]) {
        self.save(self.current);
        let Some(recorder) = &self.serving.recorder else { return };
        let Some(&row) = self.serving.targets.rows.get(self.target()) else { return };
        for &(workload, ratio) in changes {
            recorder.doubt(Changed { row, case: self.case.id, workload, ratio });
        }
    }

    /// Chooses the target of the next runs.
    fn decide_again(&mut self, workload: Workload) {
        if self.routing.target.is_some() || self.routing.chip_kind.is_some() {
            return;
        }
        let serving = self.serving;
        let context = serving.context();
        let open = self.open.iter().filter_map(|it| serving.index_of(it.session.target())).collect();
        let Some(mut pupil) = serving.free_pupil() else { return };
        let now_ns = serving.now_ns();
        pupil.note_power(&context, now_ns);
        // After a rest, what is known of the other targets is believed less.
        if workload == Workload::IdleLoaded {
            pupil.live.age(self.case.id, now_ns);
            serving.live.store(Arc::new(pupil.live.clone()));
        }
        let exploration = Some(pupil.explorer.allow(self.case.id, workload, Some(open)));
        drop(pupil);
        let running = serving
            .index_of(self.target())
            .map(|target| Running { target, runs: self.open[self.current].in_a_row });
        let context = Context { running, exploration, ..context };
        let routing = Routing { workload: Some(workload), ..self.routing.clone() };
        let decision = serving.decide(&serving.router.query(self.case, &routing), &context);
        self.exploring = decision.exploration.and_then(|explored| {
            decision.prediction(explored.instead_of).map(|prediction| prediction.time_ns)
        });
        if let Some(chosen) =
            decision.chosen.filter(|chosen| serving.index_of(self.target()) != Some(*chosen))
        {
            self.go_on_with(chosen);
        }
    }

    /// Changes over to `target`; stays where that cannot be.
    fn go_on_with(&mut self, target: TargetIndex) {
        let key = self.serving.learned.knowledge.target(target).key.clone();
        let here = |it: &Open<'_>| self.serving.index_of(it.session.target()) == Some(target);
        let at = match self.open.iter().position(here) {
            Some(at) => at,
            None => {
                let routing = Routing { target: Some(key.clone()), ..self.routing.clone() };
                match open(self.serving, self.model, self.case, &routing) {
                    Ok(opened) => self.open.push(opened),
                    Err(error) => {
                        tracing::info!("{key}: {error}");
                        self.exploring = None;
                        return;
                    }
                }
                self.open.len() - 1
            }
        };
        match self.open[at].session.set_inputs(self.inputs.clone()) {
            Ok(()) => self.current = at,
            Err(error) => {
                tracing::info!("{key}: {error}");
                self.exploring = None;
            }
        }
    }

    /// Hands what was served on one session over to the store's thread.
    fn save(&mut self, at: usize) {
        let (Some(recorder), Some(open)) = (&self.serving.recorder, self.open.get_mut(at)) else { return };
        let key = open.session.target().clone();
        let Some(&row) = self.serving.targets.rows.get(&key) else { return };
        for workload in [Workload::Sustained, Workload::IdleLoaded] {
            let samples = std::mem::take(&mut open.unsaved[workload.index()]);
            if !samples.is_empty() {
                recorder.record(Served {
                    target: key.clone(),
                    row,
                    case: self.case.id,
                    workload,
                    samples,
                    created: open.created,
                    first_run: open.first_run.unwrap_or_default(),
                });
            }
        }
    }
}

impl Drop for ServedSession<'_> {
    fn drop(&mut self) {
        self.teach();
        for at in 0..self.open.len() {
            self.save(at);
        }
    }
}
